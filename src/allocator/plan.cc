#include "allocator/plan.h"

namespace heddle::allocator {

Plans::Plans(std::vector<PreparedClaim>& claims) {
  for (size_t c = 0; c < claims.size(); ++c) {
    std::vector<size_t>& first = first_.emplace_back();
    for (size_t r = 0; r < claims[c].requests.size(); ++r) {
      first.push_back(plans_.size());
      for (Alternative& alternative : claims[c].requests[r].alternatives) {
        Plan& plan = plans_.emplace_back();
        plan.prepared = &claims[c];
        plan.alternative = &alternative;
        plan.claim = c;
        plan.request = r;
        plan.ordinal = plans_.size() - 1;
      }
    }
  }
}

void Plans::begin() {
  for (Plan& plan : plans_) plan.begin();
}

void Plan::begin() {
  listed = false;
  failing = !alternative->spec->derived_attributes.empty();  // to compare them may be an error
  candidates.clear();
  next_pool_ = 0;
  next_device_ = 0;
}

bool Plan::reach(size_t index, const NodeView& node, const Occupancy& occupancy, const Options& options) {
  const bool with_held = alternative->all || alternative->spec->admin_access;
  while (candidates.size() <= index && next_pool_ < node.pools.size()) {
    const PoolView& view = node.pools[next_pool_];
    if (view.pool->incomplete || !view.pool->invalid.empty() || next_device_ == view.devices.size()) {
      ++next_pool_;
      next_device_ = 0;
      continue;
    }
    const DeviceInfo& device = *view.devices[next_device_++];
    if (!with_held && occupancy.closed(device)) continue;
    add(device, options);
  }
  listed = next_pool_ == node.pools.size();
  return index < candidates.size();
}

void Plan::add(const DeviceInfo& device, const Options& options) {
  if (!options.features.binding_conditions && device.has_binding_conditions) return;
  const Query::Answer answer = alternative->query->answer(device);
  const bool error = answer == Query::Answer::kError && options.selector_errors == SelectorErrors::kAbort;
  if (answer != Query::Answer::kYes && !error) return;
  const auto take = error ? Result<const Consumption*>(nullptr) : alternative->consumption(*device.shape);
  if (error || !take) {
    failing = true;
    candidates.push_back({.device = &device});
  } else if ((*take)->possible) {
    candidates.push_back({.device = &device, .take = *take});
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
