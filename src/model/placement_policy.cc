#include "model/placement_policy.h"

#include <array>
#include <utility>

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

Result<std::optional<PlacementPolicy>> marked_policy(const std::map<std::string, std::string>& annotations,
                                                     const std::map<std::string, std::string>& labels) {
  for (const auto& [list, marks] : {std::pair("annotations", &annotations), std::pair("labels", &labels)}) {
    const auto mark = marks->find(kPlacementPolicyMark);
    if (mark == marks->end()) continue;
    const auto policy = parse_placement_policy(mark->second);
    if (!policy) {
      return fail(policy.error().code, policy.error().message,
                  std::string("metadata.") + list + "[" + kPlacementPolicyMark + "]");
    }
    return std::optional(*policy);
  }
  return std::optional<PlacementPolicy>();
}

std::optional<PlacementPolicy> pod_policy(const ObjectMeta& meta) {
  const auto marked = marked_policy(meta.annotations, meta.labels);
  return marked ? *marked : std::nullopt;
}

}  // namespace heddle::model
