// Leaving out of a set of victims what is not needed. Inside this folder only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "queueing/preemption.h"

namespace heddle::queueing {

// It makes room there.
inline bool is_at(const Victim& victim, const std::string& site) {
  if (!victim.site.empty()) return victim.site == site;
  return victim.sites.empty() || std::find(victim.sites.begin(), victim.sites.end(), site) != victim.sites.end();
}

inline std::vector<const Victim*> those_at(const std::vector<const Victim*>& victims, const std::string& site) {
  std::vector<const Victim*> here;
  for (const Victim* victim : victims) {
    if (is_at(*victim, site)) here.push_back(victim);
  }
  return here;
}

// Leaves out what is not needed, the last first, in blocks that grow while that succeeds. `enough` is monotone.
template <typename Enough>
void prune(std::vector<const Victim*>& chosen, Enough enough) {
  size_t left = chosen.size();
  size_t block = 1;
  while (left > 0) {
    block = std::min(block, left);
    std::vector<const Victim*> without(chosen.begin(), chosen.begin() + static_cast<std::ptrdiff_t>(left - block));
    without.insert(without.end(), chosen.begin() + static_cast<std::ptrdiff_t>(left), chosen.end());
    if (enough(without)) {
      chosen = std::move(without);
      left -= block;
      block *= 2;
    } else if (block == 1) {
      --left;
    } else {
      block /= 2;
    }
  }
}

// The length of the shortest beginning of `all` that is enough: twice as long each time, then halved. More than its
// size: not even all of it is.
template <typename Enough>
size_t shortest_beginning(const std::vector<const Victim*>& all, Enough enough) {
  const auto first = [&](size_t count) {
    return std::vector<const Victim*>(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
  };
  size_t too_few = 0;
  size_t count = std::min<size_t>(1, all.size());
  while (!enough(first(count))) {
    if (count == all.size()) return all.size() + 1;
    too_few = count;
    count = std::min(count * 2, all.size());
  }
  while (count - too_few > 1) {
    const size_t middle = too_few + (count - too_few) / 2;
    (enough(first(middle)) ? count : too_few) = middle;
  }
  return count;
}

}  // namespace heddle::queueing
