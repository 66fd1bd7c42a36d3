#include "placement/steady.h"

#include <gtest/gtest.h>

namespace heddle::placement {
namespace {

constexpr const char* kNodes = "sn,cpu_milli,memory_mib,gpu,model\na,64000,1024,2,P100\nb,64000,1024,2,P100\n";
constexpr const char* kHeader = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\n";

Result<SteadyResult> run(const std::string& pods, const SteadyOptions& steady) {
  HEDDLE_TRY(const Trace trace, parse_trace({"n", kNodes}, {"p", kHeader + pods}));
  return run_steady(trace, {PolicyName::kHeddle, std::nullopt, 1}, steady);
}

TEST(Steady, HoldsTheLoadWhereThereIsRoom) {
  // Four cards, half of them asked for on average.
  const auto result = run("p,1,1,1,1000,0,100\nq,1,1,1,500,0,200\n", {50, 20'000, 21'600, 7});
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_NEAR(result->allocated_percent, 50, 2);
  EXPECT_LT(result->mean_wait_seconds, 20);
}

TEST(Steady, PodsWaitWhenMoreIsAskedThanThereIs) {
  const auto result = run("p,1,1,1,1000,0,100\n", {150, 5'000, 21'600, 7});
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_NEAR(result->allocated_percent, 100, 0.5);
  EXPECT_GT(result->waited_percent, 90);
  // A third of what comes finds no place.
  EXPECT_NEAR(static_cast<double>(result->waiting), 5000.0 / 3, 200);
  EXPECT_EQ(result->waiting_card_milli, result->waiting * 1000);
}

TEST(Steady, WhatFitsNowhereWaitsAndLetsOthersPass) {
  const auto result = run("p,1,1,1,1000,0,100\nq,1,1,3,1000,0,1\n", {50, 2'000, 21'600, 7});
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_NEAR(static_cast<double>(result->waiting), 1000, 120) << "three cards are on no node";
  EXPECT_GT(result->allocated_percent, 40);
}

TEST(Steady, TheSameSeedGivesTheSameResult) {
  const std::string pods = "p,1,1,1,1000,0,100\nq,1,1,1,300,0,900\nr,30000,1,2,1000,5,300\n";
  const SteadyOptions options{95, 3'000, 21'600, 3};
  const auto first = run(pods, options);
  const auto second = run(pods, options);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->allocated_percent, second->allocated_percent);
  EXPECT_EQ(first->mean_wait_seconds, second->mean_wait_seconds);
  EXPECT_EQ(first->decisions, second->decisions);
}

// Boxes and single cards on a fleet with CPU to spare. Where single cards are not kept together no box is whole again;
// best fit keeps them together.
TEST(Steady, DoesNotLoseToBestFitWhereBoxesMustBecomeWholeAgain) {
  std::string nodes = "sn,cpu_milli,memory_mib,gpu,model\n";
  for (int i = 0; i < 30; ++i) nodes += "n" + std::to_string(i) + ",192000,1572864,8,910B\n";
  std::string pods = kHeader;
  for (int i = 0; i < 60; ++i) {
    const int cards = i % 3 == 0 ? 8 : i % 3;
    pods += "p" + std::to_string(i) + "," + std::to_string(cards * (2 + i % 7) * 1000) + "," +
            std::to_string(cards * (8 + i % 11) * 1024) + "," + std::to_string(cards) + ",1000,0," +
            std::to_string(120 + i * 60) + "\n";
  }
  const auto trace = parse_trace({"n", nodes}, {"p", pods});
  ASSERT_TRUE(trace);
  const SteadyOptions options{105, 6'000, 3'600, 7};
  const auto ours = run_steady(*trace, {PolicyName::kHeddle, std::nullopt, 1}, options);
  const auto best_fit = run_steady(*trace, {PolicyName::kBestFit, std::nullopt, 1}, options);
  ASSERT_TRUE(ours && best_fit);
  EXPECT_GT(best_fit->allocated_percent, 99);
  EXPECT_GT(ours->allocated_percent, 99);
}

TEST(Steady, RefusesATraceWithoutTimes) {
  const auto trace = parse_trace({"n", kNodes}, {"p", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,1,3\n"});
  ASSERT_TRUE(trace);
  EXPECT_EQ(run_steady(*trace, {}, {}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(run("p,1,1,0,0,0,5\n", {}).error().message, "no pod of the trace asks for a card");
}

}  // namespace
}  // namespace heddle::placement
