// L, the pressure on a kind of nodes: how much more of the demand than of the free cards is bound to it. Pods that
// could go elsewhere pay for a kind under pressure, so it is kept for those that could not.
#pragma once

#include <cstdint>
#include <vector>

#include "placement/mix.h"
#include "placement/types.h"

namespace heddle::placement {

// The demand that is bound to a set of kinds, as a share of all demand for cards.
struct BoundDemand {
  std::vector<Kind> kinds;  // ascending, distinct
  double share = 0;
};

// One entry per distinct set of kinds that classes with cards name, other than all of the `kinds` kinds.
std::vector<BoundDemand> bound_demand(const Mix& mix, size_t kinds);

// The level of each kind, 0 to `limit`, by repeatedly taking the set of kinds with the most bound demand per free card
// (levels fall from set to set; each kind gets the level of its set). free_milli: by kind; kinds without free cards
// have level 0. Sets looked at: all subsets of the named kinds when these are at most 10; else, of the first 64 named
// kinds, the named sets and their unions in pairs. Cost: O(sets looked at * demand * kinds).
std::vector<double> pressure_levels(const std::vector<BoundDemand>& demand, const std::vector<int64_t>& free_milli,
                                    double limit);

}  // namespace heddle::placement
