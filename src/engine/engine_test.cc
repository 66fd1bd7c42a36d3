#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "engine/test_fleet.h"

namespace heddle::engine {
namespace {

using test::Ask;
using test::kMiB;
using test::make_claim;
using testing::ElementsAre;
using testing::HasSubstr;

class EngineTest : public testing::Test {
 protected:
  EngineTest() { state_.upsert_class(test::make_class()); }

  void add_node(const std::string& name, int cards, int64_t memory = 80000 * kMiB) {
    state_.upsert_node(test::make_node(name));
    state_.upsert_slice(test::make_slice(name, cards, memory));
  }

  Outcome place(const PlacementRequest& request) {
    auto outcome = state_.place(request, random_);
    EXPECT_TRUE(outcome.has_value()) << outcome.error().text();
    return outcome ? *std::move(outcome) : Outcome(Waiting{});
  }

  Outcome place(const std::string& key, const Ask& ask) {
    PlacementRequest request;
    request.claims.push_back(make_claim(key, ask));
    return place(request);
  }

  // Places and remembers; the devices as "node/device", or "waiting" or "infeasible".
  std::string grant(const std::string& key, const Ask& ask) {
    const ClaimRequest claim = make_claim(key, ask);
    PlacementRequest request;
    request.policy = policy_;
    request.claims.push_back(claim);
    const Outcome outcome = place(request);
    if (std::holds_alternative<Waiting>(outcome)) return "waiting";
    if (std::holds_alternative<Infeasible>(outcome)) return "infeasible";
    const auto& assigned = std::get<Assigned>(outcome);
    state_.upsert_claim(test::granted(claim, assigned.allocations.at(0)));
    std::string text;
    for (const auto& result : assigned.allocations[0].results) {
      text += (text.empty() ? "" : " ") + assigned.node + "/" + result.device;
    }
    return text;
  }

  static std::string only_reason(const Outcome& outcome, const std::string& code) {
    const auto* waiting = std::get_if<Waiting>(&outcome);
    const auto* infeasible = std::get_if<Infeasible>(&outcome);
    const auto& reasons = waiting != nullptr ? waiting->reasons : infeasible->reasons;
    EXPECT_EQ(reasons.size(), 1U);
    if (reasons.empty()) return {};
    EXPECT_EQ(reasons[0].code, code) << reasons[0].message;
    return reasons[0].message;
  }

