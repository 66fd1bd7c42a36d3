// Where so many of something go when places have room for some each. Inside the engine only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace heddle::engine {

struct GangBin {
  int64_t room = 0;
  int64_t free = 0;
  std::vector<size_t> parts;  // what it is made of: nodes, or domains
};

// Large bins first, so that few are used; the last one is the tightest that still takes the rest. Sorts the bins; which
// of them take how many, in order, as far as there is room.
inline std::vector<std::pair<size_t, int64_t>> fill_bins(std::vector<GangBin>& bins, int64_t wanted) {
  std::vector<std::pair<size_t, int64_t>> used;
  std::stable_sort(bins.begin(), bins.end(), [](const GangBin& a, const GangBin& b) {
    return a.room != b.room ? a.room > b.room : a.free < b.free;
  });
  for (size_t i = 0; i < bins.size() && wanted > 0; ++i) {
    size_t at = i;
    while (bins[i].room >= wanted && at + 1 < bins.size() && bins[at + 1].room >= wanted) ++at;
    // Of those with the same room the one with the least free was sorted first.
    while (at > i && bins[at - 1].room == bins[at].room) --at;
    const int64_t here = std::min(bins[at].room, wanted);
    if (here <= 0) break;
    used.emplace_back(at, here);
    wanted -= here;
  }
  return used;
}

}  // namespace heddle::engine
