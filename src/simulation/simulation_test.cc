// Small worlds whose right answer is known, and invariants on random ones.
#include "simulation/simulation.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/random.h"

namespace heddle::simulation {
namespace {

using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

SimulationResult simulated(const std::string& fleet, const std::string& workloads, uint64_t seed = 1,
                           const Observer& observer = {}) {
  const auto world = read_fleet({"fleet", fleet});
  const auto work = read_workloads({"workloads", workloads}, seed);
  EXPECT_TRUE(world.has_value()) << world.error().text();
  EXPECT_TRUE(work.has_value()) << work.error().text();
  const ManualClock clock(Time{});
  const auto result = simulate(*world, *work, seed, clock, observer);
  EXPECT_TRUE(result.has_value()) << result.error().text();
  return result.value_or(SimulationResult{});
}

std::string nodes(int count, int devices, const std::string& more = "") {
  return fmt::format(
      R"({{"nodes": [{{"name": "n", "count": {}, "nodesPerDomain": {{"heddle.dev/rack": 2}},
          "devices": [{{"vendor": "nvidia", "model": "H100", "count": {}, "memory": "80Gi"}}]}}]{}}})",
      count, devices, more);
}

TEST(SimulationTest, AGangWaitsForWhatLeavesAndHoldsNothingMeanwhile) {
  // Two nodes of two cards. The gang needs all four; s0 and s1 leave at 100 and 300; a single card in between passes.
  const auto result = simulated(nodes(2, 2), R"({"workloads": [
    {"name": "s0", "duration": 100, "request": {"devices": 2}},
    {"name": "s1", "duration": 300, "request": {"devices": 2}},
    {"name": "gang", "arrival": 10, "duration": 50, "gang": {"size": 2}, "request": {"devices": 2}},
    {"name": "late", "arrival": 150, "duration": 100, "request": {"devices": 2}}]})");
  EXPECT_EQ(result.finished, 4);
  EXPECT_EQ(result.gang_waits.count, 1);
  EXPECT_DOUBLE_EQ(result.gang_waits.mean, 290);
  EXPECT_DOUBLE_EQ(result.waits.p50, 0);  // 0, 0, 0, 290
  EXPECT_DOUBLE_EQ(result.waits.p99, 290);
  EXPECT_DOUBLE_EQ(result.waits.mean, 72.5);
  EXPECT_DOUBLE_EQ(result.seconds_simulated, 350);
  // 2 cards for 100, 2 for 300, 4 for 50, 2 for 100 of 4 cards for 350 seconds.
  EXPECT_DOUBLE_EQ(result.allocated_percent, 100.0 * (200 + 600 + 200 + 200) / (4 * 350));
  EXPECT_DOUBLE_EQ(result.allocated_percent_while_arriving, 100.0 * (200 + 300) / (4 * 150));
  EXPECT_EQ(result.evictions, 0);
  EXPECT_TRUE(result.unplaced.empty());
}

TEST(SimulationTest, AHigherPriorityEvictsAfterTheGraceAndTheVictimStartsOver) {
  const auto result = simulated(nodes(1, 2, R"(, "grace": "30s")"), R"({"workloads": [
    {"name": "low", "duration": 1000, "priority": 1, "request": {"devices": 2}},
    {"name": "high", "arrival": 100, "duration": 50, "priority": 5, "request": {}}]})");
  EXPECT_EQ(result.evictions, 1);
  EXPECT_EQ(result.finished, 2);
  EXPECT_DOUBLE_EQ(result.waits.longest, 30);
  EXPECT_DOUBLE_EQ(result.lost_hours, 2 * 130 / 3600.0);
  EXPECT_DOUBLE_EQ(result.seconds_simulated, 130 + 50 + 1000);
}

TEST(SimulationTest, OneThatNeverPreemptsWaitsForTheEnd) {
  const auto result = simulated(nodes(1, 1), R"({"workloads": [
    {"name": "low", "duration": 100, "priority": 1, "request": {}},
    {"name": "high", "arrival": 10, "duration": 50, "priority": 5, "preemptionPolicy": "Never", "request": {}}]})");
  EXPECT_EQ(result.evictions, 0);
  EXPECT_DOUBLE_EQ(result.waits.longest, 90);
}

