// Gangs in queues: asked for, counted, taken back and replaced as one, whatever happens between two writes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "controller/cluster_test.h"

namespace heddle::controller::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

const Json kCard{{"nvidia.com/gpu", "1"}};

Json leaf(const Json& quota) {
  return {{"namespaces", Json::array({"default"})}, {"quotas", Json::array({quota})}};
}

// Later ones are younger. Members of gang "g" are g0, g1, ...
void submit_gang(FakeCluster& cluster, const std::string& gang, int size, const std::string& queue,
                 const Json& marks = Json::object(), const Json& spec = Json::object()) {
  cluster.clock.advance(Duration::seconds(1));
  for (int i = 0; i < size; ++i) cluster.create_queued_member(gang + std::to_string(i), gang, size, queue, marks, spec);
}

void submit(FakeCluster& cluster, const std::string& name, const std::string& queue,
            const Json& spec = Json::object()) {
  cluster.clock.advance(Duration::seconds(1));
  cluster.create_queued_pod(name, queue, kCard, spec);
}

bool exists(const FakeCluster& cluster, const std::string& pod) {
  return cluster.api.pods().contains("default/" + pod);
}

int bound(const FakeCluster& cluster, const std::string& gang, int size) {
  int count = 0;
  for (int i = 0; i < size; ++i) {
    const std::string name = gang + std::to_string(i);
    count += exists(cluster, name) && !cluster.node_of(name).empty() ? 1 : 0;
  }
  return count;
}

int allocated(const FakeCluster& cluster) {
  int count = 0;
  for (const auto& [key, claim] : cluster.api.claims()) count += claim["status"].contains("allocation") ? 1 : 0;
  return count;
}

// Two queues of two guaranteed cards on two nodes of two: all of them used by b, as a gang of two that started first,
// and one of two that borrows.
void borrow_as_gangs(FakeCluster& cluster) {
  for (const char* node : {"n1", "n2"}) cluster.add_node(node, 2);
  for (const char* queue : {"a", "b"}) cluster.api.put_queue(queue, leaf({{"guaranteed", 2}}));
  cluster.start_controller();
  cluster.run();
  for (const char* gang : {"own", "lent"}) {
    submit_gang(cluster, gang, 2, "b");
    cluster.run();
  }
}

