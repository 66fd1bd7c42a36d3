// By which rule a workload gets its node and its cards. What each means: engine/engine.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace heddle::model {

enum class PlacementPolicy : uint8_t { kPacking, kBestFit, kSpread, kLeastLoaded };

// "packing", "best-fit", "spread", "least-loaded": as a label, an annotation and AcceleratorQueue write it.
std::string_view policy_name(PlacementPolicy policy);
// Errors: kInvalidArgument, which says what to write instead.
Result<PlacementPolicy> parse_placement_policy(std::string_view text);

inline constexpr const char* kPlacementPolicyMark = "heddle.dev/placement-policy";  // label or annotation of a pod

}  // namespace heddle::model