  State state_;
  SeededRandom random_{1};
  model::PlacementPolicy policy_ = model::PlacementPolicy::kPacking;
};

TEST_F(EngineTest, AShareIsRecordedInBytesWithAShareId) {
  add_node("node-1", 1);
  const Outcome outcome = place("default/a", {.memory = "3000Mi", .cores = "30"});
  const auto& assigned = std::get<Assigned>(outcome);
  EXPECT_EQ(assigned.node, "node-1");
  ASSERT_EQ(assigned.allocations.size(), 1U);
  EXPECT_EQ(model::allocated_node(assigned.allocations[0]), "node-1");
  EXPECT_FALSE(assigned.allocations[0].timestamp.has_value());
  const auto& result = assigned.allocations[0].results.at(0);
  EXPECT_EQ(result.request, "gpu");
  EXPECT_EQ(result.driver, test::kDriver);
  EXPECT_EQ(result.pool, "node-1/nvidia");
  EXPECT_EQ(result.device, "gpu-0");
  EXPECT_EQ(result.share_id.size(), 36U);
  EXPECT_TRUE(result.tolerations.empty()) << "the engine's own toleration is not the user's";
  EXPECT_EQ(result.consumed_capacity.at("memory").to_string(), "3000Mi");
  EXPECT_EQ(result.consumed_capacity.at("cores").to_string(), "30");
}

TEST_F(EngineTest, BestFitFillsTheFullestCardThatStillHolds) {
  policy_ = model::PlacementPolicy::kBestFit;
  add_node("node-1", 2);
  add_node("node-2", 2);
  EXPECT_EQ(grant("a", {.memory = "30000Mi", .cores = "30"}), "node-1/gpu-0");
  EXPECT_EQ(grant("b", {.memory = "30000Mi", .cores = "30"}), "node-1/gpu-0");
  EXPECT_EQ(grant("c", {.memory = "30000Mi", .cores = "30"}), "node-1/gpu-1");
  EXPECT_EQ(grant("d", {.memory = "10000Mi", .cores = "30"}), "node-1/gpu-0")
      << "20000Mi are left there, 50000Mi on gpu-1";
  EXPECT_EQ(grant("e", {}), "node-2/gpu-0") << "a whole card";
  EXPECT_EQ(grant("f", {}), "node-2/gpu-1") << "node-2 is the fullest that has a free card";
  EXPECT_EQ(grant("g", {}), "waiting");
}

TEST_F(EngineTest, BestFitTakesTheSmallerCardWhenItSuffices) {
  policy_ = model::PlacementPolicy::kBestFit;
  add_node("node-1", 1, 80000 * kMiB);
  add_node("node-2", 1, 16000 * kMiB);
  EXPECT_EQ(grant("a", {.memory = "8000Mi", .cores = "50"}), "node-2/gpu-0");
  EXPECT_EQ(grant("b", {.memory = "20000Mi", .cores = "50"}), "node-1/gpu-0");
}

TEST_F(EngineTest, WholeAndSharedExcludeEachOther) {
  add_node("node-1", 1);
  EXPECT_EQ(grant("a", {.memory = "1Mi", .cores = "0"}), "node-1/gpu-0");
  EXPECT_EQ(grant("b", {}), "waiting");
  state_.remove_claim("a");
  EXPECT_EQ(grant("b", {}), "node-1/gpu-0");
  EXPECT_EQ(grant("c", {.memory = "1Mi", .cores = "0"}), "waiting");
}

// The arithmetic alone would let these join: the memory fits, and 100 + 0 is not more than 100.
TEST_F(EngineTest, AShareWithAllCoresIsAlone) {
  add_node("node-1", 1);
  EXPECT_EQ(grant("a", {.memory = "1000Mi", .cores = "100"}), "node-1/gpu-0");
  EXPECT_EQ(grant("b", {.memory = "1000Mi", .cores = "0"}), "waiting");
  state_.remove_claim("a");
  EXPECT_EQ(grant("b", {.memory = "1000Mi", .cores = "0"}), "node-1/gpu-0");
  EXPECT_EQ(grant("a", {.memory = "1000Mi", .cores = "100"}), "waiting");
  EXPECT_EQ(grant("c", {.memory = "1000Mi", .cores = "99"}), "node-1/gpu-0");
}

TEST_F(EngineTest, TheAloneRuleHoldsBetweenClaimsOfOnePod) {
  add_node("node-1", 1);
  PlacementRequest request;
  request.claims.push_back(make_claim("a", {.memory = "1000Mi", .cores = "100"}));
  request.claims.push_back(make_claim("b", {.memory = "1000Mi", .cores = "0"}));
  EXPECT_TRUE(std::holds_alternative<Infeasible>(place(request)));
  add_node("node-2", 2);
  const Outcome outcome = place(request);
  const auto& assigned = std::get<Assigned>(outcome);
  EXPECT_EQ(assigned.node, "node-2");
  EXPECT_NE(assigned.allocations[0].results[0].device, assigned.allocations[1].results[0].device);
}

TEST_F(EngineTest, PercentBecomesWholeMebibytesOfTheCandidate) {
  add_node("node-1", 1, 81559 * kMiB + 12345);
  const Outcome outcome = place("a", {.cores = "10", .memory_percent = 33});
  const auto& allocation = std::get<Assigned>(outcome).allocations.at(0);
  // 33% of the card is 26914.47 MiB and a bit.
  EXPECT_EQ(allocation.results[0].consumed_capacity.at("memory").value(), 26914 * kMiB);
  ASSERT_EQ(allocation.config.size(), 1U);
  EXPECT_FALSE(allocation.config[0].from_class);
}

TEST_F(EngineTest, VirtualMemoryGoesToCardsThatHaveIt) {
  const auto add = [&](const std::string& node, const std::string& vendor, const std::string& type) {
    state_.upsert_node(test::make_node(node));
    model::ResourceSlice slice = test::make_slice(node, 1, 8000 * kMiB);
    slice.devices[0].attributes["vendor"] = vendor;
    slice.devices[0].attributes["type"] = type;
    state_.upsert_slice(slice);
  };
  ClaimRequest claim = make_claim("default/a", {.memory = "1000Mi", .cores = "10"});
  claim.spec.config.push_back(
      {.requests = {"gpu"},
       .driver = std::string(test::kDriver),
       .parameters_json = codec::share_config_json({.memory_percent = {}, .virtual_memory = 4000 * kMiB})});
  PlacementRequest request;
  request.claims.push_back(claim);
  add("node-1", "nvidia", "partition");
  const Outcome nowhere = place(request);
  ASSERT_TRUE(std::holds_alternative<Infeasible>(nowhere));
  EXPECT_THAT(std::get<Infeasible>(nowhere).reasons.at(0).message, HasSubstr("ShareConfig needs: virtualMemory"));
  add("node-2", "nvidia", "card");
  const Outcome outcome = place(request);
  ASSERT_TRUE(std::holds_alternative<Assigned>(outcome));
  EXPECT_EQ(std::get<Assigned>(outcome).node, "node-2");
  EXPECT_EQ(std::get<Assigned>(outcome).allocations.at(0).results[0].consumed_capacity.at("memory").value(),
            1000 * kMiB)
      << "the card's memory is taken for what is granted, not for what is addressed";
  request.claims[0].spec.config.push_back(
      {.requests = {},
       .driver = std::string(test::kDriver),
       .parameters_json = codec::share_config_json({.memory_percent = {}, .virtual_memory = 5000 * kMiB})});
  const auto twice = state_.place(request, random_);
  ASSERT_FALSE(twice);
  EXPECT_THAT(twice.error().text(), HasSubstr("request gpu has two different virtualMemory"));
}

TEST_F(EngineTest, PercentsOfOneCardAddUp) {
  add_node("node-1", 1, 80000 * kMiB);
  EXPECT_EQ(grant("a", {.cores = "0", .memory_percent = 50}), "node-1/gpu-0");
  EXPECT_EQ(grant("b", {.cores = "0", .memory_percent = 50}), "node-1/gpu-0");
  EXPECT_EQ(grant("c", {.cores = "0", .memory_percent = 1}), "waiting");
}

TEST_F(EngineTest, SeveralSharesOfOneClaimAreDifferentCards) {
  add_node("node-1", 2);
  EXPECT_EQ(grant("a", {.memory = "1000Mi", .cores = "10", .count = 2}), "node-1/gpu-0 node-1/gpu-1");
  EXPECT_EQ(grant("b", {.memory = "1000Mi", .cores = "10", .count = 3}), "infeasible");
}

TEST_F(EngineTest, ClaimsOfOnePodGoToOneNode) {
  add_node("node-1", 1);
  add_node("node-2", 2);
  PlacementRequest request;
  request.claims.push_back(make_claim("a", {}));
  request.claims.push_back(make_claim("b", {}));
  const Outcome outcome = place(request);
  EXPECT_EQ(std::get<Assigned>(outcome).node, "node-2");
}

TEST_F(EngineTest, ForeignCardsAreNeverTaken) {
  state_.upsert_node(test::make_node("node-1"));
  model::ResourceSlice slice = test::make_slice("node-1", 1, 1000 * kMiB);
  slice.devices[0].taints.push_back(
      {.key = "heddle.dev/foreign-owner", .value = {}, .effect = "NoSchedule", .added = {}});
  state_.upsert_slice(slice);
  ClaimRequest claim = make_claim("a", {});
  claim.spec.requests[0].exactly->tolerations.push_back(
      {.key = {}, .op = "Exists", .value = {}, .effect = {}, .seconds = {}});
  PlacementRequest request;
  request.claims.push_back(claim);
  const Outcome outcome = place(request);
  EXPECT_TRUE(std::holds_alternative<Waiting>(outcome));
  EXPECT_THAT(only_reason(outcome, "Taint"), HasSubstr("gpu-0 of node-1 is served by another driver"));
  slice.devices[0].taints.pop_back();
  state_.upsert_slice(slice);
  EXPECT_EQ(grant("a", {}), "node-1/gpu-0");
}

TEST_F(EngineTest, AVanishedDeviceKeepsItsCharge) {
  add_node("node-1", 2);
  ASSERT_EQ(grant("a", {.memory = "60000Mi", .cores = "10"}), "node-1/gpu-0");
  model::ResourceSlice without = test::make_slice("node-1", 2, 80000 * kMiB);
  without.devices.erase(without.devices.begin());
  state_.upsert_slice(without);
  const auto uses = state_.device_uses();
  ASSERT_EQ(uses.size(), 2U);
  EXPECT_EQ(uses[0].device.device, "gpu-0");
  EXPECT_FALSE(uses[0].published);
  EXPECT_EQ(uses[0].node, "node-1");
  EXPECT_EQ(uses[0].holders.size(), 1U);
  state_.upsert_slice(test::make_slice("node-1", 2, 80000 * kMiB));
  EXPECT_EQ(grant("b", {.memory = "30000Mi", .cores = "10"}), "node-1/gpu-1") << "gpu-0 has 20000Mi left";
}

// Two forms of one card that exclude each other by its counter: the whole, and a half.
model::ResourceSlice partitioned(const std::string& node, bool with_whole) {
  model::ResourceSlice slice = test::make_slice(node, 2, 80000 * kMiB);
  slice.shared_counters = {{.name = "card", .counters = {{"slices", Quantity::from_int(2)}}}};
  int64_t slices = 2;
  for (model::Device& device : slice.devices) {
    device.allow_multiple_allocations = false;
    device.consumes_counters = {
        {.counter_set = "card", .counters = {{"slices", Quantity::from_int(slices--)}}, .compatibility_groups = {}}};
  }
  if (!with_whole) slice.devices.erase(slice.devices.begin());
  return slice;
}

TEST_F(EngineTest, N140802AVanishedPartitionKeepsItsCounters) {
  state_.upsert_node(test::make_node("node-1"));
  state_.upsert_slice(partitioned("node-1", true));
  ASSERT_EQ(grant("a", {}), "node-1/gpu-0") << "the whole card";
  ASSERT_EQ(grant("b", {}), "waiting");
  state_.upsert_slice(partitioned("node-1", false));
  EXPECT_EQ(grant("b", {}), "waiting") << "the whole card is still held";
  state_.remove_claim("a");
  EXPECT_EQ(grant("b", {}), "node-1/gpu-1");
}

TEST_F(EngineTest, N141118SlicesThatDisagreeAboutTheirNumberAreNoPool) {
  state_.upsert_node(test::make_node("node-1"));
  model::ResourceSlice first = test::make_slice("node-1", 1, 80000 * kMiB);
  model::ResourceSlice second = first;
  second.meta.name += "-b";
  second.devices[0].name = "gpu-9";
  first.pool_slice_count = 2;
  second.pool_slice_count = 3;
  state_.upsert_slice(first);
  state_.upsert_slice(second);
  EXPECT_NE(grant("a", {}), "node-1/gpu-0");
  second.pool_slice_count = 2;
  state_.upsert_slice(second);
  EXPECT_EQ(grant("a", {}), "node-1/gpu-0");
}

TEST_F(EngineTest, N125826ASelectorThatFailsOnOneDeviceStopsNoPod) {
  add_node("node-1", 2);
  model::ResourceSlice slice = test::make_slice("node-1", 2, 80000 * kMiB);
  slice.devices[1].attributes["rare"] = int64_t{1};
  state_.upsert_slice(slice);
  ClaimRequest claim = make_claim("a", {});
  claim.spec.requests[0].exactly->selectors = {R"(device.attributes["accelerator.heddle.dev"].rare == 1)"};
  PlacementRequest request;
  request.claims = {claim};
  const Outcome outcome = place(request);
  ASSERT_TRUE(std::holds_alternative<Assigned>(outcome));
  EXPECT_EQ(std::get<Assigned>(outcome).allocations[0].results[0].device, "gpu-1");
}

TEST(CheckSelector, IsAsLongAsTheApiServerAllows) {
  const std::string longest = R"(device.driver == ")" + std::string(10 * 1024 - 19, 'x') + '"';
  ASSERT_EQ(longest.size(), 10U * 1024U);
  EXPECT_TRUE(check_selector(longest));
  const auto longer = check_selector(longest + " ");
  ASSERT_FALSE(longer);
  EXPECT_NE(longer.error().message.find("10241 bytes"), std::string::npos) << longer.error().message;
}

TEST(CheckSelector, MayCostAsMuchAsTheApiServerAllows) {
  EXPECT_TRUE(check_selector("device.attributes.all(a, device.attributes.all(b, a != b || a == b))"));
  const auto deep = check_selector(
      "device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, device.attributes.all(d, a == d))))");
  ASSERT_FALSE(deep);
  EXPECT_NE(deep.error().message.find("too complex: it may cost"), std::string::npos) << deep.error().message;
  const auto unbounded =
      check_selector("device.capacity['a'].all(k, device.attributes[k].x.split(',').all(y, y.matches(k)))");
  ASSERT_FALSE(unbounded);
  EXPECT_NE(unbounded.error().message.find("any amount"), std::string::npos) << unbounded.error().message;
}

TEST_F(EngineTest, PlainResourcesOfTheNodeCount) {
  add_node("node-1", 4);
  add_node("node-2", 4);
  model::Pod pod;
  pod.meta.uid = "me";
  model::Container container;
  container.requests = {{"cpu", test::quantity("40")}};
  pod.containers.push_back(container);
  state_.upsert_pod_usage("other", "node-1", {{"cpu", 30000}});
  PlacementRequest request{
      .pod = &pod, .claims = {make_claim("a", {})}, .pinned_node = {}, .preferred_node = {}, .excluded_nodes = {}};
  EXPECT_EQ(std::get<Assigned>(place(request)).node, "node-2");
  state_.upsert_pod_usage("third", "node-2", {{"cpu", 30000}});
  const Outcome outcome = place(request);
  EXPECT_TRUE(std::holds_alternative<Waiting>(outcome));
  EXPECT_THAT(only_reason(outcome, "NodeFit"),
              HasSubstr("node-1 has the devices free, but is short of cpu: the pod needs 40, 34 of 64"));
  state_.upsert_pod_usage("me", "node-2", {{"cpu", 30000}});
  state_.remove_pod_usage("third");
  EXPECT_EQ(std::get<Assigned>(place(request)).node, "node-2") << "the pod's own usage does not stand in its way";
  pod.containers[0].requests["cpu"] = test::quantity("100");
  EXPECT_TRUE(std::holds_alternative<Infeasible>(place(request)));
}

// After a restart the lists come in any order, and a node can go and come back while its pods stay.
TEST_F(EngineTest, WhatPodsUseCountsOnNodesThatAreSeenLater) {
  model::Pod pod;
  model::Container container;
  container.requests = {{"cpu", test::quantity("40")}};
  pod.containers.push_back(container);
  PlacementRequest request{
      .pod = &pod, .claims = {make_claim("a", {})}, .pinned_node = {}, .preferred_node = {}, .excluded_nodes = {}};
  state_.upsert_pod_usage("early", "node-1", {{"cpu", 30000}});
  state_.upsert_pod_usage("moved", "node-2", {{"cpu", 30000}});
  state_.upsert_pod_usage("moved", "node-1", {{"cpu", 1000}});
  add_node("node-1", 1);
  EXPECT_THAT(only_reason(place(request), "NodeFit"), HasSubstr("33 of 64"));
  state_.remove_node("node-1");
  state_.remove_pod_usage("moved");
  add_node("node-1", 1);
  EXPECT_THAT(only_reason(place(request), "NodeFit"), HasSubstr("34 of 64"));
  state_.remove_pod_usage("early");
  EXPECT_EQ(std::get<Assigned>(place(request)).node, "node-1");
}

TEST_F(EngineTest, NodeConstraintsOfThePodHold) {
  add_node("node-1", 1);
  add_node("node-2", 1);
  model::Pod pod;
  pod.node_selector["kubernetes.io/hostname"] = "node-2";
  PlacementRequest request{
      .pod = &pod, .claims = {make_claim("a", {})}, .pinned_node = {}, .preferred_node = {}, .excluded_nodes = {}};
  EXPECT_EQ(std::get<Assigned>(place(request)).node, "node-2");

  model::Node cordoned = test::make_node("node-2");
  cordoned.unschedulable = true;
  state_.upsert_node(cordoned);
  EXPECT_THAT(only_reason(place(request), "NodeFit"), HasSubstr("node-2 is marked unschedulable"));

  model::Node tainted = test::make_node("node-2");
  tainted.taints.push_back({.key = "k", .value = "v", .effect = "NoSchedule", .added = {}});
  state_.upsert_node(tainted);
  EXPECT_THAT(only_reason(place(request), "NodeFit"), HasSubstr("node-2 has a taint"));
  pod.tolerations.push_back({.key = "k", .op = "Exists", .value = {}, .effect = {}, .seconds = {}});
  EXPECT_EQ(std::get<Assigned>(place(request)).node, "node-2");

  request.excluded_nodes = {"node-2"};
  EXPECT_THAT(only_reason(place(request), "Excluded"), HasSubstr("node-2"));
  request.excluded_nodes.clear();
  pod.node_selector["kubernetes.io/hostname"] = "node-9";
  const Outcome outcome = place(request);
  EXPECT_TRUE(std::holds_alternative<Infeasible>(outcome));
  EXPECT_THAT(only_reason(outcome, "NodeFit"), HasSubstr("nodeSelector"));
}

TEST_F(EngineTest, PinnedPreferredAndExcludedNodes) {
  add_node("node-1", 1);
  add_node("node-2", 1);
  add_node("node-3", 1);
  PlacementRequest request;
  request.claims.push_back(make_claim("a", {.memory = "1000Mi", .cores = "10"}));
  EXPECT_EQ(std::get<Assigned>(place(request)).node, "node-1");
  request.preferred_node = "node-3";
  EXPECT_EQ(std::get<Assigned>(place(request)).node, "node-3");
  request.excluded_nodes = {"node-3"};
  EXPECT_EQ(std::get<Assigned>(place(request)).node, "node-1");
  request.pinned_node = "node-2";
  EXPECT_EQ(std::get<Assigned>(place(request)).node, "node-2");
}

TEST_F(EngineTest, WaitingNamesWhatIsShortAndWhatWouldHelp) {
  add_node("node-1", 1, 8000 * kMiB);
  ASSERT_EQ(grant("default/a", {.memory = "6000Mi", .cores = "80"}), "node-1/gpu-0");
  EXPECT_EQ(
      only_reason(place("default/b", {.memory = "5000Mi", .cores = "50"}), "Capacity"),
      "no card with 5000Mi and 50% free; the most free is gpu-0 of node-1: 2000Mi and 20%; fits when default/a ends");
  EXPECT_THAT(only_reason(place("default/b", {.memory = "5000Mi", .cores = "0"}), "Capacity"),
              HasSubstr("no card with 5000Mi free;"));
  ASSERT_EQ(grant("default/c", {.memory = "2000Mi", .cores = "10"}), "node-1/gpu-0");
  EXPECT_THAT(
      only_reason(place("default/d", {}), "Capacity"),
      HasSubstr(
          "no whole card free; the most free is gpu-0 of node-1: 0 and 10%; fits when default/a and default/c end"));
}

TEST_F(EngineTest, WaitingForSeveralCardsNamesTheNodeWithMost) {
  add_node("node-1", 2);
  add_node("node-2", 2);
  ASSERT_EQ(grant("default/a", {}), "node-1/gpu-0");
  ASSERT_EQ(grant("default/b", {.count = 2}), "node-2/gpu-0 node-2/gpu-1");
  EXPECT_EQ(only_reason(place("default/c", {.count = 2}), "Capacity"),
            "no node has 2 whole cards free; node-1 has the most: 1; fits when default/a ends");
}

TEST_F(EngineTest, InfeasibleNamesTheLargest) {
  add_node("node-1", 1, 8000 * kMiB);
  add_node("node-2", 2, 16000 * kMiB);
  EXPECT_EQ(only_reason(place("a", {.memory = "20000Mi", .cores = "10"}), "Capacity"),
            "no card with 20000Mi and 10% in this fleet; the largest is gpu-0 of node-2: 16000Mi and 100%");
  EXPECT_EQ(only_reason(place("a", {.count = 3}), "Capacity"),
            "3 whole cards on one node are asked for; the largest node, node-2, has 2");
  ClaimRequest other = make_claim("a", {});
  other.spec.requests[0].exactly->selectors = {R"(device.attributes["accelerator.heddle.dev"].model == "B200")"};
  PlacementRequest request;
  request.claims.push_back(other);
  EXPECT_THAT(only_reason(place(request), "Selector"),
              HasSubstr("no device of the fleet matches class heddle-nvidia and the selectors"));
}

TEST_F(EngineTest, AnEmptyFleetIsSaidSo) {
  EXPECT_THAT(only_reason(place("a", {}), "NodeFit"), HasSubstr("no node"));
}

TEST_F(EngineTest, WhatCannotBeMeantIsAnErrorThatNamesTheField) {
  add_node("node-1", 1);
  const auto error = [&](const ClaimRequest& claim) {
    PlacementRequest request;
    request.claims.push_back(claim);
    const auto outcome = state_.place(request, random_);
    EXPECT_FALSE(outcome.has_value());
    return outcome ? Error{} : outcome.error();
  };
  ClaimRequest claim = make_claim("default/a", {});
  claim.spec.requests[0].exactly->device_class = "none";
  EXPECT_EQ(error(claim).code, Code::kInvalidArgument);
  EXPECT_THAT(error(claim).text(), HasSubstr("spec.devices.requests[0].exactly.deviceClassName: claim default/a"));

  claim = make_claim("default/a", {});
  claim.spec.requests[0].exactly->selectors = {"device.drivers.startsWith(\"x\")"};
  EXPECT_EQ(error(claim).code, Code::kInvalidArgument);
  EXPECT_THAT(error(claim).text(), HasSubstr("selectors[0]"));

  claim = make_claim("default/a", {.memory = "1000Mi", .memory_percent = 5});
  EXPECT_THAT(error(claim).text(), HasSubstr("capacity.requests[memory]"));

  claim = make_claim("default/a", {.count = 33});
  EXPECT_THAT(error(claim).text(), HasSubstr("exceeds the claim limit of 32"));

  claim = make_claim("default/a", {});
  claim.spec.requests[0].exactly->capacity["memory"] = test::quantity("100000000000000000000");
  EXPECT_EQ(error(claim).code, Code::kInvalidArgument);

  model::DeviceClass half = test::make_class();
  half.meta.name = "half";
  half.config.push_back({.requests = {}, .driver = "other.example.com", .parameters_json = "{}"});
  half.config.push_back({.requests = {},
                         .driver = std::string(test::kDriver),
                         .parameters_json = codec::share_config_json({.memory_percent = 50})});
  state_.upsert_class(half);
  claim = make_claim("default/a", {});
  claim.spec.requests[0].exactly->device_class = "half";
  EXPECT_EQ(error(claim).code, Code::kUnsupported) << "never passed over in silence";
  EXPECT_THAT(error(claim).text(), HasSubstr("class half: spec.config[1].opaque"));
}

TEST_F(EngineTest, GenerationRisesOnlyWhenSomethingCouldStart) {
  add_node("node-1", 1);
  uint64_t before = state_.generation();
  state_.upsert_node(test::make_node("node-1"));
  EXPECT_EQ(state_.generation(), before) << "nothing that placement reads has changed";
  ASSERT_EQ(grant("a", {}), "node-1/gpu-0");
  EXPECT_EQ(state_.generation(), before) << "a grant lets nobody start";
  state_.remove_claim("a");
  EXPECT_GT(state_.generation(), before);
  before = state_.generation();
  state_.remove_claim("a");
  EXPECT_EQ(state_.generation(), before);
  state_.upsert_pod_usage("p", "node-1", {{"cpu", 1}});
  EXPECT_EQ(state_.generation(), before);
  state_.remove_pod_usage("p");
  EXPECT_GT(state_.generation(), before);
}

TEST_F(EngineTest, TheAuditFindsWhatIsGrantedTwice) {
  add_node("node-1", 1, 8000 * kMiB);
  const auto force = [&](const std::string& uid, const char* memory, const char* cores, int64_t time) {
    model::ResourceClaim claim;
    claim.meta.uid = uid;
    model::DeviceResult result;
    result.request = "gpu";
    result.driver = test::kDriver;
    result.pool = "node-1/nvidia";
    result.device = "gpu-0";
    if (memory != nullptr) {
      result.share_id = uid;
      result.consumed_capacity = {{"memory", test::quantity(memory)}, {"cores", test::quantity(cores)}};
    }
    claim.allocation = model::Allocation{};
    claim.allocation->results.push_back(result);
    if (time != 0) claim.allocation->timestamp = Time{time};
    state_.upsert_claim(claim);
  };
  force("b", "6000Mi", "10", 5);
  EXPECT_TRUE(state_.over_commits().empty());
  force("a", "3000Mi", "10", 9);
  auto found = state_.over_commits();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].what, "memory: 9000Mi of 8000Mi");
  EXPECT_THAT(found[0].claim_uids, ElementsAre("b", "a"));
  force("a", "1000Mi", "100", 0);
  EXPECT_THAT(state_.over_commits().at(0).what, HasSubstr("110 of 100"));
  force("b", "1000Mi", "0", 5);
  EXPECT_THAT(state_.over_commits().at(0).what, HasSubstr("alone"));
  force("a", nullptr, nullptr, 1);
  EXPECT_THAT(state_.over_commits().at(0).what, HasSubstr("whole"));
  EXPECT_THAT(state_.over_commits().at(0).claim_uids, ElementsAre("a", "b"));
  state_.remove_claim("b");
  EXPECT_TRUE(state_.over_commits().empty());
}

