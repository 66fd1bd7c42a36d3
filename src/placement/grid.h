// How many slices of one shape a torus has room for at least, and which hosts that hangs on.
//
// Counted are cuboids of one orientation that lie on one grid: side by side from one offset. The best of all
// orientations and offsets is a lower bound of what disjoint cuboids anywhere would give; a torus of which nothing or
// everything is taken reaches it. It never rises when a host is taken, and falls by no more than one, which the most
// that any greedy search finds does not hold to.
//
// Pure and deterministic.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "placement/cuboid.h"

namespace heddle::placement {

struct GridCount {
  int64_t cuboids = 0;
  // By index_of(): without this host there would be one less.
  std::vector<bool> needed;
};

// sizes: the orientations. Errors: those of choose_cuboid() for a torus that is none.
// Cost: O(sizes * hosts of a cuboid * hosts of the torus).
Result<GridCount> count_on_grid(const Torus& torus, const std::vector<Extent>& sizes);

}  // namespace heddle::placement
