#include "placement/pressure.h"

#include <gtest/gtest.h>

namespace heddle::placement {
namespace {

struct Case {
  const char* what;
  std::vector<BoundDemand> demand;
  std::vector<int64_t> free_milli;
  std::vector<double> expected;
};

TEST(Pressure, IsTheDensestDemandFirst) {
  const std::vector<Case> cases = {
      {"nothing is bound", {}, {500, 500}, {0, 0}},
      {"one kind", {{{0}, 0.25}}, {500, 500}, {0.5, 0}},
      {"a kind without free cards", {{{0}, 0.25}}, {0, 500}, {0, 0}},
      {"cut at the limit", {{{0}, 0.9}}, {100, 900}, {3, 0}},
      {"a set shares what it names", {{{0, 1}, 0.5}}, {250, 250, 500}, {1, 1, 0}},
      // {0} alone has 0.4 / 0.25 = 1.6; then {1} has the 0.2 of the pair to itself: 0.2 / 0.25.
      {"the denser subset comes first", {{{0}, 0.4}, {{0, 1}, 0.2}}, {250, 250, 500}, {1.6, 0.8, 0}},
      // {0} alone has 0.4, both have 0.6 / 0.5 = 1.2: the pair is denser.
      {"the pair is denser", {{{0}, 0.1}, {{0, 1}, 0.5}}, {250, 250, 500}, {1.2, 1.2, 0}},
  };
  for (const Case& test : cases) {
    const auto levels = pressure_levels(test.demand, test.free_milli, 3);
    ASSERT_EQ(levels.size(), test.expected.size()) << test.what;
    for (size_t kind = 0; kind < levels.size(); ++kind) {
      EXPECT_NEAR(levels[kind], test.expected[kind], 1e-9) << test.what << ", kind " << kind;
    }
  }
}

TEST(Pressure, ManyKindsUseTheNamedSetsAlone) {
  std::vector<BoundDemand> demand;
  demand.reserve(30);
  std::vector<int64_t> free(30, 100);
  for (Kind kind = 0; kind < 30; ++kind) demand.push_back({{kind}, kind == 7 ? 0.1 : 0.01});
  const auto levels = pressure_levels(demand, free, 3);
  EXPECT_NEAR(levels[7], 3, 1e-9);
  EXPECT_NEAR(levels[8], 0.3, 1e-9);
}

TEST(BoundDemand, IsTheShareOfAllMilliAsked) {
  const Mix mix{{{{0, 0, 1, 500, {0}}, 2},
                 {{1, 0, 1, 500, {0}}, 2},
                 {{0, 0, 2, 1000, {}}, 1},
                 {{0, 0, 1, 1000, {0, 1, 2}}, 3},  // all kinds that there are: not bound
                 {{0, 0, 0, 0, {1}}, 50},          // no cards
                 {{0, 0, 1, 1000, {1, 9}}, 1}},    // 9 is a kind without nodes
                60};
  const auto demand = bound_demand(mix, 3);
  ASSERT_EQ(demand.size(), 2U);
  EXPECT_EQ(demand[0].kinds, std::vector<Kind>{0});
  EXPECT_NEAR(demand[0].share, 0.25, 1e-9);
  EXPECT_EQ(demand[1].kinds, (std::vector<Kind>{1, 9}));
  EXPECT_NEAR(demand[1].share, 0.125, 1e-9);
}

}  // namespace
}  // namespace heddle::placement
