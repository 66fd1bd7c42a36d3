// Queues in the Reconciler: quota, reclaim, what is held meanwhile, what is said, and its own death in the middle of
// it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "codec/codec.h"
#include "controller/cluster_test.h"

namespace heddle::controller::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Json kCard{{"nvidia.com/gpu", "1"}};

Json cards(int count) {
  return {{"nvidia.com/gpu", std::to_string(count)}};
}

Json quota(const char* field, int count, const std::string& model = "") {
  Json out{{field, count}};
  if (!model.empty()) out["model"] = model;
  return out;
}

Json leaf(std::vector<Json> quotas) {
  return {{"namespaces", Json::array({"default"})}, {"quotas", quotas}};
}

class ReconcilerQueuesTest : public ClusterTest {
 protected:
  // Later ones are younger.
  void submit(const std::string& name, const std::string& queue, const Json& limits = kCard,
              const Json& spec = Json::object()) {
    cluster.clock.advance(Duration::seconds(1));
    cluster.create_queued_pod(name, queue, limits, spec);
  }
  // Runs on n1 with three processors and no devices, outside of all queues.
  void put_plain_pod() {
    cluster.api.put_pod(
        {{"metadata", {{"name", "plain"}, {"namespace", "default"}}},
         {"spec",
          {{"nodeName", "n1"},
           {"priority", 0},
           {"containers", Json::array({{{"name", "c"}, {"resources", {{"requests", {{"cpu", "3"}}}}}}})}}},
         {"status", {{"phase", "Running"}}}});
  }
  // Two queues of two guaranteed cards on a node of four, all of them used by b.
  void borrow() { borrow_in(cluster); }
  static void borrow_in(FakeCluster& cluster) {
    cluster.add_node("n1", 4);
    cluster.api.put_queue("a", leaf({quota("guaranteed", 2)}));
    cluster.api.put_queue("b", leaf({quota("guaranteed", 2)}));
    cluster.start_controller();
    cluster.run();
    for (const char* name : {"b1", "b2", "b3", "b4"}) {
      cluster.clock.advance(Duration::seconds(1));
      cluster.create_queued_pod(name, "b", kCard);
      cluster.run();
    }
  }
  [[nodiscard]] std::string reason(const std::string& pod) const {
    const Json condition = cluster.condition(pod);
    return condition.is_null() ? "" : condition["reason"].get<std::string>();
  }
  [[nodiscard]] std::string message(const std::string& pod) const {
    return cluster.condition(pod)["message"].get<std::string>();
  }
  [[nodiscard]] bool exists(const std::string& pod) const { return cluster.api.pods().contains("default/" + pod); }
  [[nodiscard]] Json in_force(const std::string& queue) const {
    const Json status = cluster.api.queues.at(queue).value("status", Json::object());
    return status.contains("conditions") ? status["conditions"][0] : Json();
  }
};

TEST_F(ReconcilerQueuesTest, TheLimitHoldsAndIsSaidWithThePosition) {
  cluster.add_node("n1", 4);
  cluster.api.put_queue("a", leaf({quota("limit", 2)}));
  start();
  for (const char* name : {"p1", "p2", "p3", "p4"}) submit(name, "a");
  cluster.run(Duration::seconds(5));
  EXPECT_EQ(cluster.node_of("p2"), "n1");
  EXPECT_TRUE(cluster.gated("p3"));
  EXPECT_EQ(reason("p4"), "Limit");
  EXPECT_THAT(message("p4"), HasSubstr("queue a: the limit is 2 devices, 2 devices in use, 1 devices asked"));
  EXPECT_THAT(message("p4"), HasSubstr("number 2 in queue a"));
  cluster.run(Duration::seconds(60));  // told again, when the numbers changed
  EXPECT_THAT(message("p4"), ::testing::Not(HasSubstr("in queue a; number")));
  const Json status = cluster.api.queues["a"]["status"];
  EXPECT_EQ(status["running"], 2);
  EXPECT_EQ(status["waiting"], 2);
  EXPECT_EQ(status["usage"][0]["used"], "2");
  EXPECT_EQ(in_force("a")["status"], "True");
  cluster.finish_pod("p1");
  cluster.run();
  EXPECT_EQ(cluster.node_of("p3"), "n1");
}

