#include <gtest/gtest.h>

#include <limits>

#include "model/claim.h"
#include "model/device.h"
#include "model/pod.h"

namespace heddle::model {
namespace {

Quantity q(const char* text) {
  return Quantity::parse(text).value();
}

TEST(TolerationTest, FollowsTheRulesOfCoreV1) {
  const Taint taint{.key = "k", .value = "v", .effect = "NoSchedule", .added = {}};
  struct Case {
    Toleration toleration;
    bool covers;
  };
  const Case cases[] = {
      {{.key = "k", .op = "Equal", .value = "v", .effect = "NoSchedule", .seconds = {}}, true},
      {{.key = "k", .op = "", .value = "v", .effect = "", .seconds = {}}, true},
      {{.key = "k", .op = "", .value = "w", .effect = "", .seconds = {}}, false},
      {{.key = "k", .op = "Exists", .value = "", .effect = "", .seconds = {}}, true},
      {{.key = "k", .op = "Exists", .value = "", .effect = "NoExecute", .seconds = {}}, false},
      {{.key = "other", .op = "Exists", .value = "", .effect = "", .seconds = {}}, false},
      {{.key = "", .op = "Exists", .value = "", .effect = "", .seconds = {}}, true},
      {{.key = "", .op = "Equal", .value = "v", .effect = "", .seconds = {}}, true},
      {{.key = "k", .op = "Like", .value = "v", .effect = "", .seconds = {}}, false},
  };
  for (const Case& test : cases) {
    EXPECT_EQ(tolerates(test.toleration, taint), test.covers) << test.toleration.key << " " << test.toleration.op;
  }
}

TEST(DeviceTest, AttributesAreFoundByBareAndByFullName) {
  Device device;
  device.attributes["model"] = std::string("H100");
  device.attributes["resource.kubernetes.io/numaNode"] = int64_t{1};
  device.attributes["d.example/own"] = true;
  const std::string driver = "d.example";
  EXPECT_NE(find_attribute(device, driver, "model"), nullptr);
  EXPECT_NE(find_attribute(device, driver, "d.example/model"), nullptr);
  EXPECT_NE(find_attribute(device, driver, "own"), nullptr);
  EXPECT_NE(find_attribute(device, driver, "resource.kubernetes.io/numaNode"), nullptr);
  EXPECT_EQ(find_attribute(device, driver, "other.example/model"), nullptr);
  EXPECT_EQ(find_attribute(device, driver, "numaNode"), nullptr);
}

TEST(ClaimTest, TheNodeOfAnAllocation) {
  Allocation allocation;
  EXPECT_EQ(allocated_node(allocation), std::nullopt);
  NodeSelectorTerm term;
  term.match_fields.push_back({"metadata.name", Requirement::Operator::kIn, {"node-1"}});
  allocation.node_selector = NodeSelector{{term}};
  EXPECT_EQ(allocated_node(allocation), "node-1");
  allocation.node_selector->terms[0].match_expressions.push_back({"zone", Requirement::Operator::kExists, {}});
  EXPECT_EQ(allocated_node(allocation), std::nullopt);
}

Container container(const char* name, const char* cpu, const char* memory) {
  Container result;
  result.name = name;
  result.requests = {{"cpu", q(cpu)}, {"memory", q(memory)}};
  return result;
}

TEST(EffectiveRequestsTest, TheLargestStepCountsWithItsSidecars) {
  Pod pod;
  Container early = container("early", "3", "100");
  early.init = true;
  Container sidecar = container("sidecar", "1", "10");
  sidecar.init = true;
  sidecar.sidecar = true;
  Container late = container("late", "2500m", "5");
  late.init = true;
  pod.containers = {early, sidecar, late, container("a", "1", "20"), container("b", "500m", "20")};
  // early alone: 3; late with the sidecar: 3.5; containers with the sidecar: 2.5.
  EXPECT_EQ(effective_requests(pod), (std::map<std::string, int64_t>{{"cpu", 3500}, {"memory", 100}}));
  pod.overhead = {{"cpu", q("250m")}};
  EXPECT_EQ(effective_requests(pod).at("cpu"), 3750);
}

TEST(EffectiveRequestsTest, LimitsFillInAndPodLevelWins) {
  Pod pod;
  Container limited;
  limited.limits = {{"cpu", q("2")}, {"example.com/x", q("3")}};
  limited.requests = {{"cpu", q("1")}};
  pod.containers = {limited};
  EXPECT_EQ(effective_requests(pod), (std::map<std::string, int64_t>{{"cpu", 1000}, {"example.com/x", 3}}));
  pod.pod_level_requests = {{"cpu", q("4")}, {"example.com/x", q("9")}};
  EXPECT_EQ(effective_requests(pod), (std::map<std::string, int64_t>{{"cpu", 4000}, {"example.com/x", 3}}));
}

TEST(EffectiveRequestsTest, MoreThanInt64StaysTheLargest) {
  Pod pod;
  pod.containers = {container("a", "1", "9E"), container("b", "1", "9E"),
                    container("c", "1", "10000000000000000000000")};
  EXPECT_EQ(effective_requests(pod).at("memory"), std::numeric_limits<int64_t>::max());
}

TEST(BestEffortTest, CpuAndMemoryDecide) {
  Pod pod;
  Container other;
  other.requests = {{"nvidia.com/gpu", q("1")}, {"cpu", q("0")}};
  pod.containers = {other};
  EXPECT_TRUE(best_effort(pod));
  Container init;
  init.init = true;
  init.limits = {{"memory", q("1")}};
  pod.containers = {init, other};
  EXPECT_FALSE(best_effort(pod));
  pod.containers = {other};
  pod.pod_level_requests = {{"cpu", q("1")}};
  EXPECT_FALSE(best_effort(pod));
}

TEST(NodeMatchTest, SelectorsAndAffinity) {
  Node node;
  node.meta.name = "node-1";
  node.meta.labels = {{"zone", "a"}, {"generation", "9"}};
  using Op = Requirement::Operator;
  struct Case {
    Requirement requirement;
    bool holds;
  };
  const Case cases[] = {
      {{"zone", Op::kIn, {"b", "a"}}, true},
      {{"zone", Op::kIn, {"b"}}, false},
      {{"none", Op::kIn, {""}}, false},
      {{"zone", Op::kNotIn, {"a"}}, false},
      {{"none", Op::kNotIn, {"a"}}, true},
      {{"zone", Op::kExists, {}}, true},
      {{"zone", Op::kDoesNotExist, {}}, false},
      {{"none", Op::kDoesNotExist, {}}, true},
      {{"generation", Op::kGt, {"8"}}, true},
      {{"generation", Op::kGt, {"10"}}, false},
      {{"generation", Op::kLt, {"10"}}, true},
      {{"zone", Op::kLt, {"10"}}, false},
      {{"generation", Op::kGt, {"8", "7"}}, false},
      {{"none", Op::kGt, {"1"}}, false},
  };
  for (const Case& test : cases) {
    NodeSelectorTerm term;
    term.match_expressions.push_back(test.requirement);
    EXPECT_EQ(matches(NodeSelector{{term}}, node), test.holds) << test.requirement.key;
  }
  EXPECT_FALSE(matches(NodeSelector{}, node));
  EXPECT_FALSE(matches(NodeSelector{{NodeSelectorTerm{}}}, node)) << "an empty term matches nothing";

  Pod pod;
  EXPECT_TRUE(matches_node(pod, node));
  pod.node_selector = {{"zone", "a"}};
  EXPECT_TRUE(matches_node(pod, node));
  NodeSelectorTerm by_name;
  by_name.match_fields.push_back({"metadata.name", Op::kIn, {"node-2"}});
  pod.required_node_affinity = NodeSelector{{by_name}};
  EXPECT_FALSE(matches_node(pod, node));
}

}  // namespace
}  // namespace heddle::model