TEST(SimulationTest, AnElasticGangAsksQuotaForItsMinimumAndTakesWhatMoreItMay) {
  const std::string gang = R"({"workloads": [
    {"name": "g", "duration": 3600, "request": {}, "queue": "q", "gang": {"size": 4, "minimum": 2}}]})";
  const auto bounded = [&](int limit) {
    return simulated(nodes(1, 4, fmt::format(R"(, "queues": [{{"name": "q", "quotas": [{{"limit": {}}}]}}])", limit)),
                     gang);
  };
  EXPECT_EQ(bounded(2).finished, 1);
  EXPECT_DOUBLE_EQ(bounded(2).allocated_percent, 50);
  EXPECT_DOUBLE_EQ(bounded(3).allocated_percent, 75);
  const auto none = bounded(1);
  EXPECT_EQ(none.finished, 0);
  ASSERT_EQ(none.unplaced.size(), 1U);
  EXPECT_THAT(none.unplaced[0].reasons[0].message, HasSubstr("the limit is 1 devices, and 2 devices are asked for"));
}

// Two cards of two nodes are free: best fit takes those beside others, spread the emptier node.
TEST(SimulationTest, AQueueSaysHowItsWorkIsPlaced) {
  const auto nodes_used = [](const std::string& policy) {
    std::set<std::string> used;
    const Observer observer = [&](const engine::State& state, Time) {
      for (const engine::DeviceUse& use : state.device_uses()) {
        if (!use.holders.empty()) used.insert(use.node);
      }
    };
    const std::string queue = R"(, "queues": [{"name": "q", "placementPolicy": ")" + policy + R"("}])";
    simulated(nodes(2, 4, queue),
              R"({"workloads": [{"name": "w", "count": 2, "duration": 100, "queue": "q", "request": {}}]})", 1,
              observer);
    return used.size();
  };
  EXPECT_EQ(nodes_used("best-fit"), 1U);
  EXPECT_EQ(nodes_used("spread"), 2U);
}

TEST(SimulationTest, EqualPriorityEvictsNobody) {
  const auto result = simulated(nodes(1, 1), R"({"workloads": [
    {"name": "a", "duration": 100, "priority": 5, "request": {}},
    {"name": "b", "arrival": 10, "duration": 100, "priority": 5, "request": {}}]})");
  EXPECT_EQ(result.evictions, 0);
  EXPECT_DOUBLE_EQ(result.waits.longest, 90);
}

TEST(SimulationTest, AWholeGangGivesWayToAGang) {
  const auto result = simulated(nodes(4, 1, R"(, "grace": 0)"), R"({"workloads": [
    {"name": "low", "duration": 1000, "gang": {"size": 3}, "request": {}},
    {"name": "single", "duration": 1000, "priority": 9, "request": {}},
    {"name": "high", "arrival": 100, "duration": 50, "priority": 5, "gang": {"size": 2}, "request": {}}]})");
  EXPECT_EQ(result.evictions, 1);
  EXPECT_EQ(result.finished, 3);
  EXPECT_DOUBLE_EQ(result.gang_waits.longest, 0);
  EXPECT_DOUBLE_EQ(result.seconds_simulated, 1150);
}

TEST(SimulationTest, AGangOnManyNodesGivesWayToOnePod) {
  const auto result = simulated(nodes(2, 1, R"(, "grace": 0)"), R"({"workloads": [
    {"name": "low", "duration": 1000, "gang": {"size": 2}, "request": {}},
    {"name": "high", "arrival": 100, "duration": 50, "priority": 5, "request": {}}]})");
  EXPECT_EQ(result.evictions, 1);
  EXPECT_EQ(result.finished, 2);
  EXPECT_DOUBLE_EQ(result.seconds_simulated, 1150);
}

TEST(SimulationTest, QuotaHoldsAndWhatWasBorrowedIsTakenBack) {
  const std::string queues = R"(, "grace": 0, "queues": [
    {"name": "a", "quotas": [{"vendor": "nvidia", "guaranteed": 2}]},
    {"name": "b", "quotas": [{"vendor": "nvidia", "guaranteed": 2, "limit": 3}]}])";
  // b may have three of four though the fleet is idle; when a comes, b keeps two.
  const auto result = simulated(nodes(1, 4, queues), R"({"workloads": [
    {"name": "b", "count": 4, "duration": 1000, "queue": "b", "request": {}},
    {"name": "a", "count": 2, "arrival": 100, "duration": 100, "queue": "a", "request": {}}]})");
  EXPECT_EQ(result.evictions, 1);
  EXPECT_EQ(result.finished, 6);
  ASSERT_EQ(result.queues.size(), 2U);
  EXPECT_EQ(result.queues[0].queue, "a");
  EXPECT_DOUBLE_EQ(result.queues[0].waits.longest, 0);
  EXPECT_EQ(result.queues[1].evicted, 1);
  EXPECT_DOUBLE_EQ(result.queues[1].waits.longest, 1000);  // the fourth: the limit, until two end
}

