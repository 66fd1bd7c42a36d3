#include "engine/gang_room.h"

#include <algorithm>
#include <utility>

namespace heddle::engine {
namespace {

using allocator::DeviceInfo;
using allocator::Held;
using allocator::Pick;
using allocator::Solution;

Held& held_in(Overlay& overlay, const DeviceInfo& device) {
  for (auto& [other, held] : overlay.assumption.instead) {
    if (other == &device) return held;
  }
  overlay.assumption.instead.emplace_back(&device, device.held);
  return overlay.assumption.instead.back().second;
}

int64_t picks_of(const Solution& solution) {
  int64_t picks = 0;
  for (const auto& claim : solution.claims) picks += static_cast<int64_t>(claim.size());
  return picks;
}

// One request for whole devices without conditions between them, or one device in all: which of the devices that fit a
// copy takes makes no difference to how many copies fit.
bool independent(const PlacementRequest& request, const Solution& solution) {
  bool whole = true;
  for (const auto& claim : solution.claims) {
    for (const Pick& pick : claim) {
      if (pick.device->uses_counters || pick.alternative->all) return false;
      whole = whole && (!pick.shared || pick.take->alone);
    }
  }
  if (picks_of(solution) <= 1) return true;
  return whole && request.claims.size() == 1 && request.claims[0].spec.requests.size() == 1 &&
         request.claims[0].spec.constraints.empty();
}

// The copies of a solution for all of them together.
std::vector<Solution> split(const Solution& together, int64_t copies) {
  const size_t claims = together.claims.size() / static_cast<size_t>(copies);
  std::vector<Solution> out(static_cast<size_t>(copies));
  for (size_t i = 0; i < together.claims.size(); ++i) {
    out[i / claims].claims.push_back(together.claims[i]);
    out[i / claims].chosen.push_back(together.chosen[i]);
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<GangGroup>> GangGroup::make(const State::Impl& state, PlacementRequest request, Doors doors) {
  std::unique_ptr<GangGroup> group(new GangGroup(std::move(request)));
  HEDDLE_TRY(Placement placement, make_placement(state, group->request_));
  group->placement_ = std::make_unique<Placement>(std::move(placement));
  group->placement_->doors = doors;
  group->placement_->reserve = Reserve::kOpen;  // gang_reserve.cc
  for (const allocator::PreparedClaim& claim : group->placement_->claims) {
    for (const allocator::PreparedRequest& asked : claim.requests) {
      group->devices_ += asked.alternatives.empty() ? 0 : asked.alternatives.front().count;
    }
  }
  return group;
}

bool GangGroup::open(const NodeEntry& node, Leave leave) const {
  const Bar bar = placement_->bar_of(node);
  return leave == Leave::kTaken ? !is_final(bar) : bar == Bar::kNone;
}

int64_t GangGroup::plain_copies(const NodeEntry& node, const Overlay& overlay, int64_t limit, Leave leave) const {
  const Placement& placement = *placement_;
  if (placement.request.pod == nullptr || leave == Leave::kPlain) return limit;
  const bool empty = leave == Leave::kTaken;
  if (!placement.ports.empty()) {
    if (!empty && placement.port_conflict_on(node, overlay.ended)) return 0;
    for (const model::HostPort& port : placement.ports) {
      const auto clashes = [&](const model::HostPort& other) { return model::conflict(port, other); };
      if (std::any_of(overlay.ports.begin(), overlay.ports.end(), clashes)) return 0;
    }
    limit = std::min<int64_t>(limit, 1);
  }
  if (node.allocatable.empty()) return limit;
  const auto pods = node.allocatable.find("pods");
  if (pods != node.allocatable.end()) {
    limit = std::min(limit, pods->second - (empty ? 0 : node.pods) - overlay.pods);
  }
  for (const auto& [resource, needed] : placement.needs) {
    if (needed <= 0 || placement.served_by_devices(node, resource)) continue;
    const auto total = node.allocatable.find(resource);
    const auto used = node.used.find(resource);
    const auto ours = overlay.used.find(resource);
    const int64_t free = (total == node.allocatable.end() ? 0 : total->second) -
                         (empty || used == node.used.end() ? 0 : used->second) -
                         (ours == overlay.used.end() ? 0 : ours->second);
    limit = std::min(limit, free / needed);
  }
  return std::max<int64_t>(limit, 0);
}

void GangGroup::charge(const NodeEntry& node, const Solution& solution, Overlay& overlay) {
  for (const auto& claim : solution.claims) {
    for (const Pick& pick : claim) {
      spanning_ = spanning_ || Inventory::node_of(*pick.device) != node.view.node;
      if (pick.alternative->spec->admin_access) continue;
      Held& held = held_in(overlay, *pick.device);
      if (!pick.shared) {
        ++held.whole;
        continue;
      }
      ++held.shares;
      held.alone += pick.take->alone ? 1 : 0;
      held.used.resize(std::max(held.used.size(), pick.take->amounts.size()));
      for (size_t i = 0; i < pick.take->amounts.size(); ++i) held.used[i] += pick.take->amounts[i];
    }
  }
  ++overlay.pods;
  for (const auto& [resource, amount] : placement_->needs) overlay.used[resource] += amount;
  overlay.ports.insert(overlay.ports.end(), placement_->ports.begin(), placement_->ports.end());
}

// All copies in one search, which finds room that taking the best for one after the other can miss.
Result<std::vector<Solution>> GangGroup::take_together(const NodeEntry& node, const Overlay& overlay, int64_t copies) {
  PlacementRequest many = request_;
  many.claims.clear();
  for (int64_t i = 0; i < copies; ++i) {
    many.claims.insert(many.claims.end(), request_.claims.begin(), request_.claims.end());
  }
  HEDDLE_TRY(Placement placement, make_placement(placement_->state, many));
  allocator::Solver solver(placement.claims, placement.policy, placement.state.options);
  const auto seen = placement_->seen_on(node, overlay.assumption);
  auto found = solver.solve(node.view, seen ? *seen : overlay.assumption);
  const bool unclear = !found && (found.error().code == Code::kUnavailable || found.error().code == Code::kExhausted);
  if (unclear) return std::vector<Solution>();
  HEDDLE_TRY(const Solution* together, std::move(found));
  if (together == nullptr) return std::vector<Solution>();
  std::vector<Solution> out = split(*together, copies);
  // The picks point into claims that end with this call: the same ones of the group's own take their place.
  for (Solution& solution : out) {
    for (size_t claim = 0; claim < solution.claims.size(); ++claim) {
      std::vector<allocator::Alternative*> chosen;
      for (size_t request = 0; request < solution.chosen[claim].size(); ++request) {
        chosen.push_back(&placement_->claims[claim].requests[request].alternatives[solution.chosen[claim][request]]);
      }
      for (Pick& pick : solution.claims[claim]) {
        for (allocator::Alternative* own : chosen) {
          if (own->result_name != pick.alternative->result_name) continue;
          pick.alternative = own;
          HEDDLE_TRY(pick.take, own->consumption(*pick.device->shape));
        }
      }
    }
  }
  return out;
}

Result<std::vector<Solution>> GangGroup::take(const NodeEntry& node, Overlay& overlay, int64_t limit, Leave leave) {
  std::vector<Solution> copies;
  limit = plain_copies(node, overlay, limit, leave);
  if (limit <= 0) return copies;
  if (leave == Leave::kTaken && overlay.assumption.instead.empty()) {
    for (const allocator::PoolView& view : node.view.pools) {
      for (const DeviceInfo* device : view.devices) overlay.assumption.instead.emplace_back(device, Held{});
    }
  }
  if (!placement_->solver) {
    placement_->solver.emplace(placement_->claims, placement_->policy, placement_->state.options);
  }
  const Overlay before = one_by_one_ ? Overlay{} : overlay;
  while (static_cast<int64_t>(copies.size()) < limit) {
    const auto seen = placement_->seen_on(node, overlay.assumption);
    auto found = placement_->solver->solve(node.view, seen ? *seen : overlay.assumption);
    const bool unclear = !found && (found.error().code == Code::kUnavailable || found.error().code == Code::kExhausted);
    if (unclear) break;
    HEDDLE_TRY(const Solution* solution, std::move(found));
    if (solution == nullptr) break;
    if (copies.empty() && one_by_one_ && !independent(request_, *solution)) {
      one_by_one_ = false;
      return take(node, overlay, limit, leave);
    }
    copies.push_back(*solution);
    charge(node, copies.back(), overlay);
  }
  if (one_by_one_ || static_cast<int64_t>(copies.size()) == limit || copies.empty()) return copies;
  for (;;) {
    HEDDLE_TRY(std::vector<Solution> more, take_together(node, before, static_cast<int64_t>(copies.size()) + 1));
    if (more.empty()) break;
    copies = std::move(more);
    overlay = before;
    for (const Solution& solution : copies) charge(node, solution, overlay);
    if (static_cast<int64_t>(copies.size()) == limit) break;
  }
  return copies;
}

Result<std::optional<Solution>> GangGroup::take_of(const NodeEntry& node, Overlay& overlay,
                                                   std::vector<const DeviceInfo*> first) {
  placement_->policy.choose(std::move(first));
  HEDDLE_TRY(auto copies, take(node, overlay, 1, Leave::kNothing));
  placement_->policy.choose({});
  if (copies.empty()) return std::optional<Solution>();
  return std::optional(std::move(copies.front()));
}

Result<int64_t> GangGroup::room(const NodeEntry& node) {
  const auto known = room_.find(node.view.node);
  if (known != room_.end() && !spanning_) return known->second;
  Overlay overlay;
  int64_t copies = 0;
  if (open(node, Leave::kNothing)) {
    HEDDLE_TRY(const auto taken, take(node, overlay, static_cast<int64_t>(members.size()), Leave::kNothing));
    copies = static_cast<int64_t>(taken.size());
  }
  room_[node.view.node] = copies;
  return copies;
}

}  // namespace heddle::engine
