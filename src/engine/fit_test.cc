// Which nodes a pod can be bound to, through State::place; the right values follow kube-scheduler 1.37.2.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "base/random.h"
#include "engine/engine.h"
#include "engine/test_fleet.h"

namespace heddle::engine {
namespace {

using testing::HasSubstr;

model::Container asking(const std::string& resource, const char* amount) {
  model::Container container;
  container.name = "main";
  container.requests[resource] = test::quantity(amount);
  return container;
}

class FitTest : public testing::Test {
 protected:
  FitTest() {
    state_.upsert_class(test::make_class());
    node_ = test::make_node("node-1");
    node_.allocatable = {{"cpu", test::quantity("4")},
                         {"memory", test::quantity("8Gi")},
                         {"pods", test::quantity("3")},
                         {"ephemeral-storage", test::quantity("10Gi")},
                         {"hugepages-2Mi", test::quantity("64Mi")},
                         {"example.com/nic", test::quantity("2")}};
    state_.upsert_slice(test::make_slice("node-1", 1, 80000 * test::kMiB));
    pod_.meta.uid = "me";
    pod_.meta.name_space = "default";
  }

  // "node-1", or the code and text of the first reason.
  std::string place() {
    state_.upsert_node(node_);
    PlacementRequest request{.pod = &pod_,
                             .claims = {test::make_claim("default/c", {})},
                             .pinned_node = {},
                             .preferred_node = {},
                             .excluded_nodes = {},
                             .volumes = volumes_};
    const auto outcome = state_.place(request, random_);
    EXPECT_TRUE(outcome.has_value());
    if (!outcome) return {};
    if (const auto* assigned = std::get_if<Assigned>(&*outcome)) return assigned->node;
    const auto* waiting = std::get_if<Waiting>(&*outcome);
    const auto& reasons = waiting != nullptr ? waiting->reasons : std::get<Infeasible>(*outcome).reasons;
    EXPECT_FALSE(reasons.empty());
    return (waiting != nullptr ? "waiting: " : "infeasible: ") + reasons.at(0).message;
  }

