// Slices of a torus: whole cuboids of hosts, and why there is none.
#include "engine/slice.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "engine/test_gangs.h"

namespace heddle::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SliceTest : public test::GangFleet {
 protected:
  // Hosts of 2x2x1 chips.
  void add_torus(const std::string& name, int x, int y, int z, bool wraps) {
    for (int i = 0; i < x * y * z; ++i) {
      const std::string node = fmt::format("{}-{}-{}-{}", name, i / (y * z), i / z % y, i % z);
      model::Node object = test::make_node(node);
      object.meta.labels["heddle.dev/torus"] = name;
      object.meta.labels["heddle.dev/torus-shape"] = fmt::format("{}x{}x{}", 2 * x, 2 * y, z);
      object.meta.labels["heddle.dev/torus-host"] = "2x2x1";
      object.meta.labels["heddle.dev/torus-position"] = node.substr(name.size() + 1);
      if (wraps) object.meta.labels["heddle.dev/torus-wraps"] = "true";
      state_.upsert_node(object);
      state_.upsert_slice(test::make_slice(node, 4, 32000 * test::kMiB));
    }
  }

  static GangRequest slice(const std::string& topology, int members, const std::string& name = "g") {
    GangRequest request;
    request.name = name;
    request.minimum = members;
    request.required = "slice-" + topology;
    for (int i = 0; i < members; ++i) {
      GangMember member;
      member.request.claims.push_back(test::make_claim(fmt::format("ns/{}-{}", name, i), {.count = 4}));
      member.shape = "4";
      request.members.push_back(std::move(member));
    }
    return request;
  }

  void take(const std::string& node) {
    GangRequest one = slice("2x2x1", 1, "other-" + node);
    one.required.clear();
    one.members[0].request.pinned_node = node;
    ASSERT_EQ(grant(one).size(), 1U);
  }

  std::string reason(const GangRequest& request, bool never) {
    const GangOutcome outcome = place(request);
    EXPECT_EQ(std::holds_alternative<Infeasible>(outcome), never);
    if (const auto* no = std::get_if<Infeasible>(&outcome)) return no->reasons.front().message;
    if (const auto* no = std::get_if<Waiting>(&outcome)) return no->reasons.front().message;
    return "it was placed";
  }
};

TEST_F(SliceTest, AMemberTakesAllOfItsHost) {
  add_torus("pod", 2, 2, 2, false);
  GangRequest part = slice("2x2x2", 2);
  for (GangMember& member : part.members) member.request.claims[0] = test::make_claim("ns/c", {.count = 2});
  EXPECT_EQ(
      reason(part, true),
      "a host of a slice is 2x2x1 chips, all of them its own, and a member of gang g asks for 2: ask for 4 in each");
}

TEST_F(SliceTest, AllHostsOfOneCuboidInRankOrder) {
  add_torus("pod", 2, 2, 4, false);
  // 2x2x2 hosts as written; turned they would be 2x1x4 or 1x2x4, which leave as much, and a longer border.
  const auto nodes = grant(slice("4x4x2", 8));
  EXPECT_THAT(nodes, ElementsAre("pod-0-0-0", "pod-0-0-1", "pod-0-1-0", "pod-0-1-1", "pod-1-0-0", "pod-1-0-1",
                                 "pod-1-1-0", "pod-1-1-1"));
  const auto rest = grant(slice("4x4x2", 8, "h"));
  EXPECT_EQ(rest.size(), 8U);
  EXPECT_TRUE(grant(slice("2x2x1", 1, "i")).empty());
}

TEST_F(SliceTest, FreeHostsThatAreNoCuboidAreNotEnough) {
  add_torus("pod", 2, 2, 2, false);
  take("pod-0-0-0");
  take("pod-1-1-1");
  const GangRequest four = slice("4x4x1", 4);
  EXPECT_EQ(reason(four, false),
            "gang g needs a free cuboid of 4x4x1 chips (4 hosts): the largest free one is 2x2x2, in torus pod, where 6 "
            "of 8 hosts are free");
  EXPECT_TRUE(grant(four).empty());
  EXPECT_EQ(grant(slice("2x2x2", 2)).size(), 2U);
}

TEST_F(SliceTest, TheTightestTorusThatHasRoomIsUsed) {
  add_torus("a", 2, 2, 4, false);
  add_torus("b", 2, 2, 2, false);
  const auto nodes = grant(slice("4x4x2", 8));
  ASSERT_EQ(nodes.size(), 8U);
  EXPECT_EQ(nodes.front(), "b-0-0-0");
}

