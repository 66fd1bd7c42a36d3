// Names on the wire and in the container that the agent and others agree on.
#pragma once

#include <string_view>

namespace heddle::agent {

inline constexpr std::string_view kDriver = "accelerator.heddle.dev";
inline constexpr std::string_view kTaintManaged = "heddle.dev/managed";
inline constexpr std::string_view kTaintForeign = "heddle.dev/foreign-owner";
inline constexpr std::string_view kTaintUnhealthy = "heddle.dev/unhealthy";
inline constexpr std::string_view kNoSchedule = "NoSchedule";
inline constexpr std::string_view kCdiKind = "heddle.dev/claim";
inline constexpr std::string_view kCdiFilePrefix = "heddle.dev-claim-";

inline constexpr std::string_view kLimitsInContainer = "/run/heddle/limits";
inline constexpr std::string_view kUsageInContainer = "/run/heddle/usage";
inline constexpr std::string_view kLibraryDirInContainer = "/run/heddle/lib";
inline constexpr std::string_view kGuardLibraryName = "libheddle_guard.so";
inline constexpr std::string_view kMpsPipeInContainer = "/run/heddle/mps";
inline constexpr std::string_view kPreloadInContainer = "/etc/ld.so.preload";

}  // namespace heddle::agent
