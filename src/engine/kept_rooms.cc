// Room that is kept for work that is to start when others have ended.
#include <algorithm>

#include "engine/state_impl.h"

namespace heddle::engine {
namespace {

// Names of pods and claims have no blank.
std::string usage_of(const std::string& id) {
  return "kept for " + id;
}

// Whether what is kept is all that the other one has.
bool covers(const model::DeviceResult& kept, const model::DeviceResult& had) {
  if (key_of(kept) != key_of(had)) return false;
  if (kept.share_id.empty()) return true;
  if (had.share_id.empty()) return false;
  return std::all_of(had.consumed_capacity.begin(), had.consumed_capacity.end(), [&](const auto& amount) {
    const auto same = kept.consumed_capacity.find(amount.first);
    return same != kept.consumed_capacity.end() && !(same->second < amount.second);
  });
}

// Whether the makers leave more of their devices than is kept.
bool leaves_some(const KeptRoom& room, const Ledger& ledger) {
  const auto kept = [&](const model::DeviceResult& had) {
    return std::any_of(room.allocations.begin(), room.allocations.end(), [&](const model::Allocation& allocation) {
      return std::any_of(allocation.results.begin(), allocation.results.end(),
                         [&](const auto& one) { return covers(one, had); });
    });
  };
  return std::any_of(room.claim_uids.begin(), room.claim_uids.end(), [&](const std::string& uid) {
    const Grant* grant = ledger.find(uid);
    return grant != nullptr && !std::all_of(grant->results.begin(), grant->results.end(), kept);
  });
}

}  // namespace

void State::Impl::settle_room(const std::string& id) {
  const KeptRoom& room = rooms.at(id);
  PodUsage kept{room.node, room.usage, room.ports};
  for (const std::string& uid : room.pod_uids) {
    const auto leaves = pods.find(uid);
    if (leaves == pods.end() || leaves->second.node != room.node) continue;
    kept.pods = 0;
    for (auto& [resource, amount] : kept.usage) {
      const auto has = leaves->second.usage.find(resource);
      if (has != leaves->second.usage.end()) amount = std::max<int64_t>(amount - has->second, 0);
    }
  }
  put_pod(usage_of(id), std::move(kept));
}

void State::Impl::settle_rooms_of(const std::string& pod_uid) {
  const auto made = making.find(pod_uid);
  if (made == making.end()) return;
  for (const std::string& id : made->second) settle_room(id);
}

void State::keep_room(const std::string& id, KeptRoom room) {
  free_room(id);
  for (const DeviceKey& device : impl_->ledger.keep(id, room)) impl_->inventory.refresh(device);
  for (const std::string& uid : room.pod_uids) impl_->making[uid].insert(id);
  if (!room.guest && leaves_some(room, impl_->ledger)) impl_->spacious.insert(id);
  impl_->rooms.insert_or_assign(id, std::move(room));
  impl_->settle_room(id);
}

void State::free_room(const std::string& id) {
  const auto known = impl_->rooms.find(id);
  if (known == impl_->rooms.end()) return;
  for (const DeviceKey& device : impl_->ledger.unkeep(id)) impl_->inventory.refresh(device);
  for (const std::string& uid : known->second.pod_uids) {
    const auto made = impl_->making.find(uid);
    if (made == impl_->making.end()) continue;
    made->second.erase(id);
    if (made->second.empty()) impl_->making.erase(made);
  }
  impl_->drop_pod(usage_of(id));
  impl_->spacious.erase(id);
  if (!known->second.guest) ++impl_->generation;
  impl_->rooms.erase(known);
}

}  // namespace heddle::engine
