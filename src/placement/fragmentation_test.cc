#include "placement/fragmentation.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "placement/ways.h"

namespace heddle::placement {
namespace {

constexpr int64_t kGib = int64_t{1} << 30;

// The definition, word for word.
int64_t naive(const Mix& mix, const StateView& state) {
  int64_t sum = 0;
  for (const MixClass& entry : mix.classes) {
    const Request& request = entry.request;
    if (request.cards == 0) continue;
    int64_t total = 0;
    int64_t too_small = 0;
    int large_enough = 0;
    for (int i = 0; i < state.count; ++i) {
      total += state.cards[i];
      too_small += state.cards[i] < request.milli ? state.cards[i] : 0;
      large_enough += state.cards[i] >= request.milli ? 1 : 0;
    }
    const bool kind_fits =
        request.kinds.empty() || std::count(request.kinds.begin(), request.kinds.end(), state.kind) > 0;
    const bool fits = kind_fits && state.cpu_milli >= request.cpu_milli && state.memory_bytes >= request.memory_bytes &&
                      large_enough >= request.cards;
    sum += entry.weight * (fits ? too_small : total);
  }
  return sum;
}

struct Case {
  const char* what;
  std::vector<MixClass> classes;
  std::vector<uint16_t> cards;  // of a node with 10 CPU, 10 GiB, kind 1
  int64_t expected;
};

TEST(Fragmentation, CountsWhatTheMixCannotUse) {
  const std::vector<Case> cases = {
      {"nothing asked", {}, {1000}, 0},
      {"pods without cards do not count", {{{1000, kGib, 0, 0, {}}, 5}}, {1000}, 0},
      {"fits: only the small card is lost", {{{1000, kGib, 1, 500, {}}, 3}}, {1000, 400}, 1200},
      {"no CPU: all is lost", {{{11000, kGib, 1, 500, {}}, 1}}, {1000, 400}, 1400},
      {"no memory: all is lost", {{{1000, 11 * kGib, 1, 500, {}}, 1}}, {1000, 400}, 1400},
      {"too few cards: all is lost", {{{1000, kGib, 2, 1000, {}}, 1}}, {1000, 400}, 1400},
      {"another kind: all is lost", {{{1000, kGib, 1, 500, {0, 2}}, 1}}, {1000, 400}, 1400},
      {"this kind among others", {{{1000, kGib, 1, 500, {0, 1}}, 1}}, {1000, 400}, 400},
      {"two halves on two cards", {{{1000, kGib, 2, 500, {}}, 1}}, {1000, 500, 100}, 100},
      {"exactly full", {{{10000, 10 * kGib, 2, 1000, {}}, 1}}, {1000, 1000}, 0},
      {"classes add up", {{{1000, kGib, 1, 500, {}}, 3}, {{1000, kGib, 8, 1000, {}}, 2}}, {600, 0}, 1200},
  };
  for (const Case& test : cases) {
    const Mix mix{test.classes, 10};
    Fragmentation fragmentation(mix);
    const StateView state{10000, 10 * kGib, test.cards.data(), static_cast<int>(test.cards.size()), 1};
    EXPECT_EQ(fragmentation.weighted(state), test.expected) << test.what;
    EXPECT_EQ(naive(mix, state), test.expected) << test.what;
  }
}

TEST(Fragmentation, EqualsItsDefinitionOnRandomMixes) {
  SeededRandom random(7);
  for (int round = 0; round < 200; ++round) {
    Mix mix;
    for (uint64_t i = random.below(30); i > 0; --i) {
      Request request{static_cast<int64_t>(random.below(6)),
                      static_cast<int64_t>(random.below(6)),
                      static_cast<int>(random.below(5)),
                      0,
                      {}};
      if (request.cards > 0) request.milli = static_cast<int>(1 + random.below(10)) * 100;
      if (random.below(3) == 0) request.kinds = {static_cast<Kind>(random.below(2)), 3};
      mix.classes.push_back({request, static_cast<int64_t>(1 + random.below(9))});
    }
    Fragmentation fragmentation(mix);
    for (int i = 0; i < 50; ++i) {
      std::vector<uint16_t> cards(random.below(6));
      for (uint16_t& card : cards) card = static_cast<uint16_t>(random.below(21) * 50);
      std::sort(cards.rbegin(), cards.rend());
      const StateView state{static_cast<int64_t>(random.below(7)), static_cast<int64_t>(random.below(7)), cards.data(),
                            static_cast<int>(cards.size()), static_cast<Kind>(random.below(4))};
      ASSERT_EQ(fragmentation.weighted(state), naive(mix, state)) << "round " << round << " node " << i;
    }
  }
}

TEST(Ways, AreTheDistinctRunsOfCards) {
  const std::vector<uint16_t> cards = {1000, 1000, 700, 700, 300};
  const StateView state{0, 0, cards.data(), 5, 0};
  const auto all = [&state](int count, int milli) {
    std::vector<int> ways;
    const Request request{0, 0, count, milli, {}};
    for (int way = next_way(state, request, -1); way >= 0; way = next_way(state, request, way)) ways.push_back(way);
    return ways;
  };
  EXPECT_EQ(all(1, 200), (std::vector<int>{0, 2, 4}));
  EXPECT_EQ(all(1, 500), (std::vector<int>{0, 2}));
  EXPECT_EQ(all(2, 1000), (std::vector<int>{0}));
  EXPECT_EQ(all(2, 500), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(all(3, 1000), (std::vector<int>{}));
}

TEST(Ways, LeaveTheCardsSorted) {
  const std::vector<uint16_t> cards = {1000, 900, 700, 650, 300};
  const StateView state{0, 0, cards.data(), 5, 0};
  const auto left = [&state](int count, int milli, int first) {
    Cards after;
    take_way(state, {0, 0, count, milli, {}}, first, after);
    return std::vector<uint16_t>(after.milli.begin(), after.milli.begin() + after.count);
  };
  EXPECT_EQ(left(1, 200, 0), (std::vector<uint16_t>{900, 800, 700, 650, 300}));
  EXPECT_EQ(left(1, 650, 3), (std::vector<uint16_t>{1000, 900, 700, 300, 0}));
  EXPECT_EQ(left(2, 500, 0), (std::vector<uint16_t>{700, 650, 500, 400, 300}));
  EXPECT_EQ(left(2, 300, 3), (std::vector<uint16_t>{1000, 900, 700, 350, 0}));
}

}  // namespace
}  // namespace heddle::placement