TEST(SimulationTest, WhatNeverFitsSaysWhy) {
  const std::string queues = R"(, "queues": [{"name": "small", "quotas": [{"limit": 1}]}])";
  const auto result = simulated(nodes(4, 4, queues), R"({"workloads": [
    {"name": "big", "duration": 10, "request": {"devices": 8}},
    {"name": "other", "duration": 10, "request": {"vendor": "amd"}},
    {"name": "rack", "duration": 10, "gang": {"size": 3}, "topology": {"required": "rack"}, "request": {"devices": 4}},
    {"name": "over", "duration": 10, "queue": "small", "request": {"devices": 2}},
    {"name": "fits", "duration": 10, "request": {}}]})");
  EXPECT_EQ(result.finished, 1);
  ASSERT_EQ(result.unplaced.size(), 4U);
  std::map<std::string, std::string> codes;
  for (const Unplaced& unplaced : result.unplaced) {
    ASSERT_FALSE(unplaced.reasons.empty()) << unplaced.workload;
    codes[unplaced.workload] = unplaced.reasons.front().code;
  }
  EXPECT_THAT(codes, UnorderedElementsAre(Pair("big", "Capacity"), Pair("other", "Selector"), Pair("over", "Limit"),
                                          Pair("rack", "Gang")));
  EXPECT_THAT(result.unplaced[3].reasons.front().message, HasSubstr("rack"));
}

TEST(SimulationTest, EachSegmentOfAGangLiesInOneRack) {
  const auto result = simulated(nodes(4, 1), R"({"workloads": [
    {"name": "fits", "duration": 10, "gang": {"size": 4, "segment": 2}, "topology": {"segment": "rack"}, "request": {}},
    {"name": "wide", "duration": 10, "gang": {"size": 3, "segment": 3}, "topology": {"segment": "rack"},
     "request": {}}]})");
  EXPECT_EQ(result.finished, 1);
  ASSERT_EQ(result.unplaced.size(), 1U);
  EXPECT_EQ(result.unplaced[0].workload, "wide");
  EXPECT_THAT(result.unplaced[0].reasons.front().message, HasSubstr("in segments of 3 that lie in one rack each"));
}

TEST(SimulationTest, AnElasticGangStartsWithItsMinimum) {
  const auto result = simulated(nodes(3, 1), R"({"workloads": [
    {"name": "one", "duration": 100, "request": {}},
    {"name": "gang", "arrival": 10, "duration": 100, "gang": {"size": 3, "minimum": 2}, "request": {}}]})");
  EXPECT_DOUBLE_EQ(result.gang_waits.longest, 0);
  EXPECT_DOUBLE_EQ(result.queues.front().device_hours, (100 + 200) / 3600.0);
}

TEST(SimulationTest, AReservationIsKeptFreeAndBackfilled) {
  // Four cards, three of them reserved from 1000 to 2000. What ends in time uses them before.
  const std::string reserved =
      R"(, "queues": [{"name": "q"}], "reservations": [{"name": "r", "start": 1000, "end": 2000, "queue": "q",
         "amounts": [{"amount": 3}]}])";
  const auto result = simulated(nodes(1, 4, reserved), R"({"workloads": [
    {"name": "long", "duration": 5000, "request": {"devices": 2}},
    {"name": "brief", "duration": 900, "request": {"devices": 2}},
    {"name": "own", "duration": 100, "queue": "q", "reservation": "r", "request": {"devices": 3}}]})");
  EXPECT_EQ(result.finished, 3);
  EXPECT_DOUBLE_EQ(result.queues[0].waits.longest, 1000) << "its own begins then";
  ASSERT_EQ(result.queues[1].queue, "unassigned");
  EXPECT_DOUBLE_EQ(result.queues[1].waits.longest, 2000) << "two cards would not end in time";
  EXPECT_DOUBLE_EQ(result.queues[1].waits.mean, 1000) << "and the brief one starts at once";
  EXPECT_DOUBLE_EQ(result.seconds_simulated, 7000);
}

