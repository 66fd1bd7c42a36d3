// Boxes wider than a node: how many there are, what taking devices costs, and that what has to stay whole does.
#include "engine/box_map.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/gang.h"
#include "engine/test_fleet.h"
#include "placement/cuboid.h"

namespace heddle::engine {
namespace {

using test::kMiB;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

model::QuotaMeter box(int64_t devices, const std::string& level) {
  model::QuotaMeter meter;
  meter.counts = model::QuotaMeter::Counts::kBoxes;
  meter.box_devices = devices;
  meter.box_level = level;
  return meter;
}

model::QuotaMeter slices(const std::string& shape, int64_t devices) {
  model::QuotaMeter meter = box(devices, "");
  meter.box_shape = shape;
  return meter;
}

class BoxMapTest : public testing::Test {
 protected:
  BoxMapTest() { state_.upsert_class(test::make_class()); }

  void add_node(const std::string& name, int cards, const std::map<std::string, std::string>& labels) {
    model::Node node = test::make_node(name);
    for (const auto& [key, value] : labels) node.meta.labels[key] = value;
    state_.upsert_node(node);
    state_.upsert_slice(test::make_slice(name, cards, 32000 * kMiB));
  }

  // Hosts of 2x2x1 chips, 2x2 of them in each layer.
  void add_torus(const std::string& name, int layers) {
    for (int i = 0; i < 4 * layers; ++i) {
      const std::string at = fmt::format("{}-{}-{}", i / (2 * layers), i / layers % 2, i % layers);
      add_node(name + "-" + at, 4,
               {{"heddle.dev/torus", name},
                {"heddle.dev/torus-shape", fmt::format("4x4x{}", layers)},
                {"heddle.dev/torus-host", "2x2x1"},
                {"heddle.dev/torus-position", at}});
    }
  }

  [[nodiscard]] BoxMap map(const model::QuotaMeter& meter) const {
    return BoxMap::make(state_, default_topology(), meter);
  }
  [[nodiscard]] int64_t intact(const model::QuotaMeter& meter) const {
    const BoxMap boxes = map(meter);
    return boxes.count(boxes.free());
  }

  bool take(const std::string& node, int64_t devices) {
    PlacementRequest request;
    request.pinned_node = node;
    request.claims.push_back(test::make_claim(fmt::format("ns/held{}", held_++), {.count = devices}));
    const auto outcome = state_.place(request, random_);
    const auto* assigned = outcome ? std::get_if<Assigned>(&*outcome) : nullptr;
    if (assigned != nullptr) state_.upsert_claim(test::granted(request.claims[0], assigned->allocations[0]));
    return assigned != nullptr;
  }

  GangRequest gang(int size, int64_t devices, const std::string& required) {
    GangRequest request;
    request.name = "g";
    request.minimum = size;
    request.required = required;
    for (int i = 0; i < size; ++i) {
      GangMember one;
      one.request.claims.push_back(test::make_claim(fmt::format("ns/m{}", held_++), {.count = devices}));
      one.shape = std::to_string(devices);
      request.members.push_back(std::move(one));
    }
    return request;
  }

  [[nodiscard]] BoxBudget budget(const model::QuotaMeter& meter, int64_t keep) const {
    BoxBudget out;
    out.box_devices = meter.box_devices;
    const auto boxes = std::make_shared<BoxMap>(map(meter));
    out.available = boxes->free();
    out.spare = std::max<int64_t>(boxes->count(out.available) - keep, 0);
    out.map = boxes;
    return out;
  }

  // "placed", or the first reason.
  std::string grant(const GangRequest& request) {
    const auto outcome = place_gang(state_, default_topology(), request, random_);
    if (!outcome) return outcome.error().text();
    if (const auto* waiting = std::get_if<Waiting>(&*outcome))
      return waiting->reasons[0].code + ": " + waiting->reasons[0].message;
    const auto* assigned = std::get_if<GangAssigned>(&*outcome);
    if (assigned == nullptr) return "infeasible";
    for (size_t i = 0; i < assigned->members.size(); ++i) {
      if (!assigned->members[i]) continue;
      state_.upsert_claim(test::granted(request.members[i].request.claims[0], assigned->members[i]->allocations[0]));
    }
    return "placed";
  }

