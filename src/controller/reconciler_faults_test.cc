// The Reconciler against an API server that refuses, loses and forgets, and against its own death at every write.
#include <gtest/gtest.h>

#include "base/random.h"
#include "controller/fake_cluster.h"

namespace heddle::controller::testing {
namespace {

Json share(int memory, int cores) {
  return {{"nvidia.com/gpumem", std::to_string(memory)}, {"nvidia.com/gpucores", std::to_string(cores)}};
}

// Pods of one and of two containers on two nodes; all of them fit.
void fill(FakeCluster& cluster) {
  cluster.add_node("n1", 2, 10000);
  cluster.add_node("n2", 2, 10000);
  cluster.create_pod("a", share(6000, 30));
  cluster.create_pod("b", std::vector<Json>{share(3000, 30), share(5000, 50)});
  cluster.create_pod("c", Json{{"nvidia.com/gpu", "1"}});
  cluster.create_user_claim("mine", {{"deviceClassName", "heddle"},
                                     {"count", 1},
                                     {"allocationMode", "ExactCount"},
                                     {"capacity", {{"requests", {{"memory", "1Gi"}, {"cores", "0"}}}}}});
  cluster.create_claim_pod("d", {"mine"});
}

void expect_all_bound(const FakeCluster& cluster) {
  for (const char* pod : {"a", "b", "c", "d"}) EXPECT_NE(cluster.node_of(pod), "") << pod;
  const auto violations = cluster.violations();
  EXPECT_TRUE(violations.empty()) << violations.front();
  EXPECT_EQ(cluster.api.claims().size(), 5U);
}

struct Injection {
  const char* name;
  Fault fault;
};

class AtEveryWrite : public ::testing::TestWithParam<Injection> {};

TEST_P(AtEveryWrite, NothingIsLostNorGrantedTwice) {
  const auto act = [](FakeCluster& cluster) {
    cluster.start_controller();
    cluster.run(Duration::seconds(120));
  };
  live_with_a_fault_at_every_write(GetParam().fault, {fill, act, expect_all_bound}, 13);
}

INSTANTIATE_TEST_SUITE_P(
    Faults, AtEveryWrite,
    ::testing::Values(Injection{"CrashBefore", Fault::kCrashBefore}, Injection{"CrashAfter", Fault::kCrashAfter},
                      Injection{"Conflict", Fault::kConflict}, Injection{"Forbidden", Fault::kForbidden},
                      Injection{"LostRequest", Fault::kLostRequest}, Injection{"LostAnswer", Fault::kLostAnswer},
                      Injection{"Unavailable", Fault::kUnavailable}),
    [](const auto& entry) { return std::string(entry.param.name); });

TEST(ReconcilerFaults, ItDiesAtEveryWriteOfItsLifeAndStillEnds) {
  FakeCluster cluster;
  fill(cluster);
  bool before = false;
  cluster.fault = [&](const Write&, uint64_t number) {
    if (number == 0) return Fault::kNone;
    before = !before;
    return before ? Fault::kCrashBefore : Fault::kCrashAfter;
  };
  cluster.start_controller();
  cluster.run(Duration::seconds(120));
  expect_all_bound(cluster);
  EXPECT_GE(cluster.crashes, 13U);
}

TEST(ReconcilerFaults, RandomFaultsOnEveryKindOfRequest) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SeededRandom random(seed);
    FakeCluster cluster;
    fill(cluster);
    int left = 40;
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
    expect_all_bound(cluster);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(ReconcilerFaults, AQuotaOfTheClusterIsShownOnThePodAndTriedAgain) {
  FakeCluster cluster;
  cluster.add_node("n1", 1);
  cluster.create_pod("p", Json{{"nvidia.com/gpu", "1"}});
  bool full = true;
  cluster.fault = [&](const Write& write, uint64_t) {
    return full && write.kind == WriteKind::kCreateClaim ? Fault::kQuota : Fault::kNone;
  };
  cluster.start_controller();
  cluster.settle();
  EXPECT_EQ(cluster.condition("p")["reason"], "Quota");
  EXPECT_NE(cluster.condition("p")["message"].get<std::string>().find("exceeded quota"), std::string::npos);
  full = false;
  cluster.run(Duration::seconds(120));
  EXPECT_EQ(cluster.node_of("p"), "n1");
}

TEST(ReconcilerFaults, AnObjectThatChangesInBetweenIsReadAgain) {
  FakeCluster cluster;
  cluster.add_node("n1", 1);
  cluster.create_pod("p", Json{{"nvidia.com/gpu", "1"}});
  bool touched = false;
  cluster.fault = [&](const Write& write, uint64_t) {
    if (write.kind == WriteKind::kAllocateClaim && !touched) {
      touched = true;
      cluster.api.touch_claim(cluster.api.claims().begin()->first);
    }
    return Fault::kNone;
  };
  cluster.start_controller();
  cluster.run(Duration::seconds(5));
  EXPECT_TRUE(touched);
  EXPECT_EQ(cluster.node_of("p"), "n1");
}

TEST(ReconcilerFaults, AShareStaysHeldWhileAWritesEffectIsUnknown) {
  FakeCluster cluster;
  cluster.add_node("n1", 1);
  cluster.create_pod("a", Json{{"nvidia.com/gpu", "1"}});
  cluster.fault = [&](const Write& write, uint64_t) {
    if (write.kind == WriteKind::kAllocateClaim) return Fault::kLostAnswer;
    return is_read(write.kind) ? Fault::kUnavailable : Fault::kNone;
  };
  cluster.start_controller();
  cluster.settle();
  cluster.create_pod("b", Json{{"nvidia.com/gpu", "1"}});
  (void)cluster.api.take_changes();  // the watch is silent about the claim
  cluster.controller->run();
  EXPECT_LE(cluster.controller->ledger().usage("default").kinds["nvidia"].devices, 1);
  cluster.fault = nullptr;
  cluster.start_controller();
  cluster.run(Duration::seconds(60));
  EXPECT_EQ(cluster.node_of("a"), "n1");
  EXPECT_TRUE(cluster.gated("b"));
}

}  // namespace
}  // namespace heddle::controller::testing