class GangQueuesTest : public ClusterTest {
 protected:
  // One after the other, each with a card.
  void submit_four() {
    for (const char* name : {"p1", "p2", "p3", "p4"}) {
      submit(cluster, name, "a");
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
  [[nodiscard]] Json status(const std::string& queue) {
    cluster.run(Duration::seconds(5));
    return cluster.api.queues.at(queue)["status"];
  }
};

TEST_F(GangQueuesTest, ASumOverTheLimitStartsNothingAndSaysSo) {
  cluster.add_node("n1", 8);
  cluster.api.put_queue("a", leaf({{"limit", 3}}));
  start();
  submit_gang(cluster, "g", 4, "a");
  cluster.run(Duration::seconds(5));
  EXPECT_EQ(allocated(cluster), 0);
  for (const char* pod : {"g0", "g3"}) {
    EXPECT_EQ(reason(pod), "Limit");
    EXPECT_THAT(message(pod), HasSubstr("the limit is 3 devices, and 4 devices are asked for"));
    EXPECT_THAT(message(pod), HasSubstr("number 1 in queue a"));
  }
  EXPECT_EQ(status("a")["waiting"], 1) << "four pods are one unit";
  submit(cluster, "p", "a");
  cluster.run();
  EXPECT_EQ(cluster.node_of("p"), "n1");
  Json wider = leaf({{"limit", 5}});
  cluster.api.put_queue("a", wider);
  cluster.run(Duration::seconds(5));
  EXPECT_EQ(bound(cluster, "g", 4), 4);
  EXPECT_EQ(status("a")["running"], 2);
  EXPECT_EQ(status("a")["usage"][0]["used"], "5");
}

TEST_F(GangQueuesTest, OfTwoGangsForOneQuotaOneIsWholeAndTheOtherWaits) {
  cluster.add_node("n1", 8);
  cluster.api.put_queue("a", leaf({{"limit", 4}}));
  start();
  submit_gang(cluster, "g", 3, "a");
  submit_gang(cluster, "h", 3, "a");
  cluster.run(Duration::seconds(5));
  EXPECT_EQ(bound(cluster, "g", 3), 3);
  EXPECT_EQ(bound(cluster, "h", 3), 0);
  EXPECT_EQ(allocated(cluster), 3);
  EXPECT_THAT(message("h1"), HasSubstr("fits when 2 devices of it end"));
  for (const char* pod : {"g0", "g1", "g2"}) cluster.finish_pod(pod);
  cluster.run(Duration::seconds(5));
  EXPECT_EQ(bound(cluster, "h", 3), 3);
}

TEST_F(GangQueuesTest, AGangThatIsIncompleteStandsInNoQueue) {
  cluster.add_node("n1", 8);
  cluster.api.put_queue("a", leaf({{"limit", 4}}));
  start();
  for (const char* name : {"g0", "g1"}) cluster.create_queued_member(name, "g", 3, "a");
  cluster.run(Duration::seconds(5));
  EXPECT_EQ(message("g0"), "waits for members of gang g: 2 of 3 are there");
  EXPECT_EQ(status("a")["waiting"], 0);
  cluster.create_queued_member("g2", "g", 3, "a");
  cluster.run();
  EXPECT_EQ(bound(cluster, "g", 3), 3);
}

TEST_F(GangQueuesTest, AnElasticGangAsksForMoreOneByOne) {
  cluster.add_node("n1", 8);
  cluster.api.put_queue("a", leaf({{"limit", 3}}));
  start();
  submit_gang(cluster, "g", 4, "a", {{"heddle.dev/gang-minimum", "2"}});
  cluster.run(Duration::seconds(5));
  EXPECT_EQ(bound(cluster, "g", 4), 3);
  EXPECT_EQ(reason("g3"), "Limit");
  EXPECT_EQ(status("a")["usage"][0]["used"], "3");
  start();  // what runs is taken over as it was
  EXPECT_EQ(status("a")["usage"][0]["used"], "3");
  cluster.api.put_queue("a", leaf({{"limit", 4}}));
  cluster.run(Duration::seconds(5));
  EXPECT_EQ(bound(cluster, "g", 4), 4);
}

// With a minimum of one nobody waits for another, and what is within the guarantee is no growth.
TEST_F(GangQueuesTest, MembersThatDoNotWaitForEachOtherAreUnitsEach) {
  cluster.add_node("n1", 8);
  cluster.api.put_queue("a", leaf({{"guaranteed", 2}, {"limit", 3}}));
  start();
  submit_gang(cluster, "g", 4, "a", {{"heddle.dev/gang-minimum", "1"}});
  cluster.run(Duration::seconds(5));
  EXPECT_EQ(bound(cluster, "g", 4), 3);
  EXPECT_EQ(status("a")["running"], 3);
  EXPECT_EQ(status("a")["waiting"], 1);
  EXPECT_EQ(status("a")["usage"][0]["entitled"], "2");
}

TEST_F(GangQueuesTest, AGangIsTakenBackAsAWhole) {
  borrow_as_gangs(cluster);
  ASSERT_EQ(bound(cluster, "lent", 2), 2);
  submit(cluster, "a1", "a");
  cluster.settle();
  EXPECT_THAT(cluster.api.evicted, UnorderedElementsAre("lent0", "lent1"));
  EXPECT_THAT(message("a1"), HasSubstr("waits for gang default/lent to end"));
  cluster.run(Duration::seconds(60));
  EXPECT_NE(cluster.node_of("a1"), "");
  EXPECT_EQ(bound(cluster, "own", 2), 2);
  EXPECT_EQ(std::count_if(cluster.api.events.begin(), cluster.api.events.end(),
                          [](const Json& event) { return event["reason"] == "HeddleEvicted"; }),
            2);
}

TEST_F(GangQueuesTest, AGangWithOneMemberThatNeverPreemptsPreemptsNobody) {
  for (const char* node : {"n1", "n2"}) cluster.add_node(node, 1);
  cluster.api.put_queue("a", leaf({{"guaranteed", 2}}));
  start();
  submit(cluster, "low", "a");
  cluster.run();
  const Json high{{"priority", 9}};
  cluster.clock.advance(Duration::seconds(1));
  cluster.create_queued_member("g0", "g", 2, "a", Json::object(), high);
  cluster.create_queued_member("g1", "g", 2, "a", Json::object(), {{"priority", 9}, {"preemptionPolicy", "Never"}});
  cluster.run(Duration::seconds(60));
  EXPECT_THAT(cluster.api.evicted, IsEmpty());
  EXPECT_EQ(bound(cluster, "g", 2), 0);
  // The member that says so is replaced by one that does not.
  cluster.delete_pod("g1");
  cluster.create_queued_member("g1", "g", 2, "a", Json::object(), high);
  cluster.run(Duration::seconds(60));
  EXPECT_THAT(cluster.api.evicted, ElementsAre("low"));
  EXPECT_EQ(bound(cluster, "g", 2), 2);
}

// Its controller makes the pods anew while the old ones still end: the new ones wait as one, behind.
TEST_F(GangQueuesTest, AnEvictedGangThatIsMadeAnewWaitsAsOne) {
  borrow_as_gangs(cluster);
  submit(cluster, "a1", "a");
  cluster.settle();
  cluster.delete_pod("lent0");
  cluster.api.collect_garbage();
  submit_gang(cluster, "lent", 1, "b", {{"heddle.dev/gang-size", "2"}});
  cluster.settle();
  EXPECT_TRUE(cluster.gated("a1")) << "the room is not made yet";
  EXPECT_TRUE(cluster.gated("lent0"));
  cluster.run(Duration::seconds(30));
  EXPECT_NE(cluster.node_of("a1"), "");
  cluster.create_queued_member("lent1", "lent", 2, "b");
  cluster.run(Duration::seconds(30));
  EXPECT_EQ(bound(cluster, "lent", 2), 0);
  EXPECT_EQ(status("b")["waiting"], 1);
  cluster.finish_pod("a1");
  cluster.run(Duration::seconds(30));
  EXPECT_EQ(bound(cluster, "lent", 2), 2);
}

// The first member goes before the budget of the second is known: what takes its place is not asked again and again.
TEST_F(GangQueuesTest, ABudgetOfOneMemberKeepsTheGang) {
  borrow_as_gangs(cluster);
  cluster.api.budgets.insert("lent1");
  submit(cluster, "a1", "a");
  cluster.run(Duration::seconds(5));
  EXPECT_THAT(cluster.api.evicted, ElementsAre("lent0"));
  EXPECT_TRUE(cluster.gated("a1"));
  EXPECT_TRUE(exists(cluster, "lent1"));
  EXPECT_THAT(message("a1"), HasSubstr("queue a"));
  cluster.create_queued_member("lent0", "lent", 2, "b");
  cluster.run(Duration::seconds(120));
  EXPECT_EQ(bound(cluster, "lent", 2), 2);
  EXPECT_THAT(cluster.api.evicted, ElementsAre("lent0"));
  EXPECT_TRUE(cluster.gated("a1"));
  cluster.api.budgets.clear();
  cluster.run(Duration::seconds(120));
  EXPECT_THAT(cluster.api.evicted, ElementsAre("lent0", "lent1", "lent0"));
  EXPECT_NE(cluster.node_of("a1"), "");
}

TEST_F(GangQueuesTest, AReplacementTakesThePlaceOfTheMemberThatDied) {
  cluster.add_node("n1", 4);
  cluster.api.put_queue("a", leaf({{"limit", 3}}));
  start();
  submit_gang(cluster, "g", 3, "a");
  cluster.run(Duration::seconds(5));
  ASSERT_EQ(bound(cluster, "g", 3), 3);
  submit(cluster, "p", "a");
  cluster.run(Duration::seconds(5));
  cluster.delete_pod("g1");
  cluster.api.collect_garbage();
  cluster.run(Duration::seconds(20));
  EXPECT_TRUE(cluster.gated("p")) << "the quota of the one that died is kept for the next";
  cluster.create_queued_member("g1", "g", 3, "a");
  cluster.run(Duration::seconds(5));
  EXPECT_EQ(bound(cluster, "g", 3), 3);
  EXPECT_TRUE(cluster.gated("p"));
  EXPECT_EQ(status("a")["running"], 1);
  cluster.delete_pod("g1");
  cluster.api.collect_garbage();
  cluster.run(Duration::seconds(400));
  EXPECT_EQ(cluster.node_of("p"), "n1") << "but not for ever";
}

// Each member alone would break one box of the two that may be broken, and all of them together three.
TEST_F(GangQueuesTest, MembersTogetherBreakNoMoreBoxesThanTheyMay) {
  for (const char* node : {"n1", "n2", "n3"}) cluster.add_node(node, 2);
  cluster.add_node("n4", 1);
  cluster.api.put_queue("box", leaf({{"counts", "Boxes"}, {"boxDevices", 2}, {"guaranteed", 1}}));
  cluster.api.put_queue("single", leaf({{"counts", "Devices"}, {"guaranteed", 0}}));
  start();
  submit_gang(cluster, "g", 6, "single");
  cluster.run(Duration::seconds(5));
  EXPECT_EQ(allocated(cluster), 0);
  EXPECT_EQ(reason("g0"), "Boxes");
  EXPECT_THAT(message("g0"), HasSubstr("would break 3 boxes of 2 devices where 2 may be"));
  submit_gang(cluster, "h", 5, "single");
  cluster.run(Duration::seconds(5));
  EXPECT_EQ(bound(cluster, "h", 5), 5);
  cluster.create_queued_pod("b", "box", Json{{"nvidia.com/gpu", "2"}});
  cluster.run(Duration::seconds(5));
  EXPECT_NE(cluster.node_of("b"), "");
  EXPECT_THAT(cluster.api.evicted, IsEmpty());
}

const Json kInRackOne{{"heddle.dev/topology-required", "rack"}};

// Two racks of four cards, of which one is guaranteed to queue "box".
TEST_F(GangQueuesTest, ABoxOfARackIsKeptAndTakenAsAUnit) {
  for (const char* node : {"n1", "n2", "n3", "n4"})
    cluster.add_node(node, 2, 81920, "64", "", node < std::string("n3") ? "r1" : "r2");
  cluster.api.put_queue(
      "box", leaf({{"counts", "Boxes"}, {"boxDevices", 4}, {"boxLevel", "rack"}, {"guaranteed", 1}, {"limit", 1}}));
  cluster.api.put_queue("single", leaf({{"counts", "Boxes"}, {"boxDevices", 2}, {"limit", 4}}));
  start();
  for (int i = 0; i < 5; ++i) submit(cluster, "p" + std::to_string(i), "single");
  cluster.run(Duration::seconds(5));
  std::set<std::string> racks;
  int placed = 0;
  for (int i = 0; i < 5; ++i) {
    const std::string node = cluster.node_of("p" + std::to_string(i));
    if (node.empty()) continue;
    ++placed;
    racks.insert(node < std::string("n3") ? "r1" : "r2");
  }
  EXPECT_EQ(placed, 4) << "the fifth would break the rack that is left";
  EXPECT_EQ(racks.size(), 1U);
  submit_gang(cluster, "g", 4, "box", kInRackOne);
  submit_gang(cluster, "h", 4, "box", kInRackOne);
  cluster.run(Duration::seconds(5));
  EXPECT_EQ(bound(cluster, "g", 4), 4);
  EXPECT_THAT(cluster.api.evicted, IsEmpty());
  EXPECT_EQ(reason("h0"), "Limit");
  EXPECT_THAT(message("h0"), HasSubstr("the limit is 1 boxes of 4 devices of one rack"));
  EXPECT_EQ(status("box")["usage"][0]["name"], "boxes of 4 devices of one rack");
  EXPECT_EQ(status("box")["usage"][0]["used"], "1");
}

// Gang g of queue a has both cards of rack r1; then one member dies, and "lent" of queue b borrows its card.
void lose_a_member(FakeCluster& cluster) {
  cluster.add_node("n1", 2, 81920, "64", "", "r1");
  cluster.add_node("n2", 2, 81920, "64", "", "r2");
  for (const char* queue : {"a", "b"})
    cluster.api.put_queue(queue, leaf({{"guaranteed", queue == std::string("a") ? 3 : 0}}));
  cluster.start_controller();
  cluster.run();
  submit_gang(cluster, "g", 2, "a", kInRackOne);
  cluster.run(Duration::seconds(5));
  cluster.delete_pod("g1");
  cluster.api.collect_garbage();
  submit(cluster, "lent", "b", Json{{"nodeSelector", {{"kubernetes.io/hostname", "n1"}}}});
  cluster.run(Duration::seconds(5));
}

TEST_F(GangQueuesTest, APodInThePlaceOfADeadMemberTakesBackWhatIsBorrowed) {
  lose_a_member(cluster);
  const std::string rack = cluster.node_of("g0");
  ASSERT_NE(rack, "");
  ASSERT_EQ(cluster.node_of("lent"), "n1");
  cluster.create_queued_member("g1", "g", 2, "a", kInRackOne);
  cluster.run(Duration::seconds(5));
  EXPECT_THAT(cluster.api.evicted, ElementsAre("lent"));
  EXPECT_EQ(cluster.node_of("g1"), "n1");
  EXPECT_EQ(status("a")["running"], 1);
}

TEST_F(GangQueuesTest, APodInThePlaceOfADeadMemberLeavesWhatABudgetProtects) {
  lose_a_member(cluster);
  cluster.api.budgets = {"lent"};
  cluster.create_queued_member("g1", "g", 2, "a", kInRackOne);
  cluster.run(Duration::seconds(5));
  EXPECT_TRUE(cluster.gated("g1"));
  EXPECT_EQ(cluster.node_of("lent"), "n1");
  EXPECT_EQ(cluster.node_of("g0"), "n1");
  cluster.finish_pod("lent");
  cluster.api.collect_garbage();
  cluster.run(Duration::seconds(60));
  EXPECT_EQ(cluster.node_of("g1"), "n1");
}

TEST_F(GangQueuesTest, KilledAtEveryWriteOfAReplacementTheGangIsWholeAgain) {
  const auto act = [](FakeCluster& one) {
    one.create_queued_member("g1", "g", 2, "a", kInRackOne);
    one.run(Duration::seconds(120));
  };
  const auto expect = [](const FakeCluster& one) {
    EXPECT_EQ(bound(one, "g", 2), 2);
    EXPECT_THAT(one.api.evicted, ElementsAre("lent"));
  };
  for (const Fault fault : {Fault::kCrashBefore, Fault::kCrashAfter, Fault::kLostAnswer, Fault::kLostRequest,
                            Fault::kConflict, Fault::kUnavailable}) {
    live_with_a_fault_at_every_write(fault, {lose_a_member, act, expect}, 4);
    if (HasFailure()) return;
  }
}

TEST_F(GangQueuesTest, AGangTakesBackSinglePodsOfSeveralNodes) {
  for (const char* node : {"n1", "n2"}) cluster.add_node(node, 2);
  for (const char* queue : {"a", "b"}) cluster.api.put_queue(queue, leaf({{"guaranteed", 2}}));
  start();
  for (const char* name : {"b1", "b2", "b3", "b4"}) {
    submit(cluster, name, "b");
    cluster.run();
  }
  const std::set<std::string> lent{cluster.node_of("b3"), cluster.node_of("b4")};
  submit_gang(cluster, "g", 2, "a");
  cluster.settle();
  EXPECT_THAT(cluster.api.evicted, UnorderedElementsAre("b3", "b4"));
  EXPECT_EQ(reason("g0"), "Evicting");
  EXPECT_THAT(message("g1"), HasSubstr("waits for default/b4, default/b3 to end on node"));
  // One of the two is free, and what comes now does not take it.
  cluster.delete_pod("b4");
  cluster.api.collect_garbage();
  submit(cluster, "b5", "b");
  cluster.settle();
  EXPECT_TRUE(cluster.gated("b5"));
  EXPECT_TRUE(cluster.gated("g0"));
  cluster.run(Duration::seconds(30));
  EXPECT_EQ(bound(cluster, "g", 2), 2);
  EXPECT_TRUE(cluster.gated("b5"));
  EXPECT_EQ(cluster.api.evicted.size(), 2U);
}

TEST_F(GangQueuesTest, AGangOfHigherPriorityPushesPodsOfItsQueueAside) {
  for (const char* node : {"n1", "n2"}) cluster.add_node(node, 2);
  cluster.api.put_queue("a", leaf({{"guaranteed", 4}}));
  start();
  submit_four();
  submit_gang(cluster, "g", 3, "a", Json::object(), {{"priority", 10}});
  cluster.run(Duration::seconds(30));
  EXPECT_EQ(bound(cluster, "g", 3), 3);
  EXPECT_THAT(cluster.api.evicted, UnorderedElementsAre("p2", "p3", "p4"));
  EXPECT_EQ(cluster.node_of("p1").empty(), false);
}

TEST_F(GangQueuesTest, NobodyGoesForAGangThatWouldNotFitAllTheSame) {
  cluster.add_node("n1", 2, 81920, "64", "", "r1");
  cluster.add_node("n2", 2, 81920, "64", "", "r2");
  cluster.api.put_queue("a", leaf({{"guaranteed", 4}}));
  start();
  submit_four();
  submit_gang(cluster, "g", 3, "a", {{"heddle.dev/topology-required", "rack"}}, {{"priority", 10}});
  cluster.run(Duration::seconds(30));
  EXPECT_THAT(cluster.api.evicted, IsEmpty());
  EXPECT_TRUE(cluster.gated("g0"));
}

TEST_F(GangQueuesTest, AGangThatFindsNoVictimsDoesNotSpeakForASmallerOneOfTheSamePods) {
  for (const char* node : {"n1", "n2"}) cluster.add_node(node, 2);
  cluster.api.put_queue("a", leaf({{"guaranteed", 4}}));
  start();
  for (const auto& [name, priority] : std::map<std::string, int>{{"p1", 20}, {"p2", 20}, {"p3", 0}, {"p4", 0}}) {
    submit(cluster, name, "a", {{"priority", priority}});
    cluster.run();
  }
  // Both at once, so that one pass looks for victims for both.
  submit_gang(cluster, "wide", 3, "a", Json::object(), {{"priority", 10}});
  submit_gang(cluster, "g", 2, "a", Json::object(), {{"priority", 10}});
  cluster.settle();
  EXPECT_THAT(cluster.api.evicted, UnorderedElementsAre("p3", "p4"));
}

TEST_F(GangQueuesTest, ABudgetLeadsAGangToOtherVictims) {
  for (const char* node : {"n1", "n2"}) cluster.add_node(node, 2);
  cluster.api.put_queue("a", leaf({{"guaranteed", 4}}));
  start();
  submit_four();
  cluster.api.budgets.insert("p4");
  submit_gang(cluster, "g", 2, "a", Json::object(), {{"priority", 10}});
  cluster.run(Duration::seconds(10));
  EXPECT_EQ(bound(cluster, "g", 2), 2);
  EXPECT_TRUE(exists(cluster, "p4"));
  EXPECT_TRUE(exists(cluster, "p1"));
}

TEST_F(GangQueuesTest, KilledAtEveryWriteAGangStartsAsOneWithinItsQuota) {
  bool forbidden = false;
  const auto prepare = [](FakeCluster& one) {
    for (const char* node : {"n1", "n2"}) one.add_node(node, 2);
    one.api.put_queue("a", leaf({{"limit", 3}}));
    submit_gang(one, "g", 3, "a");
    submit(one, "p", "a");
  };
  const auto act = [](FakeCluster& one) {
    one.start_controller();
    one.run(Duration::seconds(120));
  };
  const auto expect = [&](const FakeCluster& one) {
    // A claim that is refused takes the gang back, and the next one may go first.
    const bool first = !one.gated("p");
    EXPECT_EQ(bound(one, "g", 3), first ? 0 : 3);
    EXPECT_EQ(allocated(one), first ? 1 : 3);
    EXPECT_TRUE(!first || forbidden);
  };
  for (const Fault fault : {Fault::kCrashBefore, Fault::kCrashAfter, Fault::kLostAnswer, Fault::kLostRequest,
                            Fault::kConflict, Fault::kForbidden, Fault::kUnavailable}) {
    forbidden = fault == Fault::kForbidden;
    live_with_a_fault_at_every_write(fault, {prepare, act, expect}, forbidden ? 7 : 12);
    if (HasFailure()) return;
  }
}

TEST_F(GangQueuesTest, KilledAtEveryWriteOfAReclaimTheWholeGangGoes) {
  const auto act = [](FakeCluster& one) {
    submit(one, "a1", "a");
    one.run(Duration::seconds(120));
  };
  const auto expect = [](const FakeCluster& one) {
    EXPECT_NE(one.node_of("a1"), "");
    EXPECT_THAT(one.api.evicted, UnorderedElementsAre("lent0", "lent1"));
    EXPECT_EQ(bound(one, "own", 2), 2);
  };
  for (const Fault fault : {Fault::kCrashBefore, Fault::kCrashAfter, Fault::kLostAnswer, Fault::kLostRequest,
                            Fault::kConflict, Fault::kUnavailable}) {
    live_with_a_fault_at_every_write(fault, {borrow_as_gangs, act, expect}, 5);
    if (HasFailure()) return;
  }
}

TEST_F(GangQueuesTest, KilledAtEveryWriteOfAGangsPreemptionItStartsWhole) {
  const auto prepare = [](FakeCluster& one) {
    for (const char* node : {"n1", "n2"}) one.add_node(node, 2);
    for (const char* queue : {"a", "b"}) one.api.put_queue(queue, leaf({{"guaranteed", 2}}));
    one.start_controller();
    one.run();
    for (const char* name : {"b1", "b2", "b3", "b4"}) {
      submit(one, name, "b");
      one.run();
    }
  };
  const auto act = [](FakeCluster& one) {
    submit_gang(one, "g", 2, "a");
    one.run(Duration::seconds(120));
  };
  const auto expect = [](const FakeCluster& one) {
    EXPECT_EQ(bound(one, "g", 2), 2);
    EXPECT_THAT(one.api.evicted, UnorderedElementsAre("b3", "b4"));
  };
  for (const Fault fault : {Fault::kCrashBefore, Fault::kCrashAfter, Fault::kLostAnswer, Fault::kLostRequest,
                            Fault::kConflict, Fault::kUnavailable}) {
    live_with_a_fault_at_every_write(fault, {prepare, act, expect}, 10);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace heddle::controller::testing
