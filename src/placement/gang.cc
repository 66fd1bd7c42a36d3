#include "placement/gang.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

namespace heddle::placement {
namespace {

bool allows(const Request& request, Kind kind) {
  return request.kinds.empty() || std::binary_search(request.kinds.begin(), request.kinds.end(), kind);
}

int within(int64_t amount, int64_t each, int limit) {
  return each <= 0 ? limit : static_cast<int>(std::min<int64_t>(limit, amount / each));
}

// The most copies so that each takes `request.cards` different cards.
int copies_by_cards(const Node& node, const Request& request, int limit) {
  if (request.cards == 0) return limit;
  const auto holds = [&](int copies) {
    int64_t slots = 0;
    for (const uint16_t milli : node.free_milli) slots += std::min<int64_t>(copies, milli / request.milli);
    return slots >= int64_t{copies} * request.cards;
  };
  int most = 0;
  int64_t slots = 0;
  for (const uint16_t milli : node.free_milli) slots += milli / request.milli;
  int bound = static_cast<int>(std::min<int64_t>(limit, slots / request.cards));
  while (most < bound) {
    const int middle = most + (bound - most + 1) / 2;
    if (holds(middle)) {
      most = middle;
    } else {
      bound = middle - 1;
    }
  }
  return most;
}

// Takes one copy: the cards that are needed for the copies that are still to come keep the most slots when the emptiest
// are taken first; with one card a copy the fullest that fits is taken, which leaves large ones whole.
Choice take_copy(NodeId id, Node& node, const Request& request) {
  Choice choice{id, {}};
  std::vector<uint16_t> order(node.free_milli.size());
  std::iota(order.begin(), order.end(), uint16_t{0});
  const bool tightest = request.cards == 1;
  std::stable_sort(order.begin(), order.end(), [&](uint16_t a, uint16_t b) {
    return tightest ? node.free_milli[a] < node.free_milli[b] : node.free_milli[a] > node.free_milli[b];
  });
  for (const uint16_t card : order) {
    if (choice.cards.size() == static_cast<size_t>(request.cards)) break;
    if (node.free_milli[card] < request.milli) continue;
    choice.cards.push_back(card);
    node.free_milli[card] = static_cast<uint16_t>(node.free_milli[card] - request.milli);
  }
  node.cpu_milli -= request.cpu_milli;
  node.memory_bytes -= request.memory_bytes;
  std::sort(choice.cards.begin(), choice.cards.end());
  return choice;
}

struct Candidate {
  std::optional<size_t> level;
  Domain domain = kNoDomain;
  std::vector<NodeId> nodes;
  int64_t free_milli = 0;
};

// The domains of a level, by number.
std::vector<Candidate> candidates_of(const NodeClasses& nodes, const Topology& topology, std::optional<size_t> level) {
  std::map<Domain, Candidate> found;
  for (NodeId id = 0; id < nodes.node_count(); ++id) {
    if (!nodes.has(id)) continue;
    const Domain domain = level ? topology.domains[*level][id] : 0;
    if (domain == kNoDomain) continue;
    Candidate& candidate = found[domain];
    candidate.level = level;
    candidate.domain = level ? domain : kNoDomain;
    candidate.nodes.push_back(id);
    for (const uint16_t milli : nodes.node(id).free_milli) candidate.free_milli += milli;
  }
  std::vector<Candidate> all;
  all.reserve(found.size());
  for (auto& [domain, candidate] : found) all.push_back(std::move(candidate));
  std::stable_sort(all.begin(), all.end(),
                   [](const Candidate& a, const Candidate& b) { return a.free_milli < b.free_milli; });
  return all;
}

// One try inside one domain.
struct Attempt {
  std::vector<std::vector<Choice>> choices;  // by group
  int64_t members = 0;
  bool full = true;    // every group has its size
  bool enough = true;  // every group has its minimum
  size_t lacking = 0;  // the first group without its minimum
};

// Large members first: they have the fewest places.
std::vector<size_t> group_order(const Gang& gang) {
  std::vector<size_t> order(gang.groups.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&gang](size_t a, size_t b) {
    return gang.groups[a].request.card_milli() > gang.groups[b].request.card_milli();
  });
  return order;
}

// Puts up to `wanted` members of a group on these nodes.
std::vector<Choice> place_group(std::map<NodeId, Node>& changed, const NodeClasses& nodes, const Candidate& candidate,
                                const Request& request, int wanted) {
  std::vector<std::pair<int, NodeId>> room;
  for (const NodeId id : candidate.nodes) {
    const auto known = changed.find(id);
    const Node& node = known == changed.end() ? nodes.node(id) : known->second;
    if (!allows(request, node.kind)) continue;
    const int copies = copies_on(node, request, wanted);
    if (copies > 0) room.emplace_back(copies, id);
  }
  std::stable_sort(room.begin(), room.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Choice> choices;
  for (size_t i = 0; i < room.size() && choices.size() < static_cast<size_t>(wanted); ++i) {
    const int missing = wanted - static_cast<int>(choices.size());
    // The last node: the one with the least room that still takes the rest.
    size_t at = i;
    while (at + 1 < room.size() && room[at].first >= missing && room[at + 1].first >= missing) ++at;
    const auto [copies, id] = room[at];
    Node& node = changed.try_emplace(id, nodes.node(id)).first->second;
    for (int copy = 0; copy < std::min(copies, missing); ++copy) choices.push_back(take_copy(id, node, request));
  }
  return choices;
}

Attempt attempt(const NodeClasses& nodes, const Candidate& candidate, const Gang& gang, bool minimum_only) {
  Attempt made;
  made.choices.resize(gang.groups.size());
  std::map<NodeId, Node> changed;
  // The minimum of every group comes before anything beyond it.
  for (const int round : {0, 1}) {
    if (round == 1 && (minimum_only || !made.enough)) break;
    for (const size_t group : group_order(gang)) {
      const GangGroup& entry = gang.groups[group];
      const int wanted = round == 0 ? entry.minimum : entry.size - entry.minimum;
      if (wanted == 0) continue;
      auto placed = place_group(changed, nodes, candidate, entry.request, wanted);
      if (round == 0 && placed.size() < static_cast<size_t>(wanted) && made.enough) {
        made.enough = false;
        made.lacking = group;
      }
      made.members += static_cast<int64_t>(placed.size());
      std::move(placed.begin(), placed.end(), std::back_inserter(made.choices[group]));
    }
  }
  for (size_t group = 0; group < gang.groups.size(); ++group) {
    made.full = made.full && made.choices[group].size() == static_cast<size_t>(gang.groups[group].size);
  }
  return made;
}

GangPlaced placed_of(const Candidate& candidate, Attempt made) {
  GangPlaced placed{{}, candidate.level, candidate.domain};
  for (size_t group = 0; group < made.choices.size(); ++group) {
    for (Choice& choice : made.choices[group]) placed.members.push_back({group, std::move(choice)});
  }
  return placed;
}

// Whether the group's minimum would fit there if one resource did not count.
bool fits_without(const NodeClasses& nodes, const Candidate& candidate, const Gang& gang, size_t group,
                  Shortage ignored) {
  Gang changed = gang;
  for (GangGroup& entry : changed.groups) {
    if (ignored == Shortage::kKind) entry.request.kinds.clear();
    if (ignored == Shortage::kCpu) entry.request.cpu_milli = 0;
    if (ignored == Shortage::kMemory) entry.request.memory_bytes = 0;
    if (ignored == Shortage::kCards) entry.request.cards = entry.request.milli = 0;
  }
  const Attempt made = attempt(nodes, candidate, changed, true);
  return made.choices[group].size() >= static_cast<size_t>(gang.groups[group].minimum);
}

GangWaiting waiting_of(const NodeClasses& nodes, const Candidate& candidate, const Gang& gang, const Attempt& made) {
  GangWaiting waiting;
  waiting.level = candidate.level;
  waiting.domain = candidate.domain;
  waiting.group = made.lacking;
  const GangGroup& group = gang.groups[made.lacking];
  waiting.fitting = static_cast<int>(made.choices[made.lacking].size());
  waiting.missing = group.minimum - waiting.fitting;
  waiting.cards_short = int64_t{waiting.missing} * group.request.cards;
  for (const Shortage shortage : {Shortage::kCards, Shortage::kCpu, Shortage::kMemory, Shortage::kKind}) {
    if (fits_without(nodes, candidate, gang, made.lacking, shortage)) {
      waiting.shortage = shortage;
      break;
    }
  }
  return waiting;
}

Result<void> check(const NodeClasses& nodes, const Topology& topology, const Gang& gang) {
  if (gang.groups.empty()) return fail(Code::kInvalidArgument, "a gang needs members", "groups");
  for (const GangGroup& group : gang.groups) {
    if (group.minimum < 1 || group.minimum > group.size) {
      return fail(Code::kInvalidArgument, fmt::format("the minimum is {} of {}", group.minimum, group.size), "minimum");
    }
  }
  const size_t levels = topology.levels.size();
  if (gang.required.value_or(0) >= std::max<size_t>(1, levels) ||
      gang.preferred.value_or(0) >= std::max<size_t>(1, levels) || (levels == 0 && (gang.required || gang.preferred))) {
    return fail(Code::kInvalidArgument, "there is no such level", "level");
  }
  if (gang.required && gang.preferred && *gang.required < *gang.preferred) {
    return fail(Code::kInvalidArgument, "the required level is narrower than the preferred one", "required");
  }
  const auto knows_all = [&nodes](const std::vector<Domain>& level) { return level.size() >= nodes.node_count(); };
  if (topology.domains.size() != levels || !std::all_of(topology.domains.begin(), topology.domains.end(), knows_all)) {
    return fail(Code::kInvalidArgument, "the topology does not know all nodes", "domains");
  }
  return {};
}

// Levels to try, narrow to wide; none is the whole fleet.
std::vector<std::optional<size_t>> levels_to_try(const Topology& topology, const Gang& gang) {
  std::vector<std::optional<size_t>> levels;
  if (gang.preferred) {
    const size_t last = gang.required.value_or(topology.levels.size() - 1);
    for (size_t level = *gang.preferred; level <= last; ++level) levels.emplace_back(level);
  } else if (gang.required) {
    levels.emplace_back(gang.required);
  }
  if (!gang.required) levels.emplace_back(std::nullopt);
  return levels;
}

}  // namespace

int copies_on(const Node& node, const Request& request, int limit) {
  const int bound = std::min(within(node.cpu_milli, request.cpu_milli, limit),
                             within(node.memory_bytes, request.memory_bytes, limit));
  return bound == 0 ? 0 : copies_by_cards(node, request, bound);
}

Result<GangOutcome> place_gang(const NodeClasses& nodes, const Topology& topology, const Gang& gang) {
  HEDDLE_CHECK_OK(check(nodes, topology, gang));
  std::optional<std::pair<Candidate, Attempt>> most;     // at least the minimum of every group
  std::optional<std::pair<Candidate, Attempt>> closest;  // less than that, in the widest domains
  for (const std::optional<size_t> level : levels_to_try(topology, gang)) {
    closest.reset();
    for (Candidate& candidate : candidates_of(nodes, topology, level)) {
      Attempt made = attempt(nodes, candidate, gang, false);
      if (made.full) return GangOutcome(placed_of(candidate, std::move(made)));
      auto& best = made.enough ? most : closest;
      if (!best || made.members > best->second.members) best = {std::move(candidate), std::move(made)};
    }
  }
  if (most) return GangOutcome(placed_of(most->first, std::move(most->second)));
  if (!closest)
    return GangOutcome(GangWaiting{0, 0, gang.groups.front().minimum, Shortage::kKind, gang.required, kNoDomain, 0});
  return GangOutcome(waiting_of(nodes, closest->first, gang, closest->second));
}

}  // namespace heddle::placement
