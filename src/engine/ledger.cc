#include "engine/ledger.h"

#include <algorithm>

namespace heddle::engine {
namespace {

std::string holder_of(const model::ResourceClaim& claim) {
  const std::string prefix = claim.meta.name_space.empty() ? "" : claim.meta.name_space + "/";
  for (const model::ConsumerReference& consumer : claim.reserved_for) {
    if (consumer.resource == "pods") return prefix + consumer.name;
  }
  for (const model::OwnerReference& owner : claim.meta.owners) {
    if (owner.kind == "Pod") return prefix + owner.name;
  }
  return claim.meta.key();
}

// No claim is called so.
std::string kept_uid(const std::string& id) {
  return "kept for " + id;
}

void add_results(const model::Allocation& allocation, Grant& grant) {
  const std::vector<Tenant> tenants = tenants_of(allocation);
  for (size_t i = 0; i < tenants.size(); ++i) {
    if (allocation.results[i].admin_access) continue;
    grant.results.push_back(allocation.results[i]);
    grant.tenants.push_back(tenants[i]);
  }
}

Grant make_grant(const model::ResourceClaim& claim) {
  Grant grant;
  grant.uid = claim.meta.uid;
  grant.claim_key = claim.meta.key();
  grant.holder = holder_of(claim);
  grant.since = claim.allocation->timestamp;
  grant.node = model::allocated_node(*claim.allocation);
  add_results(*claim.allocation, grant);
  return grant;
}

bool same(const Grant& a, const Grant& b) {
  return a.claim_key == b.claim_key && a.holder == b.holder && a.since == b.since && a.node == b.node &&
         a.results == b.results && a.tenants == b.tenants;
}

}  // namespace

DeviceKey key_of(const model::DeviceResult& result) {
  return {result.driver, result.pool, result.device};
}

std::vector<DeviceKey> Ledger::upsert(const model::ResourceClaim& claim) {
  if (!claim.allocation) return remove(claim.meta.uid);
  Grant grant = make_grant(claim);
  const Grant* known = find(claim.meta.uid);
  if (known != nullptr && same(*known, grant)) return {};
  std::vector<DeviceKey> changed = remove(claim.meta.uid);
  put(std::move(grant), changed);
  return changed;
}

std::vector<DeviceKey> Ledger::keep(const std::string& id, const KeptRoom& room) {
  Grant grant;
  grant.uid = kept_uid(id);
  grant.holder = id;
  grant.node = room.node;
  grant.kept = true;
  grant.made_by = room.claim_uids;
  for (const model::Allocation& allocation : room.allocations) add_results(allocation, grant);
  std::vector<DeviceKey> changed = unkeep(id);
  put(std::move(grant), changed);
  return changed;
}

std::vector<DeviceKey> Ledger::unkeep(const std::string& id) {
  return remove(kept_uid(id));
}

void Ledger::put(Grant grant, std::vector<DeviceKey>& changed) {
  Grant& stored = grants_[grant.uid];
  stored = std::move(grant);
  count_shares(stored, 1);
  for (size_t i = 0; i < stored.results.size(); ++i) {
    const DeviceKey key = key_of(stored.results[i]);
    std::vector<Holding>& holdings = devices_[key];
    const auto place = std::find_if(holdings.begin(), holdings.end(),
                                    [&](const Holding& other) { return other.grant->uid > stored.uid; });
    holdings.insert(place, {&stored, &stored.results[i], &stored.tenants[i]});
    changed.push_back(key);
  }
}

std::vector<DeviceKey> Ledger::remove(const std::string& uid) {
  std::vector<DeviceKey> changed;
  const auto found = grants_.find(uid);
  if (found == grants_.end()) return changed;
  count_shares(found->second, -1);
  for (const model::DeviceResult& result : found->second.results) {
    const auto device = devices_.find(key_of(result));
    if (device == devices_.end()) continue;
    std::erase_if(device->second, [&](const Holding& holding) { return holding.grant == &found->second; });
    changed.push_back(device->first);
    if (device->second.empty()) devices_.erase(device);
  }
  grants_.erase(found);
  return changed;
}

void Ledger::count_shares(const Grant& grant, int64_t sign) {
  if (grant.kept) return;  // nobody runs there yet
  for (size_t i = 0; i < grant.results.size(); ++i) {
    if (!grant.results[i].share_id.empty()) count(grant.tenants[i], sign, crowd_);
  }
}

const Grant* Ledger::find(const std::string& uid) const {
  const auto found = grants_.find(uid);
  return found == grants_.end() ? nullptr : &found->second;
}

const std::vector<Holding>* Ledger::find(const DeviceKey& device) const {
  const auto found = devices_.find(device);
  return found == devices_.end() ? nullptr : &found->second;
}

namespace {

// A share that does not say what it takes is counted as all: too much is safe, too little grants twice.
allocator::Amount taken_of(const model::DeviceResult& share, const allocator::CapacityInfo& capacity) {
  const auto& consumed = share.consumed_capacity;
  if (consumed.empty()) return capacity.value;
  const auto found = consumed.find(capacity.name);
  return found == consumed.end() ? 0 : allocator::amount_of(found->second).value_or(capacity.value);
}

}  // namespace

allocator::Held held_by(const std::vector<Holding>& holdings, const allocator::Shape& shape,
                        const std::vector<const Grant*>& without) {
  allocator::Held held;
  const auto ended = [&](const Holding& holding) {
    return std::find(without.begin(), without.end(), holding.grant) != without.end();
  };
  // What of a room that is kept its makers still have: it is counted with them.
  const auto still_had = [&](const Grant& room, const allocator::CapacityInfo& capacity) {
    allocator::Amount had = 0;
    for (const Holding& other : holdings) {
      const auto& makers = room.made_by;
      if (other.result->share_id.empty() || ended(other)) continue;
      if (std::find(makers.begin(), makers.end(), other.grant->uid) == makers.end()) continue;
      had += taken_of(*other.result, capacity);
    }
    return had;
  };
  for (const Holding& holding : holdings) {
    if (ended(holding)) continue;
    if (holding.result->share_id.empty()) {
      ++held.whole;
      continue;
    }
    ++held.shares;
    if (holding.tenant != nullptr) add(*holding.tenant, held.sharers);
    held.used.resize(shape.capacities.size());
    bool alone = false;
    for (size_t i = 0; i < shape.capacities.size(); ++i) {
      const allocator::CapacityInfo& capacity = shape.capacities[i];
      allocator::Amount amount = taken_of(*holding.result, capacity);
      alone = alone || (static_cast<int32_t>(i) == shape.alone && amount >= capacity.value);
      if (holding.grant->kept) amount = std::max<allocator::Amount>(amount - still_had(*holding.grant, capacity), 0);
      held.used[i] += amount;
    }
    held.alone += alone ? 1 : 0;
  }
  return held;
}

}  // namespace heddle::engine
