// By which rule a workload gets its node and its cards. What each means: engine/engine.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/meta.h"

namespace heddle::model {

enum class PlacementPolicy : uint8_t { kPacking, kBestFit, kSpread, kLeastLoaded };

// "packing", "best-fit", "spread", "least-loaded": as a label, an annotation and AcceleratorQueue write it.
std::string_view policy_name(PlacementPolicy policy);
// Errors: kInvalidArgument, which says what to write instead.
Result<PlacementPolicy> parse_placement_policy(std::string_view text);

inline constexpr const char* kPlacementPolicyMark = "heddle.dev/placement-policy";  // label or annotation of a pod

// What a pod says by its marks, an annotation before a label; nothing: it does not say.
// Errors: kInvalidArgument, with the field.
Result<std::optional<PlacementPolicy>> marked_policy(const std::map<std::string, std::string>& annotations,
                                                     const std::map<std::string, std::string>& labels);
// The same; a mark that says none of them counts as none. Admission refuses those, but labels can be changed later.
std::optional<PlacementPolicy> pod_policy(const ObjectMeta& meta);

}  // namespace heddle::model
