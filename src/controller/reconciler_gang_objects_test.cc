// Gangs whose size an object of a framework says: where its kind is served its pods wait for it.
#include <gtest/gtest.h>

#include "controller/fake_cluster.h"

namespace heddle::controller::testing {
namespace {

constexpr const char* kPodGroups = "scheduling.x-k8s.io/PodGroup";

Json pod_group(int minimum) {
  return {{"apiVersion", "scheduling.x-k8s.io/v1alpha1"},
          {"kind", "PodGroup"},
          {"metadata", {{"name", "group"}, {"namespace", "default"}}},
          {"spec", {{"minMember", minimum}}}};
}

void create(FakeCluster& cluster, const std::string& name) {
  cluster.create_pod(name, std::vector<Json>{{{"nvidia.com/gpu", "1"}}}, Json::object(),
                     {{"pod-group.scheduling.sigs.k8s.io/name", "group"}});
}

int bound(const FakeCluster& cluster) {
  int count = 0;
  for (const auto& [key, pod] : cluster.api.pods()) count += pod["spec"].contains("nodeName") ? 1 : 0;
  return count;
}

int allocated(const FakeCluster& cluster) {
  int count = 0;
  for (const auto& [key, claim] : cluster.api.claims()) count += claim["status"].contains("allocation") ? 1 : 0;
  return count;
}

TEST(GangObjectsOnACluster, PodsWaitForTheObjectThatSaysTheirNumberAndStartAsOne) {
  FakeCluster cluster;
  cluster.add_node("n1", 4);
  cluster.serve_gang_kinds({kPodGroups});
  for (const char* name : {"g0", "g1"}) create(cluster, name);
  cluster.start_controller();
  cluster.run();
  EXPECT_TRUE(cluster.api.claims().empty());
  EXPECT_EQ(cluster.condition("g0")["reason"], "GangSize");
  cluster.put_gang_object(pod_group(3));
  cluster.run(Duration::seconds(10));
  EXPECT_TRUE(cluster.api.claims().empty());
  EXPECT_EQ(cluster.condition("g0")["message"], "waits for members of gang group: 2 of 3 are there");
  create(cluster, "g2");
  cluster.run();
  EXPECT_EQ(bound(cluster), 3);
}

TEST(GangObjectsOnACluster, WhereTheKindIsNotServedPodsStartOneByOneUntilItIs) {
  FakeCluster cluster;
  cluster.add_node("n1", 4);
  create(cluster, "g0");
  cluster.start_controller();
  cluster.run();
  EXPECT_EQ(bound(cluster), 1);
  cluster.serve_gang_kinds({kPodGroups});
  create(cluster, "g1");
  cluster.run();
  EXPECT_EQ(bound(cluster), 1);
  cluster.serve_gang_kinds({});
  cluster.run();
  EXPECT_EQ(bound(cluster), 2);
}

TEST(GangObjectsOnACluster, AnObjectThatGoesTakesNothingFromPodsThatRun) {
  FakeCluster cluster;
  cluster.add_node("n1", 4);
  cluster.serve_gang_kinds({kPodGroups});
  cluster.put_gang_object(pod_group(2));
  for (const char* name : {"g0", "g1"}) create(cluster, name);
  cluster.start_controller();
  cluster.run();
  ASSERT_EQ(bound(cluster), 2);
  cluster.delete_gang_object(std::string(kPodGroups) + " default/group");
  create(cluster, "g2");
  cluster.run(Duration::seconds(900));
  EXPECT_EQ(bound(cluster), 2);
  EXPECT_EQ(allocated(cluster), 2);
  EXPECT_TRUE(cluster.api.evicted.empty());
  EXPECT_EQ(cluster.condition("g2")["reason"], "GangSize");
}

// Whoever starts anew knows the kinds and the objects before it decides: a half granted gang goes on as one.
TEST(GangObjectsOnACluster, ARestartAtEachWriteStartsNoMemberBeforeAllHaveTheirDevices) {
  uint64_t total = 0;
  for (uint64_t at = 1; total == 0 || at <= total; ++at) {
    SCOPED_TRACE("write " + std::to_string(at));
    FakeCluster cluster;
    cluster.add_node("n1", 2);
    cluster.add_node("n2", 1);
    cluster.serve_gang_kinds({kPodGroups});
    cluster.put_gang_object(pod_group(3));
    for (const char* name : {"g0", "g1", "g2"}) create(cluster, name);
    bool early = false;
    cluster.fault = [&](const Write& write, uint64_t number) {
      early = early || (write.kind == WriteKind::kUngatePod && allocated(cluster) < 3);
      return number == at ? Fault::kCrashAfter : Fault::kNone;
    };
    cluster.start_controller();
    cluster.run(Duration::seconds(120));
    EXPECT_FALSE(early);
    EXPECT_EQ(bound(cluster), 3);
    EXPECT_TRUE(cluster.violations().empty());
    if (total == 0) total = cluster.writes;
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GE(total, 12U);
}

}  // namespace
}  // namespace heddle::controller::testing