TEST_F(EngineTest, AnIncompletePoolIsNotUsedUntilItIsWhole) {
  state_.upsert_node(test::make_node("node-1"));
  model::ResourceSlice slice = test::make_slice("node-1", 1, 8000 * kMiB);
  slice.pool_slice_count = 2;
  state_.upsert_slice(slice);
  const Outcome outcome = place("a", {});
  EXPECT_TRUE(std::holds_alternative<Waiting>(outcome));
  EXPECT_THAT(only_reason(outcome, "Capacity"), HasSubstr("being updated"));
  model::ResourceSlice second = test::make_slice("node-1", 2, 8000 * kMiB);
  second.meta.name = "node-1-heddle-nvidia-1";
  second.pool_slice_count = 2;
  second.devices.erase(second.devices.begin());
  state_.upsert_slice(second);
  EXPECT_EQ(grant("a", {.count = 2}), "node-1/gpu-0 node-1/gpu-1");
}

TEST_F(EngineTest, ANodeThatArrivesAfterItsSlicesAndPodsIsComplete) {
  state_.upsert_slice(test::make_slice("node-1", 1, 8000 * kMiB));
  state_.upsert_pod_usage("p", "node-1", {{"cpu", 63500}});
  EXPECT_TRUE(std::holds_alternative<Infeasible>(place("a", {})));
  state_.upsert_node(test::make_node("node-1"));
  model::Pod pod;
  model::Container container;
  container.requests = {{"cpu", test::quantity("1")}};
  pod.containers.push_back(container);
  PlacementRequest request{
      .pod = &pod, .claims = {make_claim("a", {})}, .pinned_node = {}, .preferred_node = {}, .excluded_nodes = {}};
  EXPECT_TRUE(std::holds_alternative<Waiting>(place(request)));
  state_.remove_node("node-1");
  state_.upsert_node(test::make_node("node-1"));
  EXPECT_TRUE(std::holds_alternative<Waiting>(place(request))) << "a node that comes back has its pods";
  state_.remove_pod_usage("p");
  EXPECT_TRUE(std::holds_alternative<Assigned>(place(request)));
}

}  // namespace
}  // namespace heddle::engine
