// The levels of gangs come from the AcceleratorTopology in force, and each object says whether it is.
#include <gtest/gtest.h>

#include "controller/cluster_test.h"

namespace heddle::controller::testing {
namespace {

constexpr const char* kOld = "2026-01-01T00:00:00Z";
constexpr const char* kNew = "2026-01-02T00:00:00Z";
constexpr const char* kRackLabel = "heddle.dev/rack";

class TopologyTest : public ClusterTest {
 protected:
  TopologyTest() {
    cluster.add_node("n1", 1, 81920, "64", "", "r1");
    for (const char* name : {"n2", "n3"}) cluster.add_node(name, 1, 81920, "64", "", "r2");
  }
  void create_gang(const std::string& level) {
    for (const char* name : {"g0", "g1"}) cluster.create_member(name, 2, {{"heddle.dev/topology-required", level}});
  }
  [[nodiscard]] std::string nodes() const { return cluster.node_of("g0") + " " + cluster.node_of("g1"); }
};

TEST_F(TopologyTest, ALevelHoldsFromTheMomentItsObjectComes) {
  create_gang("row");
  start();
  EXPECT_EQ(nodes(), " ");
  const std::string message = cluster.condition("g0")["message"];
  EXPECT_NE(message.find("no topology level is called row"), std::string::npos) << message;
  cluster.put_topology("site", kOld, "row", kRackLabel);
  cluster.run();
  EXPECT_EQ(nodes(), "n2 n3");
  EXPECT_EQ(cluster.api.topology_conditions["site"]["status"], "True");
}

TEST_F(TopologyTest, TheOldestIsInForceUntilItGoes) {
  cluster.put_topology("new", kNew, "row", kRackLabel);
  cluster.put_topology("old", kOld, "hall", "example.com/hall");
  create_gang("row");
  start();
  EXPECT_EQ(nodes(), " ");
  EXPECT_EQ(cluster.api.topology_conditions["old"]["reason"], "InForce");
  EXPECT_EQ(cluster.api.topology_conditions["new"]["status"], "False");
  EXPECT_EQ(cluster.api.topology_conditions["new"]["reason"], "NotInForce");
  EXPECT_EQ(cluster.api.topology_conditions["new"]["message"],
            "old is in force, the oldest one; delete it to have this one instead");
  cluster.delete_topology("old");
  cluster.run();
  EXPECT_EQ(nodes(), "n2 n3");
  EXPECT_EQ(cluster.api.topology_conditions["new"]["status"], "True");
}

TEST_F(TopologyTest, TheDefaultLevelsComeBackWithTheLastObjectGone) {
  cluster.put_topology("site", kOld, "row", kRackLabel);
  create_gang("rack");
  start();
  EXPECT_EQ(nodes(), " ");
  cluster.delete_topology("site");
  cluster.run();
  EXPECT_EQ(nodes(), "n2 n3");
}

// Of each row one empty node is for members that started gangs have lost.
TEST_F(TopologyTest, AReservedNodeIsThereForTheMemberThatIsLost) {
  cluster.add_node("n4", 1, 81920, "64", "", "r2");
  cluster.put_topology("site", kOld, "row", kRackLabel, {{"reserveNodes", 1}, {"reserveUse", "Replacements"}});
  create_gang("row");
  start();
  EXPECT_EQ(nodes(), "n2 n3");
  cluster.create_pod("p", Json{{"nvidia.com/gpu", "1"}});
  cluster.run(Duration::seconds(30));
  EXPECT_EQ(cluster.node_of("p"), "");
  const std::string message = cluster.condition("p")["message"];
  EXPECT_NE(message.find("; n1 and n4 are kept empty for nodes that fail"), std::string::npos) << message;
  cluster.remove_node("n3");
  cluster.delete_pod("g1");
  cluster.api.collect_garbage();
  cluster.run(Duration::seconds(5));
  cluster.start_controller();
  cluster.create_member("g1", 2, {{"heddle.dev/topology-required", "row"}});
  cluster.run(Duration::seconds(30));
  EXPECT_EQ(nodes(), "n2 n4");
  EXPECT_EQ(cluster.node_of("p"), "");
  cluster.delete_topology("site");
  cluster.run(Duration::seconds(30));
  EXPECT_EQ(cluster.node_of("p"), "n1");
}

TEST_F(TopologyTest, AStatusIsWrittenOnceAndTriedAgainAfterARefusal) {
  cluster.api.forbid_topologies = true;
  cluster.put_topology("site", kOld, "row", kRackLabel);
  int tries = 0;
  cluster.fault = [&](const Write& write, uint64_t) {
    tries += write.kind == WriteKind::kQueueStatus ? 1 : 0;
    return Fault::kNone;
  };
  start();
  EXPECT_EQ(tries, 1);
  cluster.run(Duration::seconds(100));
  EXPECT_EQ(tries, 4);  // every half a minute
  cluster.api.forbid_topologies = false;
  cluster.run(Duration::seconds(31));
  EXPECT_EQ(tries, 5);
  EXPECT_EQ(cluster.api.topology_conditions["site"]["status"], "True");
  cluster.put_topology("site", kOld, "row", kRackLabel);  // as the watch tells of our own write
  cluster.run(Duration::seconds(100));
  EXPECT_EQ(tries, 5);
}

}  // namespace
}  // namespace heddle::controller::testing
