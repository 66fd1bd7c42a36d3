// The right values follow k8s.io/component-helpers v0.37.2 resource/helpers.go, pkg/scheduler/framework (HostPortInfo)
// and the plugins volumebinding, volumezone and nodeaffinity of Kubernetes 1.37.2.
#include <gtest/gtest.h>

#include "model/pod.h"
#include "model/volume.h"

namespace heddle::model {
namespace {

using Amounts = std::map<std::string, int64_t>;

Quantity q(const char* text) {
  return Quantity::parse(text).value();
}

ResourceList list(const std::vector<std::pair<const char*, const char*>>& entries) {
  ResourceList out;
  for (const auto& [name, text] : entries) out[name] = q(text);
  return out;
}

Container container(ResourceList requests) {
  Container result;
  result.name = "c";
  result.requests = std::move(requests);
  return result;
}

Container init_container(ResourceList requests, bool sidecar = false) {
  Container result = container(std::move(requests));
  result.init = true;
  result.sidecar = sidecar;
  return result;
}

struct RequestCase {
  const char* what;
  Pod pod;
  Amounts expected;
};

Pod pod_of(std::vector<Container> containers) {
  Pod pod;
  pod.containers = std::move(containers);
  return pod;
}

std::vector<RequestCase> request_cases() {
  std::vector<RequestCase> cases;
  cases.push_back({"sums of fractions are rounded up once",
                   pod_of({container(list({{"memory", "500m"}, {"cpu", "100u"}})),
                           container(list({{"memory", "500m"}, {"cpu", "1m"}}))}),
                   {{"memory", 1}, {"cpu", 2}}});
  cases.push_back({"an init container counts beside the sidecars before it only",
                   pod_of({init_container(list({{"cpu", "5"}})), init_container(list({{"cpu", "2"}}), true),
                           init_container(list({{"cpu", "4"}})), init_container(list({{"cpu", "1"}}), true),
                           container(list({{"cpu", "2"}}))}),
                   {{"cpu", 6000}}});
  cases.push_back(
      {"sidecars run beside the containers",
       pod_of({init_container(list({{"example.com/x", "2"}}), true), container(list({{"example.com/x", "3"}}))}),
       {{"example.com/x", 5}}});
  Pod level = pod_of({container(list({{"cpu", "1"}, {"memory", "10"}, {"hugepages-2Mi", "4Mi"}}))});
  level.pod_level_requests = list({{"cpu", "3"}, {"ephemeral-storage", "9"}, {"hugepages-2Mi", "8Mi"}});
  level.overhead = list({{"cpu", "250m"}});
  cases.push_back({"pod-level requests replace cpu, memory and hugepages, and overhead comes on top",
                   level,
                   {{"cpu", 3250}, {"memory", 10}, {"hugepages-2Mi", 8 << 20}}});
  Pod limits = pod_of({container(list({{"cpu", "1"}}))});
  limits.pod_level_limits = list({{"cpu", "8"}, {"memory", "64"}});
  cases.push_back({"pod-level limits fill in what no container asks for", limits, {{"cpu", 1000}, {"memory", 64}}});
  Pod growing = pod_of({container(list({{"cpu", "4"}, {"memory", "1"}}))});
  growing.containers[0].allocated = list({{"cpu", "2"}, {"memory", "8"}});
  growing.containers[0].actuated = list({{"cpu", "1"}, {"memory", "9"}});
  cases.push_back({"a resize under way counts the largest of asked, granted and in force",
                   growing,
                   {{"cpu", 4000}, {"memory", 9}}});
  Pod infeasible = growing;
  infeasible.conditions.push_back({"PodResizePending", "True", "Infeasible", ""});
  cases.push_back(
      {"a resize that the node can never grant is not counted", infeasible, {{"cpu", 2000}, {"memory", 9}}});
  Pod half = pod_of({container(list({{"cpu", "4"}})), container(list({{"cpu", "1"}}))});
  half.containers[1].allocated = list({{"cpu", "3"}});
  cases.push_back({"the sums are compared, not the containers", half, {{"cpu", 7000}}});
  cases.push_back({"nothing asked is nothing", pod_of({container({})}), {}});
  return cases;
}

TEST(RequestsTest, AsKubeSchedulerCounts) {
  for (const RequestCase& test : request_cases()) EXPECT_EQ(effective_requests(test.pod), test.expected) << test.what;
}

TEST(HostPortTest, ConflictsAsInKubeScheduler) {
  struct Case {
    HostPort a;
    HostPort b;
    bool conflicts;
  };
  const Case cases[] = {
      {{"", "", 80}, {"", "TCP", 80}, true},
      {{"", "UDP", 80}, {"", "TCP", 80}, false},
      {{"", "TCP", 80}, {"", "TCP", 81}, false},
      {{"10.0.0.1", "TCP", 80}, {"10.0.0.2", "TCP", 80}, false},
      {{"10.0.0.1", "TCP", 80}, {"10.0.0.1", "TCP", 80}, true},
      {{"0.0.0.0", "TCP", 80}, {"10.0.0.1", "TCP", 80}, true},
      {{"10.0.0.1", "TCP", 80}, {"", "TCP", 80}, true},
  };
  for (const Case& test : cases) {
    EXPECT_EQ(conflict(test.a, test.b), test.conflicts) << test.a.ip << " " << test.b.ip;
    EXPECT_EQ(conflict(test.b, test.a), test.conflicts) << test.a.ip << " " << test.b.ip;
  }
}

TEST(HostPortTest, OfContainersAndSidecarsOnly) {
  Pod pod = pod_of({init_container({}), init_container({}, true), container({})});
  for (Container& entry : pod.containers) entry.host_ports = {{"", "TCP", 0}, {"", "TCP", entry.init ? 1 : 2}};
  EXPECT_EQ(host_ports(pod), (std::vector<HostPort>{{"", "TCP", 1}, {"", "TCP", 2}}));
}

TEST(TaintsTest, TheStateOfTheNodeCountsBeforeItsTaintIsWritten) {
  const auto keys = [](const Node& node) {
    std::vector<std::string> out;
    for (const Taint& taint : effective_taints(node)) out.push_back(taint.key + ":" + taint.effect);
    return out;
  };
  Node node;
  EXPECT_TRUE(keys(node).empty());
  node.ready = Node::Ready::kFalse;
  node.unschedulable = true;
  node.taints = {{"a", "", "PreferNoSchedule", {}}, {"b", "", "NoExecute", {}}};
  EXPECT_EQ(keys(node), (std::vector<std::string>{"b:NoExecute", "node.kubernetes.io/unschedulable:NoSchedule",
                                                  "node.kubernetes.io/not-ready:NoSchedule"}));
  node.ready = Node::Ready::kUnknown;
  node.taints = {{"node.kubernetes.io/unreachable", "", "NoSchedule", {}}};
  node.unschedulable = false;
  EXPECT_EQ(keys(node), (std::vector<std::string>{"node.kubernetes.io/unreachable:NoSchedule"}));
}

using Op = Requirement::Operator;

TEST(NodeAffinityTest, EveryOperator) {
  Node node;
  node.meta.name = "n1";
  node.meta.labels = {{"zone", "a"}, {"rank", "7"}, {"text", "x"}};
  struct Case {
    Requirement requirement;
    bool on_fields;
    bool holds;
  };
  const Case cases[] = {
      {{"zone", Op::kIn, {"a", "b"}}, false, true},
      {{"zone", Op::kIn, {"b"}}, false, false},
      {{"none", Op::kIn, {"a"}}, false, false},
      {{"zone", Op::kNotIn, {"b"}}, false, true},
      {{"zone", Op::kNotIn, {"a"}}, false, false},
      {{"none", Op::kNotIn, {"a"}}, false, true},
      {{"zone", Op::kExists, {}}, false, true},
      {{"none", Op::kExists, {}}, false, false},
      {{"none", Op::kDoesNotExist, {}}, false, true},
      {{"zone", Op::kDoesNotExist, {}}, false, false},
      {{"rank", Op::kGt, {"6"}}, false, true},
      {{"rank", Op::kGt, {"7"}}, false, false},
      {{"rank", Op::kLt, {"8"}}, false, true},
      {{"rank", Op::kLt, {"7"}}, false, false},
      {{"text", Op::kGt, {"1"}}, false, false},
      {{"none", Op::kLt, {"1"}}, false, false},
      {{"metadata.name", Op::kIn, {"n1"}}, true, true},
      {{"metadata.name", Op::kIn, {"n2"}}, true, false},
      {{"metadata.name", Op::kNotIn, {"n2"}}, true, true},
      {{"metadata.name", Op::kNotIn, {"n1"}}, true, false},
  };
  for (const Case& test : cases) {
    NodeSelectorTerm term;
    (test.on_fields ? term.match_fields : term.match_expressions).push_back(test.requirement);
    EXPECT_EQ(matches(NodeSelector{{term}}, node), test.holds)
        << test.requirement.key << " " << static_cast<int>(test.requirement.op);
    EXPECT_TRUE(matches(NodeSelector{{term, {{{"zone", Op::kExists, {}}}, {}}}}, node)) << "terms are alternatives";
  }
  EXPECT_FALSE(matches(NodeSelector{{NodeSelectorTerm{}}}, node)) << "an empty term matches nothing";
  EXPECT_FALSE(matches(NodeSelector{}, node));
}

TEST(VolumeTest, ReachAsVolumeBindingAndVolumeZoneDecide) {
  const auto node = [](std::map<std::string, std::string> labels) {
    Node out;
    out.meta.name = "n";
    out.meta.labels = std::move(labels);
    return out;
  };
  const std::string zone = "topology.kubernetes.io/zone";
  const std::string old_zone = "failure-domain.beta.kubernetes.io/zone";
  struct Case {
    const char* what;
    std::map<std::string, std::string> volume_labels;
    std::map<std::string, std::string> node_labels;
    bool reached;
  };
  const Case cases[] = {
      {"the same zone", {{zone, "a"}}, {{zone, "a"}}, true},
      {"another zone", {{zone, "a"}}, {{zone, "b"}}, false},
      {"one of several zones", {{zone, "a__b"}}, {{zone, "b"}}, true},
      {"a node without zones is in all of them", {{zone, "a"}}, {{"x", "y"}}, true},
      {"a node with a region alone is not in the zone", {{zone, "a"}}, {{"topology.kubernetes.io/region", "r"}}, false},
      {"the old name on the volume", {{old_zone, "a"}}, {{zone, "a"}}, true},
      {"the old name on the volume, another zone", {{old_zone, "a"}}, {{zone, "b"}}, false},
      {"a label that Kubernetes cannot read is ignored", {{zone, "a____b"}}, {{zone, "c"}}, true},
  };
  for (const Case& test : cases) {
    PersistentVolume volume;
    volume.meta.labels = test.volume_labels;
    EXPECT_EQ(reachable(reach_of(volume, "claim"), node(test.node_labels)), test.reached) << test.what;
  }
  PersistentVolume local;
  local.node_affinity = NodeSelector{{{{{"kubernetes.io/hostname", Op::kIn, {"n"}}}, {}}}};
  EXPECT_TRUE(reachable(reach_of(local, "claim"), node({{"kubernetes.io/hostname", "n"}})));
  EXPECT_FALSE(reachable(reach_of(local, "claim"), node({{"kubernetes.io/hostname", "m"}})));
}

}  // namespace
}  // namespace heddle::model
