#include "engine/gang_eviction.h"

#include <algorithm>

#include "engine/gang_place.h"
#include "engine/slice.h"

namespace heddle::engine {

struct GangRoomWithout::Inside {
  const State& state;
  const GangRequest& request;
  const std::map<std::string, VictimHoldings>& victims;
  std::unique_ptr<GangSearch> search;  // null for a slice
  std::set<std::string> sites;
};

GangRoomWithout::GangRoomWithout(std::unique_ptr<Inside> inside) : inside_(std::move(inside)) {}
GangRoomWithout::~GangRoomWithout() = default;

Result<std::unique_ptr<GangRoomWithout>> GangRoomWithout::make(const State& state,
                                                               const std::vector<TopologyLevel>& levels,
                                                               const GangRequest& request,
                                                               const std::map<std::string, VictimHoldings>& victims) {
  std::unique_ptr<Inside> inside(
      new Inside{.state = state, .request = request, .victims = victims, .search = nullptr, .sites = {}});
  if (!is_slice(request.required)) {
    HEDDLE_TRY(inside->search, GangSearch::make(state, levels, request));
  }
  return std::unique_ptr<GangRoomWithout>(new GangRoomWithout(std::move(inside)));
}

bool GangRoomWithout::fits(const std::string& /*site*/, const std::vector<const queueing::Victim*>& gone) {
  Inside& in = *inside_;
  in.sites.clear();
  if (in.search == nullptr) {
    auto hosts = slice_without(in.state, in.request, in.victims, gone);
    if (hosts) in.sites = std::move(*hosts);
    return !in.sites.empty();
  }
  std::vector<const VictimHoldings*> ended;
  for (const queueing::Victim* victim : gone) {
    if (const auto known = in.victims.find(victim->id); known != in.victims.end()) ended.push_back(&known->second);
  }
  in.search->assume_gone(ended);
  const auto found = in.search->find();
  if (!found || !found->best) return false;
  for (const std::optional<GangSpot>& spot : found->best->second.members) {
    if (spot) in.sites.insert(in.search->node_name(spot->node));
  }
  return true;
}

bool GangRoomWithout::fits_without(const std::vector<std::string>& gone) {
  std::vector<queueing::Victim> victims(gone.size());
  std::vector<const queueing::Victim*> named;
  for (size_t i = 0; i < victims.size(); ++i) {
    victims[i].id = gone[i];
    named.push_back(&victims[i]);
  }
  return fits({}, named);
}

const std::set<std::string>& GangRoomWithout::sites() const {
  return inside_->sites;
}

void GangSearch::assume_gone(const std::vector<const VictimHoldings*>& gone) {
  freed_.clear();
  const State::Impl& state = state_.inside();
  const auto overlay_of = [&](const std::string& node) -> Overlay* {
    const auto at = std::lower_bound(nodes_.begin(), nodes_.end(), node,
                                     [](const NodeEntry* entry, const auto& name) { return entry->view.node < name; });
    if (at == nodes_.end() || (*at)->view.node != node) return nullptr;
    return &freed_[static_cast<size_t>(at - nodes_.begin())];
  };
  std::map<DeviceKey, std::vector<const Grant*>> ended;
  std::set<std::string> seen;
  for (const VictimHoldings* victim : gone) {
    for (const std::string& uid : victim->pod_uids) {
      const auto pod = state.pods.find(uid);
      Overlay* overlay = pod == state.pods.end() || !seen.insert(uid).second ? nullptr : overlay_of(pod->second.node);
      if (overlay == nullptr) continue;
      --overlay->pods;
      overlay->ended.insert(uid);
      for (const auto& [resource, amount] : pod->second.usage) overlay->used[resource] -= amount;
    }
    for (const std::string& uid : victim->claim_uids) {
      const Grant* grant = seen.insert("claim " + uid).second ? state.ledger.find(uid) : nullptr;
      if (grant == nullptr) continue;
      for (const model::DeviceResult& result : grant->results) ended[key_of(result)].push_back(grant);
    }
  }
  for (const auto& [key, grants] : ended) {
    const allocator::DeviceInfo* device = state.inventory.find(key);
    const std::vector<Holding>* holdings = state.ledger.find(key);
    if (device == nullptr || holdings == nullptr) continue;
    // Devices that are not tied to one node stay taken.
    if (Overlay* overlay = overlay_of(Inventory::node_of(*device)); overlay != nullptr)
      overlay->assumption.instead.emplace_back(device, held_by(*holdings, *device->shape, grants));
  }
}

}  // namespace heddle::engine