TEST_F(SliceTest, ItGoesOverTheEdgeWhereFacesAreJoined) {
  for (const bool wraps : {false, true}) {
    const std::string name = wraps ? "ring" : "line";
    add_torus(name, 1, 1, 4, wraps);
    take(name + "-0-0-1");
    take(name + "-0-0-2");
    EXPECT_EQ(grant(slice("2x2x2", 2, name)).size(), wraps ? 2U : 0U);
  }
}

TEST_F(SliceTest, AMemberThatIsPlacedAgainCompletesTheCuboid) {
  add_torus("pod", 2, 2, 4, false);
  GangRequest request = slice("4x4x1", 4);
  const auto nodes = grant(request);
  ASSERT_EQ(nodes.size(), 4U);
  state_.remove_claim("ns/g-2");
  request.members = {request.members[2]};
  request.minimum = 1;
  request.fixed_nodes = {nodes[0], nodes[1], nodes[3]};
  EXPECT_THAT(grant(request), ElementsAre(nodes[2]));
}

// Ranks follow the hosts, so that each host has to take whichever member comes to it.
TEST_F(SliceTest, AHostTakesEveryMemberOfAMixedSliceWhicheverIsFirst) {
  add_torus("pod", 2, 4, 1, false);
  for (const char* node : {"pod-0-0-0", "pod-0-1-0", "pod-0-2-0", "pod-0-3-0", "pod-1-0-0", "pod-1-1-0"})
    state_.upsert_pod_usage(std::string("on-") + node, node, {{"cpu", 60'000}});
  std::vector<model::Pod> pods(2);
  pods[0].meta.uid = "light";
  pods[1].meta.uid = "heavy";
  pods[1].containers.emplace_back();
  pods[1].containers.back().requests["cpu"] = test::quantity("32");
  for (const bool heavy_first : {false, true}) {
    GangRequest request = slice("2x4x1", 2);
    for (size_t i = 0; i < 2; ++i) {
      const bool heavy = (i == 0) == heavy_first;
      request.members[i].request.pod = &pods[heavy ? 1 : 0];
      request.members[i].shape = heavy ? "heavy" : "light";
    }
    const GangOutcome outcome = place(request);
    const auto* assigned = std::get_if<GangAssigned>(&outcome);
    ASSERT_NE(assigned, nullptr) << test::GangFleet::reason(outcome);
    EXPECT_EQ(assigned->members[0]->node, "pod-1-2-0");
    EXPECT_EQ(assigned->members[1]->node, "pod-1-3-0");
  }
}

TEST_F(SliceTest, AHostThatIsClosedIsNamedWhereItWouldDo) {
  add_torus("pod", 2, 2, 1, false);
  model::Node host = test::make_node("pod-1-1-0");
  host.meta.labels = {{"heddle.dev/torus", "pod"},
                      {"heddle.dev/torus-shape", "4x4x1"},
                      {"heddle.dev/torus-host", "2x2x1"},
                      {"heddle.dev/torus-position", "1-1-0"}};
  host.unschedulable = true;
  state_.upsert_node(host);
  EXPECT_EQ(reason(slice("4x4x1", 4), false),
            "gang g needs a free cuboid of 4x4x1 chips (4 hosts): it would fit if closed nodes were open: pod-1-1-0 is "
            "marked unschedulable");
  take("pod-0-0-0");
  EXPECT_EQ(reason(slice("4x4x1", 4), false),
            "gang g needs a free cuboid of 4x4x1 chips (4 hosts): the largest free one is 2x2x1, in torus pod, where 2 "
            "of 4 hosts are free");
}

TEST_F(SliceTest, WhatCannotBeSaysWhy) {
  EXPECT_THAT(reason(slice("4x4x1", 4), true), HasSubstr("label the nodes with heddle.dev/torus"));
  add_torus("pod", 2, 2, 2, false);
  EXPECT_THAT(reason(slice("4x4x1", 3), true), HasSubstr("write heddle.dev/gang-size: \"4\""));
  EXPECT_THAT(reason(slice("1x1x4", 1), true), HasSubstr("whole hosts of 2x2x1 chips"));
  EXPECT_THAT(reason(slice("4x4x4", 16), true), HasSubstr("no torus here has 4x4x4 chips in one piece"));
  GangRequest bad = slice("4xx", 1);
  EXPECT_THAT(place_gang(state_, default_topology(), bad, random_).error().text(), HasSubstr("4x4x8"));
  bad = slice("4x4x1", 4);
  bad.preferred = "rack";
  EXPECT_THAT(place_gang(state_, default_topology(), bad, random_).error().text(), HasSubstr("leave the preferred"));
}

}  // namespace
}  // namespace heddle::engine
