// Names that Heddle writes on objects of the cluster; the controller, the webhook and the tools read the same ones.
#pragma once

#include <string_view>

namespace heddle::dialects {

inline constexpr std::string_view kDriver = "accelerator.heddle.dev";
inline constexpr std::string_view kGate = "heddle.dev/placement";
inline constexpr std::string_view kRequestAnnotation = "heddle.dev/request";
// On a claim: what the hardware made of the request, in words.
inline constexpr std::string_view kRoundingAnnotation = "heddle.dev/rounding";
// Of a pod, each a label or an annotation (docs/gangs.md).
inline constexpr std::string_view kGangKey = "heddle.dev/gang";
inline constexpr std::string_view kGangSizeKey = "heddle.dev/gang-size";
inline constexpr std::string_view kGangMinimumKey = "heddle.dev/gang-minimum";
inline constexpr std::string_view kGangSubgroupKey = "heddle.dev/gang-subgroup";
inline constexpr std::string_view kGangSubgroupMinimumKey = "heddle.dev/gang-subgroup-minimum";
inline constexpr std::string_view kGangIndexKey = "heddle.dev/gang-index";
inline constexpr std::string_view kGangSegmentSizeKey = "heddle.dev/gang-segment-size";
inline constexpr std::string_view kGangSegmentTopologyKey = "heddle.dev/gang-segment-topology";
inline constexpr std::string_view kTopologyRequiredKey = "heddle.dev/topology-required";
inline constexpr std::string_view kTopologyPreferredKey = "heddle.dev/topology-preferred";
inline constexpr std::string_view kManagedLabel = "heddle.dev/managed";
inline constexpr std::string_view kAnyClass = "heddle";
inline constexpr std::string_view kUuidAttribute = "accelerator.heddle.dev/uuid";
inline constexpr std::string_view kParentUuidAttribute = "accelerator.heddle.dev/parentUUID";
inline constexpr std::string_view kNumaAttribute = "resource.kubernetes.io/numaNode";
inline constexpr std::string_view kShareConfigVersion = "heddle.dev/v1alpha1";
inline constexpr std::string_view kMemoryCapacity = "memory";
inline constexpr std::string_view kCoresCapacity = "cores";

}  // namespace heddle::dialects
