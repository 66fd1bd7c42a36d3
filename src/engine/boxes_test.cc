// Gangs beside boxes that queues are guaranteed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "engine/gang.h"
#include "engine/test_fleet.h"

namespace heddle::engine {
namespace {

using test::kMiB;
using test::make_claim;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

class BoxesTest : public testing::Test {
 protected:
  BoxesTest() { state_.upsert_class(test::make_class()); }

  void add_node(const std::string& name, int cards, const std::string& rack = {}) {
    model::Node node = test::make_node(name);
    if (!rack.empty()) node.meta.labels["heddle.dev/rack"] = rack;
    state_.upsert_node(node);
    state_.upsert_slice(test::make_slice(name, cards, 80000 * kMiB));
    cards_[name] = cards;
  }

  static GangRequest gang(int size, const test::Ask& ask) {
    GangRequest request;
    request.name = "g";
    request.minimum = size;
    add_members(request, size, ask);
    return request;
  }

  static void add_members(GangRequest& request, int count, const test::Ask& ask) {
    for (int i = 0; i < count; ++i) {
      GangMember one;
      one.request.claims.push_back(make_claim("ns/m" + std::to_string(request.members.size()), ask));
      one.shape = ask.memory + "/" + ask.cores + "/" + std::to_string(ask.count);
      request.members.push_back(std::move(one));
    }
  }

  // Devices that nobody holds, by node.
  [[nodiscard]] std::map<std::string, int64_t> free() const {
    std::map<std::string, int64_t> free;
    for (const auto& [node, cards] : cards_) free[node] = cards;
    for (const DeviceUse& use : state_.device_uses()) free[use.node] -= use.holders.empty() ? 0 : 1;
    return free;
  }

  [[nodiscard]] int64_t intact(int64_t size) const {
    int64_t boxes = 0;
    for (const auto& [node, devices] : free()) boxes += devices / size;
    return boxes;
  }

  [[nodiscard]] BoxBudget budget(int64_t size, int64_t keep) const {
    BoxBudget out;
    out.box_devices = size;
    out.device_class = "heddle-nvidia";
    out.available = free();
    out.spare = std::max<int64_t>(intact(size) - keep, 0);
    return out;
  }

  GangOutcome place(const GangRequest& request) {
    auto outcome = place_gang(state_, default_topology(), request, random_);
    EXPECT_TRUE(outcome.has_value()) << outcome.error().text();
    return outcome ? *std::move(outcome) : GangOutcome(Waiting{});
  }

  // Grants it; how many members that were.
  int64_t grant(const GangRequest& request) {
    const GangOutcome outcome = place(request);
    const auto* assigned = std::get_if<GangAssigned>(&outcome);
    if (assigned == nullptr) return 0;
    nodes_.clear();
    int64_t placed = 0;
    for (size_t i = 0; i < assigned->members.size(); ++i) {
      if (!assigned->members[i]) continue;
      ++placed;
      nodes_.push_back(assigned->members[i]->node);
      const ClaimRequest& claim = request.members[i].request.claims.at(0);
      state_.upsert_claim(test::granted(claim, assigned->members[i]->allocations.at(0)));
    }
    EXPECT_TRUE(state_.over_commits().empty());
    return placed;
  }

  void take(const std::string& node, const test::Ask& ask) {
    PlacementRequest request;
    request.pinned_node = node;
    const ClaimRequest claim = make_claim("ns/held" + std::to_string(held_++), ask);
    request.claims.push_back(claim);
    const auto outcome = state_.place(request, random_);
    ASSERT_TRUE(outcome.has_value());
    const auto* assigned = std::get_if<Assigned>(&*outcome);
    if (assigned != nullptr) state_.upsert_claim(test::granted(claim, assigned->allocations[0]));
  }

  static std::string reason(const GangOutcome& outcome) {
    const auto* waiting = std::get_if<Waiting>(&outcome);
    if (waiting == nullptr) return "no Waiting";
    return waiting->reasons.at(0).code + ": " + waiting->reasons.at(0).message;
  }