TEST(SimulationTest, AReservationThatNobodyWaitsForIsNoTime) {
  const std::string reserved =
      R"(, "reservations": [{"name": "r", "start": 1000, "end": 2000, "amounts": [{"amount": 1}]}])";
  const auto result = simulated(nodes(1, 4, reserved), R"({"workloads": [
    {"name": "w", "duration": 100, "request": {"devices": 4}}]})");
  EXPECT_DOUBLE_EQ(result.seconds_simulated, 100);
  EXPECT_DOUBLE_EQ(result.allocated_percent, 100);
}

TEST(SimulationTest, AGuaranteedBoxIsNotBrokenByPodsOrGangs) {
  // Two nodes of four cards; a box of four is the owner's. Singles and a gang's members fill one node only.
  const std::string boxes =
      R"(, "queues": [{"name": "owner", "quotas": [{"counts": "Boxes", "boxDevices": 4, "guaranteed": 1}]},
                      {"name": "guest"}])";
  const auto result = simulated(nodes(2, 4, boxes), R"({"workloads": [
    {"name": "single", "count": 3, "duration": 1000, "queue": "guest", "request": {}},
    {"name": "gang", "arrival": 1, "duration": 500, "queue": "guest", "gang": {"size": 2}, "request": {}},
    {"name": "box", "arrival": 10, "duration": 100, "queue": "owner", "request": {"devices": 4}}]})");
  EXPECT_EQ(result.finished, 5);
  EXPECT_EQ(result.evictions, 0);
  EXPECT_DOUBLE_EQ(result.queues[1].waits.longest, 0) << "the box was there";
  EXPECT_DOUBLE_EQ(result.gang_waits.longest, 999) << "one more card was free that makes no box";
}

TEST(SimulationTest, AGuaranteedRackIsNotBrokenAndIsTakenAsAUnit) {
  // Two racks of two nodes of four cards; one rack is the owner's.
  const std::string boxes =
      R"(, "queues": [{"name": "owner", "quotas": [{"counts": "Boxes", "boxDevices": 8, "boxLevel": "rack",
                       "guaranteed": 1, "limit": 1}]}, {"name": "guest"}])";
  const auto result = simulated(nodes(4, 4, boxes), R"({"workloads": [
    {"name": "single", "count": 6, "duration": 1000, "queue": "guest", "request": {}},
    {"name": "gang", "arrival": 1, "duration": 500, "queue": "guest", "gang": {"size": 3}, "request": {}},
    {"name": "box", "count": 2, "arrival": 10, "duration": 100, "queue": "owner", "gang": {"size": 2},
     "topology": {"required": "rack"}, "request": {"devices": 4}}]})");
  EXPECT_EQ(result.finished, 9);
  EXPECT_EQ(result.evictions, 0);
  EXPECT_DOUBLE_EQ(result.queues[1].waits.p50, 0) << "the rack was there";
  EXPECT_DOUBLE_EQ(result.queues[1].waits.longest, 100) << "the second is over the limit of one";
  EXPECT_DOUBLE_EQ(result.queues[0].waits.longest, 999) << "two cards were free that make no rack, and three are asked";
}

TEST(SimulationTest, AGuaranteedSliceIsNotBrokenAndIsTakenAsAUnit) {
  // 2 x 2 x 8 hosts of 2 x 2 chips: two slices of 4 x 4 x 4. Work of one host each fills one of them only.
  const auto result = simulated(R"({"nodes": [{"name": "t", "torus": {"shape": "4x4x8", "host": "2x2x1"},
      "devices": [{"vendor": "google", "model": "v5p", "count": 4, "memory": "95Gi"}]}],
    "queues": [{"name": "owner", "quotas": [{"counts": "Boxes", "boxShape": "4x4x4", "guaranteed": 1}]},
               {"name": "guest"}]})",
                                R"({"workloads": [
    {"name": "host", "count": 17, "duration": 1000, "queue": "guest", "request": {"devices": 4}},
    {"name": "slice", "arrival": 10, "duration": 100, "queue": "owner", "gang": {"size": 16},
     "topology": {"required": "slice-4x4x4"}, "request": {"devices": 4}}]})");
  EXPECT_EQ(result.finished, 18);
  EXPECT_EQ(result.evictions, 0);
  EXPECT_DOUBLE_EQ(result.gang_waits.longest, 0) << "the slice was there";
  EXPECT_DOUBLE_EQ(result.queues[0].waits.longest, 1000) << "the seventeenth would have broken it, or has no host";
}