TEST_F(ReconcilerQueuesTest, ALimitOfAModelHoldsForWorkThatDidNotAskForIt) {
  cluster.add_node("n1", 2, 81920, "64", "T4");
  cluster.add_node("n2", 1, 81920, "64", "H100");
  cluster.api.put_queue("a", leaf({quota("limit", 1, "T4")}));
  start();
  for (const char* name : {"p1", "p2", "p3"}) submit(name, "a");
  cluster.run(Duration::seconds(60));
  std::map<std::string, int> on;
  for (const char* name : {"p1", "p2", "p3"}) ++on[cluster.node_of(name)];
  EXPECT_EQ(on["n1"], 1);
  EXPECT_EQ(on["n2"], 1);
}

TEST_F(ReconcilerQueuesTest, WhatWasBorrowedIsTakenBackFromTheYoungest) {
  borrow();
  submit("a1", "a");
  cluster.settle();
  EXPECT_THAT(cluster.api.evicted, ElementsAre("b4"));
  EXPECT_EQ(reason("a1"), "Evicting");
  EXPECT_THAT(message("a1"), HasSubstr("waits for default/b4 to end on node n1"));
  cluster.run(Duration::seconds(5));
  EXPECT_EQ(cluster.node_of("a1"), "n1");
  EXPECT_FALSE(exists("b4"));
  const auto evicted = std::find_if(cluster.api.events.begin(), cluster.api.events.end(),
                                    [](const Json& event) { return event["reason"] == "HeddleEvicted"; });
  ASSERT_NE(evicted, cluster.api.events.end());
  EXPECT_EQ((*evicted)["involvedObject"]["name"], "b4");
  EXPECT_THAT((*evicted)["message"].get<std::string>(),
              HasSubstr("default/a1 of queue a takes back what queue b borrowed"));
  // What is within b's own guarantee stays, whatever a wants.
  submit("a2", "a");
  submit("a3", "a");
  cluster.run(Duration::seconds(60));
  EXPECT_THAT(cluster.api.evicted, ElementsAre("b4", "b3"));
  EXPECT_EQ(cluster.node_of("a2"), "n1");
  EXPECT_TRUE(cluster.gated("a3"));
}

TEST_F(ReconcilerQueuesTest, WhatWasFreedIsHeldForTheOneItWasFreedFor) {
  borrow();
  submit("b5", "b");
  cluster.settle();
  submit("a1", "a");
  cluster.settle();
  ASSERT_THAT(cluster.api.evicted, ElementsAre("b4"));
  // The victim is gone, but the one that takes its place is late: nobody else may have the card.
  cluster.delete_pod("b4");
  cluster.fault = [](const Write& write, uint64_t) {
    return write.kind == WriteKind::kCreateClaim ? Fault::kLostRequest : Fault::kNone;
  };
  cluster.settle();
  EXPECT_TRUE(cluster.gated("b5"));
  cluster.fault = nullptr;
  cluster.run(Duration::seconds(60));
  EXPECT_EQ(cluster.node_of("a1"), "n1");
  EXPECT_TRUE(cluster.gated("b5"));
}

// Room is made for all of them at once, card by card, on one node.
TEST_F(ReconcilerQueuesTest, SeveralPlansAtATimeForOneNode) {
  cluster.add_node("n1", 4);
  cluster.api.put_queue("a", leaf({quota("guaranteed", 4)}));
  cluster.api.put_queue("b", leaf({}));
  start();
  for (const char* name : {"b1", "b2", "b3", "b4", "b5"}) {
    submit(name, "b");
    cluster.run();
  }
  for (const char* name : {"a1", "a2", "a3", "a4"}) submit(name, "a");
  cluster.settle();
  EXPECT_THAT(cluster.api.evicted, ::testing::UnorderedElementsAre("b1", "b2", "b3", "b4"));
  for (const char* name : {"a1", "a2", "a3", "a4"}) EXPECT_EQ(reason(name), "Evicting") << name;
  submit("a5", "a");
  cluster.run(Duration::seconds(60));
  for (const char* name : {"a1", "a2", "a3", "a4"}) EXPECT_EQ(cluster.node_of(name), "n1") << name;
  EXPECT_EQ(cluster.api.evicted.size(), 4U);
  for (const char* name : {"a5", "b5"}) EXPECT_TRUE(cluster.gated(name)) << name;
  EXPECT_EQ(cluster.controller->take_stats().plans.count("overtaken"), 0U);
}

