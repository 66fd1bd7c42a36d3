// Cuboids of a torus, compared with every way to lay them on small ones.
#include "placement/cuboid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"

namespace heddle::placement {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Torus empty(const Extent& size, bool wraps) {
  return {size, wraps, std::vector<bool>(static_cast<size_t>(volume_of(size)), true)};
}

void take(Torus& torus, const Cuboid& cuboid) {
  for (const Extent& host : hosts_of(torus, cuboid)) torus.usable[index_of(torus.size, host)] = false;
}

// Every cuboid of every size, host by host.
std::vector<Cuboid> all_free(const Torus& torus) {
  std::vector<Cuboid> out;
  const auto [sx, sy, sz] = torus.size;
  for (int i = 0; i < sx * sy * sz; ++i) {
    const Extent origin = {i / (sy * sz), i / sz % sy, i % sz};
    for (int j = 0; j < sx * sy * sz; ++j) {
      const Extent size = {1 + j / (sy * sz), 1 + j / sz % sy, 1 + j % sz};
      bool inside = true;
      for (size_t axis = 0; axis < 3; ++axis) inside = inside && origin[axis] + size[axis] <= torus.size[axis];
      if (!torus.wraps && !inside) continue;
      const auto hosts = hosts_of(torus, {origin, size});
      const auto usable = [&](const Extent& host) { return torus.usable[index_of(torus.size, host)]; };
      if (std::all_of(hosts.begin(), hosts.end(), usable)) out.push_back({origin, size});
    }
  }
  return out;
}

int64_t largest_volume(const Torus& torus) {
  int64_t most = 0;
  for (const Cuboid& cuboid : all_free(torus)) most = std::max(most, volume_of(cuboid.size));
  return most;
}

TEST(CuboidTest, TopologiesAreWrittenWithAnX) {
  EXPECT_EQ(parse_extent("4x4x8").value(), (Extent{4, 4, 8}));
  EXPECT_EQ(parse_extent("2x4").value(), (Extent{2, 4, 1}));
  for (const char* bad : {"", "4", "4x", "x4", "4x4x4x4", "0x4", "-1x4", "4*4", "4x4 ", "99999x1"}) {
    const auto extent = parse_extent(bad);
    ASSERT_FALSE(extent.has_value()) << bad;
    EXPECT_THAT(extent.error().message, HasSubstr("4x4x8"));
  }
}

TEST(CuboidTest, OrientationsAreOfWholeHosts) {
  EXPECT_THAT(orientations({4, 4, 8}, {2, 2, 1}), ElementsAre(Extent{2, 2, 8}, Extent{2, 4, 4}, Extent{4, 2, 4}));
  EXPECT_THAT(orientations({2, 2, 1}, {2, 2, 1}), ElementsAre(Extent{1, 1, 1}));
  EXPECT_THAT(orientations({4, 4, 4}, {2, 2, 1}), ElementsAre(Extent{2, 2, 4}));
  EXPECT_TRUE(orientations({1, 1, 4}, {2, 2, 1}).empty());
}

TEST(CuboidTest, TheRestStaysInOnePiece) {
  // A line of 8 with 2 taken at the left: the next 2 go beside them, not into the middle.
  Torus line = empty({1, 1, 8}, false);
  take(line, {{0, 0, 0}, {1, 1, 2}});
  EXPECT_EQ(choose_cuboid(line, {{1, 1, 2}}).value(), (Cuboid{{0, 0, 2}, {1, 1, 2}}));
  // A hole of just that size is taken before the large piece.
  Torus hole = empty({1, 1, 8}, false);
  take(hole, {{0, 0, 2}, {1, 1, 1}});
  EXPECT_EQ(choose_cuboid(hole, {{1, 1, 2}}).value(), (Cuboid{{0, 0, 0}, {1, 1, 2}}));
}

TEST(CuboidTest, ItGoesOverTheEdgeOnlyWhereTheFacesAreJoined) {
  for (const bool wraps : {false, true}) {
    Torus ring = empty({1, 1, 6}, wraps);
    take(ring, {{0, 0, 1}, {1, 1, 4}});  // 0 and 5 are left
    const auto found = choose_cuboid(ring, {{1, 1, 2}}).value();
    EXPECT_EQ(found.has_value(), wraps);
    if (!found) continue;
    EXPECT_THAT(hosts_of(ring, *found), ElementsAre(Extent{0, 0, 5}, Extent{0, 0, 0}));
  }
}

TEST(CuboidTest, WhatItMustHoldIsInIt) {
  const Torus torus = empty({4, 4, 1}, false);
  const auto found = choose_cuboid(torus, {{2, 2, 1}}, {{2, 1, 0}}).value();
  ASSERT_TRUE(found.has_value());
  EXPECT_THAT(hosts_of(torus, *found), ::testing::Contains(Extent{2, 1, 0}));
  EXPECT_FALSE(choose_cuboid(torus, {{2, 2, 1}}, {{0, 0, 0}, {3, 3, 0}}).value().has_value());
}

TEST(CuboidTest, AllFreeOnesTheBestFirst) {
  Torus line = empty({1, 1, 6}, false);
  take(line, {{0, 0, 3}, {1, 1, 1}});
  const std::vector<Extent> sizes = {{1, 1, 2}};
  const Cuboid right{{0, 0, 4}, {1, 1, 2}};
  const Cuboid left{{0, 0, 0}, {1, 1, 2}};
  const Cuboid middle{{0, 0, 1}, {1, 1, 2}};
  EXPECT_THAT(free_cuboids(line, sizes, {}, 9).value(), ElementsAre(right, left, middle)) << "a hole of just that size";
  EXPECT_THAT(free_cuboids(line, sizes, {}, 1).value(), ElementsAre(right));
  EXPECT_THAT(free_cuboids(line, sizes, {{0, 0, 2}}, 9).value(), ElementsAre(middle));
  EXPECT_FALSE(free_cuboids({{0, 1, 1}, false, {}}, sizes, {}, 9).has_value());
}

TEST(CuboidTest, BadToriAreRefused) {
  EXPECT_FALSE(choose_cuboid({{0, 1, 1}, false, {}}, {{1, 1, 1}}).has_value());
  EXPECT_FALSE(choose_cuboid({{2, 1, 1}, false, {true}}, {{1, 1, 1}}).has_value());
  EXPECT_FALSE(largest_free_cuboid({{kMostHosts, 2, 1}, false, {}}).has_value());
}

TEST(CuboidTest, AsEveryWayOnSmallTori) {
  SeededRandom random(7);
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    const auto side = [&] { return 1 + static_cast<int>(random.below(3)); };
    Torus torus = empty({side(), side(), side()}, random.below(2) == 0);
    for (size_t i = 0; i < torus.usable.size(); ++i) torus.usable[i] = random.below(4) != 0;
    const auto free = all_free(torus);
    const auto largest = largest_free_cuboid(torus).value();
    EXPECT_EQ(largest ? volume_of(largest->size) : 0, largest_volume(torus));
    const std::vector<Extent> sizes = {{side(), side(), side()}, {side(), side(), side()}};
    const auto chosen = choose_cuboid(torus, sizes).value();
    int64_t best = -1;
    for (const Cuboid& cuboid : free) {
      if (cuboid.size != sizes[0] && cuboid.size != sizes[1]) continue;
      Torus left = torus;
      take(left, cuboid);
      best = std::max(best, largest_volume(left));
    }
    ASSERT_EQ(chosen.has_value(), best >= 0);
    if (!chosen) continue;
    for (const Extent& host : hosts_of(torus, *chosen)) EXPECT_TRUE(torus.usable[index_of(torus.size, host)]);
    Torus left = torus;
    take(left, *chosen);
    EXPECT_EQ(largest_volume(left), best);  // of so few candidates all are compared
  }
}

}  // namespace
}  // namespace heddle::placement
