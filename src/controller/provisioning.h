// What is asked of an autoscaler for a pod: a ProvisioningRequest (autoscaling.x-k8s.io) and its PodTemplate, both
// owned by the pod and named after its uid. Pure: objects in, requests to the API server out.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kube/client.h"
#include "model/pod.h"

namespace heddle::controller {

// So many nodes with this label, besides those that are there.
struct NodesAsked {
  std::string name_of_class;  // provisioningClassName
  int64_t count = 1;
  std::map<std::string, std::string> kind;  // labels of the node: what it is, and where it has to be
  std::vector<std::string> without;         // host names of the nodes of that kind that are there
};

// Of a node's labels those that say what kind of node it is (instance type, else its pool), and its host name.
std::map<std::string, std::string> node_kind(const model::ObjectMeta& node);

// version: "autoscaling.x-k8s.io/v1".
kube::Request create_provisioning(const model::Pod& pod, std::string_view version, const NodesAsked& asked);
kube::Request delete_provisioning(const model::Pod& pod, std::string_view version);
// One pod on each node, where the pod may be, with what it asks for of cpu and memory.
kube::Request create_pod_template(const model::Pod& pod, const NodesAsked& asked);
kube::Request delete_pod_template(const model::Pod& pod);

}  // namespace heddle::controller