TEST_F(ReconcilerQueuesTest, NobodyGoesForWhatFitsBesideAnotherInTheSameRoom) {
  cluster.add_node("n1", 4);
  cluster.add_node("n2", 1);
  cluster.api.put_queue("a", leaf({quota("guaranteed", 5)}));
  cluster.api.put_queue("b", leaf({}));
  start();
  submit("wide", "b", cards(4));
  cluster.run();
  submit("narrow", "b");
  cluster.run();
  ASSERT_EQ(cluster.node_of("narrow"), "n2");
  submit("a1", "a", cards(3));
  submit("a2", "a");
  cluster.settle();
  EXPECT_THAT(cluster.api.evicted, ElementsAre("wide"));
  cluster.run(Duration::seconds(60));
  EXPECT_EQ(cluster.node_of("a1"), "n1");
  EXPECT_EQ(cluster.node_of("a2"), "n1");
  EXPECT_EQ(cluster.node_of("narrow"), "n2");
}

TEST_F(ReconcilerQueuesTest, NoTwoCountOnTheSameCardOfThoseThatLeave) {
  cluster.add_node("n1", 4);
  cluster.api.put_queue("a", leaf({quota("guaranteed", 4)}));
  cluster.api.put_queue("b", leaf({}));
  start();
  for (const char* name : {"b1", "b2"}) {
    submit(name, "b", cards(2));
    cluster.run();
  }
  for (const char* name : {"a1", "a2", "a3"}) submit(name, "a");
  cluster.settle();
  EXPECT_THAT(cluster.api.evicted, ElementsAre("b2", "b1")) << "for a1 with a2, and for a3";
  cluster.run(Duration::seconds(5));
  for (const char* name : {"a1", "a2", "a3"}) EXPECT_EQ(cluster.node_of(name), "n1") << name;
}

TEST_F(ReconcilerQueuesTest, ADisruptionBudgetLeadsToAnotherVictim) {
  borrow();
  cluster.api.budgets.insert("b4");
  submit("a1", "a");
  cluster.run(Duration::seconds(5));
  EXPECT_THAT(cluster.api.evicted, ElementsAre("b3"));
  EXPECT_EQ(cluster.node_of("a1"), "n1");
  EXPECT_TRUE(exists("b4"));
  const ReconcilerStats stats = cluster.controller->take_stats();
  using Counts = std::map<std::string, uint64_t>;
  EXPECT_EQ(stats.evictions_refused, (Counts{{"b", 1}}));
  EXPECT_EQ(stats.plans, (Counts{{"begun", 2}, {"refused", 1}, {"made_room", 1}}));
  EXPECT_EQ(stats.evicted, (std::map<std::pair<std::string, std::string>, uint64_t>{{{"b", "reclaim"}, 1}}));
}

