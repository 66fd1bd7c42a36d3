// Names that Heddle writes on objects of the cluster; the controller, the webhook and the tools read the same ones.
#pragma once

#include <string_view>

namespace heddle::dialects {

inline constexpr std::string_view kDriver = "accelerator.heddle.dev";
inline constexpr std::string_view kGate = "heddle.dev/placement";
inline constexpr std::string_view kRequestAnnotation = "heddle.dev/request";
inline constexpr std::string_view kManagedLabel = "heddle.dev/managed";
inline constexpr std::string_view kNvidiaClass = "heddle-nvidia";
inline constexpr std::string_view kAnyClass = "heddle";
inline constexpr std::string_view kUuidAttribute = "accelerator.heddle.dev/uuid";
inline constexpr std::string_view kShareConfigVersion = "heddle.dev/v1alpha1";
inline constexpr std::string_view kMemoryCapacity = "memory";
inline constexpr std::string_view kCoresCapacity = "cores";

}  // namespace heddle::dialects
