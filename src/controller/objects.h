// The writes of the controller as requests to the API server. Pure: objects in, a request out.
#pragma once

#include <string>
#include <string_view>

#include "dialects/translate.h"
#include "kube/client.h"
#include "model/claim.h"
#include "model/pod.h"

namespace heddle::controller {

inline constexpr std::string_view kProtectionFinalizer = "resource.kubernetes.io/delete-protection";
inline constexpr std::string_view kConditionType = "heddle.dev/Allocated";

// The claim that a translated request stands for: owned by the pod, protected, labelled, without status.
model::ResourceClaim claim_for(const model::Pod& pod, const dialects::ContainerRequest& request);

// True when the claim asks for exactly this, whatever the notation of quantities and parameters.
[[nodiscard]] bool same_spec(const model::ClaimSpec& a, const model::ClaimSpec& b);

// Whether the class selects devices of this driver: its name stands in a selector.
[[nodiscard]] bool speaks_of(const model::DeviceClass& device_class, std::string_view driver);
// Devices that a claim may open up on one node.
[[nodiscard]] int64_t devices_opened(const model::ClaimSpec& spec);

kube::Request create_claim(const model::ResourceClaim& claim);
// PUT of the status; the resourceVersion makes it fail when anything changed since `claim` was read.
kube::Request put_claim_status(const model::ResourceClaim& claim);
kube::Request add_finalizer(const model::ResourceClaim& claim);
kube::Request remove_finalizer(const model::ResourceClaim& claim);
kube::Request delete_claim(const model::ResourceClaim& claim);
kube::Request read_claim(std::string_view key);
kube::Request read_pod(std::string_view key);
// By the Eviction API: disruption budgets hold, and another pod of the same name is left alone.
kube::Request evict_pod(std::string_view key, const std::string& uid);
// Takes the gate away; doing it twice is harmless, and another pod of the same name is left alone.
kube::Request ungate_pod(const model::Pod& pod);
// nominate: status.nominatedNodeName goes with it, or is cleared when empty; none: it is left alone.
kube::Request patch_condition(const model::Pod& pod, const model::PodCondition& condition, Time now,
                              const std::optional<std::string>& nominate);

// The status of a cluster-scoped object of heddle.dev/v1alpha1.
kube::Request patch_heddle_status(std::string_view plural, std::string_view name, std::string body);

struct EventText {
  std::string reason;  // HeddleWaiting
  std::string message;
  std::string_view type;  // Normal, Warning
};
// unique: makes the event's name; the same one twice is the same event.
kube::Request create_event(const model::Pod& pod, const EventText& text, std::string_view component, Time now,
                           uint64_t unique);

// Of a DaemonSet, or of the kubelet itself: its end makes no room.
[[nodiscard]] bool comes_back_at_once(const model::Pod& pod);

}  // namespace heddle::controller
