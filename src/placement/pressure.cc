#include "placement/pressure.h"

#include <algorithm>
#include <bit>
#include <map>

namespace heddle::placement {
namespace {

constexpr size_t kMaxExhaustive = 10;  // named kinds
constexpr size_t kMaxNamed = 64;       // kinds beyond have level 0

// The kinds that demand names and that have free cards, as the bits of a mask.
struct Named {
  std::vector<Kind> kinds;
  std::vector<double> free;  // of each, as a share of all free cards

  [[nodiscard]] double capacity(uint64_t mask) const {
    double sum = 0;
    for (; mask != 0; mask &= mask - 1) sum += free[static_cast<size_t>(std::countr_zero(mask))];
    return sum;
  }
};

struct Bound {
  uint64_t mask = 0;
  double share = 0;
};

Named name_kinds(const std::vector<BoundDemand>& demand, const std::vector<int64_t>& free_milli) {
  double total = 0;
  for (const int64_t milli : free_milli) total += static_cast<double>(milli);
  Named named;
  for (size_t kind = 0; kind < free_milli.size() && named.kinds.size() < kMaxNamed; ++kind) {
    if (free_milli[kind] <= 0) continue;
    const auto names = [kind](const BoundDemand& bound) {
      return std::binary_search(bound.kinds.begin(), bound.kinds.end(), static_cast<Kind>(kind));
    };
    if (std::none_of(demand.begin(), demand.end(), names)) continue;
    named.kinds.push_back(static_cast<Kind>(kind));
    named.free.push_back(static_cast<double>(free_milli[kind]) / total);
  }
  return named;
}

std::vector<Bound> to_masks(const std::vector<BoundDemand>& demand, const Named& named) {
  std::vector<Bound> bounds;
  for (const BoundDemand& entry : demand) {
    Bound bound{0, entry.share};
    for (const Kind kind : entry.kinds) {
      const auto at = std::lower_bound(named.kinds.begin(), named.kinds.end(), kind);
      if (at != named.kinds.end() && *at == kind) bound.mask |= uint64_t{1} << (at - named.kinds.begin());
    }
    if (bound.mask != 0) bounds.push_back(bound);
  }
  return bounds;
}

std::vector<uint64_t> candidate_sets(const std::vector<Bound>& bounds, size_t named) {
  std::vector<uint64_t> sets;
  if (named <= kMaxExhaustive) {
    for (uint64_t mask = 1; mask < uint64_t{1} << named; ++mask) sets.push_back(mask);
    return sets;
  }
  for (size_t i = 0; i < bounds.size(); ++i) {
    for (size_t j = i; j < bounds.size(); ++j) sets.push_back(bounds[i].mask | bounds[j].mask);
  }
  std::sort(sets.begin(), sets.end());
  sets.erase(std::unique(sets.begin(), sets.end()), sets.end());
  return sets;
}

}  // namespace

std::vector<BoundDemand> bound_demand(const Mix& mix, size_t kinds) {
  std::map<std::vector<Kind>, int64_t> bound;
  int64_t total = 0;
  for (const MixClass& entry : mix.classes) {
    const int64_t milli = entry.weight * entry.request.card_milli();
    total += milli;
    const std::vector<Kind>& set = entry.request.kinds;
    const auto present = std::lower_bound(set.begin(), set.end(), kinds) - set.begin();
    const bool is_bound = !set.empty() && static_cast<size_t>(present) < kinds;
    if (is_bound && milli > 0) bound[set] += milli;
  }
  std::vector<BoundDemand> demand;
  demand.reserve(bound.size());
  for (const auto& [set, milli] : bound) {
    demand.push_back({set, static_cast<double>(milli) / static_cast<double>(total)});
  }
  return demand;
}

std::vector<double> pressure_levels(const std::vector<BoundDemand>& demand, const std::vector<int64_t>& free_milli,
                                    double limit) {
  std::vector<double> levels(free_milli.size(), 0);
  const Named named = name_kinds(demand, free_milli);
  const std::vector<Bound> bounds = to_masks(demand, named);
  const std::vector<uint64_t> sets = candidate_sets(bounds, named.kinds.size());
  uint64_t fixed = 0;
  for (;;) {
    uint64_t densest = 0;
    double highest = 0;
    for (const uint64_t set : sets) {
      if ((set & ~fixed) == 0) continue;
      double share = 0;
      for (const Bound& bound : bounds) {
        if ((bound.mask & ~(set | fixed)) == 0 && (bound.mask & ~fixed) != 0) share += bound.share;
      }
      const double density = share / named.capacity(set & ~fixed);
      if (density > highest) {
        highest = density;
        densest = set & ~fixed;
      }
    }
    if (densest == 0) return levels;
    for (uint64_t rest = densest; rest != 0; rest &= rest - 1) {
      levels[named.kinds[static_cast<size_t>(std::countr_zero(rest))]] = std::min(limit, highest);
    }
    fixed |= densest;
  }
}

}  // namespace heddle::placement