TEST(SimulationTest, ABadReservationIsRefusedByName) {
  const auto refused = [](const std::string& fleet, const std::string& workload) {
    const auto world = read_fleet({"f", fleet});
    if (!world) return world.error().text();
    const auto work =
        read_workloads({"w", R"({"workloads": [{"name": "w", "duration": 1, "request": {}, )" + workload + "}]}"}, 1);
    const ManualClock clock(Time{});
    const auto result = simulate(*world, *work, 1, clock);
    return result ? std::string() : result.error().text();
  };
  const auto with = [](const std::string& reservation) {
    return nodes(1, 1, R"(, "queues": [{"name": "a"}, {"name": "b"}], "reservations": [{)" + reservation + "}]");
  };
  const std::string good = R"("name": "r", "start": 0, "end": "1h", "queue": "a", "amounts": [{"amount": 1}])";
  EXPECT_EQ(refused(with(good), R"("queue": "a", "reservation": "r")"), "");
  EXPECT_THAT(refused(with(good), R"("queue": "b", "reservation": "r")"), HasSubstr("is not for queue b"));
  EXPECT_THAT(refused(with(good), R"("queue": "a", "reservation": "x")"), HasSubstr("workload w: reservation"));
  EXPECT_THAT(refused(with(R"("name": "r", "end": "1h")"), R"("queue": "a")"), HasSubstr("f: reservations[0].start"));
  EXPECT_THAT(refused(with(R"("name": "r", "start": 2, "end": 1, "amounts": [{"amount": 1}])"), R"("queue": "a")"),
              HasSubstr("after start"));
  EXPECT_THAT(refused(with(R"("name": "r", "start": 0, "end": 1, "queue": "c", "amounts": [{"amount": 1}])"),
                      R"("queue": "a")"),
              HasSubstr("reservation r: spec.queue: there is no queue c"));
}

TEST(SimulationTest, ABadQueueIsRefusedByName) {
  const auto refused = [](const std::string& fleet, const std::string& queue) {
    const auto world = read_fleet({"fleet", fleet});
    const auto work = read_workloads(
        {"w",
         fmt::format(R"({{"workloads": [{{"name": "w", "duration": 1, "queue": "{}", "request": {{}}}}]}})", queue)},
        1);
    const ManualClock clock(Time{});
    const auto result = simulate(*world, *work, 1, clock);
    return result ? std::string() : result.error().text();
  };
  EXPECT_THAT(refused(nodes(1, 1), "none"), HasSubstr("is not among the fleet's queues"));
  const std::string tree = R"(, "queues": [{"name": "top"}, {"name": "leaf", "parent": "top"}])";
  EXPECT_THAT(refused(nodes(1, 1, tree), "top"), HasSubstr("has queues below it"));
  EXPECT_EQ(refused(nodes(1, 1, tree), "leaf"), "");
  const std::string level =
      R"(, "queues": [{"name": "a", "quotas": [{"counts": "Boxes", "boxDevices": 8, "boxLevel": "rak", "limit": 1}]}])";
  EXPECT_THAT(refused(nodes(1, 1, level), "a"), HasSubstr("queue a: boxLevel: no topology level is called rak"));
  EXPECT_THAT(refused(nodes(1, 1, R"(, "queues": [{"name": "q", "parent": "gone"}])"), "q"),
              HasSubstr("there is no queue gone"));
}

// Single cards for an hour each, a new one every half hour, and one that needs both cards from the tenth minute on. It
// starves at 4,200 s; what runs then has ended at 7,200 s.
TEST(SimulationTest, WhatHasWaitedLongerThanThePatienceIsNotPassedByEndlessSmallWork) {
  const auto waited = [](const std::string& fleet, const std::string& queue) {
    const auto result = simulated(nodes(1, 2, R"(, "patience": "1h")" + fleet), fmt::format(R"({{"workloads": [
      {{"name": "s", "duration": "1h", "request": {{"devices": 1}}, "count": 100, "every": "30m"{0}}},
      {{"name": "big", "duration": "1h", "request": {{"devices": 1}}, "gang": {{"size": 2}}, "arrival": "10m"{0}}}]}})",
                                                                                            queue));
    EXPECT_EQ(result.finished, 101) << fleet;
    return result.gang_waits.mean;
  };
  const std::string in_q = R"(, "queue": "q")";
  EXPECT_DOUBLE_EQ(waited(R"(, "queues": [{"name": "q", "quotas": [{"guaranteed": 2}]}])", in_q), 6600);
  EXPECT_DOUBLE_EQ(waited(R"(, "queues": [{"name": "q", "quotas": [{"limit": 2}]}])", in_q), 6600);
  EXPECT_DOUBLE_EQ(waited(R"(, "queues": [{"name": "q", "quotas": [{"guaranteed": 1}]}])", in_q), 6600);
  EXPECT_DOUBLE_EQ(waited("", ""), 6600) << "without queues";
}

