// What is held beyond what there is, and who holds what.
#include <algorithm>

#include "engine/state_impl.h"

namespace heddle::engine {
namespace {

using allocator::Amount;

std::string what_is_wrong(const std::vector<Holding>& holdings, const allocator::DeviceInfo* device) {
  const auto whole = std::count_if(holdings.begin(), holdings.end(),
                                   [](const Holding& holding) { return holding.result->share_id.empty(); });
  if (whole > 1) return "held whole by " + std::to_string(whole) + " claims";
  if (whole == 1 && holdings.size() > 1) return "held whole by one claim and shared by others";
  if (device == nullptr || holdings.size() < 2) return {};
  const allocator::Held held = held_by(holdings, *device->shape);
  for (size_t i = 0; i < held.used.size(); ++i) {
    const allocator::CapacityInfo& capacity = device->shape->capacities[i];
    if (held.used[i] <= capacity.value) continue;
    const Quantity::Format format = capacity.published.value.format();
    return capacity.name + ": " + allocator::quantity_of(held.used[i], format).to_string() + " of " +
           capacity.published.value.to_string();
  }
  if (held.alone > 0) return "held alone (cores 100) by one claim and shared by others";
  return {};
}

std::vector<Holding> granted_of(const std::vector<Holding>& holdings) {
  std::vector<Holding> granted = holdings;
  std::erase_if(granted, [](const Holding& holding) { return holding.grant->kept; });
  return granted;
}

std::vector<std::string> oldest_first(const std::vector<Holding>& holdings) {
  std::vector<const Grant*> grants;
  for (const Holding& holding : holdings) {
    if (std::find(grants.begin(), grants.end(), holding.grant) == grants.end()) grants.push_back(holding.grant);
  }
  // A grant without a time was not written yet, so it is the youngest.
  std::stable_sort(grants.begin(), grants.end(), [](const Grant* a, const Grant* b) {
    if (a->since.has_value() != b->since.has_value()) return a->since.has_value();
    return a->since && *a->since < *b->since;
  });
  std::vector<std::string> uids;
  uids.reserve(grants.size());
  for (const Grant* grant : grants) uids.push_back(grant->uid);
  return uids;
}

DeviceUse make_use(const DeviceKey& key, const allocator::DeviceInfo* device, const std::vector<Holding>* holdings) {
  DeviceUse use{.device = key, .node = {}, .published = false, .holders = {}};
  if (device != nullptr) {
    use.published = true;
    use.node = Inventory::node_of(*device);
  }
  if (holdings == nullptr) return use;
  for (const Holding& holding : granted_of(*holdings)) {
    if (use.node.empty() && holding.grant->node) use.node = *holding.grant->node;
    use.holders.push_back({.claim_uid = holding.grant->uid,
                           .claim_key = holding.grant->claim_key,
                           .share_id = holding.result->share_id,
                           .consumed = holding.result->consumed_capacity});
  }
  return use;
}

}  // namespace

std::vector<OverCommit> State::over_commits() const {
  std::vector<OverCommit> result;
  for (const auto& [key, all] : impl_->ledger.devices()) {
    const bool kept = std::any_of(all.begin(), all.end(), [](const Holding& holding) { return holding.grant->kept; });
    const std::vector<Holding> granted = kept ? granted_of(all) : std::vector<Holding>();
    const std::vector<Holding>& holdings = kept ? granted : all;
    std::string what = what_is_wrong(holdings, impl_->inventory.find(key));
    if (what.empty()) continue;
    result.push_back({.device = key, .claim_uids = oldest_first(holdings), .what = std::move(what)});
  }
  return result;
}

std::vector<DeviceUse> State::device_uses() const {
  std::map<DeviceKey, DeviceUse> uses;
  for (const allocator::DeviceInfo* device : impl_->inventory.devices()) {
    const DeviceKey key{device->pool->driver, device->pool->name, device->name()};
    uses.emplace(key, make_use(key, device, impl_->ledger.find(key)));
  }
  for (const auto& [key, holdings] : impl_->ledger.devices()) {
    if (uses.contains(key) || granted_of(holdings).empty()) continue;
    uses.emplace(key, make_use(key, nullptr, &holdings));
  }
  std::vector<DeviceUse> result;
  result.reserve(uses.size());
  for (auto& [key, use] : uses) result.push_back(std::move(use));
  return result;
}

}  // namespace heddle::engine
