// Paths of the API server's resources, with every part escaped.
#pragma once

#include <string>
#include <string_view>

namespace heddle::kube {

// Everything but unreserved characters (RFC 3986) as %XX: right in a path segment and in a query value.
std::string url_escape(std::string_view text);

// A resource: its group and version, and its plural name, such as {"resource.k8s.io/v1", "resourceclaims"}; the core
// group is {"v1", "pods"}.
struct ResourceType {
  std::string_view group_version;
  std::string_view plural;
};

inline constexpr ResourceType kPods{"v1", "pods"};
inline constexpr ResourceType kNodes{"v1", "nodes"};
inline constexpr ResourceType kNamespaces{"v1", "namespaces"};
inline constexpr ResourceType kSecrets{"v1", "secrets"};
inline constexpr ResourceType kEvents{"v1", "events"};
inline constexpr ResourceType kResourceQuotas{"v1", "resourcequotas"};
inline constexpr ResourceType kResourceClaims{"resource.k8s.io/v1", "resourceclaims"};
inline constexpr ResourceType kResourceClaimTemplates{"resource.k8s.io/v1", "resourceclaimtemplates"};
inline constexpr ResourceType kResourceSlices{"resource.k8s.io/v1", "resourceslices"};
inline constexpr ResourceType kDeviceClasses{"resource.k8s.io/v1", "deviceclasses"};
inline constexpr ResourceType kDeviceTaintRules{"resource.k8s.io/v1", "devicetaintrules"};
inline constexpr ResourceType kLeases{"coordination.k8s.io/v1", "leases"};
inline constexpr ResourceType kMutatingWebhooks{"admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations"};
inline constexpr ResourceType kValidatingWebhooks{"admissionregistration.k8s.io/v1", "validatingwebhookconfigurations"};
inline constexpr ResourceType kAcceleratorQueues{"heddle.dev/v1alpha1", "acceleratorqueues"};
inline constexpr ResourceType kAcceleratorTopologies{"heddle.dev/v1alpha1", "acceleratortopologies"};
inline constexpr ResourceType kAcceleratorReservations{"heddle.dev/v1alpha1", "acceleratorreservations"};

// All objects of the cluster: "/apis/resource.k8s.io/v1/resourceclaims".
std::string collection_path(ResourceType type);
// Those of one namespace; what a create is posted to.
std::string collection_path(ResourceType type, std::string_view name_space);
// One object; name_space is empty for cluster-scoped ones. subresource: "status", "binding", "eviction" ... or empty.
std::string object_path(ResourceType type, std::string_view name_space, std::string_view name,
                        std::string_view subresource = {});

inline std::string pod_path(std::string_view name_space, std::string_view name, std::string_view subresource = {}) {
  return object_path(kPods, name_space, name, subresource);
}
inline std::string resource_claim_path(std::string_view name_space, std::string_view name,
                                       std::string_view subresource = {}) {
  return object_path(kResourceClaims, name_space, name, subresource);
}
inline std::string resource_slice_path(std::string_view name) {
  return object_path(kResourceSlices, {}, name);
}
inline std::string lease_path(std::string_view name_space, std::string_view name) {
  return object_path(kLeases, name_space, name);
}

}  // namespace heddle::kube
