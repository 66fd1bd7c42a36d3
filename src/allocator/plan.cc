#include "allocator/plan.h"

namespace heddle::allocator {

Plans::Plans(std::vector<PreparedClaim>& claims) {
  for (size_t c = 0; c < claims.size(); ++c) {
    std::vector<size_t>& first = first_.emplace_back();
    for (size_t r = 0; r < claims[c].requests.size(); ++r) {
      first.push_back(plans_.size());
      for (Alternative& alternative : claims[c].requests[r].alternatives) {
        plans_.push_back({.prepared = &claims[c],
                          .alternative = &alternative,
                          .claim = c,
                          .request = r,
                          .ordinal = plans_.size(),
                          .candidates = {}});
      }
    }
  }
}

void Plan::list(const NodeView& node, const Options& options) {
  if (listed) return;
  listed = true;
  failing = !alternative->spec->derived_attributes.empty();  // to compare them may be an error
  for (const PoolView& view : node.pools) {
    if (view.pool->incomplete || !view.pool->invalid.empty()) continue;
    for (const DeviceInfo* device : view.devices) {
      if (!options.features.binding_conditions && !device->device->binding_conditions.empty()) continue;
      const Query::Answer answer = alternative->query->answer(*device);
      const bool error = answer == Query::Answer::kError && options.selector_errors == SelectorErrors::kAbort;
      if (answer != Query::Answer::kYes && !error) continue;
      const auto take = error ? Result<const Consumption*>(nullptr) : alternative->consumption(*device->shape);
      if (error || !take) {
        failing = true;
        candidates.push_back({.device = device});
      } else if ((*take)->possible) {
        candidates.push_back({.device = device, .take = *take});
      }
    }
  }
}

Error Plan::error_of(const DeviceInfo& device) const {
  if (alternative->query->answer(device) == Query::Answer::kError) {
    return alternative->query->explain(device, prepared->key);
  }
  const auto take = alternative->consumption(*device.shape);
  const std::string why = take ? "no error" : take.error().message;
  return {
      Code::kInvalidArgument,
      place_text(prepared->key, *alternative) + ": checking capacity for device " + device_text(device) + ": " + why,
      {}};
}

}  // namespace heddle::allocator
