#include "model/placement_policy.h"

#include <array>

namespace heddle::model {

std::string_view policy_name(PlacementPolicy policy) {
  switch (policy) {
    case PlacementPolicy::kPacking:
      return "packing";
    case PlacementPolicy::kBestFit:
      return "best-fit";
    case PlacementPolicy::kSpread:
      return "spread";
    case PlacementPolicy::kLeastLoaded:
      return "least-loaded";
  }
  return "";
}

Result<PlacementPolicy> parse_placement_policy(std::string_view text) {
  constexpr std::array kAll = {PlacementPolicy::kPacking, PlacementPolicy::kBestFit, PlacementPolicy::kSpread,
                               PlacementPolicy::kLeastLoaded};
  for (const PlacementPolicy policy : kAll) {
    if (policy_name(policy) == text) return policy;
  }
  return fail(Code::kInvalidArgument,
              "is \"" + std::string(text) + "\": write packing, best-fit, spread or least-loaded, or leave it out");
}

}  // namespace heddle::model
