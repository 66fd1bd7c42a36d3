#include "engine/eviction.h"

#include <algorithm>
#include <set>

#include "engine/state_impl.h"

namespace heddle::engine {

namespace {

// Each device has one holder that nobody can join: nothing fits, without a search.
bool all_taken(const NodeEntry& node) {
  for (const allocator::PoolView& view : node.view.pools) {
    for (const allocator::DeviceInfo* device : view.devices) {
      if (device->held.whole == 0 && device->held.alone == 0) return false;
    }
  }
  return true;
}

}  // namespace

struct RoomWithout::Inside {
  Placement placement;
  const std::map<std::string, VictimHoldings>& victims;
};

RoomWithout::RoomWithout(std::unique_ptr<Inside> inside) : inside_(std::move(inside)) {}
RoomWithout::~RoomWithout() = default;

Result<std::unique_ptr<RoomWithout>> RoomWithout::make(const State& state, const PlacementRequest& request,
                                                       const std::map<std::string, VictimHoldings>& victims) {
  HEDDLE_TRY(Placement placement, make_placement(state.inside(), request));
  std::unique_ptr<Inside> inside(new Inside{std::move(placement), victims});
  return std::unique_ptr<RoomWithout>(new RoomWithout(std::move(inside)));
}

bool RoomWithout::fits(const std::string& site, const std::vector<const queueing::Victim*>& gone) {
  Placement& placement = inside_->placement;
  const State::Impl& state = placement.state;
  const auto node = state.inventory.nodes().find(site);
  if (node == state.inventory.nodes().end() || placement.bar_of(node->second) != Bar::kNone) return false;
  std::vector<std::string> pods;
  std::vector<const Grant*> ended;
  for (const queueing::Victim* victim : gone) {
    const auto holdings = inside_->victims.find(victim->id);
    if (holdings == inside_->victims.end()) continue;
    pods.insert(pods.end(), holdings->second.pod_uids.begin(), holdings->second.pod_uids.end());
    for (const std::string& uid : holdings->second.claim_uids) {
      if (const Grant* grant = state.ledger.find(uid); grant != nullptr) ended.push_back(grant);
    }
  }
  if (!placement.plainly_fits_without(node->second, pods)) return false;
  allocator::Assumption assumption;
  std::set<DeviceKey> touched;
  for (const Grant* grant : ended) {
    for (const model::DeviceResult& result : grant->results) {
      const DeviceKey key = key_of(result);
      const allocator::DeviceInfo* device = state.inventory.find(key);
      const std::vector<Holding>* holdings = state.ledger.find(key);
      if (device == nullptr || holdings == nullptr || !touched.insert(key).second) continue;
      assumption.instead.emplace_back(device, held_by(*holdings, *device->shape, ended));
    }
  }
  const auto fit = placement.devices_fit(node->second, assumption);
  return fit && *fit;
}

std::optional<std::string> RoomWithout::room_now() {
  const bool devices = !inside_->placement.claims.empty();
  for (const auto& [name, node] : inside_->placement.state.inventory.nodes()) {
    if (devices && all_taken(node)) continue;
    if (fits(name, {})) return name;
  }
  return std::nullopt;
}

}  // namespace heddle::engine