  State state_;
  SeededRandom random_{1};
  model::Node node_;
  model::Pod pod_;
  std::vector<model::VolumeReach> volumes_;
};

TEST_F(FitTest, EveryPlainResource) {
  struct Case {
    const char* resource;
    const char* asked;
    int64_t used;
    const char* expected;
  };
  const Case cases[] = {
      {"cpu", "3", 1000, "node-1"},
      {"cpu", "3001m", 1000, "waiting: node-1 has the devices free, but is short of cpu"},
      {"cpu", "4001m", 0, "infeasible: no node with such devices has enough cpu"},
      {"memory", "8Gi", 0, "node-1"},
      {"memory", "8Gi", 1, "waiting: node-1 has the devices free, but is short of memory"},
      {"ephemeral-storage", "10Gi", 1, "waiting: node-1 has the devices free, but is short of ephemeral-storage"},
      {"hugepages-2Mi", "66Mi", 0, "infeasible: no node with such devices has enough hugepages-2Mi"},
      {"example.com/nic", "2", 0, "node-1"},
      {"example.com/nic", "2", 1, "waiting: node-1 has the devices free, but is short of example.com/nic"},
      {"example.com/other", "1", 0, "infeasible: no node with such devices has enough example.com/other"},
      {"example.com/other", "0", 0, "node-1"},
  };
  for (const Case& test : cases) {
    state_.upsert_pod_usage("other", "node-1", {{test.resource, test.used}});
    pod_.containers = {asking(test.resource, test.asked)};
    EXPECT_THAT(place(), HasSubstr(test.expected)) << test.resource << " " << test.asked << " beside " << test.used;
  }
}

TEST_F(FitTest, AnExtendedResourceOfADeviceClassIsLeftToKubeScheduler) {
  pod_.containers = {asking("example.com/other", "1")};
  EXPECT_THAT(place(), HasSubstr("infeasible"));
  model::DeviceClass other;
  other.meta.name = "other";
  other.extended_resource_name = "example.com/other";
  state_.upsert_class(other);
  EXPECT_EQ(place(), "node-1");
  pod_.containers = {asking("deviceclass.resource.kubernetes.io/other", "1")};
  EXPECT_EQ(place(), "node-1");
  pod_.containers = {asking("example.com/nic", "3")};
  EXPECT_THAT(place(), HasSubstr("infeasible")) << "a device plugin serves it here";
}

TEST_F(FitTest, NoMorePodsThanAllowed) {
  state_.upsert_pod_usage("a", "node-1", {});
  state_.upsert_pod_usage("b", "node-1", {});
  EXPECT_EQ(place(), "node-1");
  state_.upsert_pod_usage("c", "node-1", {});
  EXPECT_THAT(place(), HasSubstr("short of pods"));
}

TEST_F(FitTest, StateAndTaintsOfTheNode) {
  struct Case {
    const char* what;
    bool unschedulable;
    model::Node::Ready ready;
    std::vector<model::Taint> taints;
    std::vector<model::Toleration> tolerations;
    const char* expected;
  };
  using Ready = model::Node::Ready;
  const model::Toleration all{.key = "", .op = "Exists", .value = "", .effect = "", .seconds = {}};
  const Case cases[] = {
      {"ready", false, Ready::kTrue, {}, {}, "node-1"},
      {"cordoned", true, Ready::kTrue, {}, {}, "waiting: node-1 is marked unschedulable"},
      {"cordoned, tolerated", true, Ready::kTrue, {}, {all}, "node-1"},
      {"not ready", false, Ready::kFalse, {}, {}, "waiting: node-1 is not ready"},
      {"unreachable", false, Ready::kUnknown, {}, {}, "waiting: node-1 is not ready"},
      {"not ready, tolerated as a DaemonSet does it",
       false,
       Ready::kFalse,
       {},
       {{.key = "node.kubernetes.io/not-ready", .op = "Exists", .value = "", .effect = "", .seconds = {}}},
       "node-1"},
      {"NoExecute alone tolerated",
       false,
       Ready::kFalse,
       {},
       {{.key = "node.kubernetes.io/not-ready", .op = "Exists", .value = "", .effect = "NoExecute", .seconds = 300}},
       "waiting: node-1 is not ready"},
      {"tainted", false, Ready::kTrue, {{"k", "v", "NoExecute", {}}}, {}, "waiting: node-1 has a taint"},
      {"preferably not", false, Ready::kTrue, {{"k", "v", "PreferNoSchedule", {}}}, {}, "node-1"},
  };
  for (const Case& test : cases) {
    node_.unschedulable = test.unschedulable;
    node_.ready = test.ready;
    node_.taints = test.taints;
    pod_.tolerations = test.tolerations;
    EXPECT_THAT(place(), HasSubstr(test.expected)) << test.what;
  }
}

TEST_F(FitTest, HostPortsAreTakenOnce) {
  model::Container container;
  container.host_ports = {{"10.0.0.1", "TCP", 8080}};
  pod_.containers = {container};
  state_.upsert_pod_usage("a", "node-1", {}, {{"10.0.0.2", "TCP", 8080}});
  EXPECT_EQ(place(), "node-1");
  state_.upsert_pod_usage("b", "node-1", {}, {{"", "TCP", 8080}});
  EXPECT_THAT(place(), HasSubstr("waiting: host port 8080/TCP is taken on node-1"));
  const uint64_t before = state_.generation();
  state_.remove_pod_usage("b");
  EXPECT_GT(state_.generation(), before);
  EXPECT_EQ(place(), "node-1");
  state_.upsert_pod_usage("me", "node-1", {}, {{"10.0.0.1", "TCP", 8080}});
  EXPECT_EQ(place(), "node-1") << "its own port is no conflict";
}

TEST_F(FitTest, AVolumeTiesThePodToItsZone) {
  node_.meta.labels["topology.kubernetes.io/zone"] = "b";
  volumes_ = {{.claim = "data", .volume = "pv-1", .affinity = {}, .zones = {{"topology.kubernetes.io/zone", {"a"}}}}};
  EXPECT_EQ(place(), "infeasible: volume pv-1 of claim data cannot be reached from node-1");
  node_.meta.labels["topology.kubernetes.io/zone"] = "a";
  EXPECT_EQ(place(), "node-1");
}

// Pods whose texts are made of what a key could be joined with.
class AwkwardPods {
 public:
  model::Pod next() {
    model::Pod pod;
    pod.meta.name_space = text();
    for (uint64_t n = few(); n > 0; --n) pod.node_selector[text()] = text();
    if (few() == 0) {
      pod.required_node_affinity.emplace();
      for (uint64_t n = few(); n > 0; --n)
        pod.required_node_affinity->terms.push_back({requirements(), requirements()});
    }
    for (uint64_t n = few(); n > 0; --n) pod.tolerations.push_back({text(), text(), text(), text(), {}});
    model::Container container;
    for (uint64_t n = few(); n > 0; --n)
      container.requests[text()] = Quantity::from_int(static_cast<int64_t>(random_.below(12)));
    for (uint64_t n = few(); n > 0; --n)
      container.host_ports.push_back({text(), text(), static_cast<int64_t>(1 + random_.below(12))});
    pod.containers.push_back(container);
    for (uint64_t n = few(); n > 0; --n) pod.volume_claims.push_back(text());
    return pod;
  }

