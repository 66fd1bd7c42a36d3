#include "placement/holes.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace heddle::placement {
namespace {

// The shares of the public openb trace, default list: how many pods ask for how much of a card.
const std::vector<ShareSize>& openb_sizes() {
  static const std::vector<ShareSize> sizes = {
      {50, 7},  {110, 24}, {140, 1}, {160, 74},  {220, 62},  {230, 140}, {270, 4},  {290, 1},  {320, 328}, {330, 7},
      {350, 6}, {370, 47}, {440, 2}, {460, 128}, {470, 750}, {480, 19},  {550, 72}, {590, 75}, {650, 253}, {810, 1078}};
  return sizes;
}

TEST(SharePrices, OfThePublicTrace) {
  // Computed independently: 810 fills a card alone, 650 to 550 go with 320s, 480 to 460 go in pairs.
  const std::vector<std::pair<int, double>> expected = {
      {50, 0},     {110, 0},       {140, 0},       {160, 0},       {220, 1.0 / 12}, {230, 0.25},    {270, 0.25},
      {290, 0.25}, {320, 1.0 / 3}, {330, 1.0 / 3}, {350, 1.0 / 3}, {370, 1.0 / 3},  {440, 1.0 / 3}, {460, 0.5},
      {470, 0.5},  {480, 0.5},     {550, 2.0 / 3}, {590, 2.0 / 3}, {650, 2.0 / 3},  {810, 1}};
  const auto prices = share_prices(openb_sizes());
  ASSERT_EQ(prices.size(), expected.size());
  for (size_t i = 0; i < prices.size(); ++i) EXPECT_NEAR(prices[i], expected[i].second, 1e-6) << expected[i].first;
}

TEST(HoleWorth, IsAStaircase) {
  const auto worth = hole_worth(openb_sizes(), share_prices(openb_sizes()));
  const std::vector<std::pair<size_t, double>> expected = {
      {0, 0},      {190, 0},    {460, 500}, {530, 500}, {650, 2000.0 / 3}, {689, 2000.0 / 3}, {809, 2750.0 / 3},
      {810, 1000}, {1000, 1000}};
  for (const auto& [hole, value] : expected) EXPECT_NEAR(worth[hole], value, 1e-3) << hole;
  for (size_t hole = 1; hole < worth.size(); ++hole) EXPECT_GE(worth[hole], worth[hole - 1]) << hole;
}

TEST(HoleWorth, NothingWithoutShares) {
  const auto worth = hole_worth({}, share_prices({}));
  EXPECT_EQ(worth[1000], 0);
}

TEST(SharePrices, ASizeAlone) {
  EXPECT_NEAR(share_prices({{300, 5}})[0], 1.0 / 3, 1e-9);
  EXPECT_NEAR(share_prices({{999, 5}})[0], 1, 1e-9);
  EXPECT_NEAR(share_prices({{1, 5}})[0], 0.001, 1e-9);
}

TEST(ShareSizes, KeepsThoseThatAskForTheMost) {
  const Mix mix{{{{0, 0, 1, 100, {}}, 30},
                 {{0, 0, 1, 900, {}}, 2},
                 {{0, 0, 1, 500, {}}, 4},
                 {{1, 0, 1, 500, {}}, 4},
                 {{0, 0, 1, 1000, {}}, 99},
                 {{0, 0, 0, 0, {}}, 99}},
                300};
  const auto all = share_sizes(mix, 10);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[1].milli, 500);
  EXPECT_EQ(all[1].weight, 8);
  const auto two = share_sizes(mix, 2);
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(two[0].milli, 100);
  EXPECT_EQ(two[1].milli, 500);
}

// All ways to fill a card, by trying everything.
void fillings(const std::vector<ShareSize>& sizes, size_t from, int room, std::vector<int>& counts,
              std::vector<std::vector<int>>& found) {
  if (from == sizes.size()) {
    found.push_back(counts);
    return;
  }
  for (int count = 0; count * sizes[from].milli <= room; ++count) {
    counts[from] = count;
    fillings(sizes, from + 1, room - count * sizes[from].milli, counts, found);
  }
  counts[from] = 0;
}

TEST(SharePrices, AreFeasibleAndAsGoodAsAnyOnRandomSizes) {
  SeededRandom random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<ShareSize> sizes;
    for (int milli = 150; milli < 1000; milli += static_cast<int>(30 + random.below(200))) {
      sizes.push_back({milli, static_cast<int64_t>(1 + random.below(50))});
    }
    const auto prices = share_prices(sizes);
    std::vector<int> counts(sizes.size(), 0);
    std::vector<std::vector<int>> patterns;
    fillings(sizes, 0, kWholeCard, counts, patterns);
    double value = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      EXPECT_GE(prices[i], 0);
      value += prices[i] * static_cast<double>(sizes[i].weight);
    }
    for (const auto& pattern : patterns) {
      double cost = 0;
      for (size_t i = 0; i < sizes.size(); ++i) cost += prices[i] * pattern[i];
      ASSERT_LE(cost, 1 + 1e-6) << "round " << round;
    }
    // Optimal: no other feasible prices earn more. Random feasible prices are a check from below.
    for (int other = 0; other < 50; ++other) {
      std::vector<double> candidate(sizes.size());
      for (double& price : candidate) price = static_cast<double>(random.below(1000));
      double most = 1e-9;
      double earned = 0;
      for (const auto& pattern : patterns) {
        double cost = 0;
        for (size_t i = 0; i < sizes.size(); ++i) cost += candidate[i] * pattern[i];
        most = std::max(most, cost);
      }
      for (size_t i = 0; i < sizes.size(); ++i) earned += candidate[i] / most * static_cast<double>(sizes[i].weight);
      ASSERT_LE(earned, value + 1e-6) << "round " << round;
    }
  }
}

}  // namespace
}  // namespace heddle::placement
