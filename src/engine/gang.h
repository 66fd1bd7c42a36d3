// Where a gang can go: pods that start together or not at all, close together where they ask for it.
//
// Pure, as State::place: nothing is taken. Deterministic.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "engine/engine.h"
#include "engine/topology.h"

namespace heddle::engine {

struct GangMember {
  PlacementRequest request;
  // Equal texts: equal requests, but for the nodes that are pinned or excluded; see fit_signature().
  std::string shape;
  std::string subgroup = {};
  int64_t segment =
      -1;  // those of one number lie in one domain of GangRequest::segment_level; less than 0: in no segment
};

class BoxMap;  // box_map.h

// Boxes of one shape that are guaranteed to others: so many whole devices of one node each, unless `map` says other.
struct BoxBudget {
  int64_t box_devices = 1;
  std::string device_class = {};  // of the devices that count; empty: any
  std::string vendor = {};
  std::string model = {};
  // By node: devices that nobody holds, or that are lent as whole boxes.
  std::map<std::string, int64_t> available = {};
  int64_t spare = 0;  // boxes that may be broken, by all members together
  // Where boxes lie that are wider than a node; null: each on one node.
  std::shared_ptr<const BoxMap> map = nullptr;
};

struct GangRequest {
  std::string name;                                      // for explanations
  std::vector<GangMember> members;                       // those that wait, in rank order
  int64_t minimum = 1;                                   // of `members`, 1 to all; fewer are none
  std::map<std::string, int64_t> subgroup_minimum = {};  // of `members`, by subgroup
  std::vector<std::string> fixed_nodes = {};             // of the members that are placed already
  // Levels, by name or node label; empty: none. required: all members, and the fixed nodes, in one domain of it.
  // preferred: the narrowest domain from this level up that takes all; not wider than required.
  // required can also be a slice of a torus, "slice-4x4x8" (engine/slice.h).
  std::string required = {};
  std::string preferred = {};
  std::vector<BoxBudget> boxes = {};
  // Further ones that will be asked for when it has started: of the domains that take the members, those come first
  // that take these as well.
  std::vector<GangMember> later = {};
  // Segments: each of them in one domain of this level, by name or node label; empty: there are none. With required or
  // preferred beside it all segments lie in one domain of that level. Whole segments are placed, or what waits of them.
  std::string segment_level = {};
  int64_t segment_size = 0;  // members of a segment that is whole; for explanations
  // Where members of a segment are placed already; the nodes are in fixed_nodes too. The others follow them.
  std::map<int64_t, std::vector<std::string>> fixed_segments = {};
  Reserve reserve = Reserve::kKept;  // of all members; kOpen for those in the place of others. Slices take any host
};

struct GangAssigned {
  std::vector<std::optional<Assigned>> members;  // as asked; nothing: beyond the minimum, and no room for it
  std::string level;                             // of the domain that holds all; empty: the whole fleet
  std::string domain;
};

using GangOutcome = std::variant<GangAssigned, Waiting, Infeasible>;

// All members in the narrowest domain that is allowed; else as many as can be, at least the minimum; those of `later`
// count, and are not placed. Among domains of a
// level that take all, the one with the least free. Inside a domain as few domains of each narrower level as can be,
// and as few nodes; the members of one shape take them in rank order, so that neighbours in rank are neighbours.
// With members of one shape a "no" is exact unless the search on a node was given up; with several shapes they are
// placed by falling number of devices, and a fit that needs another order may be missed, never invented. The same holds
// for devices that several nodes see, for segments with members of several shapes, and where boxes run short: then the
// nodes are taken that break the fewest for a member, one after the other. Errors: those of State::place;
// kInvalidArgument for a level that is not there, no members, a minimum out of range. Cost: O(nodes * copies on a node
// * devices) for each shape, and O(levels * nodes) for the domains.
Result<GangOutcome> place_gang(const State& state, const std::vector<TopologyLevel>& levels, const GangRequest& request,
                               SeededRandom& random);

}  // namespace heddle::engine
