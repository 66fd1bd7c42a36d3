// Gangs in segments: members of consecutive ranks in one domain of a level each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "engine/state_impl.h"
#include "engine/test_gangs.h"

namespace heddle::engine {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

class GangSegmentsTest : public test::GangFleet {
 protected:
  // `size` members in segments of `each`, one in a rack each.
  static GangRequest segmented(int size, int each, const test::Ask& ask = {}) {
    GangRequest request = gang(size, ask);
    request.segment_level = "rack";
    request.segment_size = each;
    for (int i = 0; i < size; ++i) request.members[static_cast<size_t>(i)].segment = i / each;
    return request;
  }
};

TEST_F(GangSegmentsTest, EachLiesInOneDomain) {
  add_racks(3, 1, 3);
  // Without segments two racks would take all six.
  const auto nodes = grant(segmented(6, 2));
  EXPECT_THAT(nodes, ElementsAre("n0-0", "n0-0", "n1-0", "n1-0", "n2-0", "n2-0"));
}

TEST_F(GangSegmentsTest, ADomainTakesAsManyAsItHasRoomFor) {
  add_racks(3, 4, 2);
  take("n1-0", 1);
  const auto nodes = grant(segmented(9, 3));
  ASSERT_EQ(nodes.size(), 9U);
  std::map<std::string, int> in_rack;
  for (size_t i = 0; i < nodes.size(); ++i) {
    ++in_rack[nodes[i].substr(0, 2)];
    EXPECT_EQ(nodes[i].substr(0, 2), nodes[i - i % 3].substr(0, 2)) << i;
  }
  EXPECT_EQ(in_rack.size(), 2U) << "two in one rack and one in another";
}

TEST_F(GangSegmentsTest, AllOfThemLieInTheRequiredDomain) {
  add_racks(4, 1, 4);
  take("n0-0", 2);
  GangRequest request = segmented(6, 3);
  request.required = "superNode";
  EXPECT_THAT(grant(request), ElementsAre("n2-0", "n2-0", "n2-0", "n3-0", "n3-0", "n3-0"));
  request = segmented(6, 3);
  for (GangMember& one : request.members) one.request.claims[0].uid += "x";
  request.required = "superNode";
  EXPECT_EQ(
      reason(place(request)),
      "gang g needs 6 members at once in one superNode, in segments of 3 that lie in one rack each; superNode s0 "
      "has room for 1 of its 2 segments: of the next one rack r0 takes 2 of 3 members; it would fit without segments");
}

TEST_F(GangSegmentsTest, ThePreferredDomainGivesWay) {
  add_racks(4, 1, 4);
  GangRequest request = segmented(12, 4);
  request.preferred = "superNode";
  EXPECT_EQ(grant(request).size(), 12U);
}

TEST_F(GangSegmentsTest, ANarrowerDomainHoldsThemAnyway) {
  add_racks(2, 2, 4);
  GangRequest request = segmented(4, 2);
  request.required = "node";
  EXPECT_THAT(grant(request), Each("n0-0"));
}

TEST_F(GangSegmentsTest, TheReasonSaysWhatTheNextOneLacks) {
  add_racks(3, 1, 3);
  take("n2-0", 2);
  const GangOutcome outcome = place(segmented(6, 2));
  ASSERT_TRUE(std::holds_alternative<Waiting>(outcome));
  EXPECT_EQ(
      reason(outcome),
      "gang g needs 6 members at once, in segments of 2 that lie in one rack each; the fleet has room for 2 of its "
      "3 segments: of the next one rack r0 takes 1 of 2 members; it would fit without segments");
}

TEST_F(GangSegmentsTest, WhatNeverFitsIsSaid) {
  add_racks(3, 1, 3);
  GangOutcome outcome = place(segmented(8, 4));
  ASSERT_TRUE(std::holds_alternative<Infeasible>(outcome));
  EXPECT_EQ(
      reason(outcome),
      "gang g needs 8 members at once, in segments of 4 that lie in one rack each; rack r0, the largest, has room "
      "for 3 even when nothing else runs");
  outcome = place(segmented(8, 2));
  ASSERT_TRUE(std::holds_alternative<Infeasible>(outcome));
  EXPECT_THAT(reason(outcome), HasSubstr("there is room for 3 of its 4 segments even when nothing else runs"));
  state_ = State();
  state_.upsert_class(test::make_class());
  add_node("bare", 8);
  EXPECT_THAT(reason(place(segmented(4, 2))), HasSubstr("no node says in which rack it is"));
}

TEST_F(GangSegmentsTest, AMemberThatComesBackJoinsItsSegment) {
  add_racks(3, 1, 4);
  take("n1-0", 3);
  GangRequest request = segmented(4, 2);
  request.members.erase(request.members.begin(), request.members.begin() + 3);
  request.minimum = 1;
  request.fixed_nodes = {"n0-0", "n0-0", "n1-0"};
  request.fixed_segments = {{0, {"n0-0", "n0-0"}}, {1, {"n1-0"}}};
  EXPECT_THAT(grant(request), ElementsAre("n1-0"));
  request.members[0] = member(9, {});
  request.members[0].segment = 1;
  EXPECT_THAT(reason(place(request)), HasSubstr("of the next one rack r1 takes 0 of 1 members"));
}

TEST_F(GangSegmentsTest, AnElasticGangStartsWithWholeSegments) {
  add_racks(3, 1, 3);
  GangRequest request = segmented(8, 2);
  request.minimum = 4;
  EXPECT_THAT(grant(request), ElementsAre("n0-0", "n0-0", "n1-0", "n1-0", "n2-0", "n2-0", "-", "-"));
}

TEST_F(GangSegmentsTest, MembersOfSeveralShapesShareASegment) {
  add_racks(3, 2, 4);
  GangRequest request;
  request.name = "g";
  request.segment_level = "rack";
  request.segment_size = 2;
  for (int i = 0; i < 6; ++i) {
    request.members.push_back(member(i, {.count = i % 2 == 0 ? 4 : 1}));
    request.members.back().segment = i / 2;
  }
  request.minimum = 6;
  const auto nodes = grant(request);
  ASSERT_EQ(nodes.size(), 6U);
  std::set<std::string> racks;
  for (size_t i = 0; i < 6; i += 2) {
    EXPECT_EQ(nodes[i].substr(0, 2), nodes[i + 1].substr(0, 2));
    racks.insert(nodes[i].substr(0, 2));
  }
  EXPECT_EQ(racks.size(), 3U) << "a rack has one node for the large one and one for the small one";
}

TEST_F(GangSegmentsTest, BoxesOfOthersStayWhole) {
  add_racks(2, 2, 4);
  add_node("odd0", 3, {{"heddle.dev/rack", "r8"}});
  add_node("odd1", 3, {{"heddle.dev/rack", "r9"}});
  GangRequest request = segmented(4, 2);
  BoxBudget boxes;
  boxes.box_devices = 4;
  for (const char* node : {"n0-0", "n0-1", "n1-0", "n1-1"}) boxes.available[node] = 4;
  request.boxes = {boxes};
  EXPECT_THAT(grant(request), ElementsAre("odd0", "odd0", "odd1", "odd1"));
}

TEST_F(GangSegmentsTest, ThereIsNoSegmentWithoutALevel) {
  add_racks(1, 1, 4);
  GangRequest request = segmented(4, 2);
  request.segment_level.clear();
  auto outcome = place_gang(state_, default_topology(), request, random_);
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().field, "segment_level");
  request.segment_level = "rack";
  request.required = "slice-2x2x1";
  outcome = place_gang(state_, default_topology(), request, random_);
  ASSERT_FALSE(outcome.has_value());
  EXPECT_THAT(outcome.error().message, HasSubstr("leave the segments out"));
}

