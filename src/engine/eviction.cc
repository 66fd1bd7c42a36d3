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

  // Null: it may not go there, whatever ends.
  [[nodiscard]] const NodeEntry* open_node(const std::string& site) const {
    const auto& nodes = placement.state.inventory.nodes();
    const auto node = nodes.find(site);
    return node == nodes.end() || placement.bar_of(node->second) != Bar::kNone ? nullptr : &node->second;
  }

  void add(const std::string& victim, VictimHoldings& ended) const {
    const auto holdings = victims.find(victim);
    if (holdings == victims.end()) return;
    const auto& [pods, claims] = holdings->second;
    ended.pod_uids.insert(ended.pod_uids.end(), pods.begin(), pods.end());
    ended.claim_uids.insert(ended.claim_uids.end(), claims.begin(), claims.end());
  }

  [[nodiscard]] allocator::Assumption without(const std::vector<std::string>& claim_uids) const {
    const State::Impl& state = placement.state;
    std::vector<const Grant*> ended;
    for (const std::string& uid : claim_uids) {
      if (const Grant* grant = state.ledger.find(uid); grant != nullptr) ended.push_back(grant);
    }
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
    return assumption;
  }

  // The node is empty then, and its domain short of empty ones: nobody gets it for that.
  [[nodiscard]] bool empties_a_spare(const NodeEntry& node, const allocator::Assumption& assumption) const {
    if (placement.reserve == Reserve::kOpen || assumption.instead.empty() || placement.claims.empty()) return false;
    const State::Impl& state = placement.state;
    return is_empty(node, assumption) && state.reserve.would_be_kept(state.inventory, state.options, node);
  }

  bool fits(const std::string& site, const VictimHoldings& ended) {
    const NodeEntry* node = open_node(site);
    if (node == nullptr || !placement.plainly_fits_without(*node, ended.pod_uids)) return false;
    const allocator::Assumption assumption = without(ended.claim_uids);
    if (empties_a_spare(*node, assumption)) return false;
    const auto fit = placement.devices_fit(*node, assumption);
    return fit && *fit;
  }

  std::optional<KeptRoom> room_at(const std::string& site, VictimHoldings ended) {
    const NodeEntry* node = open_node(site);
    if (node == nullptr || !placement.plainly_fits_without(*node, ended.pod_uids)) return std::nullopt;
    const allocator::Assumption assumption = without(ended.claim_uids);
    if (empties_a_spare(*node, assumption)) return std::nullopt;
    SeededRandom names(1);  // of shares that nobody sees
    auto allocations = placement.allocations_on(*node, assumption, names);
    if (!allocations || !*allocations) return std::nullopt;
    KeptRoom room{.node = site, .allocations = std::move(**allocations), .usage = placement.needs};
    room.ports = placement.ports;
    room.claim_uids = std::move(ended.claim_uids);
    room.pod_uids = std::move(ended.pod_uids);
    return room;
  }

  // A node where it fits when all have gone that make the rooms there, and those.
  std::optional<std::pair<std::string, VictimHoldings>> later() {
    const State::Impl& state = placement.state;
    std::set<std::string> looked;
    for (const std::string& id : state.spacious) {
      const std::string& site = state.rooms.at(id).node;
      if (!looked.insert(site).second) continue;
      VictimHoldings ended;
      for (const auto& [other, room] : state.rooms) {
        if (room.node != site || room.guest) continue;
        ended.pod_uids.insert(ended.pod_uids.end(), room.pod_uids.begin(), room.pod_uids.end());
        ended.claim_uids.insert(ended.claim_uids.end(), room.claim_uids.begin(), room.claim_uids.end());
      }
      if (fits(site, ended)) return std::pair(site, std::move(ended));
    }
    return std::nullopt;
  }
};

RoomWithout::RoomWithout(std::unique_ptr<Inside> inside) : inside_(std::move(inside)) {}
RoomWithout::~RoomWithout() = default;

Result<std::unique_ptr<RoomWithout>> RoomWithout::make(const State& state, const PlacementRequest& request,
                                                       const std::map<std::string, VictimHoldings>& victims) {
  HEDDLE_TRY(Placement placement, make_placement(state.inside(), request));
  if (placement.reserve == Reserve::kKept) placement.reserve = Reserve::kNeeded;  // before anything is evicted
  std::unique_ptr<Inside> inside(new Inside{std::move(placement), victims});
  return std::unique_ptr<RoomWithout>(new RoomWithout(std::move(inside)));
}

bool RoomWithout::fits(const std::string& site, const std::vector<const queueing::Victim*>& gone) {
  VictimHoldings ended;
  for (const queueing::Victim* victim : gone) inside_->add(victim->id, ended);
  return inside_->fits(site, ended);
}

std::optional<std::string> RoomWithout::room_now() {
  const bool devices = !inside_->placement.claims.empty();
  for (const auto& [name, node] : inside_->placement.state.inventory.nodes()) {
    if (devices && all_taken(node)) continue;
    if (fits(name, {})) return name;
  }
  return std::nullopt;
}

bool RoomWithout::room_later() {
  return inside_->later().has_value();
}

std::optional<KeptRoom> RoomWithout::later_room() {
  const auto found = inside_->later();
  if (!found) return std::nullopt;
  auto room = inside_->room_at(found->first, found->second);
  if (room) room->guest = true;
  return room;
}

std::optional<KeptRoom> RoomWithout::room_at(const std::string& site, const std::vector<std::string>& gone) {
  VictimHoldings ended;
  for (const std::string& victim : gone) inside_->add(victim, ended);
  return inside_->room_at(site, std::move(ended));
}

}  // namespace heddle::engine