  State state_;
  SeededRandom random_{3};
  int held_ = 0;
};

TEST_F(BoxMapTest, OfADomainAnyDevicesMakeABox) {
  for (const char* name : {"a", "b", "c"}) add_node(name, 4, {{"heddle.dev/super-node", "s1"}});
  add_node("d", 6, {{"heddle.dev/super-node", "s2"}});
  add_node("e", 8, {});
  const model::QuotaMeter meter = box(6, "superNode");
  EXPECT_EQ(intact(meter), 3) << "12 devices of s1 and 6 of s2; e is in no super-node";
  EXPECT_EQ(map(meter).text(2), "2 boxes of 6 devices of one superNode");
  ASSERT_TRUE(take("b", 1));
  EXPECT_EQ(intact(meter), 2);
  const BoxMap boxes = map(meter);
  EXPECT_THAT(boxes.lost(boxes.free(), 4), ElementsAre(Pair("d", 1))) << "5 are left over in s1";
  EXPECT_THAT(boxes.lost(boxes.devices(), 4), ElementsAre(Pair("a", 1), Pair("b", 1), Pair("c", 1), Pair("d", 1)));
  EXPECT_THAT(boxes.lost(boxes.free(), 0), IsEmpty());
  EXPECT_EQ(intact(box(6, "noSuchLevel")), 0);
}

TEST_F(BoxMapTest, OnlyDevicesOfTheMeterCount) {
  add_node("a", 8, {{"heddle.dev/rack", "r"}});
  model::QuotaMeter meter = box(8, "rack");
  EXPECT_EQ(intact(meter), 1);
  meter.vendor = "amd";
  EXPECT_EQ(intact(meter), 0);
  meter.vendor = "nvidia";
  meter.model = "NVIDIA H100";
  meter.device_class = "heddle-nvidia";
  EXPECT_EQ(intact(meter), 1);
}

TEST_F(BoxMapTest, ASliceIsOfHostsWithAllTheirChips) {
  add_torus("t", 4);
  const model::QuotaMeter meter = slices("2x4x4", 32);
  EXPECT_EQ(intact(meter), 2) << "of 4x4x4 chips";
  EXPECT_EQ(map(meter).text(1), "1 slice of 2x4x4 devices");
  ASSERT_TRUE(take("t-0-0-0", 1));
  EXPECT_EQ(intact(meter), 1);
  const BoxMap boxes = map(meter);
  const NodeDevices lost = boxes.lost(boxes.free(), 4);
  EXPECT_THAT(lost, ElementsAre(Pair("t-1-1-2", 1))) << "without another host a half of another cut stays";
  EXPECT_EQ(intact(slices("4x4x8", 128)), 0);
}

// Each member alone breaks nothing; all of them break the box that is left.
TEST_F(BoxMapTest, MembersTogetherLeaveABoxOfADomain) {
  for (const char* name : {"a", "b", "c"}) add_node(name, 4, {{"heddle.dev/rack", "r1"}});
  const model::QuotaMeter meter = box(6, "rack");
  GangRequest request = gang(7, 1, "");
  request.boxes = {budget(meter, 1)};
  ASSERT_EQ(request.boxes[0].spare, 1);
  EXPECT_THAT(grant(request), HasSubstr("Boxes: gang g needs 7 members at once; the fleet has room, but that would "
                                        "break 2 boxes of 6 devices of one rack where 1 may be"));
  request = gang(6, 1, "");
  request.boxes = {budget(meter, 1)};
  EXPECT_EQ(grant(request), "placed");
  EXPECT_EQ(intact(meter), 1);
}

TEST_F(BoxMapTest, ASliceLeavesTheSlicesThatAreGuaranteed) {
  add_torus("t", 4);
  const model::QuotaMeter meter = slices("2x4x4", 32);
  GangRequest request = gang(12, 4, "slice-4x4x3");
  request.boxes = {budget(meter, 1)};
  EXPECT_THAT(grant(request), HasSubstr("would break 2 slices of 2x4x4 devices where 1 may be"));
  request = gang(4, 4, "slice-2x4x2");
  request.boxes = {budget(meter, 1)};
  EXPECT_EQ(grant(request), "placed");
  EXPECT_EQ(intact(meter), 1);
  request = gang(4, 4, "slice-2x4x2");
  request.boxes = {budget(meter, 1)};
  EXPECT_EQ(grant(request), "placed") << "the other part of the half that is broken";
  EXPECT_EQ(intact(meter), 1);
}

// On random tori: a slice is placed wherever any place of it breaks few enough.
TEST_F(BoxMapTest, ASliceIsRefusedOnlyWhereNoPlaceWouldDo) {
  int placed = 0;
  int refused = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SeededRandom dice(seed);
    state_ = State();
    state_.upsert_class(test::make_class());
    add_torus("t", 4);
    for (int i = 0; i < 3; ++i) {
      const auto at = static_cast<int>(dice.below(16));
      take(fmt::format("t-{}-{}-{}", at / 8, at / 4 % 2, at % 4), 4);
    }
    const model::QuotaMeter meter = slices("2x2x4", 16);
    const bool small = seed % 2 == 0;
    GangRequest request = small ? gang(2, 4, "slice-2x4x1") : gang(3, 4, "slice-2x2x3");
    request.boxes = {budget(meter, 1 + static_cast<int64_t>(seed % 3))};
    const BoxMap before = map(meter);
    const int64_t spare = request.boxes[0].spare;
    // Every place of it, and what would be left.
    placement::Torus torus{{2, 2, 4}, false, {}};
    const auto name = [](const placement::Extent& at) { return fmt::format("t-{}-{}-{}", at[0], at[1], at[2]); };
    for (int x = 0; x < 16; ++x) torus.usable.push_back(before.free().at(name({x / 8, x / 4 % 2, x % 4})) == 4);
    const auto sizes =
        placement::orientations(small ? placement::Extent{2, 4, 1} : placement::Extent{2, 2, 3}, {2, 2, 1});
    bool any = false;
    const auto places = placement::free_cuboids(torus, sizes, {}, 99).value();
    for (const placement::Cuboid& cuboid : places) {
      NodeDevices left = before.free();
      for (const placement::Extent& at : placement::hosts_of(torus, cuboid)) left.at(name(at)) = 0;
      any = any || before.count(before.free()) - before.count(left) <= spare;
    }
    EXPECT_EQ(grant(request) == "placed", any) << "seed " << seed;
    ++(any ? placed : refused);
  }
  EXPECT_GT(placed, 10);
  EXPECT_GT(refused, 10);
}

// Pods and gangs at random, on racks and tori: what is guaranteed to others stays whole, or what is left of it.
TEST_F(BoxMapTest, WhatIsGuaranteedStaysWhole) {
  int placed = 0;
  int refused = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SeededRandom dice(seed);
    const auto pick = [&](int64_t below) { return static_cast<int>(dice.below(static_cast<uint64_t>(below))); };
    state_ = State();
    state_.upsert_class(test::make_class());
    const bool torus = seed % 2 == 0;
    if (torus) {
      add_torus("t", 2 + pick(3));
    } else {
      for (int i = 0; i < 6; ++i)
        add_node(fmt::format("n{}", i), 2 + pick(3), {{"heddle.dev/rack", fmt::format("r{}", pick(2))}});
    }
    const model::QuotaMeter meter = torus ? slices("2x4x2", 16) : box(2 + pick(6), "rack");
    const int64_t keep = pick(3);
    for (int step = 0; step < 12; ++step) {
      const int64_t before = intact(meter);
      if (pick(2) == 0) {
        // One pod, as the controller asks for it.
        const BoxBudget allowed = budget(meter, keep);
        const int64_t devices = 1 + pick(4);
        PlacementRequest request;
        request.claims.push_back(test::make_claim(fmt::format("ns/p{}", held_++), {.count = devices}));
        for (const auto& [node, lost] : allowed.map->lost(allowed.available, devices)) {
          if (lost > allowed.spare) request.whole_nodes.insert(node);
        }
        const auto outcome = state_.place(request, random_);
        ASSERT_TRUE(outcome.has_value());
        const auto* assigned = std::get_if<Assigned>(&*outcome);
        if (assigned != nullptr) state_.upsert_claim(test::granted(request.claims[0], assigned->allocations[0]));
        ++(assigned != nullptr ? placed : refused);
      } else {
        GangRequest request = torus ? gang(2, 4, "slice-2x4x1") : gang(1 + pick(5), 1 + pick(2), "");
        request.boxes = {budget(meter, keep)};
        ++(grant(request) == "placed" ? placed : refused);
      }
      EXPECT_GE(intact(meter), std::min(before, keep)) << "seed " << seed << ", step " << step;
    }
  }
  EXPECT_GT(placed, 80);
  EXPECT_GT(refused, 40);
}

}  // namespace
}  // namespace heddle::engine
