// What the default policy learns from the pods of a cluster, and that it decides by it.
#include <gtest/gtest.h>

#include <algorithm>

#include "controller/cluster_test.h"

namespace heddle::controller::testing {
namespace {

constexpr int64_t kMilli = 100;  // MiB that are a thousandth of a card here

Json share(int milli) {
  return {{"nvidia.com/gpu", "1"}, {"nvidia.com/gpumem", std::to_string(milli * kMilli)}, {"nvidia.com/gpucores", "0"}};
}

Json on(const std::string& node) {
  return {{"nodeSelector", {{"kubernetes.io/hostname", node}}}};
}

// Two cards on the node n, one with 200 and one with 500 taken, in a cluster whose work is halves and 300s. A 300 fills
// the first without waste; beside the half it wastes 200, and best fit puts it there.
class ReconcilerPackingTest : public ClusterTest {
 protected:
  void take(const std::string& name, int card, int milli) {
    cluster.create_pod(name, std::vector<Json>{share(milli)}, on("n"),
                       {{"nvidia.com/use-gpuuuid", "GPU-" + std::to_string(card)}});
  }
  void begin() {
    cluster.add_node("m", 24, 1000 * kMilli, "640");
    cluster.add_node("n", 2, 1000 * kMilli, "640");
    take("first", 0, 200);
    take("second", 1, 500);
    start();
  }
  // Work that runs on another node.
  void see_the_mix(int times) {
    for (int i = 0; i < times; ++i) {
      cluster.create_pod("half-" + std::to_string(i), share(500), on("m"));
      cluster.create_pod("less-" + std::to_string(i), share(300), on("m"));
    }
    cluster.run();
  }
  std::string card_of_a_300(const Json& marks = Json::object()) {
    cluster.create_pod("new", std::vector<Json>{share(300)}, on("n"), marks);
    cluster.run();
    for (const auto& [key, claim] : cluster.api.claims()) {
      if (claim["metadata"]["ownerReferences"][0]["name"] != "new" || !claim["status"].contains("allocation")) continue;
      const Json& device = claim["status"]["allocation"]["devices"]["results"][0];
      return device["pool"].get<std::string>() + "/" + device["device"].get<std::string>();
    }
    return cluster.condition("new").dump();
  }
  [[nodiscard]] uint64_t arrived() const { return cluster.controller->take_stats().arrived; }
};

TEST_F(ReconcilerPackingTest, ItFillsBestWhileItHasSeenNothing) {
  begin();
  EXPECT_EQ(card_of_a_300(), "n/nvidia/gpu-1");
}

TEST_F(ReconcilerPackingTest, TheMixThatWasSeenDecides) {
  begin();
  see_the_mix(20);
  EXPECT_EQ(arrived(), 42U);
  EXPECT_EQ(card_of_a_300(), "n/nvidia/gpu-0");
}

TEST_F(ReconcilerPackingTest, AfterARestartItDecidesTheSameInWhateverOrderItIsTold) {
  begin();
  see_the_mix(20);
  cluster.create_pod("waits", Json{{"nvidia.com/gpu", "3"}}, on("n"));
  cluster.run();
  for (const ListOrder order : {ListOrder::kByName, ListOrder::kReversed}) {
    cluster.start_controller(order);
    EXPECT_EQ(card_of_a_300(), "n/nvidia/gpu-0");
    EXPECT_EQ(arrived(), 44U) << "those that run, the one that waits and the new one";
    cluster.delete_pod("new");
    cluster.api.collect_garbage();
    cluster.run();
  }
}

TEST_F(ReconcilerPackingTest, ThePodChoosesItsPolicyElseItsQueueDoes) {
  const Json best_fit{{"heddle.dev/placement-policy", "best-fit"}};
  begin();
  see_the_mix(20);
  const auto again = [&](const Json& marks) {
    const std::string card = card_of_a_300(marks);
    cluster.delete_pod("new");
    cluster.api.collect_garbage();
    cluster.run();
    return card;
  };
  EXPECT_EQ(again(best_fit), "n/nvidia/gpu-1");
  cluster.api.put_queue("top", {{"placementPolicy", "best-fit"}});
  cluster.api.put_queue("leaf", {{"parent", "top"}, {"namespaces", Json::array({"default"})}});
  cluster.run();
  EXPECT_EQ(again(Json::object()), "n/nvidia/gpu-1");
  EXPECT_EQ(again({{"heddle.dev/placement-policy", "packing"}}), "n/nvidia/gpu-0");
  cluster.api.put_queue("leaf",
                        {{"parent", "top"}, {"placementPolicy", "packing"}, {"namespaces", Json::array({"default"})}});
  cluster.run();
  EXPECT_EQ(again(Json::object()), "n/nvidia/gpu-0");
}

TEST_F(ReconcilerPackingTest, APodCountsOnceHoweverOftenItIsTried) {
  cluster.add_node("n", 1);
  cluster.create_pod("p", Json{{"nvidia.com/gpu", "2"}});
  cluster.start_controller();
  cluster.run();
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(cluster.gated("p"));
    cluster.add_node("m" + std::to_string(i), 1);
    cluster.run();
  }
  EXPECT_EQ(arrived(), 1U);
  cluster.controller->resign();
  cluster.controller->lead();
  cluster.add_node("two", 2);
  cluster.run();
  EXPECT_EQ(cluster.node_of("p"), "two");
  EXPECT_EQ(arrived(), 1U);
}

TEST_F(ReconcilerPackingTest, APodMadeAnewCountsAgain) {
  cluster.add_node("n", 1);
  cluster.start_controller();
  for (uint64_t i = 1; i <= 3; ++i) {
    cluster.create_pod("p", share(300));
    cluster.run();
    ASSERT_EQ(cluster.node_of("p"), "n");
    EXPECT_EQ(arrived(), i);
    cluster.delete_pod("p");
    cluster.api.collect_garbage();
  }
}

TEST_F(ReconcilerPackingTest, EachMemberOfAGangCounts) {
  cluster.add_node("n", 2);
  for (const char* name : {"g0", "g1", "g2"}) cluster.create_member(name, 4);
  cluster.start_controller();
  cluster.run();
  EXPECT_EQ(arrived(), 3U);
  cluster.create_member("g3", 4);
  cluster.add_node("o", 2);
  cluster.run();
  ASSERT_EQ(cluster.node_of("g3").empty(), false);
  EXPECT_EQ(arrived(), 4U);
}

// A claim that its user made counts like one of ours; a pod that Heddle refuses does not.
TEST_F(ReconcilerPackingTest, WhatIsRefusedDoesNotCount) {
  cluster.add_node("n", 2);
  cluster.create_user_claim("c", {{"deviceClassName", "heddle"}});
  cluster.create_claim_pod("by-claim", {"c"});
  cluster.create_pod("gated", share(300), {{"schedulingGates", Json::array({{{"name", "example.com/later"}}})}});
  cluster.start_controller();
  cluster.run();
  EXPECT_EQ(cluster.node_of("by-claim"), "n");
  EXPECT_EQ(arrived(), 1U);
}

}  // namespace
}  // namespace heddle::controller::testing
