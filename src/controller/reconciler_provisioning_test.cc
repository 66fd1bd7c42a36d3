// Nodes that are not there: who needs which, what an autoscaler is asked for, and when that is taken back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/cluster_test.h"

namespace heddle::controller::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kClass = "best-effort-atomic-scale-up.autoscaling.x-k8s.io";
const Json kCard{{"nvidia.com/gpu", "1"}};

class ProvisioningTest : public ClusterTest {
 protected:
  ProvisioningTest() {
    cluster.provisioning_class = kClass;
    cluster.api.provisioning_versions = {"v1"};
  }
  // n1 with a card that "runs" has.
  void fill() {
    cluster.add_node("n1", 1, 81920, "64", "H100");
    start();
    cluster.create_pod("runs", kCard);
    cluster.run();
    ASSERT_EQ(cluster.node_of("runs"), "n1");
  }
  [[nodiscard]] std::string name_for(const std::string& pod) const {
    return "heddle-" + cluster.api.pods().at("default/" + pod)["metadata"]["uid"].get<std::string>();
  }
  [[nodiscard]] std::vector<std::string> asked() const {
    std::vector<std::string> keys;
    for (const auto& [key, object] : cluster.api.provisioning) keys.push_back(key);
    return keys;
  }
  [[nodiscard]] std::string message(const std::string& pod) const { return cluster.condition(pod)["message"]; }
};