// Two vendors, shares, gangs, queues and priorities, drawn by seed.
std::string random_fleet() {
  return R"({"nodes": [
    {"name": "h", "count": 6, "nodesPerDomain": {"heddle.dev/rack": 3},
     "devices": [{"vendor": "nvidia", "model": "H100", "count": 4, "memory": "80Gi"}]},
    {"name": "m", "count": 4, "devices": [{"vendor": "ascend", "model": "910B", "count": 4, "memory": "64Gi"},
                                         {"vendor": "nvidia", "model": "L4", "count": 2, "memory": "24Gi"}]}],
    "grace": "20s", "patience": "2h", "queues": [
    {"name": "a", "quotas": [{"guaranteed": 20}, {"vendor": "ascend", "guaranteed": 4, "limit": 12}]},
    {"name": "b", "weight": 2, "quotas": [{"guaranteed": 10, "limit": 30, "lending": 2}]}]})";
}

std::string random_workloads(SeededRandom& random) {
  std::string out = R"({"workloads": [)";
  constexpr std::array kQueues = {"a", "b", "unassigned"};
  constexpr std::array kAsks = {R"({"devices": 4, "vendor": "nvidia", "model": "H100"})",
                                R"({"devices": 1})",
                                R"({"vendor": "ascend", "devices": 2})",
                                R"({"memory": "8Gi", "cores": 30})",
                                R"({"vendor": "nvidia", "memoryPercent": 40, "devices": 2})",
                                R"({"model": "L4", "memory": "20Gi", "cores": 100})"};
  for (int i = 0; i < 60; ++i) {
    const uint64_t size = random.below(3) == 0 ? 1 + random.below(6) : 1;
    out += fmt::format(
        R"({}{{"name": "w{}", "arrival": {}, "duration": ["1m", "40m"], "queue": "{}", "priority": {}, "request": {},
           "gang": {{"size": {}, "minimum": {}}}{}}})",
        i == 0 ? "" : ",", i, random.below(7200), kQueues[random.below(kQueues.size())], random.below(4),
        kAsks[random.below(kAsks.size())], size, 1 + random.below(size),
        random.below(4) == 0 ? R"(, "topology": {"preferred": "rack"})" : "");
  }
  return out + "]}";
}

std::string summary(const SimulationResult& result) {
  std::string text = fmt::format("{} {} {} {} {} {} {} {}", result.started, result.finished, result.allocated_percent,
                                 result.waits.mean, result.waits.p99, result.evictions, result.decisions, result.plans);
  for (const Unplaced& unplaced : result.unplaced) {
    text += " " + unplaced.workload;
    for (const engine::Reason& reason : unplaced.reasons) text += " " + reason.message;
  }
  return text;
}

TEST(SimulationTest, NoDeviceIsOverAllocatedAndTheSameSeedGivesTheSame) {
  int64_t evictions = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(seed);
    const std::string workloads = random_workloads(random);
    Time last;
    const Observer observer = [&](const engine::State& state, Time now) {
      EXPECT_TRUE(state.over_commits().empty());
      EXPECT_LE(last, now);
      last = now;
    };
    const auto result = simulated(random_fleet(), workloads, seed, observer);
    EXPECT_EQ(result.workloads, 60);
    EXPECT_EQ(result.finished + static_cast<int64_t>(result.unplaced.size()), result.workloads);
    EXPECT_LE(result.allocated_percent_while_arriving, 100);
    EXPECT_GT(result.allocated_percent, 0);
    EXPECT_EQ(summary(result), summary(simulated(random_fleet(), workloads, seed)));
    evictions += result.evictions;
  }
  EXPECT_GT(evictions, 0);
}

}  // namespace
}  // namespace heddle::simulation
