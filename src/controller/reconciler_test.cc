// The Reconciler against an API server that behaves: what it decides, writes and says.
#include "controller/reconciler.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "codec/codec.h"
#include "controller/cluster_test.h"

namespace heddle::controller::testing {
namespace {

Json share(int memory, int cores) {
  return {{"nvidia.com/gpu", "1"},
          {"nvidia.com/gpumem", std::to_string(memory)},
          {"nvidia.com/gpucores", std::to_string(cores)}};
}

const Json kCard{{"nvidia.com/gpu", "1"}};

class ReconcilerTest : public ClusterTest {
 protected:
  [[nodiscard]] int64_t count_events(const std::string& reason) const {
    const auto reasons = cluster.event_reasons();
    return std::count(reasons.begin(), reasons.end(), reason);
  }
};

TEST_F(ReconcilerTest, OneShareTakesTwoWritesForTheClaimAndTwoForThePod) {
  cluster.add_node("n1", 2);
  cluster.create_pod("p", share(3000, 30));
  start();
  EXPECT_EQ(cluster.node_of("p"), "n1");
  EXPECT_EQ(cluster.writes, 4U);
  EXPECT_EQ(cluster.api.pod("default/p")["status"]["nominatedNodeName"], "n1");
  ASSERT_EQ(cluster.api.claims().size(), 1U);
  const Json& claim = cluster.api.claims().begin()->second;
  EXPECT_EQ(claim["metadata"]["finalizers"][0], "resource.kubernetes.io/delete-protection");
  EXPECT_EQ(claim["metadata"]["ownerReferences"][0]["controller"], true);
  EXPECT_EQ(claim["metadata"]["labels"]["heddle.dev/managed"], "true");
  EXPECT_EQ(claim["status"]["reservedFor"][0]["name"], "p");
  EXPECT_TRUE(claim["status"]["allocation"].contains("allocationTimestamp"));
  EXPECT_EQ(cluster.condition("p")["status"], "True");
  EXPECT_TRUE(cluster.api.events.empty());  // only pods that waited are told that they wait no more
}

TEST_F(ReconcilerTest, WhatDoesNotFitWaitsWithTheReasonAndStartsWhenOneEnds) {
  cluster.add_node("n1", 1, 10000);
  cluster.create_pod("a", share(6000, 30));
  start();
  cluster.create_pod("b", share(6000, 30));
  cluster.run();
  EXPECT_TRUE(cluster.gated("b"));
  EXPECT_EQ(cluster.condition("b")["status"], "False");
  EXPECT_EQ(cluster.condition("b")["reason"], "Capacity");
  EXPECT_EQ(count_events("HeddleWaiting"), 1);
  EXPECT_EQ(cluster.api.claims().size(), 1U);  // nothing is made for a pod that waits
  const auto explained = cluster.controller->explain_json("default/b");
  ASSERT_TRUE(explained.has_value());
  EXPECT_EQ(Json::parse(*explained)["outcome"], "Waiting");
  cluster.finish_pod("a");
  cluster.run();
  EXPECT_EQ(cluster.node_of("b"), "n1");
  EXPECT_EQ(cluster.condition("b")["status"], "True");
  EXPECT_EQ(count_events("HeddleAllocated"), 1);
}

// Two pods whose tolerations read the same when they are strung together: the "no" to one is not said to the other.
TEST_F(ReconcilerTest, ANoToOnePodIsNotSaidToAnotherThatTolerates) {
  cluster.add_node("n1", 1);
  start();
  const Json tainted{{"metadata", {{"name", "n1"}}},
                     {"spec", {{"taints", Json::array({{{"key", "x"}, {"value", "y"}, {"effect", "NoSchedule"}}})}}},
                     {"status", {{"conditions", Json::array({{{"type", "Ready"}, {"status", "True"}}})}}}};
  cluster.controller->upsert_node(*codec::parse_node(tainted.dump()));
  const auto tolerating = [](Json toleration) { return Json{{"tolerations", Json::array({std::move(toleration)})}}; };
  cluster.create_pod("a", kCard, tolerating({{"key", "x"}, {"operator", "Equal"}, {"value", "yNoSchedule"}}));
  cluster.create_pod("b", kCard,
                     tolerating({{"key", "x"}, {"operator", "Equal"}, {"value", "y"}, {"effect", "NoSchedule"}}));
  cluster.run();
  EXPECT_TRUE(cluster.gated("a"));
  EXPECT_EQ(cluster.node_of("b"), "n1");
}

TEST_F(ReconcilerTest, MoreCardsThanAnyNodeHasIsInfeasible) {
  cluster.add_node("n1", 2);
  cluster.create_pod("p", Json{{"nvidia.com/gpu", "3"}});
  start();
  EXPECT_TRUE(cluster.gated("p"));
  EXPECT_EQ(Json::parse(*cluster.controller->explain_json("default/p"))["outcome"], "Infeasible");
  cluster.add_node("n2", 4);
  cluster.run();
  EXPECT_EQ(cluster.node_of("p"), "n2");
}

TEST_F(ReconcilerTest, ManyPodsShareCardsAndNeverBeyondThem) {
  for (int i = 0; i < 5; ++i) cluster.add_node("n" + std::to_string(i), 2, 10000);
  for (int i = 0; i < 60; ++i) cluster.create_pod("p" + std::to_string(i), share(3000, 20));
  start();
  int bound = 0;
  for (int i = 0; i < 60; ++i) bound += cluster.node_of("p" + std::to_string(i)).empty() ? 0 : 1;
  EXPECT_EQ(bound, 30);
}

TEST_F(ReconcilerTest, HigherPriorityComesFirst) {
  cluster.add_node("n1", 1);
  cluster.create_pod("low", kCard, {{"priority", 1}});
  cluster.create_pod("high", kCard, {{"priority", 100}});
  start();
  EXPECT_EQ(cluster.node_of("high"), "n1");
  EXPECT_TRUE(cluster.gated("low"));
}

TEST_F(ReconcilerTest, ANodeWithoutRoomForThePodIsNotChosen) {
  cluster.add_node("small", 1, 10000, "1");
  cluster.add_node("large", 1, 80000, "8");
  cluster.create_pod("p", Json{{"nvidia.com/gpumem", "1000"}, {"cpu", "4"}});
  start();
  EXPECT_EQ(cluster.node_of("p"), "large");
}

TEST_F(ReconcilerTest, TheSchedulerGivesOneClaimBackAndThePodMovesWhole) {
  cluster.add_node("n1", 2, 10000);
  cluster.create_pod("p", std::vector<Json>{share(9000, 10), share(9000, 10)});
  cluster.full.insert("n1");
  start();
  EXPECT_EQ(cluster.node_of("p"), "");
  cluster.add_node("n2", 2, 10000);
  cluster.run(Duration::seconds(60));
  EXPECT_EQ(cluster.node_of("p"), "n2");
  for (const auto& [key, claim] : cluster.api.claims())
    EXPECT_NE(claim.dump().find("n2/nvidia"), std::string::npos) << key;
  EXPECT_GE(count_events("HeddleRepair"), 1);
}

TEST_F(ReconcilerTest, ARepairIsToldWhileAnEarlierConditionIsStillBeingWritten) {
  cluster.add_node("n1", 1, 10000);
  cluster.create_pod("first", share(9000, 10));
  start();
  cluster.fault = [](const Write& write, uint64_t) {
    return write.kind == WriteKind::kCondition ? Fault::kLateAnswer : Fault::kNone;
  };
  cluster.create_pod("p", share(9000, 10));
  cluster.run();
  ASSERT_TRUE(cluster.gated("p"));
  cluster.full.insert("n1");
  cluster.delete_pod("first");
  cluster.run();
  EXPECT_EQ(cluster.node_of("p"), "");
  cluster.add_node("n2", 1, 10000);
  cluster.run(Duration::seconds(60));
  EXPECT_EQ(cluster.node_of("p"), "n2");
  const auto told = count_events("HeddleRepair");
  EXPECT_GE(told, 1);
  cluster.fault = {};
  cluster.deliver_late();
  cluster.run(Duration::seconds(60));
  EXPECT_EQ(count_events("HeddleRepair"), told);
  EXPECT_EQ(cluster.condition("p")["status"], "True");
}

TEST_F(ReconcilerTest, ANominationThatDidNotHoldIsTakenBack) {
  cluster.add_node("n1", 1);
  cluster.create_pod("p", kCard);
  cluster.full.insert("n1");
  cluster.start_controller();
  cluster.settle();
  EXPECT_EQ(cluster.api.pod("default/p")["status"]["nominatedNodeName"], "n1");
  ASSERT_TRUE(cluster.schedule());
  cluster.settle();
  EXPECT_FALSE(cluster.api.pod("default/p")["status"].contains("nominatedNodeName"));
}

TEST_F(ReconcilerTest, TheGateGoesAlsoWhenTheNominationFails) {
  cluster.add_node("n1", 1);
  cluster.create_pod("p", kCard);
  cluster.fault = [](const Write& write, uint64_t) {
    return write.kind == WriteKind::kNominatePod ? Fault::kUnavailable : Fault::kNone;
  };
  start();
  EXPECT_EQ(cluster.node_of("p"), "n1");
  EXPECT_EQ(cluster.condition("p")["status"], "True");
}

TEST_F(ReconcilerTest, ALateConditionDoesNotOverwriteANewerOne) {
  cluster.add_node("n1", 1);
  cluster.create_pod("a", kCard);
  start();
  cluster.create_pod("b", kCard);
  (void)cluster.api.take_changes();
  cluster.controller->upsert_pod(*codec::parse_pod(cluster.api.pod("default/b").dump()));
  const std::vector<Write> told = cluster.controller->run();  // that it waits; on its way for long
  ASSERT_FALSE(told.empty());
  cluster.finish_pod("a");
  cluster.settle();
  EXPECT_FALSE(cluster.gated("b"));
  for (const Write& write : told) cluster.controller->finish(write.id, cluster.api.execute(write.request));
  cluster.run();
  EXPECT_EQ(cluster.node_of("b"), "n1");
  EXPECT_EQ(cluster.condition("b")["status"], "True");
}

TEST_F(ReconcilerTest, ANodeThatFailedIsTriedAgainAfterAPause) {
  cluster.add_node("n1", 1);
  cluster.create_pod("p", kCard);
  cluster.full.insert("n1");
  cluster.start_controller();
  cluster.settle();
  cluster.schedule();
  cluster.settle();
  EXPECT_EQ(cluster.node_of("p"), "");
  cluster.full.clear();
  cluster.run(Duration::seconds(120));
  EXPECT_EQ(cluster.node_of("p"), "n1");
}

TEST_F(ReconcilerTest, RepairEndsWhenNoNodeWillHaveThePod) {
  for (int i = 0; i < 8; ++i) {
    cluster.add_node("n" + std::to_string(i), 1);
    cluster.full.insert("n" + std::to_string(i));
  }
  cluster.create_pod("p", kCard);
  cluster.start_controller();
  for (int i = 0; i < 30; ++i) {
    cluster.settle();
    if (!cluster.schedule()) break;
  }
  EXPECT_FALSE(cluster.schedule());  // it pauses instead of going round
  EXPECT_EQ(cluster.condition("p")["status"], "False");
}

TEST_F(ReconcilerTest, ANodeThatGoesBeforeTheBindingIsLeft) {
  cluster.add_node("n1", 1);
  cluster.create_pod("p", kCard);
  cluster.start_controller();
  cluster.settle();
  EXPECT_FALSE(cluster.gated("p"));
  cluster.add_node("n2", 1);
  cluster.remove_node("n1");
  cluster.run();
  EXPECT_EQ(cluster.node_of("p"), "n2");
}

TEST_F(ReconcilerTest, ADeviceThatVanishesBeforeTheBindingIsLeftAfterAGrace) {
  cluster.add_node("n1", 1);
  cluster.create_pod("p", kCard);
  cluster.start_controller();
  cluster.settle();
  cluster.add_node("n2", 1);
  cluster.remove_slices("n1");
  cluster.settle();
  EXPECT_NE(cluster.api.claims().begin()->second.dump().find("n1/nvidia"), std::string::npos);
  cluster.settle(Duration::seconds(30));
  cluster.add_node("n1", 0);
  EXPECT_NE(cluster.api.claims().begin()->second.dump().find("n2/nvidia"), std::string::npos);
  cluster.run();
  EXPECT_EQ(cluster.node_of("p"), "n2");
}

TEST_F(ReconcilerTest, ClaimsThatUsersWroteAreAllocatedWithoutAGate) {
  cluster.add_node("n1", 2);
  cluster.create_user_claim("mine", {{"deviceClassName", "heddle"},
                                     {"allocationMode", "ExactCount"},
                                     {"count", 1},
                                     {"capacity", {{"requests", {{"memory", "1Gi"}, {"cores", "10"}}}}}});
  cluster.create_claim_pod("p", {"mine"});
  start();
  EXPECT_EQ(cluster.node_of("p"), "n1");
  EXPECT_EQ(cluster.api.claim("default/mine")["metadata"]["finalizers"][0], "resource.kubernetes.io/delete-protection");
}

TEST_F(ReconcilerTest, ClaimsOfOtherClassesAreLeftAlone) {
  cluster.add_node("n1", 2);
  cluster.create_user_claim("theirs", {{"deviceClassName", "gpu.example.com"}, {"count", 1}});
  cluster.create_claim_pod("p", {"theirs"});
  start();
  EXPECT_EQ(cluster.writes, 0U);
}

TEST_F(ReconcilerTest, TwoPodsOnOneClaimFollowIt) {
  cluster.add_node("n1", 1);
  cluster.create_user_claim("both", {{"deviceClassName", "heddle"}, {"count", 1}, {"allocationMode", "ExactCount"}});
  cluster.create_claim_pod("a", {"both"});
  cluster.create_claim_pod("b", {"both"});
  start();
  EXPECT_EQ(cluster.node_of("a"), "n1");
  EXPECT_EQ(cluster.node_of("b"), "n1");
}

TEST_F(ReconcilerTest, TwoClaimsInOneContainerAreRefusedBeforeAnythingIsGranted) {
  cluster.add_node("n1", 2);
  const Json share_of_card{
      {"deviceClassName", "heddle"}, {"count", 1}, {"capacity", {{"requests", {{"memory", "1Gi"}, {"cores", "10"}}}}}};
  for (const char* name : {"a", "b"}) cluster.create_user_claim(name, share_of_card);
  cluster.create_user_claim("nic", {{"deviceClassName", "nic.example.com"}, {"count", 1}});
  cluster.create_claim_pod("two", {"a", "nic", "b"});
  start();
  EXPECT_EQ(cluster.writes, 0U);
  EXPECT_EQ(cluster.condition("two")["status"], "False");
  const std::string message = cluster.condition("two")["message"];
  for (const char* part : {"spec.containers[0].resources.claims", "container c uses a and b", "in one claim"}) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
  EXPECT_EQ(count_events("HeddleRefused"), 1);
}

TEST_F(ReconcilerTest, AClaimOfTheSameNameThatIsNotThePodsIsNotUsed) {
  cluster.add_node("n1", 1);
  cluster.create_pod("p", share(3000, 30));
  const std::string name = cluster.api.pod("default/p")["spec"]["resourceClaims"][0]["resourceClaimName"];
  cluster.create_user_claim(name,
                            {{"deviceClassName", "heddle-nvidia"}, {"count", 1}, {"allocationMode", "ExactCount"}});
  start();
  EXPECT_TRUE(cluster.gated("p"));
  EXPECT_EQ(cluster.condition("p")["reason"], "ClaimMismatch");
  EXPECT_EQ(count_events("HeddleRefused"), 1);
}

TEST_F(ReconcilerTest, AnAnnotationThatCannotBeReadIsRefused) {
  cluster.add_node("n1", 1);
  cluster.create_pod("p", share(3000, 30));
  cluster.api.pod("default/p")["metadata"]["annotations"]["heddle.dev/request"] = "[]";
  start();
  EXPECT_TRUE(cluster.gated("p"));
  EXPECT_EQ(cluster.condition("p")["reason"], "Invalid");
  EXPECT_EQ(cluster.writes, 0U);
}

TEST_F(ReconcilerTest, AnotherGateIsWaitedFor) {
  cluster.add_node("n1", 1);
  cluster.create_pod("p", kCard, {{"schedulingGates", Json::array({{{"name", "example.com/queue"}}})}});
  start();
  EXPECT_TRUE(cluster.api.claims().empty());
  EXPECT_EQ(cluster.condition("p")["reason"], "Gated");
}

TEST_F(ReconcilerTest, QuotaIsCountedFromTheLedger) {
  cluster.add_node("n1", 4);
  cluster.upsert_quota("q", {{"requests.nvidia.com/gpu", 2}, {"limits.nvidia.com/gpumem", 90000}});
  cluster.create_pod("a", share(3000, 30));
  cluster.create_pod("b", kCard);  // 81920 MiB
  cluster.create_pod("c", share(100, 30));
  start();
  EXPECT_EQ(cluster.node_of("a"), "n1");
  EXPECT_EQ(cluster.node_of("b"), "n1");
  EXPECT_TRUE(cluster.gated("c"));
  EXPECT_EQ(cluster.condition("c")["reason"], "Quota");
  cluster.finish_pod("a");
  cluster.run();
  EXPECT_EQ(cluster.node_of("c"), "n1");
  cluster.upsert_quota("q", {{"requests.nvidia.com/gpu", 3}, {"limits.nvidia.com/gpumem", 90000}});
  cluster.create_pod("d", kCard);  // known only once a card is chosen
  cluster.run();
  EXPECT_TRUE(cluster.gated("d"));
  EXPECT_NE(cluster.condition("d")["message"].get<std::string>().find("gpumem"), std::string::npos);
}

TEST_F(ReconcilerTest, AQuotaWithAScopeCountsOnlyThePodsThatItCovers) {
  cluster.add_node("n1", 4);
  cluster.upsert_quota("q", {{"requests.nvidia.com/gpu", 1}}, {{"PriorityClass", "In", {"batch"}}});
  const Json batch{{"priorityClassName", "batch"}};
  cluster.create_pod("plain", kCard);
  cluster.create_pod("a", kCard, batch);
  cluster.create_pod("b", kCard, batch);
  start();
  EXPECT_EQ(cluster.node_of("plain"), "n1");
  EXPECT_EQ(cluster.node_of("a"), "n1");
  EXPECT_TRUE(cluster.gated("b"));
  EXPECT_EQ(cluster.condition("b")["reason"], "Quota");
  cluster.finish_pod("a");
  cluster.run();
  EXPECT_EQ(cluster.node_of("b"), "n1");
}

TEST_F(ReconcilerTest, ADeletedPodLeavesNothing) {
  cluster.add_node("n1", 1);
  cluster.create_pod("a", kCard);
  start();
  cluster.create_pod("b", kCard);
  cluster.run();
  EXPECT_TRUE(cluster.gated("b"));
  cluster.delete_pod("a");
  cluster.run();
  EXPECT_EQ(cluster.node_of("b"), "n1");
  EXPECT_EQ(cluster.api.claims().size(), 1U);
}

TEST_F(ReconcilerTest, AClaimThatSomeoneDeletesIsMadeAgain) {
  cluster.add_node("n1", 1);
  cluster.create_pod("p", kCard);
  cluster.fault = [](const Write& write, uint64_t) {
    return write.kind == WriteKind::kUngatePod ? Fault::kUnavailable : Fault::kNone;
  };
  cluster.start_controller();
  cluster.settle();
  ASSERT_EQ(cluster.api.claims().size(), 1U);
  const std::string key = cluster.api.claims().begin()->first;
  const Json uid = cluster.api.claim(key)["metadata"]["uid"];
  cluster.api.delete_claim(key);
  cluster.fault = nullptr;
  cluster.run(Duration::seconds(60));
  EXPECT_TRUE(cluster.violations().empty());
  EXPECT_EQ(cluster.node_of("p"), "n1");
  ASSERT_TRUE(cluster.api.has_claim(key));
  EXPECT_NE(cluster.api.claim(key)["metadata"]["uid"], uid);
  // The same with the gate gone: kube-scheduler leaves the pod alone, and has had time to bind it.
  cluster.create_pod("q", share(10, 0));
  cluster.delete_pod("p");
  cluster.settle();
  ASSERT_FALSE(cluster.gated("q"));
  const std::string other = cluster.api.claims().begin()->first;
  const Json other_uid = cluster.api.claim(other)["metadata"]["uid"];
  cluster.api.delete_claim(other);
  cluster.settle();
  EXPECT_EQ(cluster.api.claim(other)["metadata"]["uid"], other_uid);
  cluster.settle(Duration::seconds(60));
  EXPECT_NE(cluster.api.claim(other)["metadata"]["uid"], other_uid);
  cluster.run();
  EXPECT_EQ(cluster.node_of("q"), "n1");
}

TEST_F(ReconcilerTest, AClaimInUseIsLeftToItsPod) {
  cluster.add_node("n1", 1);
  cluster.create_pod("p", kCard);
  start();
  const std::string key = cluster.api.claims().begin()->first;
  cluster.api.delete_claim(key);
  cluster.run(Duration::seconds(60));
  EXPECT_TRUE(cluster.api.claim(key)["status"].contains("allocation"));
}

TEST_F(ReconcilerTest, AnOverCommittedDeviceLosesTheYoungerGrantThatNobodyRuns) {
  cluster.add_node("n1", 1);
  cluster.create_pod("a", kCard);
  start();
  // Another leader's late write: the same card, for a pod that is not bound.
  cluster.create_pod("b", kCard);
  cluster.settle();
  const std::string name = cluster.api.pod("default/b")["spec"]["resourceClaims"][0]["resourceClaimName"];
  Json late = cluster.api.claims().begin()->second;
  const std::string first = cluster.api.claims().begin()->first;
  late["metadata"]["name"] = name;
  late["metadata"]["ownerReferences"][0]["name"] = "b";
  late["metadata"]["ownerReferences"][0]["uid"] = cluster.api.pod("default/b")["metadata"]["uid"];
  kube::Request create;
  create.method = kube::Method::kPost;
  create.path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
  create.body = late.dump();
  ASSERT_TRUE(cluster.api.execute(create).has_value());
  Json& stored = cluster.api.claim("default/" + name);
  stored["status"] = late["status"];
  stored["status"]["reservedFor"][0]["name"] = "b";
  stored["status"]["reservedFor"][0]["uid"] = late["metadata"]["ownerReferences"][0]["uid"];
  stored["status"]["allocation"]["allocationTimestamp"] = "2027-01-15T09:00:00Z";
  cluster.api.touch_claim("default/" + name);
  cluster.settle();
  EXPECT_FALSE(cluster.api.claim("default/" + name)["status"].contains("allocation"));
  EXPECT_TRUE(cluster.api.claim(first)["status"].contains("allocation"));
  EXPECT_TRUE(cluster.gated("b"));
  EXPECT_EQ(cluster.controller->take_stats().over_commits_cleared, 1U);
}

TEST_F(ReconcilerTest, AClaimWhosePodIsGoneIsTakenDownWhenNobodyElseDoes) {
  cluster.add_node("n1", 1);
  cluster.create_pod("a", kCard);
  start();
  Json orphan = cluster.api.claims().begin()->second;
  cluster.delete_pod("a");
  cluster.settle();
  kube::Request create;
  create.method = kube::Method::kPost;
  create.path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
  create.body = orphan.dump();
  ASSERT_TRUE(cluster.api.execute(create).has_value());
  cluster.settle(Duration::seconds(30));
  EXPECT_EQ(cluster.api.claims().size(), 1U);
  cluster.settle(Duration::seconds(200));
  EXPECT_TRUE(cluster.api.claims().empty());
}

TEST_F(ReconcilerTest, PodsPastAdmissionAreReportedOnce) {
  cluster.add_node("n1", 1);
  cluster.start_controller();
  Json pod{
      {"metadata", {{"name", "old"}, {"namespace", "default"}}},
      {"spec",
       {{"containers", Json::array({{{"name", "c"}, {"resources", {{"limits", {{"nvidia.com/gpu", "1"}}}}}}})}}},
      {"status",
       {{"phase", "Pending"},
        {"conditions", Json::array({{{"type", "PodScheduled"}, {"status", "False"}, {"reason", "Unschedulable"}}})}}}};
  cluster.api.put_pod(pod);
  cluster.settle();
  cluster.settle();
  EXPECT_EQ(count_events("HeddleWaiting"), 1);
  EXPECT_EQ(cluster.controller->take_stats().unnoticed_pods, 1);
}

TEST_F(ReconcilerTest, WaitingPodsAreNotToldTheSameAgain) {
  cluster.add_node("n1", 1, 10000);
  cluster.create_pod("a", share(9000, 10));
  start();
  cluster.create_pod("b", share(9000, 10));
  cluster.settle();
  const size_t before = cluster.api.events.size();
  for (int i = 0; i < 5; ++i) {
    cluster.create_pod("s" + std::to_string(i), share(100, 1));
    cluster.settle();
  }
  EXPECT_EQ(cluster.api.events.size(), before);
}

TEST_F(ReconcilerTest, APodThatIsBoundBeforeTheAnswerAboutItsGateIsStillTold) {
  cluster.add_node("n1", 1);
  cluster.create_pod("a", kCard);
  start();
  cluster.create_pod("b", kCard);
  cluster.run();
  EXPECT_EQ(cluster.condition("b")["status"], "False");
  cluster.fault = [&](const Write& write, uint64_t) {
    if (write.kind == WriteKind::kUngatePod) {
      (void)cluster.api.execute(write.request);
      cluster.schedule();
    }
    return Fault::kNone;
  };
  cluster.finish_pod("a");
  cluster.run();
  EXPECT_EQ(cluster.node_of("b"), "n1");
  EXPECT_EQ(cluster.condition("b")["status"], "True");
}

TEST_F(ReconcilerTest, ALeaderThatResignsWritesNothingAndTheNextGoesOn) {
  cluster.add_node("n1", 1);
  cluster.create_pod("p", kCard);
  cluster.start_controller();
  auto writes = cluster.controller->run();
  ASSERT_FALSE(writes.empty());
  cluster.controller->resign();
  EXPECT_TRUE(cluster.controller->run().empty());
  // The write was on its way all the same.
  (void)cluster.api.execute(writes.front().request);
  cluster.controller->finish(writes.front().id, std::string("{}"));
  start();
  EXPECT_EQ(cluster.node_of("p"), "n1");
  EXPECT_EQ(cluster.api.claims().size(), 1U);
}

}  // namespace
}  // namespace heddle::controller::testing
