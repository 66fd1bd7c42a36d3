// Devices of other DRA drivers that Heddle is told to manage: allocated like its own, and prepared by their driver.
#include <gtest/gtest.h>

#include "controller/cluster_test.h"

namespace heddle::controller::testing {
namespace {

constexpr const char* kOther = "gpu.example.com";
const Json kDevice{{"deviceClassName", "theirs"}, {"allocationMode", "ExactCount"}, {"count", 1}};
const Json kShareOfCard{{"deviceClassName", "heddle"},
                        {"allocationMode", "ExactCount"},
                        {"count", 1},
                        {"capacity", {{"requests", {{"memory", "1Gi"}, {"cores", "10"}}}}}};

class DriversTest : public ClusterTest {
 protected:
  DriversTest() {
    cluster.managed_drivers = {kOther};
    cluster.classes["theirs"] = "device.driver == 'gpu.example.com'";  // as other vendors' charts quote it
  }
  // As it leaves the webhook.
  void create_member(const std::string& name, int size) {
    cluster.create_user_claim(name, kDevice);
    cluster.create_claim_pod(name, {name});
    Json& pod = cluster.api.pod("default/" + name);
    pod["metadata"]["annotations"] = {{"heddle.dev/gang", "g"}, {"heddle.dev/gang-size", std::to_string(size)}};
    pod["spec"]["schedulingGates"] = Json::array({{{"name", "heddle.dev/placement"}}});
  }
  [[nodiscard]] int allocated() const {
    int count = 0;
    for (const auto& [key, claim] : cluster.api.claims()) count += claim["status"].contains("allocation") ? 1 : 0;
    return count;
  }
};

TEST_F(DriversTest, AClaimOnOneIsAllocatedHere) {
  cluster.add_node("a-card", 1);
  cluster.add_foreign_node("n1", kOther, 1);
  cluster.create_user_claim("mine", kDevice);
  cluster.create_claim_pod("p", {"mine"});
  start();
  EXPECT_EQ(cluster.node_of("p"), "n1");
  const Json claim = cluster.api.claim("default/mine");
  const Json result = claim["status"]["allocation"]["devices"]["results"][0];
  EXPECT_EQ(result["driver"], kOther);
  EXPECT_EQ(result["device"], "device-0");
  EXPECT_FALSE(result.contains("consumedCapacity"));
  EXPECT_EQ(claim["status"]["reservedFor"][0]["name"], "p");
  cluster.create_user_claim("more", kDevice);
  cluster.create_claim_pod("q", {"more"});
  cluster.run();
  EXPECT_EQ(cluster.node_of("q"), "");
  EXPECT_EQ(cluster.condition("q")["reason"], "Capacity");
}

// As on the cards of our own: who comes later stays away, who is there stays, and who tolerates it comes.
TEST_F(DriversTest, ARuleOfAnAdministratorKeepsWorkAway) {
  cluster.add_foreign_node("n1", kOther, 1);
  cluster.add_node("cards", 1);
  cluster.create_user_claim("first", kDevice);
  cluster.create_claim_pod("first", {"first"});
  start();
  ASSERT_EQ(cluster.node_of("first"), "n1");
  cluster.put_taint_rule("worn", "n1", "device-0", "NoSchedule");
  cluster.put_taint_rule("repair", "cards", "gpu-0", "NoExecute");
  cluster.delete_pod("first");
  cluster.create_user_claim("theirs", kDevice);
  cluster.create_claim_pod("theirs", {"theirs"});
  cluster.create_pod("ours", Json{{"nvidia.com/gpu", "1"}});
  cluster.run();
  EXPECT_EQ(cluster.node_of("theirs"), "");
  EXPECT_EQ(cluster.condition("theirs")["reason"], "Taint");
  EXPECT_NE(cluster.condition("ours")["message"].get<std::string>().find("example.com/repair:NoExecute"),
            std::string::npos)
      << cluster.condition("ours");
  Json tolerates = kDevice;
  tolerates["tolerations"] = Json::array({{{"key", "example.com/worn"}, {"operator", "Exists"}}});
  cluster.create_user_claim("tolerates", tolerates);
  cluster.create_claim_pod("tolerates", {"tolerates"});
  cluster.run();
  EXPECT_EQ(cluster.node_of("tolerates"), "n1");
  cluster.delete_taint_rule("repair");
  cluster.run();
  EXPECT_EQ(cluster.node_of("ours"), "cards");
}

TEST_F(DriversTest, OneThatIsNotManagedIsLeftAlone) {
  cluster.managed_drivers = {"another.example.com"};
  cluster.add_foreign_node("n1", kOther, 1);
  cluster.create_user_claim("mine", kDevice);
  cluster.create_claim_pod("p", {"mine"});
  start();
  EXPECT_EQ(cluster.writes, 0U);
  EXPECT_EQ(cluster.condition("p"), nullptr);
}

TEST_F(DriversTest, AGangOverThemStartsAsOneOrHoldsNothing) {
  cluster.add_foreign_node("n1", kOther, 1);
  for (const char* name : {"g0", "g1"}) create_member(name, 2);
  start();
  EXPECT_EQ(allocated(), 0);
  EXPECT_EQ(cluster.condition("g1")["message"],
            "gang g needs 2 members at once; the fleet has room for 1 even when nothing else runs; an empty node "
            "like n1 would take it");
  cluster.add_foreign_node("n2", kOther, 1);
  cluster.run();
  EXPECT_EQ(allocated(), 2);
  EXPECT_NE(cluster.node_of("g0"), "");
  EXPECT_NE(cluster.node_of("g1"), "");
  EXPECT_NE(cluster.node_of("g0"), cluster.node_of("g1"));
}

// The guard's limits are why a container has one claim of Heddle's own devices; others have none.
TEST_F(DriversTest, AContainerMayUseSeveralClaimsOnThem) {
  cluster.add_foreign_node("n1", kOther, 2);
  for (const char* name : {"a", "b"}) cluster.create_user_claim(name, kDevice);
  cluster.create_claim_pod("p", {"a", "b"});
  start();
  EXPECT_EQ(cluster.node_of("p"), "n1");
}

TEST_F(DriversTest, ASingleQuoteInAClassOfOurOwnIsAsGood) {
  cluster.managed_drivers = {};
  cluster.classes["mine"] = "device.driver == 'accelerator.heddle.dev'";
  cluster.add_node("n1", 1);
  Json share = kShareOfCard;
  share["deviceClassName"] = "mine";
  cluster.create_user_claim("a", share);
  cluster.create_claim_pod("p", {"a"});
  start();
  EXPECT_EQ(cluster.node_of("p"), "n1");
}

}  // namespace
}  // namespace heddle::controller::testing
