// Pods and nodes, as far as placement reads them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/claim.h"
#include "model/meta.h"

namespace heddle::model {

using ResourceList = std::map<std::string, Quantity>;

// A port of the node itself. Empty ip: all addresses; empty protocol: TCP.
struct HostPort {
  std::string ip;
  std::string protocol;
  int64_t port = 0;
  friend bool operator==(const HostPort&, const HostPort&) = default;
};

struct Container {
  std::string name;
  bool init = false;
  bool sidecar = false;  // an init container with restartPolicy Always
  ResourceList requests;
  ResourceList limits;
  std::vector<HostPort> host_ports = {};
  // Of status.containerStatuses, for a pod that is resized in place: what the kubelet has granted and what is in force.
  std::optional<ResourceList> allocated = {};
  std::optional<ResourceList> actuated = {};
  std::vector<std::string> claims;  // names of pod.resource_claims that the container uses
};

struct PodResourceClaim {
  std::string name;
  std::string claim_name;     // resourceClaimName
  std::string template_name;  // resourceClaimTemplateName
  std::string actual_name;    // status.resourceClaimStatuses, for a template; may be empty
};

struct PodCondition {
  std::string type;
  std::string status;
  std::string reason;
  std::string message;
  friend bool operator==(const PodCondition&, const PodCondition&) = default;
};

struct Pod {
  ObjectMeta meta;
  std::string node_name;            // spec.nodeName: bound
  std::string nominated_node_name;  // status
  std::string scheduler_name;
  std::string scheduling_group;  // spec.schedulingGroup.podGroupName: a PodGroup of scheduling.k8s.io
  std::string phase;             // Pending, Running, Succeeded, Failed, Unknown
  int32_t priority = 0;
  std::string priority_class;
  bool terminating = false;  // spec.activeDeadlineSeconds is set; not to be confused with meta.deleting
  std::optional<int64_t> active_deadline = {};  // spec.activeDeadlineSeconds
  std::vector<std::string> scheduling_gates;
  std::map<std::string, std::string> node_selector;
  std::optional<NodeSelector> required_node_affinity;
  std::vector<Toleration> tolerations;
  std::vector<Container> containers;  // init containers first
  ResourceList pod_level_requests;    // spec.resources.requests
  ResourceList pod_level_limits;      // spec.resources.limits
  // status.allocatedResources and status.resources.requests, of a pod that is resized as a whole
  std::optional<ResourceList> allocated;
  std::optional<ResourceList> actuated;
  std::vector<std::string> volume_claims;  // PersistentVolumeClaims of its namespace
  ResourceList overhead;
  std::vector<PodResourceClaim> resource_claims;
  std::vector<PodCondition> conditions;
  bool never_preempts = false;  // spec.preemptionPolicy is Never

  [[nodiscard]] bool finished() const { return phase == "Succeeded" || phase == "Failed"; }
};

// What the pod needs on a node, as kube-scheduler counts it (k8s.io/component-helpers v0.37.2 resource/helpers.go): the
// larger of the sum of its containers and of any init step, sidecars beside what starts after them, pod-level requests
// over both, plus overhead; for a pod that is resized in place the largest of what is asked, granted and in force.
// Missing requests are filled from limits as the API server does. Only plain resources; cpu in milli-units, everything
// else in units, both rounded up once, after summing. More than int64 is the largest int64.
std::map<std::string, int64_t> effective_requests(const Pod& pod);

// The ports of the node that the pod takes while it runs: of its containers and sidecars.
std::vector<HostPort> host_ports(const Pod& pod);
// Whether both cannot be on one node.
[[nodiscard]] bool conflict(const HostPort& a, const HostPort& b);

// Quality of service BestEffort: no container, nor the pod itself, asks for or limits cpu or memory.
[[nodiscard]] bool best_effort(const Pod& pod);

struct Node {
  // The condition Ready; kUnsaid when the node has none yet.
  enum class Ready { kUnsaid, kTrue, kFalse, kUnknown };
  ObjectMeta meta;
  std::vector<Taint> taints;
  bool unschedulable = false;
  Ready ready = Ready::kUnsaid;
  ResourceList allocatable;
  std::vector<std::string> declared_features = {};
};

inline constexpr const char* kUnschedulableTaint = "node.kubernetes.io/unschedulable";
inline constexpr const char* kNotReadyTaint = "node.kubernetes.io/not-ready";
inline constexpr const char* kUnreachableTaint = "node.kubernetes.io/unreachable";

// The taints that keep pods off the node: its own of effect NoSchedule and NoExecute, and those that the node's state
// gets it from the control plane (unschedulable, not-ready, unreachable), whether they are written already or not.
std::vector<Taint> effective_taints(const Node& node);

// nodeSelector and required node affinity of the pod against the node's labels and name.
bool matches_node(const Pod& pod, const Node& node);
bool matches(const NodeSelector& selector, const Node& node);

}  // namespace heddle::model
