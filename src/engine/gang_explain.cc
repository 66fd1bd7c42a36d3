// Why a gang cannot start: where the most of it would fit, how many members are missing there, and what is short.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "engine/describe.h"
#include "engine/gang_place.h"

namespace heddle::engine {
namespace {

constexpr const char* kTooLarge = "Gang";  // for the fleet
constexpr size_t kMostDoors = 8;           // searches for the fewest nodes to open
constexpr size_t kMostLikes = 64;          // nodes that take some of it, and are looked at for a need

std::string members(int64_t count) {
  return count == 1 ? "1 member" : fmt::format("{} members", count);
}

}  // namespace

Result<int64_t> GangSearch::count(const GangDomain& domain, size_t group, Leave leave) {
  GangGroup& asked = *groups_[group];
  const auto wanted = static_cast<int64_t>(asked.members.size());
  int64_t sum = 0;
  for (const size_t node : domain.nodes) {
    if (sum >= wanted) break;
    if (!asked.open(*nodes_[node], leave)) continue;
    Overlay overlay;
    HEDDLE_TRY(const auto copies, asked.take(*nodes_[node], overlay, wanted - sum, leave));
    sum += static_cast<int64_t>(copies.size());
  }
  return sum;
}

Result<int64_t> GangSearch::count_all(const GangDomain& domain, Leave leave) {
  int64_t sum = 0;
  for (size_t group = 0; group < groups_.size(); ++group) {
    HEDDLE_TRY(const int64_t here, count(domain, group, leave));
    sum += here;
  }
  return sum;
}

std::string GangSearch::place_text(const GangDomain& domain) const {
  if (!domain.level) return "the fleet";
  return fmt::format("{} {}", topology_.levels()[*domain.level], domain.name);
}

std::string GangSearch::ask_text() const {
  const std::string where = request_.required.empty()
                                ? ""
                                : fmt::format(" in one {}", topology_.levels()[topology_.level_of(request_.required)]);
  return fmt::format("gang {} needs {} at once{}{}", request_.name, members(request_.minimum), where, segments_text());
}

// Not even with nothing else running, in any domain that is allowed.
Result<std::optional<GangOutcome>> GangSearch::infeasible() {
  HEDDLE_TRY(std::optional<Reason> never, segments_never());
  if (never) return std::optional(GangOutcome(Infeasible{{*std::move(never)}}));
  const auto level = levels_to_try().back();
  std::optional<GangDomain> largest;
  int64_t most = -1;
  for (GangDomain& domain : domains_of(level)) {
    HEDDLE_TRY(const int64_t room, count_all(domain, Leave::kTaken));
    if (room >= request_.minimum) return std::optional<GangOutcome>();
    if (room <= most) continue;
    most = room;
    largest = std::move(domain);
  }
  if (!largest) {
    return std::optional(GangOutcome(
        Infeasible{{{"Topology", fmt::format("{}, but no node says in which it is; label the nodes", ask_text())}}}));
  }
  // What a single member cannot have anywhere has a reason of its own.
  for (const auto& group : groups_) {
    HEDDLE_TRY(const Outcome alone, engine::explain(group->placement()));
    if (const auto* nowhere = std::get_if<Infeasible>(&alone)) return std::optional(GangOutcome(*nowhere));
  }
  return std::optional(GangOutcome(Infeasible{
      {{kTooLarge, fmt::format("{}; {} has room for {} even when nothing else runs", ask_text(),
                               level ? place_text(*largest) + ", the largest," : place_text(*largest), most)}}}));
}

// The resource of the nodes that is short on most of them.
std::string GangSearch::plain_shortage(const GangDomain& domain, size_t group) const {
  const Placement& placement = groups_[group]->placement();
  std::map<std::string, int64_t> nodes;
  for (const size_t at : domain.nodes) {
    const NodeEntry& node = *nodes_[at];
    if (!groups_[group]->open(node, Leave::kNothing)) continue;
    if (const auto shortage = placement.shortage_of(node, false)) {
      ++nodes[shortage->resource];
      continue;
    }
    std::string least;  // what ends first when more and more members come
    int64_t copies = INT64_MAX;
    for (const auto& [resource, needed] : placement.needs) {
      const auto total = node.allocatable.find(resource);
      if (needed <= 0 || total == node.allocatable.end()) continue;
      const auto used = node.used.find(resource);
      const int64_t fit = (total->second - (used == node.used.end() ? 0 : used->second)) / needed;
      if (fit >= copies) continue;
      copies = fit;
      least = resource;
    }
    if (!least.empty()) ++nodes[least];
  }
  const auto most =
      std::max_element(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == nodes.end() ? "other resources of its nodes" : most->first;
}

Result<std::string> GangSearch::shortage_text(const GangDomain& domain, int64_t missing) {
  for (size_t group = 0; group < groups_.size(); ++group) {
    const auto wanted = static_cast<int64_t>(groups_[group]->members.size());
    HEDDLE_TRY(const int64_t fitting, count(domain, group, Leave::kNothing));
    if (fitting >= wanted) continue;
    HEDDLE_TRY(const int64_t by_devices, count(domain, group, Leave::kPlain));
    if (by_devices - fitting >= missing) {
      return fmt::format("its nodes have the devices, but are short of {}", plain_shortage(domain, group));
    }
    const auto& claims = groups_[group]->placement().claims;
    if (claims.empty() || claims.front().requests.empty()) break;
    const int64_t devices = missing * groups_[group]->devices();
    const allocator::Alternative& asked = claims.front().requests.front().alternatives.front();
    return fmt::format("short of {} {}", devices, devices == 1 ? describe_ask(asked) : describe_asks(asked));
  }
  return std::string("its members fit one by one, but not together");
}

// What would let it start now.
Result<std::string> GangSearch::change_text(const GangDomain& domain, int64_t fitting) {
  if (domain.level && request_.fixed_nodes.empty()) {
    GangDomain fleet;
    for (size_t node = 0; node < nodes_.size(); ++node) {
      if (!reserved_.contains(node)) fleet.nodes.push_back(node);
    }
    HEDDLE_TRY(const int64_t anywhere, bound_of(fleet));
    if (anywhere >= request_.minimum) return std::string("; it would fit without the required level");
  }
  if (fitting > 0) return fmt::format("; a minimum of {} would fit", fitting);
  return std::string();
}

// As many as the closed nodes would take, one group beside the other, and no more than these.
Result<int64_t> GangSearch::room_behind_doors(int64_t missing) {
  int64_t sum = 0;
  for (const auto& group : groups_) {
    for (const NodeEntry* node : nodes_) {
      if (sum >= missing) return sum;
      if (!is_closed(group->placement().bar_of(*node))) continue;
      Overlay overlay;
      HEDDLE_TRY(const auto copies, group->take(*node, overlay, missing - sum, Leave::kNothing));
      sum += static_cast<int64_t>(copies.size());
    }
  }
  return sum;
}

// Where it would fit if closed nodes were open, but for these, and which of them it would use. Nothing: nowhere.
Result<std::optional<GangSearch::Opened>> GangSearch::behind_doors(const std::set<std::string>& left_out) {
  GangRequest request = request_;
  for (GangMember& member : request.members) member.request.held_nodes.insert(left_out.begin(), left_out.end());
  HEDDLE_TRY(const auto opened, make(state_, levels_, request, Doors::kOpened));
  HEDDLE_TRY(const GangFound found, opened->find());
  if (!found.best) return std::optional<Opened>();
  Opened out{found.best->first, {}};
  for (const std::optional<GangSpot>& spot : found.best->second.members) {
    if (!spot) continue;
    const Bar bar = groups_.front()->placement().bar_of(*nodes_[spot->node]);
    if (is_closed(bar)) out.closed[node_name(spot->node)] = bar;
  }
  return std::optional(std::move(out));
}

// Closed nodes without any of which it would not fit. Nothing: opening them is of no use.
Result<std::optional<Reason>> GangSearch::closed(const GangDomain& closest, int64_t fitting) {
  const int64_t missing = std::max<int64_t>(request_.minimum - fitting, 1);
  HEDDLE_TRY(const int64_t behind, room_behind_doors(missing));
  if (behind < missing) return std::optional<Reason>();
  HEDDLE_TRY(std::optional<Opened> opened, behind_doors({}));
  if (!opened || opened->closed.empty()) return std::optional<Reason>();
  std::set<std::string> left_out;
  std::set<std::string> needed;
  for (size_t tries = 0; tries < kMostDoors; ++tries) {
    const auto next = std::find_if(opened->closed.begin(), opened->closed.end(),
                                   [&](const auto& node) { return !needed.contains(node.first); });
    if (next == opened->closed.end()) break;
    const std::string name = next->first;
    left_out.insert(name);
    HEDDLE_TRY(std::optional<Opened> without, behind_doors(left_out));
    if (without) {
      opened = std::move(without);
    } else {
      left_out.erase(name);
      needed.insert(name);
    }
  }
  std::map<Bar, std::vector<std::string>> names;
  for (const auto& [name, bar] : opened->closed) names[bar].push_back(name);
  const GangDomain& domain = opened->domain;
  return std::optional(
      Reason{"NodeFit", fmt::format("{}; {} has room for {}; it would fit{} if closed nodes were open: {}", ask_text(),
                                    place_text(closest), fitting, domain.level ? " in " + place_text(domain) : "",
                                    describe_bars(names))});
}

// So many of a domain's nodes are kept back besides those that are empty now: new ones make up the reserve first.
int64_t GangSearch::missing_spares(const GangDomain& domain) const {
  if (!domain.level || request_.reserve == Reserve::kOpen) return 0;
  const TopologyLevel& spec = topology_.spec(*domain.level);
  if (spec.reserve_use != ReserveUse::kReplacements) return 0;
  const auto there = std::count_if(reserved_.begin(), reserved_.end(), [&](const auto& node) {
    return topology_.domain(*domain.level, node.first) == domain.name;
  });
  return std::max<int64_t>(spec.reserve_nodes - there, 0);
}

// Where the node has to be; by which label, if it is one of those that say it.
void GangSearch::tell_where(const GangDomain& domain, const NodeEntry& like, NodeNeed& need) const {
  need.where = place_text(domain);
  for (const std::string& label : topology_.spec(*domain.level).labels) {
    const auto found = like.node.meta.labels.find(label);
    if (found == like.node.meta.labels.end() || found->second.empty()) continue;
    need.label = label;
    need.value = found->second;
    return;
  }
}

// Empty nodes for what is missing: any, or in the domain where most would fit. Only where members ask for the same: the
// first of the nodes there that take most of them.
Result<std::optional<NodeNeed>> GangSearch::need(const GangDomain& closest, int64_t missing) {
  const bool in_domain = !request_.required.empty();
  const bool of_one_node = in_domain && topology_.level_of(request_.required) == 0;
  if (of_one_node || !request_.segment_level.empty() || !request_.fixed_nodes.empty() || groups_.size() != 1)
    return std::optional<NodeNeed>();
  GangGroup& group = *groups_.front();
  std::optional<NodeNeed> found;
  bool closed = false;  // the one that was found
  int64_t most = 0;
  size_t looked_at = 0;
  const int64_t spare = in_domain ? missing_spares(closest) : 0;
  std::vector<const NodeEntry*> nodes = nodes_;
  if (in_domain) {
    nodes.clear();
    for (const size_t node : closest.nodes) nodes.push_back(nodes_[node]);
  }
  for (const NodeEntry* node : nodes) {
    if (looked_at == kMostLikes) break;
    if (!group.open(*node, Leave::kTaken) || group.placement().bar_of(*node) == Bar::kTaint) continue;
    Overlay overlay;
    HEDDLE_TRY(const auto copies, group.take(*node, overlay, missing, Leave::kTaken));
    const auto count = static_cast<int64_t>(copies.size());
    if (count > 0) ++looked_at;
    const bool here = is_closed(group.placement().bar_of(*node));
    if (count < most || (count == most && !(closed && !here))) continue;
    most = count;
    closed = here;
    found = NodeNeed{node->view.node, (missing + count - 1) / count + spare};
    if (in_domain) tell_where(closest, *node, *found);
  }
  return found;
}

Result<GangOutcome> GangSearch::explain(const GangDomain& closest) {
  HEDDLE_TRY(std::optional<GangOutcome> never, infeasible());
  auto* too_large = never ? std::get_if<Infeasible>(&*never) : nullptr;
  if (never && (too_large == nullptr || too_large->reasons.front().code != kTooLarge || closest.nodes.empty()))
    return *std::move(never);
  HEDDLE_TRY(const GangAttempt made, best_attempt(closest));
  if (too_large == nullptr) {
    HEDDLE_TRY(std::optional<Reason> shut, closed(closest, made.placed));
    if (shut) return GangOutcome(Waiting{{*std::move(shut)}});
    HEDDLE_TRY(std::optional<Reason> short_of_boxes, boxes_short(closest, made.placed));
    if (short_of_boxes) return GangOutcome(Waiting{{*std::move(short_of_boxes)}});
    HEDDLE_TRY(std::optional<Reason> short_of_segments, segments_short(closest));
    if (short_of_segments) return GangOutcome(Waiting{{*std::move(short_of_segments)}});
  }
  const int64_t missing = std::max<int64_t>(request_.minimum - made.placed, 1);
  HEDDLE_TRY(std::optional<NodeNeed> needs, need(closest, missing));
  if (too_large != nullptr) {
    too_large->needs = std::move(needs);
    return *std::move(never);
  }
  HEDDLE_TRY(const std::string shortage, shortage_text(closest, missing));
  HEDDLE_TRY(const std::string change, change_text(closest, made.placed));
  const std::string most = closest.level && request_.fixed_nodes.empty() ? ", where most would fit," : "";
  Waiting waiting{{{"Capacity", fmt::format("{}; {}{} has room for {}: {}{}", ask_text(), place_text(closest), most,
                                            made.placed, shortage, change)}},
                  std::move(needs)};
  return GangOutcome(std::move(waiting));
}

}  // namespace heddle::engine