 private:
  uint64_t few() { return random_.below(3); }
  std::string text() {
    constexpr std::string_view kLetters = "a1:;,=~|/\n";
    std::string out;
    for (uint64_t n = few(); n > 0; --n) out += kLetters[random_.below(kLetters.size())];
    return out;
  }
  std::vector<model::Requirement> requirements() {
    std::vector<model::Requirement> out;
    for (uint64_t n = few(); n > 0; --n) {
      out.push_back({text(), static_cast<model::Requirement::Operator>(random_.below(6)), {}});
      for (uint64_t values = few(); values > 0; --values) out.back().values.push_back(text());
    }
    return out;
  }

  SeededRandom random_{5};
};

// What of a pod decides where it fits, so that it can be compared.
auto what_decides(const model::Pod& pod) {
  using Requirements = std::vector<std::tuple<std::string, int, std::vector<std::string>>>;
  const auto listed = [](const std::vector<model::Requirement>& list) {
    Requirements out;
    for (const model::Requirement& one : list) out.emplace_back(one.key, static_cast<int>(one.op), one.values);
    return out;
  };
  std::vector<std::pair<Requirements, Requirements>> terms;
  if (pod.required_node_affinity) {
    for (const auto& term : pod.required_node_affinity->terms)
      terms.emplace_back(listed(term.match_expressions), listed(term.match_fields));
  }
  std::vector<std::tuple<std::string, std::string, std::string, std::string>> tolerations;
  for (const model::Toleration& one : pod.tolerations) tolerations.emplace_back(one.key, one.op, one.value, one.effect);
  std::vector<std::tuple<std::string, std::string, int64_t>> ports;
  for (const model::HostPort& port : model::host_ports(pod)) ports.emplace_back(port.ip, port.protocol, port.port);
  return std::tuple(pod.node_selector, pod.required_node_affinity.has_value(), terms, tolerations,
                    model::effective_requests(pod), ports,
                    pod.volume_claims.empty() ? std::string() : pod.meta.name_space, pod.volume_claims);
}

TEST(FitSignatureTest, PodsThatDifferHaveDifferentOnesAndEqualPodsTheSame) {
  AwkwardPods pods;
  std::map<std::string, decltype(what_decides({}))> seen;
  std::map<decltype(what_decides({})), std::string> signatures;
  for (int i = 0; i < 20000; ++i) {
    const model::Pod pod = pods.next();
    const std::string signature = fit_signature(pod);
    const auto decides = what_decides(pod);
    EXPECT_EQ(seen.emplace(signature, decides).first->second, decides) << signature;
    EXPECT_EQ(signatures.emplace(decides, signature).first->second, signature);
  }
  EXPECT_LT(seen.size(), 20000U) << "none came twice";
}

// Texts that were one before: a value that ends like an effect, a name that ends like an amount.
TEST(FitSignatureTest, APartDoesNotRunIntoTheNext) {
  model::Pod a;
  model::Pod b;
  a.tolerations = {{"x", "Equal", "yNoSchedule", "", {}}};
  b.tolerations = {{"x", "Equal", "y", "NoSchedule", {}}};
  EXPECT_NE(fit_signature(a), fit_signature(b));
  a.tolerations.clear();
  b.tolerations.clear();
  a.containers = {asking("example.com/x", "11")};
  b.containers = {asking("example.com/x1", "1")};
  EXPECT_NE(fit_signature(a), fit_signature(b));
}

}  // namespace
}  // namespace heddle::engine