TEST_F(ReconcilerQueuesTest, TheTimeUntilAdmissionIsCountedByQueueAndOnce) {
  cluster.add_node("n1", 1);
  cluster.api.put_queue("a", leaf({}));
  start();
  submit("p1", "a");
  cluster.run();
  submit("p2", "a");
  cluster.run();
  cluster.clock.advance(Duration::seconds(100));
  cluster.finish_pod("p1");
  cluster.run();
  ASSERT_EQ(cluster.node_of("p2"), "n1");
  const ReconcilerStats stats = cluster.controller->take_stats();
  ASSERT_EQ(stats.waits.size(), 2U);
  EXPECT_EQ(stats.waits[0].nanos, 0);
  EXPECT_EQ(stats.waits[1].queue, "a");
  EXPECT_EQ(stats.waits[1].nanos, 100'000'000'000);
  EXPECT_TRUE(cluster.controller->take_stats().waits.empty());
}

TEST_F(ReconcilerQueuesTest, WhenBudgetsProtectAllItWaitsAndTriesAgainLater) {
  borrow();
  cluster.api.budgets = {"b3", "b4"};
  submit("a1", "a");
  cluster.run(Duration::seconds(5));
  EXPECT_THAT(cluster.api.evicted, IsEmpty());
  EXPECT_TRUE(cluster.gated("a1"));
  cluster.api.budgets.clear();
  cluster.run(Duration::seconds(90));
  EXPECT_EQ(cluster.node_of("a1"), "n1");
  EXPECT_EQ(cluster.api.evicted.size(), 1U);
}

TEST_F(ReconcilerQueuesTest, APreemptorThatGoesAwayLeavesItsVictimsAlone) {
  borrow();
  cluster.fault = [](const Write& write, uint64_t) {
    return write.kind == WriteKind::kEvictPod ? Fault::kLostRequest : Fault::kNone;
  };
  submit("a1", "a");
  cluster.settle();
  cluster.delete_pod("a1");
  cluster.settle();
  cluster.fault = nullptr;
  cluster.run(Duration::seconds(120));
  EXPECT_THAT(cluster.api.evicted, IsEmpty());
  EXPECT_EQ(cluster.node_of("b4"), "n1");
}

TEST_F(ReconcilerQueuesTest, PodsWithoutDevicesGiveWayToHigherPriority) {
  cluster.add_node("n1", 1, 81920, "4");
  cluster.api.put_queue("a", leaf({quota("guaranteed", 1)}));
  put_plain_pod();
  start();
  submit("low", "a", Json{{"nvidia.com/gpu", "1"}, {"cpu", "2"}});
  cluster.run();
  EXPECT_THAT(cluster.api.evicted, IsEmpty());
  cluster.delete_pod("low");
  submit("high", "a", Json{{"nvidia.com/gpu", "1"}, {"cpu", "2"}}, {{"priority", 10}});
  cluster.run(Duration::seconds(5));
  EXPECT_THAT(cluster.api.evicted, ElementsAre("plain"));
  EXPECT_EQ(cluster.node_of("high"), "n1");
}

TEST_F(ReconcilerQueuesTest, OneThatNeverPreemptsEvictsNobodyOfItsQueueNorOutsideOfQueues) {
  cluster.add_node("n1", 2, 81920, "4");
  cluster.api.put_queue("a", leaf({quota("guaranteed", 2)}));
  put_plain_pod();
  start();
  submit("low", "a", cards(2));
  cluster.run();
  ASSERT_EQ(cluster.node_of("low"), "n1");
  submit("meek", "a", kCard, {{"priority", 10}, {"preemptionPolicy", "Never"}});
  submit("hungry", "a", Json{{"nvidia.com/gpu", "1"}, {"cpu", "2"}}, {{"priority", 10}, {"preemptionPolicy", "Never"}});
  cluster.run(Duration::seconds(60));
  EXPECT_THAT(cluster.api.evicted, IsEmpty());
  EXPECT_THAT(message("meek"), HasSubstr("number 1 in queue a")) << "it stands by its priority";
  submit("high", "a", kCard, {{"priority", 5}});
  cluster.run(Duration::seconds(60));
  EXPECT_THAT(cluster.api.evicted, ElementsAre("low"));
  const auto evicted = cluster.controller->take_stats().evicted;
  EXPECT_EQ(evicted, (std::map<std::pair<std::string, std::string>, uint64_t>{{{"a", "priority"}, 1}}));
}

TEST_F(ReconcilerQueuesTest, OneThatNeverPreemptsStillGetsItsGuaranteeBack) {
  borrow();
  submit("a1", "a", kCard, {{"priority", -5}, {"preemptionPolicy", "Never"}});
  cluster.run(Duration::seconds(5));
  EXPECT_THAT(cluster.api.evicted, ElementsAre("b4"));
  EXPECT_EQ(cluster.node_of("a1"), "n1");
}

TEST_F(ReconcilerQueuesTest, ABadTreeIsToldAndTheLastGoodOneStays) {
  cluster.add_node("n1", 4);
  cluster.api.put_queue("top", {{"quotas", Json::array({quota("guaranteed", 2)})}});
  Json a = leaf({quota("limit", 1)});
  a["parent"] = "top";
  cluster.api.put_queue("a", a);
  start();
  cluster.run(Duration::seconds(5));
  EXPECT_EQ(in_force("a")["status"], "True");
  Json bad = leaf({quota("guaranteed", 3)});
  bad["parent"] = "top";
  cluster.api.put_queue("z", bad);
  cluster.run(Duration::seconds(5));
  EXPECT_EQ(in_force("a")["status"], "True");
  EXPECT_EQ(in_force("z")["status"], "False");
  EXPECT_THAT(in_force("z")["message"].get<std::string>(),
              HasSubstr("spec.quotas[0].guaranteed: is 3 devices, and queue top is guaranteed 2 devices"));
  Json lost = a;
  lost["parent"] = "nowhere";
  lost["quotas"][0]["limit"] = 4;
  cluster.api.put_queue("a", lost);
  cluster.run(Duration::seconds(5));
  EXPECT_THAT(in_force("a")["message"].get<std::string>(), HasSubstr("spec.parent: there is no queue nowhere"));
  for (const bool again : {false, true}) {  // a restart knows the last good tree from the status
    if (again) start();
    const std::string base = again ? "q" : "p";
    submit(base + "1", "a");
    submit(base + "2", "a");
    cluster.run(Duration::seconds(5));
    EXPECT_TRUE(cluster.gated(base + "2")) << "the limit of 1 holds";
  }
}

TEST_F(ReconcilerQueuesTest, AQueueThatIsNotForThePodIsRefusedByName) {
  cluster.add_node("n1", 1);
  cluster.api.put_queue("a", {{"namespaces", Json::array({"other"})}});
  start();
  submit("p", "a");
  submit("q", "b");
  cluster.run(Duration::seconds(5));
  EXPECT_EQ(reason("p"), "Queue");
  EXPECT_THAT(message("p"), HasSubstr("metadata.labels[heddle.dev/queue]: queue a takes no work of namespace default"));
  EXPECT_THAT(message("q"), HasSubstr("there is no queue b: leave the label out"));
  cluster.api.put_queue("a", leaf({}));
  cluster.run(Duration::seconds(5));
  EXPECT_EQ(cluster.node_of("p"), "n1");
}

TEST_F(ReconcilerQueuesTest, WithoutQueuesAgainItIsAsBefore) {
  cluster.add_node("n1", 2);
  cluster.api.put_queue("a", leaf({quota("limit", 1)}));
  start();
  submit("p1", "a");
  submit("p2", "a");
  cluster.run();
  EXPECT_TRUE(cluster.gated("p2"));
  cluster.api.delete_queue("a");
  cluster.run();
  EXPECT_EQ(cluster.node_of("p2"), "n1");
}

TEST_F(ReconcilerQueuesTest, WhatRunsIsTakenOverAfterARestartInTheOrderOfItsStart) {
  borrow();
  start();
  submit("a1", "a");
  cluster.run(Duration::seconds(5));
  EXPECT_THAT(cluster.api.evicted, ElementsAre("b4")) << "b1 and b2 started first: they are within the guarantee";
  EXPECT_EQ(cluster.node_of("a1"), "n1");
}

TEST_F(ReconcilerQueuesTest, AGuaranteedBoxIsNotBrokenBySingleCards) {
  cluster.add_node("n1", 4);
  cluster.add_node("n2", 4);
  cluster.add_node("n3", 3);
  cluster.api.put_queue("box", leaf({Json{{"counts", "Boxes"}, {"boxDevices", 4}, {"guaranteed", 1}}}));
  cluster.api.put_queue("single", leaf({}));
  start();
  for (int i = 0; i < 9; ++i) {
    submit("s" + std::to_string(i), "single");
    cluster.run();
  }
  cluster.run(Duration::seconds(20));
  std::map<std::string, int> on;
  for (int i = 0; i < 9; ++i) ++on[cluster.node_of("s" + std::to_string(i))];
  EXPECT_EQ(on["n3"], 3);
  EXPECT_EQ(on["n1"] + on["n2"], 4) << "one of them stays whole";
  EXPECT_EQ(std::max(on["n1"], on["n2"]), 4);
  EXPECT_EQ(on[""], 2);
  EXPECT_THAT(message("s8"), HasSubstr("kept whole for boxes that queues are guaranteed"));
  submit("b", "box", cards(4));
  cluster.run();
  EXPECT_NE(cluster.node_of("b"), "");
  EXPECT_THAT(cluster.api.evicted, IsEmpty());
}

TEST_F(ReconcilerQueuesTest, KilledAtEveryWriteOfAReclaimItEndsWithOneVictim) {
  for (const Fault fault : {Fault::kCrashBefore, Fault::kCrashAfter, Fault::kLostAnswer, Fault::kLostRequest,
                            Fault::kConflict, Fault::kUnavailable}) {
    const auto act = [](FakeCluster& one) {
      one.create_queued_pod("a1", "a", kCard);
      one.run(Duration::seconds(120));
    };
    const auto expect = [](const FakeCluster& one) {
      EXPECT_EQ(one.node_of("a1"), "n1");
      EXPECT_THAT(one.api.evicted, ElementsAre("b4"));
      for (const char* name : {"b1", "b2", "b3"}) EXPECT_EQ(one.node_of(name), "n1");
    };
    live_with_a_fault_at_every_write(fault, {borrow_in, act, expect}, 5);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace heddle::controller::testing
