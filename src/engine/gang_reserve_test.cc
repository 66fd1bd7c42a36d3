// Empty nodes that gangs leave free for replacements.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/test_gangs.h"

namespace heddle::engine {
namespace {

using testing::ElementsAre;

// Two racks of four nodes of two cards; of each rack one empty node is kept.
class GangReserveTest : public test::GangFleet {
 protected:
  GangReserveTest() {
    add_racks(2, 4, 2);
    reserve("rack", 1);
  }

  void reserve(const std::string& name, int64_t nodes) {
    for (TopologyLevel& level : levels_) {
      if (level.name == name) level.reserve_nodes = nodes;
    }
  }
  void always() {
    for (TopologyLevel& level : levels_) level.reserve_use = ReserveUse::kReplacements;
  }

  // Members of two cards each.
  static GangRequest in_rack(int size) {
    GangRequest request = gang(size, {.count = 2});
    request.required = "rack";
    return request;
  }
  // Where its members go, or why not.
  std::vector<std::string> put(GangRequest request) {
    for (GangMember& member : request.members) {
      for (ClaimRequest& claim : member.request.claims) claim.uid = claim.key = "ns/r" + std::to_string(made_++);
    }
    const auto outcome = place_gang(state_, levels_, request, random_);
    if (!outcome) return {outcome.error().text()};
    const auto* assigned = std::get_if<GangAssigned>(&*outcome);
    if (assigned == nullptr) return {reason(*outcome)};
    std::vector<std::string> nodes;
    for (size_t i = 0; i < assigned->members.size(); ++i) {
      nodes.push_back(assigned->members[i]->node);
      state_.upsert_claim(test::granted(request.members[i].request.claims[0], assigned->members[i]->allocations.at(0)));
    }
    return nodes;
  }

  std::vector<TopologyLevel> levels_ = default_topology();
  int made_ = 0;
};

TEST_F(GangReserveTest, AnotherDomainIsTakenBeforeTheReserve) {
  EXPECT_THAT(put(in_rack(2)), ElementsAre("n0-0", "n0-1"));
  EXPECT_THAT(put(in_rack(2)), ElementsAre("n1-0", "n1-1")) << "n0-3 is the last of its rack";
  EXPECT_THAT(put(in_rack(1)), ElementsAre("n0-2"));
  EXPECT_THAT(put(in_rack(1)), ElementsAre("n1-2"));
  EXPECT_THAT(put(in_rack(1)), ElementsAre("n0-3")) << "nowhere else";
}

TEST_F(GangReserveTest, WhatFitsNowhereElseTakesIt) {
  EXPECT_THAT(put(in_rack(4)), ElementsAre("n0-0", "n0-1", "n0-2", "n0-3"));
}

TEST_F(GangReserveTest, OrWaitsWhereItIsForReplacementsAlone) {
  always();
  EXPECT_THAT(put(in_rack(4)),
              ElementsAre("gang g needs 4 members at once in one rack; rack r0 has room, but not beside "
                          "what is kept for nodes that fail: 1 empty node of each rack"));
  EXPECT_THAT(put(in_rack(3)), ElementsAre("n0-0", "n0-1", "n0-2"));
  GangRequest anywhere = gang(4, {.count = 2});
  EXPECT_THAT(
      put(std::move(anywhere)),
      ElementsAre("gang g needs 4 members at once; the fleet has room, but not beside what is kept for nodes that "
                  "fail: 1 empty node of each rack"));
}

// New nodes make up the reserve first.
TEST_F(GangReserveTest, TheNeedOfNodesCountsTheReserve) {
  always();
  for (const char* node : {"n0-0", "n0-1", "n0-2", "n0-3"}) take(node, 2);
  for (const char* node : {"n1-0", "n1-1", "n1-2", "n1-3"}) take(node, 2);
  GangRequest request = in_rack(2);
  auto outcome = place_gang(state_, levels_, request, random_);
  ASSERT_TRUE(outcome && std::holds_alternative<Waiting>(*outcome));
  EXPECT_EQ(std::get<Waiting>(*outcome).needs, (NodeNeed{"n0-0", 3, "rack r0", "heddle.dev/rack", "r0"}));
  request.reserve = Reserve::kOpen;
  outcome = place_gang(state_, levels_, request, random_);
  ASSERT_TRUE(outcome && std::holds_alternative<Waiting>(*outcome));
  EXPECT_EQ(std::get<Waiting>(*outcome).needs, (NodeNeed{"n0-0", 2, "rack r0", "heddle.dev/rack", "r0"}));
}

TEST_F(GangReserveTest, AMemberInThePlaceOfAnotherHasIt) {
  always();
  ASSERT_THAT(put(in_rack(3)), ElementsAre("n0-0", "n0-1", "n0-2"));
  GangRequest request = in_rack(1);
  request.fixed_nodes = {"n0-0", "n0-1", "n0-2"};
  EXPECT_THAT(put(request), ElementsAre(testing::HasSubstr("kept for nodes that fail"))) << "one more";
  request.reserve = Reserve::kOpen;
  EXPECT_THAT(put(request), ElementsAre("n0-3"));
}

TEST_F(GangReserveTest, ANodeInUseIsNoSpare) {
  take("n0-3", 1);
  EXPECT_THAT(put(in_rack(2)), ElementsAre("n0-0", "n0-1")) << "n0-2 is the spare";
  EXPECT_THAT(put(gang(1, {.count = 1})), ElementsAre("n0-3"));
  EXPECT_THAT(put(in_rack(1)), ElementsAre("n1-0"));
}

TEST_F(GangReserveTest, EachLevelHasItsOwn) {
  reserve("superNode", 3);
  always();
  EXPECT_THAT(put(in_rack(3)), ElementsAre("n0-0", "n0-1", "n0-2")) << "n0-3 and three of r1 are kept";
  EXPECT_THAT(put(in_rack(2)), ElementsAre(testing::HasSubstr("1 empty node of each rack and 3 empty nodes of each "
                                                              "superNode")));
  EXPECT_THAT(put(in_rack(1)), ElementsAre("n1-0"));
}

}  // namespace
}  // namespace heddle::engine