// Against every number of segments that a rack could take: members of one shape.
TEST_F(GangSegmentsTest, OnRandomFleetsTheAnswerIsExact) {
  SeededRandom dice(3);
  int placed = 0;
  int refused = 0;
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    state_ = State();
    state_.upsert_class(test::make_class());
    const auto pick = [&](int below) { return static_cast<int>(dice.below(static_cast<uint64_t>(below))); };
    const int each = 1 + pick(3);     // cards of a member
    const int segment = 1 + pick(4);  // members of a segment
    const int segments = 1 + pick(4);
    std::map<std::string, int> room;  // members by rack
    std::map<std::string, std::string> super_of;
    for (int node = 0; node < 1 + pick(7); ++node) {
      const int rack = pick(4);
      const int cards = 1 + pick(8);
      const int held = pick(cards + 1);
      const std::string name = "n" + std::to_string(node);
      add_node(
          name, cards,
          {{"heddle.dev/rack", "r" + std::to_string(rack)}, {"heddle.dev/super-node", "s" + std::to_string(rack / 2)}});
      if (held > 0) take(name, held);
      room["r" + std::to_string(rack)] += (cards - held) / each;
      super_of["r" + std::to_string(rack)] = "s" + std::to_string(rack / 2);
    }
    GangRequest request = segmented(segments * segment, segment, {.count = each});
    const bool required = pick(2) == 0;
    if (required) request.required = "superNode";
    std::map<std::string, int> fit;  // segments by super node
    for (const auto& [rack, members] : room) fit[required ? super_of[rack] : ""] += members / segment;
    int most = 0;
    for (const auto& [name, count] : fit) most = std::max(most, count);
    const auto nodes = grant(request);
    if (most < segments) {
      EXPECT_TRUE(nodes.empty());
      ++refused;
      continue;
    }
    ++placed;
    ASSERT_EQ(nodes.size(), request.members.size());
    std::set<std::string> supers;
    for (size_t i = 0; i < nodes.size(); ++i) {
      const auto rack_of = [&](const std::string& node) {
        return state_.inside().inventory.nodes().at(node).node.meta.labels.at("heddle.dev/rack");
      };
      EXPECT_EQ(rack_of(nodes[i]), rack_of(nodes[i - i % static_cast<size_t>(segment)])) << "member " << i;
      supers.insert(super_of[rack_of(nodes[i])]);
    }
    EXPECT_TRUE(!required || supers.size() == 1);
  }
  EXPECT_GT(placed, 60);
  EXPECT_GT(refused, 60);
}

}  // namespace
}  // namespace heddle::engine
