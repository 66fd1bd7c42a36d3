// H, what the free part of a card is worth to pods that share cards: with sizes 810 and 650 in the mix, a hole of 190
// is worth nothing and one of 500 half a card when 470 is asked often.
//
// The prices of the sizes are the duals of the cutting-stock problem of the mix: fill whole cards with pods of these
// sizes in the proportions of the mix, using as few cards as possible. A hole is worth the best filling of it at these
// prices.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "placement/mix.h"
#include "placement/types.h"

namespace heddle::placement {

// One size of shares: milli in (0, 1000), weight > 0.
struct ShareSize {
  int milli = 0;
  int64_t weight = 0;
};

// The distinct sizes of shares in the mix, ascending; at most `limit` of them, those that ask for the most cards.
std::vector<ShareSize> share_sizes(const Mix& mix, size_t limit);

// Maximises sum(weight * price) subject to: no filling of a card with these sizes costs more than 1. Column generation
// (Gilmore and Gomory) with a bounded number of pivots; when the bound is reached, the prices so far are scaled to be
// feasible. Cost: some tens of pivots of O(sizes * 1000). sizes: ascending and distinct.
std::vector<double> share_prices(const std::vector<ShareSize>& sizes);

// worth[r] for r in [0, 1000]: the most that shares of these sizes in a hole of r milli are worth, where a whole card
// is worth 1000. All 0 without sizes.
std::array<double, kWholeCard + 1> hole_worth(const std::vector<ShareSize>& sizes, const std::vector<double>& prices);

}  // namespace heddle::placement
