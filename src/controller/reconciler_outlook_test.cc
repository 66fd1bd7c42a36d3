// What the Reconciler says of those who would have to end: who they are, and that their end does let the pod start.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/cluster_test.h"

namespace heddle::controller::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Json cards(int count) {
  return {{"nvidia.com/gpu", std::to_string(count)}};
}

class OutlookTest : public ClusterTest {
 protected:
  void create(const std::string& name, int count, const Json& spec = Json::object()) {
    cluster.clock.advance(Duration::seconds(1));
    cluster.create_pod(name, cards(count), spec);
    cluster.run();
  }
  void create_queued(const std::string& name, const std::string& queue, int count, const Json& spec = Json::object()) {
    cluster.clock.advance(Duration::seconds(1));
    cluster.create_queued_pod(name, queue, cards(count), spec);
    cluster.run();
  }
  void put_queue(const std::string& name, const Json& quota) {
    cluster.api.put_queue(name, {{"namespaces", Json::array({"default"})}, {"quotas", Json::array({quota})}});
  }
  [[nodiscard]] std::string message(const std::string& pod) const { return cluster.condition(pod)["message"]; }
  // As `heddle explain` gets it.
  [[nodiscard]] std::string ends(const std::string& pod) {
    const Json answer = Json::parse(*cluster.controller->explain_json("default/" + pod));
    for (const Json& reason : answer["reasons"]) {
      if (reason["code"] == "Ends") return reason["message"];
    }
    return "";
  }
};

TEST_F(OutlookTest, OneThatIsEnoughAloneIsNamedWithWhatItHolds) {
  for (const char* node : {"n1", "n2"}) cluster.add_node(node, 4);
  start();
  create("small", 1);
  create("large", 4);
  create("other", 2);
  create("waits", 4);
  EXPECT_THAT(message("waits"), HasSubstr("would start when default/large (4 devices on " + cluster.node_of("large")));
  EXPECT_EQ(ends("waits"), "would start when default/large (4 devices on " + cluster.node_of("large") + ") ends");
  create("yields", 3);
  EXPECT_THAT(message("yields"), HasSubstr("would fit when default/")) << "another one is tried before it";
  cluster.finish_pod("large");
  cluster.run();
  EXPECT_NE(cluster.node_of("waits"), "") << "as it was said";
}

TEST_F(OutlookTest, WhatHasOnlyCpuIsNamedWhereCpuIsShort) {
  cluster.add_node("n1", 1, 81920, "4");
  const auto put = [&](const std::string& name, const std::string& cpu, const Json& owners) {
    cluster.api.put_pod(
        {{"metadata", {{"name", name}, {"namespace", "default"}, {"ownerReferences", owners}}},
         {"spec",
          {{"nodeName", "n1"},
           {"containers", Json::array({{{"name", "c"}, {"resources", {{"requests", {{"cpu", cpu}}}}}}})}}},
         {"status", {{"phase", "Running"}}}});
  };
  put("web", "2", Json::array());
  put("logs", "1500m", Json::array({{{"apiVersion", "apps/v1"}, {"kind", "DaemonSet"}, {"name", "l"}, {"uid", "u"}}}));
  start();
  const Json limits{{"nvidia.com/gpu", "1"}, {"cpu", "2"}};
  cluster.create_pod("waits", limits);
  cluster.run();
  EXPECT_EQ(ends("waits"), "would start when default/web (on n1) ends");
  cluster.delete_pod("web");
  cluster.run();
  EXPECT_EQ(cluster.node_of("waits"), "n1") << "as it was said";
}

TEST_F(OutlookTest, WhatDeclaresItsEndIsNamedBeforeWhatDoesNot) {
  for (const char* node : {"n1", "n2", "n3"}) cluster.add_node(node, 1);
  start();
  create("endless", 1);
  create("late", 1, {{"activeDeadlineSeconds", 9000}});
  create("soon", 1, {{"activeDeadlineSeconds", 600}});
  create("waits", 1);
  EXPECT_THAT(ends("waits"), HasSubstr("default/soon (gpu-0 on " + cluster.node_of("soon") + ") ends"));
  cluster.delete_pod("soon");
  cluster.settle();  // gone, and its card taken by the one that waited
  create("next", 1);
  EXPECT_THAT(ends("next"), HasSubstr("default/late (gpu-0 on "));
}

