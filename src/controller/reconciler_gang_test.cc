// Gangs in the Reconciler: they start as one or hold nothing, whatever happens between two writes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "controller/cluster_test.h"

namespace heddle::controller::testing {
namespace {

const Json kCard{{"nvidia.com/gpu", "1"}};
const Json kInOneRack{{"heddle.dev/topology-required", "rack"}};

class GangReconcilerTest : public ClusterTest {
 protected:
  void create_gang(int size, const Json& marks = Json::object()) {
    for (int i = 0; i < size; ++i) cluster.create_member("g" + std::to_string(i), size, marks);
  }
  [[nodiscard]] int allocated() const {
    int count = 0;
    for (const auto& [key, claim] : cluster.api.claims()) count += claim["status"].contains("allocation") ? 1 : 0;
    return count;
  }
  [[nodiscard]] int bound(int size) const {
    int count = 0;
    for (int i = 0; i < size; ++i) count += cluster.node_of("g" + std::to_string(i)).empty() ? 0 : 1;
    return count;
  }
  [[nodiscard]] std::string message(const std::string& pod) const { return cluster.condition(pod)["message"]; }
};

TEST_F(GangReconcilerTest, ItStartsAsOneWhenAllMembersAreThere) {
  cluster.add_node("n1", 2);
  cluster.add_node("n2", 2);
  for (const char* name : {"g0", "g1", "g2"}) cluster.create_member(name, 4);
  start();
  EXPECT_TRUE(cluster.api.claims().empty());
  EXPECT_EQ(cluster.condition("g1")["reason"], "GangIncomplete");
  EXPECT_EQ(message("g1"), "waits for members of gang g: 3 of 4 are there");
  cluster.create_member("g3", 4);
  cluster.run();
  EXPECT_EQ(bound(4), 4);
  EXPECT_EQ(cluster.writes, 16U);  // four a member, as for a pod alone
}

// A condition and an event are cut to what the API server takes; a name of three bytes a character is never torn.
TEST_F(GangReconcilerTest, ALongNameOfAnyAlignmentReachesThePod) {
  cluster.add_node("n1", 1);
  std::string wide;
  for (int i = 0; i < 600; ++i) wide += "\xe4\xb8\xad";
  for (const std::string& front : {std::string(), std::string("a"), std::string("ab")}) {
    const std::string pod = "pod" + front;
    cluster.create_pod(pod, std::vector<Json>{kCard}, Json::object(),
                       {{"heddle.dev/gang", front + wide}, {"heddle.dev/gang-size", "2"}});
    start();
    EXPECT_EQ(cluster.condition(pod)["reason"], "GangIncomplete");
    EXPECT_TRUE(message(pod).ends_with("\xe4\xb8\xad...")) << message(pod);
    EXPECT_GT(message(pod).size(), 990U);
  }
}

TEST_F(GangReconcilerTest, WhatCannotFitHoldsNothingAndASmallPodStartsMeanwhile) {
  cluster.add_node("n1", 2);
  create_gang(3);
  start();
  EXPECT_TRUE(cluster.api.claims().empty());
  EXPECT_EQ(Json::parse(*cluster.controller->explain_json("default/g0"))["outcome"], "Infeasible");
  EXPECT_EQ(message("g0"),
            "gang g needs 3 members at once; the fleet has room for 2 even when nothing else runs; "
            "an empty node like n1 would take it");
  cluster.create_pod("small", kCard);
  cluster.run();
  EXPECT_EQ(cluster.node_of("small"), "n1");
  cluster.add_node("n2", 1);
  cluster.run();
  EXPECT_EQ(bound(3), 0);
  EXPECT_TRUE(
      message("g2").starts_with("gang g needs 3 members at once; the fleet has room for 2: short of 1 whole card; "
                                "a minimum of 2 would fit; an empty node like n1 would take it; would start "
                                "when default/small (gpu-"))
      << message("g2");
  cluster.finish_pod("small");
  cluster.run();
  EXPECT_EQ(bound(3), 3);
}

TEST_F(GangReconcilerTest, EqualGangsAreAskedForOnceAndEachIsToldOfItself) {
  cluster.add_node("n1", 2);
  start();
  const auto create = [&](const std::string& gang, int size) {
    for (int i = 0; i < size; ++i) {
      cluster.create_pod(fmt::format("{}{}", gang, i), std::vector<Json>{kCard}, Json::object(),
                         {{"heddle.dev/gang", gang}, {"heddle.dev/gang-size", std::to_string(size)}});
    }
  };
  create("alpha", 3);
  create("beta", 3);
  create("gamma", 4);
  cluster.run();
  EXPECT_EQ(message("alpha0"),
            "gang alpha needs 3 members at once; the fleet has room for 2 even when nothing else runs; "
            "an empty node like n1 would take it");
  EXPECT_EQ(message("beta2"),
            "gang beta needs 3 members at once; the fleet has room for 2 even when nothing else runs; "
            "an empty node like n1 would take it");
  EXPECT_EQ(message("gamma3"),
            "gang gamma needs 4 members at once; the fleet has room for 2 even when nothing else runs; "
            "an empty node like n1 would take it");
  EXPECT_EQ(cluster.controller->take_stats().place_nanos.size(), 2U);
}

TEST_F(GangReconcilerTest, ItStaysInOneRackWhereThatIsRequired) {
  for (const char* name : {"n1", "n2"}) cluster.add_node(name, 1, 81920, "64", "", "r1");
  for (const char* name : {"n3", "n4"}) cluster.add_node(name, 1, 81920, "64", "", "r2");
  cluster.create_pod("other", kCard);
  start();
  ASSERT_EQ(cluster.node_of("other"), "n1");
  create_gang(2, kInOneRack);
  cluster.run();
  EXPECT_EQ(cluster.node_of("g0"), "n3");
  EXPECT_EQ(cluster.node_of("g1"), "n4");
  const Json gang = Json::parse(*cluster.controller->explain_json("default/g0"))["gang"];
  EXPECT_EQ(gang, (Json{{"name", "g"}, {"minimum", 2}, {"present", 2}, {"withDevices", 2}, {"place", "rack r2"}}));
}

TEST_F(GangReconcilerTest, FewerThanAllStartAndTheOthersJoin) {
  cluster.add_node("n1", 3);
  create_gang(4, {{"heddle.dev/gang-minimum", "2"}});
  start();
  EXPECT_EQ(bound(4), 3);
  EXPECT_EQ(cluster.condition("g3")["reason"], "Capacity");
  cluster.add_node("n2", 1);
  cluster.run();
  EXPECT_EQ(cluster.node_of("g3"), "n2");
}

TEST_F(GangReconcilerTest, AMemberThatLeavesBeforeTheStartTakesTheGangBack) {
  cluster.add_node("n1", 4);
  create_gang(4);
  int granted = 0;
  cluster.fault = [&](const Write& write, uint64_t) {
    if (write.kind == WriteKind::kAllocateClaim && ++granted == 3) {
      cluster.delete_pod("g3");
      cluster.api.collect_garbage();
    }
    return Fault::kNone;
  };
  start();
  EXPECT_EQ(bound(3), 0);
  EXPECT_EQ(allocated(), 0);
  cluster.create_pod("small", kCard);
  cluster.run(Duration::seconds(90));
  EXPECT_NE(cluster.node_of("small"), "");
  cluster.finish_pod("small");
  cluster.create_member("g3", 4);
  cluster.run(Duration::seconds(90));
  EXPECT_EQ(bound(4), 4);
}

TEST_F(GangReconcilerTest, AnotherGateHoldsTheWholeGang) {
  cluster.add_node("n1", 2);
  cluster.create_member("g0", 2);
  cluster.create_pod("g1", std::vector<Json>{kCard},
                     {{"schedulingGates", Json::array({{{"name", "example.com/later"}}})}},
                     {{"heddle.dev/gang", "g"}, {"heddle.dev/gang-size", "2"}});
  start();
  EXPECT_EQ(allocated(), 0);
  EXPECT_EQ(cluster.condition("g0")["reason"], "GangIncomplete");
  EXPECT_EQ(cluster.condition("g1")["reason"], "Gated");
}

TEST_F(GangReconcilerTest, AQuotaCountsTheWholeGang) {
  cluster.add_node("n1", 4);
  cluster.upsert_quota("q", {{"requests.nvidia.com/gpu", 3}});
  create_gang(4);
  start();
  EXPECT_EQ(allocated(), 0);
  EXPECT_EQ(cluster.condition("g0")["reason"], "Quota");
}

TEST_F(GangReconcilerTest, FrameworksWhoseObjectsAreNotSeenStartOneByOne) {
  cluster.add_node("n1", 1);
  for (const char* name : {"a", "b"})
    cluster.create_pod(name, std::vector<Json>{kCard}, Json::object(), {{"scheduling.k8s.io/group-name", "v"}});
  start();
  EXPECT_EQ(allocated(), 1);
  EXPECT_NE(cluster.node_of("a"), "");
  cluster.add_node("n2", 1);
  cluster.run();
  EXPECT_NE(cluster.node_of("b"), "");
}

TEST_F(GangReconcilerTest, ASizeThatIsKnownFromTheObjectHolds) {
  cluster.add_node("n1", 1);
  cluster.start_controller();
  cluster.controller->upsert_gang_object({"scheduling.volcano.sh/PodGroup default/v", 2, {}, {}, {}});
  for (const char* name : {"a", "b"})
    cluster.create_pod(name, std::vector<Json>{kCard}, Json::object(), {{"scheduling.k8s.io/group-name", "v"}});
  cluster.run();
  EXPECT_EQ(allocated(), 0);
  cluster.add_node("n2", 1);
  cluster.run();
  EXPECT_NE(cluster.node_of("a"), "");
  EXPECT_NE(cluster.node_of("b"), "");
}

TEST_F(GangReconcilerTest, AMemberWithoutDevicesCounts) {
  cluster.add_node("n1", 1);
  cluster.create_member("g0", 2);
  Json launcher{{"metadata",
                 {{"name", "launcher"},
                  {"namespace", "default"},
                  {"annotations", {{"heddle.dev/gang", "g"}, {"heddle.dev/gang-size", "2"}}}}},
                {"spec", {{"containers", Json::array({{{"name", "c"}}})}}}};
  start();
  EXPECT_TRUE(cluster.gated("g0"));
  cluster.api.put_pod(launcher);
  cluster.run();
  EXPECT_EQ(cluster.node_of("g0"), "n1");
}

TEST_F(GangReconcilerTest, WhatTheSchedulerGivesBackIsPlacedInTheSameRack) {
  for (const char* name : {"n1", "n2", "n3"}) cluster.add_node(name, 1, 81920, "64", "", "r1");
  cluster.add_node("n4", 8, 81920, "64", "", "r2");
  create_gang(2, kInOneRack);
  cluster.full.insert("n1");
  start();
  EXPECT_NE(cluster.node_of("g0"), "");
  EXPECT_NE(cluster.node_of("g1"), "");
  for (const char* pod : {"g0", "g1"}) EXPECT_NE(cluster.node_of(pod), "n4");
  cluster.full.clear();
}

TEST_F(GangReconcilerTest, EachSegmentIsInOneRackAndAMemberComesBackToIt) {
  for (const char* rack : {"r1", "r2"}) cluster.add_node(std::string("n-") + rack, 3, 81920, "64", "", rack);
  const auto in_segments = [](int index) {
    return Json{{"heddle.dev/gang-segment-size", "2"},
                {"heddle.dev/gang-segment-topology", "rack"},
                {"heddle.dev/gang-index", std::to_string(index)}};
  };
  for (int i = 0; i < 4; ++i) cluster.create_member("g" + std::to_string(i), 4, in_segments(i));
  start();
  ASSERT_EQ(bound(4), 4);
  EXPECT_EQ(cluster.node_of("g0"), cluster.node_of("g1"));
  EXPECT_EQ(cluster.node_of("g2"), cluster.node_of("g3"));
  EXPECT_NE(cluster.node_of("g0"), cluster.node_of("g2")) << "one rack has room for three";
  const std::string home = cluster.node_of("g2");
  cluster.delete_pod("g3");
  cluster.api.collect_garbage();
  cluster.run();
  cluster.create_member("g3", 4, in_segments(3));
  cluster.run();
  EXPECT_EQ(cluster.node_of("g3"), home);
}

// Its node is lost: the new pod waits for room in the rack of the others, and when that takes too long all of the gang
// starts anew elsewhere.
TEST_F(GangReconcilerTest, AGangThatStaysBelowItsMinimumIsEndedAsAWhole) {
  for (const char* name : {"n1", "n2"}) cluster.add_node(name, 1, 81920, "64", "", "r1");
  cluster.add_node("n3", 1, 81920, "64", "", "r2");
  create_gang(2, kInOneRack);
  start();
  ASSERT_EQ(bound(2), 2);
  const std::string lost = cluster.node_of("g1");
  cluster.remove_node(lost);
  cluster.remove_slices(lost);
  cluster.delete_pod("g1");
  cluster.api.collect_garbage();
  cluster.create_member("g1", 2, kInOneRack);
  cluster.run(Duration::seconds(200));
  EXPECT_TRUE(cluster.gated("g1"));
  EXPECT_TRUE(cluster.api.pods().contains("default/g0"));
  EXPECT_EQ(message("g1"), "gang g needs 1 member at once in one rack; rack r1 has room for 0: short of 1 whole card");
  cluster.run(Duration::seconds(400));
  EXPECT_FALSE(cluster.api.pods().contains("default/g0"));
  const auto reasons = cluster.event_reasons();
  EXPECT_GE(std::count(reasons.begin(), reasons.end(), "HeddleRepair"), 1);
  cluster.api.collect_garbage();
  cluster.add_node("n4", 1, 81920, "64", "", "r2");
  cluster.create_member("g0", 2, kInOneRack);
  cluster.run(Duration::seconds(90));
  EXPECT_EQ(bound(2), 2);
}

TEST_F(GangReconcilerTest, ANodeThatGoesBeforeTheStartMovesTheWholeGang) {
  for (const char* name : {"n1", "n2"}) cluster.add_node(name, 1, 81920, "64", "", "r1");
  for (const char* name : {"n3", "n4"}) cluster.add_node(name, 1, 81920, "64", "", "r2");
  create_gang(2, kInOneRack);
  int granted = 0;
  cluster.fault = [&](const Write& write, uint64_t) {
    if (write.kind == WriteKind::kAllocateClaim && ++granted == 2) {
      cluster.remove_node("n1");
      cluster.remove_slices("n1");
    }
    return Fault::kNone;
  };
  cluster.start_controller();
  cluster.run(Duration::seconds(90));
  EXPECT_EQ(bound(2), 2);
  EXPECT_EQ(std::set<std::string>({cluster.node_of("g0"), cluster.node_of("g1")}), (std::set<std::string>{"n3", "n4"}));
}

struct Injection {
  const char* name;
  Fault fault;
};

class GangAtEveryWrite : public ::testing::TestWithParam<Injection> {};

void fill(FakeCluster& cluster) {
  for (const char* name : {"n1", "n2"}) cluster.add_node(name, 2, 81920, "64", "", "r1");
  for (int i = 0; i < 4; ++i) cluster.create_member("g" + std::to_string(i), 4, kInOneRack);
}

void expect_started(const FakeCluster& cluster) {
  for (const char* pod : {"g0", "g1", "g2", "g3"}) {
    EXPECT_NE(cluster.node_of(pod), "") << *cluster.controller->explain_json(std::string("default/") + pod);
  }
  const auto violations = cluster.violations();
  EXPECT_TRUE(violations.empty()) << violations.front();
  EXPECT_EQ(cluster.api.claims().size(), 4U);
}

TEST_P(GangAtEveryWrite, ItStartsAsOneAllTheSame) {
  const auto act = [](FakeCluster& cluster) {
    cluster.start_controller();
    cluster.run(Duration::seconds(120));
  };
  live_with_a_fault_at_every_write(GetParam().fault, {fill, act, expect_started}, 16);
}

INSTANTIATE_TEST_SUITE_P(
    Faults, GangAtEveryWrite,
    ::testing::Values(Injection{"CrashBefore", Fault::kCrashBefore}, Injection{"CrashAfter", Fault::kCrashAfter},
                      Injection{"Conflict", Fault::kConflict}, Injection{"Forbidden", Fault::kForbidden},
                      Injection{"LostRequest", Fault::kLostRequest}, Injection{"LostAnswer", Fault::kLostAnswer},
                      Injection{"Unavailable", Fault::kUnavailable}),
    [](const auto& entry) { return std::string(entry.param.name); });

// Killed in the middle, and what was free for it is taken when it comes back: it lets go of all that it has.
TEST(GangFaults, KilledInTheMiddleAndWithoutRoomItTakesEverythingBack) {
  for (uint64_t at = 1; at <= 8; ++at) {
    SCOPED_TRACE("write " + std::to_string(at));
    FakeCluster cluster;
    fill(cluster);
    cluster.fault = [&](const Write&, uint64_t number) {
      if (number != at) return Fault::kNone;
      cluster.remove_node("n2");
      cluster.remove_slices("n2");
      return Fault::kCrashAfter;
    };
    cluster.start_controller();
    cluster.run(Duration::seconds(120));
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(cluster.gated("g" + std::to_string(i)));
    for (const auto& [key, claim] : cluster.api.claims()) EXPECT_FALSE(claim["status"].contains("allocation")) << key;
    cluster.create_pod("small", Json{{"nvidia.com/gpu", "2"}});
    cluster.run(Duration::seconds(120));
    EXPECT_EQ(cluster.node_of("small"), "n1");
  }
}

TEST(GangFaults, RandomFaultsOnEveryKindOfRequest) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SeededRandom random(seed);
    FakeCluster cluster;
    fill(cluster);
    int left = 30;
    cluster.fault = [&](const Write& write, uint64_t) {
      if (left == 0 || random.below(3) != 0) return Fault::kNone;
      --left;
      constexpr Fault kFaults[] = {Fault::kConflict,    Fault::kLostRequest, Fault::kLostAnswer, Fault::kUnavailable,
                                   Fault::kCrashBefore, Fault::kCrashAfter,  Fault::kQuota};
      const Fault fault = kFaults[random.below(7)];
      return is_read(write.kind) && fault == Fault::kConflict ? Fault::kNone : fault;
    };
    cluster.start_controller();
    cluster.run(Duration::seconds(600));
    cluster.run(Duration::seconds(600));
    expect_started(cluster);
    if (::testing::Test::HasFailure()) return;
  }
}

// Nobody waits for the others; still the first one goes where there is room for all.
TEST_F(GangReconcilerTest, OneThatStartsOneByOneIsPutWhereAllOfItFits) {
  cluster.add_node("n1", 1, 81920, "64", "", "r1");
  cluster.add_node("n2", 3, 81920, "64", "", "r2");
  const Json marks{{"heddle.dev/gang-minimum", "1"}, {"heddle.dev/topology-required", "rack"}};
  for (const char* name : {"p0", "p1", "p2"}) cluster.create_member(name, 3, marks);
  start();
  for (const char* name : {"p0", "p1", "p2"}) EXPECT_EQ(cluster.node_of(name), "n2") << name;
}

}  // namespace
}  // namespace heddle::controller::testing
