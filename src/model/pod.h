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

struct Container {
  std::string name;
  bool init = false;
  bool sidecar = false;  // an init container with restartPolicy Always
  ResourceList requests;
  ResourceList limits;
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
  std::string phase;  // Pending, Running, Succeeded, Failed, Unknown
  int32_t priority = 0;
  std::string priority_class;
  bool terminating = false;  // spec.activeDeadlineSeconds is set; not to be confused with meta.deleting
  std::vector<std::string> scheduling_gates;
  std::map<std::string, std::string> node_selector;
  std::optional<NodeSelector> required_node_affinity;
  std::vector<Toleration> tolerations;
  std::vector<Container> containers;  // init containers first
  ResourceList pod_level_requests;    // spec.resources.requests
  ResourceList overhead;
  std::vector<PodResourceClaim> resource_claims;
  std::vector<PodCondition> conditions;

  [[nodiscard]] bool finished() const { return phase == "Succeeded" || phase == "Failed"; }
};

// What the pod needs on a node: the larger of the sum of its containers and of any init step, sidecars counted as
// Kubernetes counts them, plus overhead. Only plain resources; cpu in milli-units, everything else in units.
std::map<std::string, int64_t> effective_requests(const Pod& pod);

// Quality of service BestEffort: no container, nor the pod itself, asks for or limits cpu or memory.
[[nodiscard]] bool best_effort(const Pod& pod);

struct Node {
  ObjectMeta meta;
  std::vector<Taint> taints;
  bool unschedulable = false;
  bool ready = false;
  ResourceList allocatable;
  std::vector<std::string> declared_features = {};
};

// nodeSelector and required node affinity of the pod against the node's labels and name.
bool matches_node(const Pod& pod, const Node& node);
bool matches(const NodeSelector& selector, const Node& node);

}  // namespace heddle::model