TEST_F(ProvisioningTest, WhatWouldFitOnOneMoreNodeAsksForItAndTakesItBackWhenItStarts) {
  fill();
  cluster.create_pod("waits", Json{{"nvidia.com/gpu", "1"}, {"cpu", "2"}},
                     {{"tolerations", Json::array({{{"key", "gpu"}, {"operator", "Exists"}}})}});
  cluster.run(Duration::seconds(20));
  EXPECT_THAT(message("waits"), HasSubstr("an empty node like n1 would take it"));
  EXPECT_THAT(asked(), IsEmpty()) << "not at once: what waits for a moment needs no node";
  cluster.run(Duration::seconds(40));
  const std::string name = name_for("waits");
  ASSERT_THAT(asked(), ElementsAre("podtemplates/" + name, "provisioningrequests/" + name));
  const Json request = cluster.api.provisioning.at("provisioningrequests/" + name);
  EXPECT_EQ(request["apiVersion"], "autoscaling.x-k8s.io/v1");
  EXPECT_EQ(request["spec"]["provisioningClassName"], kClass);
  EXPECT_EQ(request["spec"]["podSets"], (Json::array({{{"count", 1}, {"podTemplateRef", {{"name", name}}}}})));
  EXPECT_EQ(request["metadata"]["ownerReferences"][0]["kind"], "Pod");
  EXPECT_EQ(request["metadata"]["ownerReferences"][0]["name"], "waits");
  const Json pod = cluster.api.provisioning.at("podtemplates/" + name)["template"];
  EXPECT_EQ(pod["spec"]["nodeSelector"], (Json{{"node.kubernetes.io/instance-type", "with-H100"}}));
  EXPECT_EQ(pod["spec"]["tolerations"][0]["key"], "gpu");
  EXPECT_EQ(pod["spec"]["containers"][0]["resources"]["requests"], (Json{{"cpu", "2000m"}}));
  const Json where = pod["spec"]["affinity"];
  EXPECT_EQ(where["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][0]
                 ["matchExpressions"],
            (Json::array({{{"key", "kubernetes.io/hostname"}, {"operator", "NotIn"}, {"values", {"n1"}}}})))
      << "the nodes that are there have no devices left, which an autoscaler does not know";
  EXPECT_EQ(
      where["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]["labelSelector"]["matchLabels"],
      pod["metadata"]["labels"])
      << "one a node";
  cluster.add_node("n2", 1, 81920, "64", "H100");
  cluster.run();
  EXPECT_EQ(cluster.node_of("waits"), "n2");
  EXPECT_THAT(asked(), IsEmpty());
}

TEST_F(ProvisioningTest, AGangAsksOnceForAsManyNodesAsItNeeds) {
  cluster.add_node("n1", 2, 81920, "64", "H100");
  start();
  for (int i = 0; i < 5; ++i) cluster.create_member("g" + std::to_string(i), 5);
  cluster.run(Duration::seconds(60));
  EXPECT_EQ(cluster.condition("g0")["reason"], "Gang");
  EXPECT_THAT(message("g0"), HasSubstr("2 more nodes like n1 would take it")) << "two fit now, and two on each more";
  const std::string name = name_for("g0");
  ASSERT_THAT(asked(), ElementsAre("podtemplates/" + name, "provisioningrequests/" + name));
  EXPECT_EQ(cluster.api.provisioning.at("provisioningrequests/" + name)["spec"]["podSets"][0]["count"], 2);
  for (const char* node : {"n2", "n3"}) cluster.add_node(node, 2, 81920, "64", "H100");
  cluster.run(Duration::seconds(5));
  EXPECT_NE(cluster.node_of("g4"), "");
  EXPECT_THAT(asked(), IsEmpty());
}

// An autoscaler knows in which zone it makes a node, and not in which rack.
TEST_F(ProvisioningTest, AGangThatNeedsNodesInOneDomainAsksWhereThatCanBeSaid) {
  cluster.add_node("n1", 2, 81920, "64", "H100", "r1");
  start();
  for (int i = 0; i < 4; ++i)
    cluster.create_member("g" + std::to_string(i), 4, {{"heddle.dev/topology-required", "rack"}});
  cluster.run(Duration::seconds(60));
  EXPECT_THAT(message("g0"), HasSubstr("an empty node like n1 in rack r1 would take it"));
  EXPECT_THAT(asked(), IsEmpty());
  cluster.put_topology("site", "2026-01-01T00:00:00Z", "rack", "topology.kubernetes.io/zone");
  cluster.label_node("n1", "topology.kubernetes.io/zone", "z1");
  cluster.run(Duration::seconds(90));
  EXPECT_THAT(message("g0"), HasSubstr("an empty node like n1 in rack z1 would take it"));
  const std::string name = name_for("g0");
  ASSERT_THAT(asked(), ElementsAre("podtemplates/" + name, "provisioningrequests/" + name));
  EXPECT_EQ(cluster.api.provisioning.at("podtemplates/" + name)["template"]["spec"]["nodeSelector"],
            (Json{{"node.kubernetes.io/instance-type", "with-H100"}, {"topology.kubernetes.io/zone", "z1"}}));
}

TEST_F(ProvisioningTest, WhatItAskedForGoesWithThePod) {
  fill();
  cluster.create_pod("waits", kCard);
  cluster.run(Duration::seconds(60));
  ASSERT_EQ(asked().size(), 2U);
  cluster.delete_pod("waits");
  cluster.run(Duration::seconds(60));
  EXPECT_THAT(asked(), IsEmpty());
}

TEST_F(ProvisioningTest, AfterARestartItIsAskedForOnceAndTakenBack) {
  fill();
  cluster.create_pod("waits", kCard);
  cluster.run(Duration::seconds(60));
  ASSERT_EQ(asked().size(), 2U);
  start();
  cluster.run(Duration::seconds(60));
  EXPECT_EQ(asked().size(), 2U);
  start();
  cluster.finish_pod("runs");
  cluster.run();
  EXPECT_EQ(cluster.node_of("waits"), "n1");
  EXPECT_THAT(asked(), IsEmpty()) << "a process that did not ask takes it back";
}

TEST_F(ProvisioningTest, OneThatDidNotHelpIsMadeAnewWithoutTheNodesThatCame) {
  fill();
  cluster.create_pod("waits", kCard);
  cluster.run(Duration::seconds(60));
  const std::string name = name_for("waits");
  cluster.add_node("n2", 1, 81920, "64", "H100");
  cluster.create_pod("quick", kCard, {{"priority", 5}});
  cluster.run(Duration::seconds(60));
  ASSERT_EQ(cluster.node_of("quick") + cluster.node_of("waits"), "n2");
  const std::string still = cluster.node_of("waits").empty() ? "waits" : "quick";
  cluster.run(Duration::seconds(1000));
  const auto found = cluster.api.provisioning.find("podtemplates/" + name_for(still));
  ASSERT_NE(found, cluster.api.provisioning.end());
  EXPECT_THAT(found->second.dump(), HasSubstr(R"("values":["n1","n2"])"));
  EXPECT_EQ(asked().size(), 2U);
}

TEST_F(ProvisioningTest, TheOlderVersionIsAskedWhereTheNewerIsNotServed) {
  cluster.api.provisioning_versions = {"v1beta1"};
  fill();
  cluster.create_pod("waits", kCard);
  cluster.run(Duration::seconds(90));
  const std::string name = name_for("waits");
  ASSERT_THAT(asked(), ElementsAre("podtemplates/" + name, "provisioningrequests/" + name));
  EXPECT_EQ(cluster.api.provisioning.at("provisioningrequests/" + name)["apiVersion"], "autoscaling.x-k8s.io/v1beta1");
}

TEST_F(ProvisioningTest, WhereNobodyServesThemNothingIsMadeAndItIsAskedAgainLater) {
  cluster.api.provisioning_versions.clear();
  fill();
  cluster.create_pod("waits", kCard);
  cluster.run(Duration::seconds(120));
  EXPECT_THAT(asked(), IsEmpty());
  EXPECT_THAT(message("waits"), HasSubstr("an empty node like n1 would take it"));
  cluster.api.provisioning_versions = {"v1"};
  cluster.run(Duration::seconds(700));
  EXPECT_EQ(asked().size(), 2U);
}

TEST_F(ProvisioningTest, NothingIsAskedForWithoutAClass) {
  cluster.provisioning_class.clear();
  fill();
  cluster.create_pod("waits", kCard);
  cluster.run(Duration::seconds(120));
  EXPECT_THAT(asked(), IsEmpty());
  EXPECT_THAT(message("waits"), HasSubstr("an empty node like n1 would take it"));
}

TEST_F(ProvisioningTest, WhatNoNodeOfTheFleetCouldTakeNeedsNoneOfThem) {
  fill();
  cluster.create_pod("wide", Json{{"nvidia.com/gpu", "2"}});
  cluster.create_pod("tied", kCard, {{"nodeSelector", {{"kubernetes.io/hostname", "n1"}}}});
  cluster.run(Duration::seconds(120));
  EXPECT_THAT(message("wide"), Not(HasSubstr("would take it")));
  EXPECT_THAT(message("tied"), Not(HasSubstr("would take it"))) << "a new node has another name";
  EXPECT_THAT(asked(), IsEmpty());
}

TEST_F(ProvisioningTest, ALimitOfAQueueNeedsNoNode) {
  cluster.add_node("n1", 4, 81920, "64", "H100");
  cluster.api.put_queue("a", {{"namespaces", Json::array({"default"})}, {"quotas", Json::array({{{"limit", 1}}})}});
  start();
  cluster.create_queued_pod("p1", "a", kCard);
  cluster.create_queued_pod("p2", "a", kCard);
  cluster.run(Duration::seconds(120));
  EXPECT_EQ(cluster.condition("p2")["reason"], "Limit");
  EXPECT_THAT(message("p2"), Not(HasSubstr("would take it")));
  EXPECT_THAT(asked(), IsEmpty());
}

}  // namespace
}  // namespace heddle::controller::testing
