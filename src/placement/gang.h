// Gangs: pods that start together or not at all, close together where they ask for it.
//
// The fleet is a tree of levels, such as link domain, rack, supernode, from narrow to wide; above all levels is the
// whole fleet. Every node is in at most one domain of each level, and a domain lies inside one domain of the next
// level. Pure: reads the nodes, takes nothing, keeps nothing. Deterministic.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "placement/node_classes.h"
#include "placement/types.h"

namespace heddle::placement {

using Domain = uint32_t;
inline constexpr Domain kNoDomain = UINT32_MAX;  // the node lacks the label of this level

struct Topology {
  std::vector<std::string> levels;           // narrow to wide
  std::vector<std::vector<Domain>> domains;  // [level][node]
};

// Members with equal requests.
struct GangGroup {
  Request request;
  int size = 0;     // wanted
  int minimum = 0;  // 1 to size; fewer are none
};

struct Gang {
  std::vector<GangGroup> groups;
  // Index into Topology::levels. required: all members in one domain of this level. preferred: the narrowest domain is
  // taken, from this level up; not wider than required. Neither: anywhere.
  std::optional<size_t> required;
  std::optional<size_t> preferred;
};

struct GangMember {
  size_t group = 0;
  Choice choice;
};

struct GangPlaced {
  std::vector<GangMember> members;  // in the order of the groups; nodes of a group next to each other
  std::optional<size_t> level;      // of the domain that holds all; none: the whole fleet
  Domain domain = kNoDomain;
};

enum class Shortage { kKind, kCards, kCpu, kMemory };

// Why it does not fit now. Of the widest domain allowed that could take the most members.
struct GangWaiting {
  size_t group = 0;  // the first group that lacks members there
  int fitting = 0;   // members of this group that would fit
  int missing = 0;   // how many more its minimum needs
  // What is short: the first that, were there enough of it, would let the missing ones fit; kCards when more than one
  // is.
  Shortage shortage = Shortage::kCards;
  std::optional<size_t> level;
  Domain domain = kNoDomain;
  int64_t cards_short = 0;  // whole and shared cards that the missing members ask for
};

using GangOutcome = std::variant<GangPlaced, GangWaiting>;

// Levels are tried from preferred to required (or the whole fleet), for all members first, then for what is left of
// each group down to its minimum, the most that fit. Among domains of a level that can take it the one with the least
// free cards wins, then the lowest number. Inside, nodes that can take most members come first, so few nodes are used.
// With one group the answer is exact; with several, groups are placed by falling size of a member, and a fit that needs
// another order may be missed, never invented.
// Errors: kInvalidArgument when a group is empty, a minimum is out of range, a level does not exist, required is
// narrower than preferred, or the topology does not know all nodes. Cost: O(levels * nodes * cards * groups).
Result<GangOutcome> place_gang(const NodeClasses& nodes, const Topology& topology, const Gang& gang);

// How many pods with this request fit on one node together: by CPU, memory and cards. At most `limit`.
int copies_on(const Node& node, const Request& request, int limit);

}  // namespace heddle::placement
