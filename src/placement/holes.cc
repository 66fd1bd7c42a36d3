#include "placement/holes.h"

#include <algorithm>
#include <numeric>

namespace heddle::placement {
namespace {

constexpr double kEpsilon = 1e-9;
constexpr int kMaxPivots = 500;

// Best fillings of holes of 0 to `capacity` units.
struct Knapsack {
  std::vector<double> best;
  std::vector<int> last;  // the size added last, -1: none, the hole one unit smaller is as good
};

Knapsack fill_holes(const std::vector<int>& units, int capacity, const std::vector<double>& prices) {
  Knapsack knapsack;
  knapsack.best.assign(static_cast<size_t>(capacity) + 1, 0);
  knapsack.last.assign(static_cast<size_t>(capacity) + 1, -1);
  for (size_t hole = 1; hole < knapsack.best.size(); ++hole) {
    knapsack.best[hole] = knapsack.best[hole - 1];
    for (size_t size = 0; size < units.size() && static_cast<size_t>(units[size]) <= hole; ++size) {
      const double value = knapsack.best[hole - static_cast<size_t>(units[size])] + prices[size];
      if (value > knapsack.best[hole] + kEpsilon) {
        knapsack.best[hole] = value;
        knapsack.last[hole] = static_cast<int>(size);
      }
    }
  }
  return knapsack;
}

// How often each size is in the best filling of a whole card.
std::vector<double> best_pattern(const Knapsack& knapsack, const std::vector<int>& units) {
  std::vector<double> pattern(units.size(), 0);
  size_t hole = knapsack.best.size() - 1;
  while (hole > 0) {
    const int size = knapsack.last[hole];
    if (size < 0) {
      --hole;
      continue;
    }
    pattern[static_cast<size_t>(size)] += 1;
    hole -= static_cast<size_t>(units[static_cast<size_t>(size)]);
  }
  return pattern;
}

// The basis of the cutting-stock problem, as its inverse. Rows and columns are as many as there are sizes.
class Basis {
 public:
  // Starts with patterns of one size each.
  Basis(const std::vector<ShareSize>& sizes, double total) : inverse_(sizes.size()), used_(sizes.size()) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      inverse_[i].assign(sizes.size(), 0);
      const int per_card = kWholeCard / sizes[i].milli;
      inverse_[i][i] = 1.0 / per_card;
      used_[i] = inverse_[i][i] * static_cast<double>(sizes[i].weight) / total;
    }
  }

  [[nodiscard]] std::vector<double> prices() const {
    std::vector<double> prices(inverse_.size(), 0);
    for (const auto& row : inverse_) {
      for (size_t i = 0; i < row.size(); ++i) prices[i] += row[i];
    }
    return prices;
  }

  // Brings the pattern in; false when no pattern can leave.
  bool enter(const std::vector<double>& pattern) {
    std::vector<double> direction(inverse_.size(), 0);
    for (size_t i = 0; i < inverse_.size(); ++i) {
      direction[i] = std::inner_product(pattern.begin(), pattern.end(), inverse_[i].begin(), 0.0);
    }
    size_t leaves = inverse_.size();
    for (size_t i = 0; i < inverse_.size(); ++i) {
      if (direction[i] <= kEpsilon) continue;
      if (leaves == inverse_.size() || used_[i] * direction[leaves] < used_[leaves] * direction[i]) leaves = i;
    }
    if (leaves == inverse_.size()) return false;
    pivot(leaves, direction);
    return true;
  }

 private:
  void pivot(size_t leaves, const std::vector<double>& direction) {
    for (double& value : inverse_[leaves]) value /= direction[leaves];
    used_[leaves] /= direction[leaves];
    for (size_t i = 0; i < inverse_.size(); ++i) {
      if (i == leaves || direction[i] == 0) continue;
      for (size_t j = 0; j < inverse_.size(); ++j) inverse_[i][j] -= direction[i] * inverse_[leaves][j];
      used_[i] = std::max(0.0, used_[i] - direction[i] * used_[leaves]);
    }
  }

  std::vector<std::vector<double>> inverse_;
  std::vector<double> used_;  // how much of each pattern, as a part of all shares
};

// Sizes in the largest unit that divides them all, which makes the tables of the knapsack short.
struct Units {
  std::vector<int> sizes;
  int unit = 1;
  int capacity = kWholeCard;
};

Units make_units(const std::vector<ShareSize>& sizes) {
  Units units;
  units.unit = 0;
  for (const ShareSize& size : sizes) units.unit = std::gcd(units.unit, size.milli);
  for (const ShareSize& size : sizes) units.sizes.push_back(size.milli / units.unit);
  units.capacity = kWholeCard / units.unit;
  return units;
}

}  // namespace

std::vector<ShareSize> share_sizes(const Mix& mix, size_t limit) {
  std::array<int64_t, kWholeCard> weights{};
  for (const MixClass& entry : mix.classes) {
    const Request& request = entry.request;
    if (request.cards >= 1 && request.milli < kWholeCard) {
      weights[static_cast<size_t>(request.milli)] += entry.weight * request.cards;
    }
  }
  std::vector<ShareSize> sizes;
  for (int milli = 1; milli < kWholeCard; ++milli) {
    const int64_t weight = weights[static_cast<size_t>(milli)];
    if (weight > 0) sizes.push_back({milli, weight});
  }
  if (sizes.size() <= limit) return sizes;
  std::stable_sort(sizes.begin(), sizes.end(),
                   [](const ShareSize& a, const ShareSize& b) { return a.milli * a.weight > b.milli * b.weight; });
  sizes.resize(limit);
  std::sort(sizes.begin(), sizes.end(), [](const ShareSize& a, const ShareSize& b) { return a.milli < b.milli; });
  return sizes;
}

std::vector<double> share_prices(const std::vector<ShareSize>& sizes) {
  if (sizes.empty()) return {};
  double total = 0;
  for (const ShareSize& size : sizes) total += static_cast<double>(size.weight);
  const Units units = make_units(sizes);
  Basis basis(sizes, total);
  std::vector<double> prices = basis.prices();
  Knapsack knapsack = fill_holes(units.sizes, units.capacity, prices);
  for (int i = 0; i < kMaxPivots && knapsack.best.back() > 1 + kEpsilon * 10; ++i) {
    if (!basis.enter(best_pattern(knapsack, units.sizes))) break;
    prices = basis.prices();
    for (double& price : prices) price = std::max(0.0, price);
    knapsack = fill_holes(units.sizes, units.capacity, prices);
  }
  const double most = std::max(1.0, knapsack.best.back());
  for (double& price : prices) price /= most;
  return prices;
}

std::array<double, kWholeCard + 1> hole_worth(const std::vector<ShareSize>& sizes, const std::vector<double>& prices) {
  std::array<double, kWholeCard + 1> worth{};
  if (sizes.empty()) return worth;
  const Units units = make_units(sizes);
  const Knapsack knapsack = fill_holes(units.sizes, units.capacity, prices);
  if (knapsack.best.back() <= 0) return worth;
  for (size_t hole = 0; hole < worth.size(); ++hole) {
    worth[hole] = kWholeCard * knapsack.best[hole / static_cast<size_t>(units.unit)] / knapsack.best.back();
  }
  return worth;
}

}  // namespace heddle::placement
