#include "engine/reserve.h"

#include <algorithm>

#include "engine/boxes.h"
#include "engine/cards.h"

namespace heddle::engine {

bool may_be_spare(const NodeEntry& node, const allocator::Options& options) {
  if (!is_open(node)) return false;
  bool any = false;
  for (const allocator::PoolView& view : node.view.pools) {
    for (const allocator::DeviceInfo* device : view.devices) {
      if (Inventory::node_of(*device).empty()) continue;
      if (keeps_all_away(*device, options)) return false;
      any = true;
    }
  }
  return any;
}

bool is_empty(const NodeEntry& node, const allocator::Assumption& assumption) {
  const auto free = [&](const allocator::DeviceInfo* device) {
    if (Inventory::node_of(*device).empty()) return true;
    for (const auto& [other, held] : assumption.instead) {
      if (other == device) return nobody_holds(held);
    }
    return nobody_holds(device->held);
  };
  const auto& pools = node.view.pools;
  return std::all_of(pools.begin(), pools.end(), [&](const allocator::PoolView& view) {
    return std::all_of(view.devices.begin(), view.devices.end(), free);
  });
}

bool is_empty(const NodeEntry& node) {
  if (!node.empty_known) node.empty = is_empty(node, {});
  node.empty_known = true;
  return node.empty;
}

void ReserveKeeper::set(const std::vector<TopologyLevel>& levels) {
  levels_.clear();
  std::copy_if(levels.begin(), levels.end(), std::back_inserter(levels_),
               [](const TopologyLevel& level) { return level.reserve_nodes > 0; });
  reshapes_.reset();
}

bool ReserveKeeper::lends() const {
  return std::any_of(levels_.begin(), levels_.end(),
                     [](const TopologyLevel& level) { return level.reserve_use == ReserveUse::kWhenNeeded; });
}

void ReserveKeeper::divide(const Inventory& inventory, const allocator::Options& options) const {
  domains_.clear();
  for (const TopologyLevel& level : levels_) {
    std::map<std::string, Domain> found;
    for (const auto& [name, node] : inventory.nodes()) {
      std::string domain = domain_of(node, level);
      if (domain.empty() || !may_be_spare(node, options)) continue;
      Domain& in = found[std::move(domain)];
      in.level = &level;
      in.nodes.push_back(&node);
    }
    for (auto& [name, domain] : found) domains_.push_back(std::move(domain));
  }
}

void ReserveKeeper::refresh(const Inventory& inventory, const allocator::Options& options) const {
  if (reshapes_ != inventory.reshapes()) {
    reshapes_ = inventory.reshapes();
    changes_.reset();
    divide(inventory, options);
  }
  if (changes_ == inventory.changes()) return;
  changes_ = inventory.changes();
  reserved_.clear();
  for (Domain& domain : domains_) {
    domain.empty = 0;
    for (auto node = domain.nodes.rbegin(); node != domain.nodes.rend(); ++node) {
      if (domain.empty == domain.level->reserve_nodes) break;
      if (!is_empty(**node)) continue;
      ++domain.empty;
      ReserveUse& use = reserved_.emplace(*node, domain.level->reserve_use).first->second;
      use = std::max(use, domain.level->reserve_use);
    }
  }
}

std::optional<ReserveUse> ReserveKeeper::of(const Inventory& inventory, const allocator::Options& options,
                                            const NodeEntry& node) const {
  if (levels_.empty()) return std::nullopt;
  refresh(inventory, options);
  const auto found = reserved_.find(&node);
  return found == reserved_.end() ? std::nullopt : std::optional(found->second);
}

bool ReserveKeeper::would_be_kept(const Inventory& inventory, const allocator::Options& options,
                                  const NodeEntry& node) const {
  if (levels_.empty()) return false;
  refresh(inventory, options);
  return std::any_of(domains_.begin(), domains_.end(), [&](const Domain& domain) {
    return domain.level->reserve_use == ReserveUse::kReplacements && domain.empty < domain.level->reserve_nodes &&
           std::find(domain.nodes.begin(), domain.nodes.end(), &node) != domain.nodes.end();
  });
}

}  // namespace heddle::engine
