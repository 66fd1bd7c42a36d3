#include "placement/grid.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace heddle::placement {
namespace {

Torus free_torus(const Extent& size, bool wraps = false) {
  return {size, wraps, std::vector<bool>(static_cast<size_t>(volume_of(size)), true)};
}

int64_t count(const Torus& torus, const std::vector<Extent>& sizes) {
  return count_on_grid(torus, sizes).value().cuboids;
}

TEST(Grid, AnEmptyTorusIsCutWithoutALoss) {
  EXPECT_EQ(count(free_torus({4, 4, 4}), {{2, 2, 2}}), 8);
  EXPECT_EQ(count(free_torus({4, 4, 1}), {{4, 2, 1}, {2, 4, 1}}), 2);
  EXPECT_EQ(count(free_torus({2, 5, 1}), {{4, 1, 1}, {1, 4, 1}}), 2) << "only the second orientation fits";
  EXPECT_EQ(count(free_torus({5, 5, 1}), {{2, 2, 1}}), 4) << "one row and one column are left over";
  EXPECT_EQ(count(free_torus({2, 2, 2}), {{3, 1, 1}}), 0);
  EXPECT_EQ(count(free_torus({2, 2, 2}), {}), 0);
}

TEST(Grid, TheOffsetFollowsWhatIsTaken) {
  Torus torus = free_torus({1, 1, 6});
  torus.usable[0] = false;
  EXPECT_EQ(count(torus, {{1, 1, 2}}), 2) << "from 1 or from 2";
  torus.usable[5] = false;
  EXPECT_EQ(count(torus, {{1, 1, 2}}), 2) << "1-2 and 3-4";
  torus.usable[3] = false;
  const GridCount found = count_on_grid(torus, {{1, 1, 2}}).value();
  EXPECT_EQ(found.cuboids, 1) << "1-2; 4 is alone";
  EXPECT_EQ(found.needed, (std::vector<bool>{false, true, true, false, false, false}));
}

TEST(Grid, OverTheEdgeOnlyWhereItWraps) {
  for (const bool wraps : {false, true}) {
    Torus torus = free_torus({1, 1, 4}, wraps);
    torus.usable[1] = torus.usable[2] = false;
    EXPECT_EQ(count(torus, {{1, 1, 2}}), wraps ? 1 : 0);
  }
}

TEST(Grid, ATorusThatIsNone) {
  EXPECT_FALSE(count_on_grid({{2, 2, 2}, false, {true}}, {{1, 1, 1}}).has_value());
  EXPECT_FALSE(count_on_grid({{0, 0, 0}, false, {}}, {{1, 1, 1}}).has_value());
}

// Hosts are taken one by one: the count falls by one exactly where a host was needed, else it stays; and there are that
// many disjoint cuboids, so that taking them one after the other goes on to the end.
TEST(Grid, EachHostIsNeededOrNot) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SeededRandom random(seed);
    const Extent size = {1 + static_cast<int>(random.below(4)), 2 + static_cast<int>(random.below(3)), 4};
    Torus torus = free_torus(size, random.below(2) == 0);
    const std::vector<Extent> sizes = {{1, 2, 2}, {1, 2, 1}};
    for (int step = 0; step < 40; ++step) {
      const GridCount before = count_on_grid(torus, {sizes[seed % 2]}).value();
      const auto host = static_cast<size_t>(random.below(torus.usable.size()));
      const bool needed = before.needed[host];
      EXPECT_TRUE(!needed || torus.usable[host]);
      torus.usable[host] = false;
      EXPECT_EQ(count(torus, {sizes[seed % 2]}), before.cuboids - (needed ? 1 : 0)) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace heddle::placement