TEST_F(OutlookTest, SeveralWhereNoneIsEnoughAlone) {
  cluster.add_node("n1", 4);
  start();
  for (const char* name : {"a", "b", "c"}) create(name, 1);
  create("waits", 3);
  EXPECT_THAT(ends("waits"), AllOf(HasSubstr("would start when default/a (gpu-"),
                                   HasSubstr(" on n1) and default/b (gpu-"), HasSubstr(" on n1) have ended")));
}

TEST_F(OutlookTest, AShareIsEnoughWhereACardIsAskedFor) {
  cluster.add_node("n1", 1, 10000);
  start();
  cluster.create_pod("share", Json{{"nvidia.com/gpu", "1"}, {"nvidia.com/gpumem", "6000"}});
  cluster.run();
  create("waits", 1);
  EXPECT_EQ(ends("waits"), "would start when default/share (gpu-0 on n1) ends");
}

TEST_F(OutlookTest, ALimitNamesWorkOfTheQueueThoughCardsAreFree) {
  cluster.add_node("n1", 8);
  put_queue("a", {{"limit", 2}});
  put_queue("b", {{"limit", 4}});
  start();
  create_queued("b1", "b", 2);
  create_queued("a1", "a", 2);
  create_queued("a2", "a", 1);
  EXPECT_EQ(cluster.condition("a2")["reason"], "Limit");
  EXPECT_THAT(message("a2"),
              AllOf(HasSubstr("would start when default/a1 (2 devices on n1) ends"), HasSubstr("number 1 in queue a")));
  create_queued("a3", "a", 1);
  EXPECT_THAT(message("a3"), AllOf(HasSubstr("would fit when default/a1"), HasSubstr("number 2 in queue a")));
  create_queued("never", "a", 3);
  EXPECT_EQ(ends("never"), "") << "more than the limit is asked for";
  cluster.finish_pod("a1");
  cluster.run();
  EXPECT_EQ(cluster.node_of("a2"), "n1");
}

TEST_F(OutlookTest, AGangIsNamedAsOneAndWaitsAsOne) {
  for (const char* node : {"n1", "n2", "n3"}) cluster.add_node(node, 1);
  put_queue("a", {{"guaranteed", 3}});
  start();
  cluster.clock.advance(Duration::seconds(1));
  for (const char* name : {"g0", "g1"}) cluster.create_queued_member(name, "g", 2, "a");
  cluster.run();
  create_queued("single", "a", 1);
  cluster.clock.advance(Duration::seconds(1));
  for (const char* name : {"h0", "h1"}) cluster.create_queued_member(name, "h", 2, "a");
  cluster.run();
  EXPECT_THAT(message("h0"), HasSubstr("would start when gang default/g (2 devices on 2 nodes) ends"));
  EXPECT_EQ(message("h0"), message("h1"));
  for (const char* name : {"g0", "g1"}) cluster.finish_pod(name);
  cluster.run();
  EXPECT_NE(cluster.node_of("h1"), "");
}

TEST_F(OutlookTest, AMemberThatJoinsItsGangDoesNotWaitForTheGangToEnd) {
  cluster.add_node("n1", 2);
  start();
  for (const char* name : {"g0", "g1"}) cluster.create_member(name, 3, {{"heddle.dev/gang-minimum", "2"}});
  cluster.run();
  cluster.create_member("g2", 3, {{"heddle.dev/gang-minimum", "2"}});
  cluster.run();
  EXPECT_TRUE(cluster.gated("g2"));
  EXPECT_EQ(ends("g2"), "");
}

TEST_F(OutlookTest, WhatNobodysEndChangesSaysNothing) {
  cluster.add_node("n1", 2);
  start();
  create("runs", 1);
  create("never", 3);
  EXPECT_EQ(cluster.condition("never")["reason"], "Capacity");
  EXPECT_THAT(message("never"), Not(HasSubstr("when")));
}

TEST_F(OutlookTest, TheAnswerFollowsWhatChanges) {
  for (const char* node : {"n1", "n2"}) cluster.add_node(node, 1);
  start();
  create("first", 1);
  create("second", 1);
  create("waits", 1, {{"nodeSelector", {{"kubernetes.io/hostname", cluster.node_of("first")}}}});
  EXPECT_THAT(message("waits"), HasSubstr("default/first"));
  cluster.finish_pod("first");
  cluster.run();
  create("third", 1);
  EXPECT_THAT(ends("third"), HasSubstr("default/second (gpu-0 on"));
}

}  // namespace
}  // namespace heddle::controller::testing