  State state_;
  SeededRandom random_{7};
  std::map<std::string, int> cards_;
  std::vector<std::string> nodes_;  // of the last grant
  int held_ = 0;
};

TEST_F(BoxesTest, MembersTogetherLeaveTheBoxesThatAreGuaranteed) {
  for (const char* name : {"a", "b"}) add_node(name, 4);
  for (const char* name : {"c", "d"}) add_node(name, 2);
  GangRequest request = gang(4, {});
  request.boxes = {budget(4, 2)};
  EXPECT_EQ(grant(request), 4);
  EXPECT_THAT(nodes_, ElementsAre("c", "c", "d", "d"));
  EXPECT_EQ(intact(4), 2);
}

TEST_F(BoxesTest, AsManyBreakAsMay) {
  for (const char* name : {"a", "b", "c"}) add_node(name, 4);
  take("a", {.count = 1});
  GangRequest request = gang(4, {});
  request.boxes = {budget(4, 1)};
  ASSERT_EQ(request.boxes[0].spare, 1);
  EXPECT_EQ(grant(request), 4);
  EXPECT_EQ(intact(4), 1);
  request = gang(4, {});
  for (int i = 0; i < 4; ++i) request.members[static_cast<size_t>(i)].request.claims[0].uid += "again";
  request.boxes = {budget(4, 1)};
  const GangOutcome refused = place(request);
  EXPECT_EQ(reason(refused),
            "Boxes: gang g needs 4 members at once; the fleet has room, but that would break 1 box of 4 devices where "
            "none may be: the others are kept whole for boxes that queues are guaranteed; a minimum of 3 would fit");
  request.minimum = 3;
  EXPECT_EQ(grant(request), 3);
  EXPECT_EQ(intact(4), 1);
}

TEST_F(BoxesTest, ADomainIsTakenWhereTheBoxesLast) {
  for (const char* name : {"a1", "a2"}) add_node(name, 4, "a");
  for (const char* name : {"b1", "b2", "b3", "b4", "b5"}) add_node(name, 2, "b");
  GangRequest request = gang(6, {});
  request.required = "rack";
  EXPECT_EQ(grant(request), 6);
  EXPECT_THAT(nodes_, testing::Each(testing::StartsWith("a"))) << "without a guarantee the rack with the least free";
  for (int i = 0; i < 6; ++i) state_.remove_claim("ns/m" + std::to_string(i));
  request.boxes = {budget(4, 2)};
  EXPECT_EQ(grant(request), 6);
  EXPECT_THAT(nodes_, testing::Each(testing::StartsWith("b")));
}

// Shares on a card that is in use already break nothing.
TEST_F(BoxesTest, OnlyDevicesThatNobodyHoldsAreOpened) {
  add_node("a", 4);
  add_node("b", 4);
  take("a", {.memory = "1Mi", .cores = "40"});
  GangRequest request = gang(3, {.memory = "1Mi", .cores = "20"});
  request.boxes = {budget(4, 1)};
  ASSERT_EQ(request.boxes[0].spare, 0);
  EXPECT_EQ(grant(request), 3);
  EXPECT_THAT(nodes_, ElementsAre("a", "a", "a"));
}

TEST_F(BoxesTest, WhatIsOfAnotherKindBreaksNothing) {
  add_node("a", 4);
  GangRequest request = gang(2, {});
  request.boxes = {budget(4, 1)};
  request.boxes[0].vendor = "amd";
  EXPECT_EQ(grant(request), 2);
  request = gang(2, {});
  request.boxes = {budget(4, 1)};
  request.boxes[0].available = {{"a", 4}};
  request.boxes[0].model = "NVIDIA H100";
  request.members[0].request.claims[0].uid = "x";
  request.members[1].request.claims[0].uid = "y";
  EXPECT_THAT(reason(place(request)), HasSubstr("would break 1 box of 4 devices"));
}

// Of nodes, boxes, holders and gangs at random: what has to stay whole does, and with members of one size a "no" is
// one that no other way to put them on nodes would have spared.
TEST_F(BoxesTest, OnRandomFleetsEnoughBoxesStayWhole) {
  SeededRandom dice(5);
  int placed = 0;
  int refused = 0;
  for (int round = 0; round < 400; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    state_ = State();
    state_.upsert_class(test::make_class());
    cards_.clear();
    const auto pick = [&](int64_t below) { return static_cast<int>(dice.below(static_cast<uint64_t>(below))); };
    const int nodes = 1 + pick(6);
    for (int node = 0; node < nodes; ++node) {
      const std::string name = "n" + std::to_string(node);
      add_node(name, 1 + pick(8), "r" + std::to_string(pick(2)));
      for (int n = pick(3); n > 0; --n) {
        const bool share = pick(2) == 0;
        take(name, share ? test::Ask{.memory = "1Mi", .cores = "30"} : test::Ask{.count = 1 + pick(3)});
      }
    }
    const int each = 1 + pick(3);
    const int size = 1 + pick(6);
    const bool mixed = pick(3) == 0;
    GangRequest request = gang(size, {.count = each});
    if (mixed) {
      add_members(request, 1 + pick(4), {.memory = "1Mi", .cores = "40"});
      add_members(request, pick(3), {.count = 1 + pick(4)});
      request.minimum = static_cast<int64_t>(request.members.size());
    }
    if (pick(3) == 0) request.minimum = 1 + pick(static_cast<int64_t>(request.members.size()));
    if (pick(3) == 0) request.required = "rack";
    std::vector<std::pair<int64_t, int64_t>> keep;  // size of the box, how many
    for (const int64_t box : {2, 4, 3}) {
      if (pick(2) == 0) keep.emplace_back(box, pick(intact(box) + 2));
    }
    std::map<int64_t, int64_t> before;
    for (const auto& [box, boxes] : keep) {
      before[box] = intact(box);
      request.boxes.push_back(budget(box, boxes));
    }
    const auto free_before = free();
    const int64_t got = grant(request);
    for (const auto& [box, boxes] : keep) {
      EXPECT_GE(intact(box), std::min(boxes, before[box])) << "boxes of " << box << " after " << got << " members";
    }
    if (got > 0) ++placed;
    if (mixed || !request.required.empty() || keep.size() != 1) continue;
    // The most members for so many broken boxes, node by node.
    const auto& [box, boxes] = keep.front();
    const int64_t spare = std::max<int64_t>(before[box] - boxes, 0);
    std::vector<int64_t> most(static_cast<size_t>(spare) + 1, 0);
    for (const auto& [node, devices] : free_before) {
      std::vector<int64_t> with = most;
      for (int64_t members = 1; members * each <= devices; ++members) {
        const int64_t breaks = devices / box - (devices - members * each) / box;
        for (int64_t left = breaks; left <= spare; ++left) {
          auto& best = with[static_cast<size_t>(left)];
          best = std::max(best, most[static_cast<size_t>(left - breaks)] + members);
        }
      }
      most = with;
    }
    const int64_t room = std::min<int64_t>(most.back(), size);
    if (room < request.minimum) {
      EXPECT_EQ(got, 0);
      ++refused;
    } else {
      EXPECT_EQ(got, room);
    }
  }
  EXPECT_GT(placed, 150);
  EXPECT_GT(refused, 10);
}

}  // namespace
}  // namespace heddle::engine
