// Without any AcceleratorQueue: what has less priority gives way, as it does for kube-scheduler, and by the same rules
// as in a queue.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "controller/cluster_test.h"

namespace heddle::controller::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

const Json kCard{{"nvidia.com/gpu", "1"}};

Json with_priority(int priority) {
  return {{"priority", priority}};
}

class ReconcilerPriorityTest : public ClusterTest {
 protected:
  // Later ones are younger.
  void submit(const std::string& name, int priority, const Json& spec = Json::object()) {
    cluster.clock.advance(Duration::seconds(1));
    Json all = with_priority(priority);
    all.update(spec);
    cluster.create_pod(name, kCard, all);
    cluster.settle();
  }
  void submit_gang(const std::string& gang, int size, int priority) {
    for (int i = 0; i < size; ++i) {
      cluster.clock.advance(Duration::seconds(1));
      const Json marks{{"heddle.dev/gang", gang}, {"heddle.dev/gang-size", std::to_string(size)}};
      cluster.create_pod(gang + std::to_string(i), {kCard}, with_priority(priority), marks);
    }
    cluster.settle();
  }
  [[nodiscard]] std::string message(const std::string& pod) const {
    const Json condition = cluster.condition(pod);
    return condition.is_null() ? "" : condition["message"].get<std::string>();
  }
  [[nodiscard]] bool exists(const std::string& pod) const { return cluster.api.pods().contains("default/" + pod); }
};

TEST_F(ReconcilerPriorityTest, TheYoungestOfTheLowestPriorityGivesWay) {
  cluster.add_node("n1", 3);
  start();
  submit("low", 1);
  submit("younger", 1);
  submit("middle", 5);
  cluster.run();
  submit("high", 10);
  EXPECT_THAT(cluster.api.evicted, ElementsAre("younger"));
  EXPECT_THAT(message("high"), HasSubstr("waits for default/younger to end on node n1: they have a lower priority"));
  EXPECT_THAT(message("high"), Not(HasSubstr("queue")));
  cluster.run(Duration::seconds(5));
  EXPECT_EQ(cluster.node_of("high"), "n1");
  EXPECT_FALSE(exists("younger"));
  EXPECT_EQ(cluster.node_of("low"), "n1");
  const auto evicted = std::find_if(cluster.api.events.begin(), cluster.api.events.end(),
                                    [](const Json& event) { return event["reason"] == "HeddleEvicted"; });
  ASSERT_NE(evicted, cluster.api.events.end());
  EXPECT_EQ((*evicted)["message"], "evicted: default/high has a higher priority");
}

TEST_F(ReconcilerPriorityTest, EqualPriorityAndThoseThatNeverPreemptWait) {
  cluster.add_node("n1", 1);
  start();
  submit("runs", 5);
  cluster.run();
  submit("equal", 5);
  submit("polite", 10, {{"preemptionPolicy", "Never"}});
  cluster.run(Duration::seconds(120));
  EXPECT_THAT(cluster.api.evicted, IsEmpty());
  EXPECT_TRUE(cluster.gated("equal"));
  cluster.finish_pod("runs");
  cluster.run();
  EXPECT_EQ(cluster.node_of("polite"), "n1");  // it stands first by its priority
  EXPECT_TRUE(cluster.gated("equal"));
}

TEST_F(ReconcilerPriorityTest, APodWithoutDevicesGivesWayForItsProcessors) {
  cluster.add_node("n1", 2, 81920, "4");
  cluster.api.put_pod(
      {{"metadata", {{"name", "plain"}, {"namespace", "default"}}},
       {"spec",
        {{"nodeName", "n1"},
         {"priority", 1},
         {"containers", Json::array({{{"name", "c"}, {"resources", {{"requests", {{"cpu", "3"}}}}}}})}}},
       {"status", {{"phase", "Running"}}}});
  start();
  const Json limits{{"nvidia.com/gpu", "1"}, {"cpu", "2"}};
  cluster.create_pod("high", limits, with_priority(10));
  cluster.run(Duration::seconds(5));
  EXPECT_THAT(cluster.api.evicted, ElementsAre("plain"));
  EXPECT_EQ(cluster.node_of("high"), "n1");
}

TEST_F(ReconcilerPriorityTest, ADisruptionBudgetLeadsToAnotherVictim) {
  cluster.add_node("n1", 2);
  start();
  submit("older", 1);
  submit("younger", 1);
  cluster.run();
  cluster.api.budgets.insert("younger");
  submit("high", 10);
  cluster.run(Duration::seconds(5));
  EXPECT_THAT(cluster.api.evicted, ElementsAre("older"));
  EXPECT_EQ(cluster.node_of("high"), "n1");
  EXPECT_TRUE(exists("younger"));
}

TEST_F(ReconcilerPriorityTest, AGangGivesWayAsAWholeAndMakesRoomAsAWhole) {
  cluster.add_node("n1", 2);
  cluster.add_node("n2", 2);
  start();
  submit_gang("a", 2, 1);
  submit_gang("b", 2, 2);
  cluster.run();
  submit("high", 10);
  cluster.run(Duration::seconds(5));
  EXPECT_THAT(cluster.api.evicted, UnorderedElementsAre("a0", "a1"));
  EXPECT_NE(cluster.node_of("high"), "");
  submit_gang("top", 3, 20);
  cluster.run(Duration::seconds(5));
  // A card is free beside "high": two more are enough, and those are of "b".
  EXPECT_THAT(cluster.api.evicted, UnorderedElementsAre("a0", "a1", "b0", "b1"));
  for (const char* name : {"top0", "top1", "top2"}) EXPECT_NE(cluster.node_of(name), "") << name;
  EXPECT_NE(cluster.node_of("high"), "");
}

// What was freed is for the one that it was freed for, and a new controller plans no second victim beside the first.
TEST_F(ReconcilerPriorityTest, ACrashInTheMiddleTakesNoSecondVictim) {
  cluster.add_node("n1", 2);
  start();
  submit("a", 1);
  submit("b", 1);
  cluster.run();
  submit("high", 10);
  ASSERT_THAT(cluster.api.evicted, ElementsAre("b"));
  cluster.start_controller();
  cluster.run(Duration::seconds(60));
  EXPECT_THAT(cluster.api.evicted, ElementsAre("b"));
  EXPECT_EQ(cluster.node_of("high"), "n1");
}

TEST_F(ReconcilerPriorityTest, TheLastQueueThatGoesLeavesTheEvictionUnderWay) {
  cluster.add_node("n1", 1);
  cluster.api.put_queue("q", {{"namespaces", Json::array({"other"})}});
  start();
  submit("low", 1);
  cluster.run();
  submit("high", 10);
  ASSERT_THAT(cluster.api.evicted, ElementsAre("low"));
  cluster.api.delete_queue("q");
  cluster.run(Duration::seconds(5));
  EXPECT_THAT(cluster.api.evicted, ElementsAre("low"));
  EXPECT_EQ(cluster.node_of("high"), "n1");
}

}  // namespace
}  // namespace heddle::controller::testing
