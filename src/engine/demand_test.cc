#include "engine/demand.h"

#include <gtest/gtest.h>

#include "engine/test_fleet.h"

namespace heddle::engine {
namespace {

class DemandTest : public testing::Test {
 protected:
  DemandTest() {
    state_.upsert_class(test::make_class());
    add("node-1", 2, 80000, "NVIDIA H100");
  }

  void add(const std::string& node, int cards, int64_t mib, const std::string& model) {
    state_.upsert_node(test::make_node(node));
    model::ResourceSlice slice = test::make_slice(node, cards, mib * test::kMiB);
    for (model::Device& device : slice.devices) device.attributes["model"] = model;
    state_.upsert_slice(std::move(slice));
  }

  queueing::Portion ask(const test::Ask& ask) { return asked(state_, test::make_claim("c", ask)).value().at(0); }

  // Places it and says what the grant is; the claim stays.
  std::vector<queueing::Portion> place(const std::string& id, const test::Ask& ask, const std::string& node) {
    const ClaimRequest claim = test::make_claim(id, ask);
    PlacementRequest request;
    request.claims.push_back(claim);
    request.pinned_node = node;
    const auto outcome = state_.place(request, random_);
    const model::Allocation& allocation = std::get<Assigned>(*outcome).allocations.at(0);
    state_.upsert_claim(test::granted(claim, allocation));
    return granted(state_, claim.spec, allocation);
  }

  State state_;
  SeededRandom random_{1};
};

struct Case {
  const char* name;
  test::Ask ask;
  int64_t milli;
  int64_t mib;
  int64_t cores;
};

TEST_F(DemandTest, AGrantIsWhatWasAskedWhereTheKindIsKnown) {
  const Case cases[] = {
      {"whole", {.count = 2}, 2000, 160000, 200},
      {"by memory", {.memory = "40000Mi", .cores = "10"}, 500, 40000, 10},
      {"by compute", {.memory = "1000Mi", .cores = "70"}, 700, 1000, 70},
      {"rounded up", {.memory = "1Mi", .cores = "0"}, 1, 1, 0},
      {"percent", {.cores = "10", .memory_percent = 25}, 250, 20000, 10},
      {"alone", {.memory = "1000Mi", .cores = "100"}, 1000, 1000, 100},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    const queueing::Portion portion = ask(one.ask);
    EXPECT_EQ(portion.vendor, "nvidia");
    EXPECT_EQ(portion.model, "NVIDIA H100");
    EXPECT_EQ(portion.device_class, "heddle-nvidia");
    EXPECT_EQ(portion.milli_devices, one.milli);
    EXPECT_EQ(portion.memory_bytes, one.mib * test::kMiB);
    EXPECT_EQ(portion.cores, one.cores);
  }
}

TEST_F(DemandTest, TheLeastIsAskedWhereSeveralKindsWouldDo) {
  add("node-2", 4, 16000, "T4");
  const queueing::Portion whole = ask({});
  EXPECT_EQ(whole.vendor, "nvidia");
  EXPECT_EQ(whole.model, "") << "which one shows when it is placed";
  EXPECT_EQ(whole.milli_devices, 1000);
  EXPECT_EQ(whole.memory_bytes, 16000 * test::kMiB);
  EXPECT_EQ(ask({.memory = "8000Mi", .cores = "0"}).milli_devices, 100);
  const auto grant = place("a", {.memory = "8000Mi", .cores = "0"}, "node-2");
  ASSERT_EQ(grant.size(), 1U);
  EXPECT_EQ(grant[0].model, "T4");
  EXPECT_EQ(grant[0].milli_devices, 500);
  EXPECT_EQ(place("b", {.count = 2}, "node-1")[0].memory_bytes, 160000 * test::kMiB);
}

TEST_F(DemandTest, WhatVanishedIsStillCounted) {
  const ClaimRequest claim = test::make_claim("c", {.memory = "8000Mi", .cores = "30"});
  PlacementRequest request;
  request.claims.push_back(claim);
  const auto outcome = state_.place(request, random_);
  const model::Allocation allocation = std::get<Assigned>(*outcome).allocations.at(0);
  state_.remove_slice("node-1-heddle-nvidia-0");
  const auto grant = granted(state_, claim.spec, allocation);
  ASSERT_EQ(grant.size(), 1U);
  EXPECT_EQ(grant[0].vendor, "nvidia");
  EXPECT_EQ(grant[0].milli_devices, 300) << "its compute; the memory of the card is not known any more";
  EXPECT_EQ(grant[0].memory_bytes, 8000 * test::kMiB);
}

TEST_F(DemandTest, TheFleetByNodeAndKind) {
  add("node-2", 4, 16000, "T4");
  place("a", {.memory = "1000Mi", .cores = "1"}, "node-1");
  const auto fleet = fleet_of(state_);
  ASSERT_EQ(fleet.size(), 2U);
  EXPECT_EQ(fleet[0].node, "node-1");
  EXPECT_EQ(fleet[0].devices, 2);
  EXPECT_EQ(fleet[0].free, 1);
  EXPECT_EQ(fleet[0].memory_bytes, 160000 * test::kMiB);
  EXPECT_EQ(fleet[1].model, "T4");
  EXPECT_EQ(fleet[1].cores, 400);
  EXPECT_EQ(fleet_of(state_, "heddle-nvidia").size(), 2U);
  EXPECT_TRUE(fleet_of(state_, "no-such-class").empty());
  model::DeviceClass amd;
  amd.meta.name = "amd";
  amd.selectors.emplace_back(R"(device.attributes["accelerator.heddle.dev"].vendor == "amd")");
  state_.upsert_class(amd);
  EXPECT_TRUE(fleet_of(state_, "amd").empty());
}

}  // namespace
}  // namespace heddle::engine
