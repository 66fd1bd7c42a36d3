#include "engine/gang.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "engine/test_gangs.h"

namespace heddle::engine {
namespace {

using test::kMiB;
using test::make_claim;
using testing::HasSubstr;

class GangTest : public test::GangFleet {};

TEST_F(GangTest, AllMembersOrNone) {
  add_node("a", 2);
  add_node("b", 2);
  EXPECT_EQ(grant(gang(5, {})).size(), 0U);
  EXPECT_EQ(state_.device_uses().front().holders.size(), 0U);
  EXPECT_EQ(grant(gang(4, {})), (std::vector<std::string>{"a", "a", "b", "b"}));
}

TEST_F(GangTest, ARequiredRackHoldsItWhole) {
  add_racks(4, 2, 4);
  take("n0-0", 1);
  GangRequest request = gang(8, {});
  request.required = "rack";
  const auto nodes = grant(request);
  ASSERT_EQ(nodes.size(), 8U);
  EXPECT_EQ(std::set<std::string>(nodes.begin(), nodes.end()), (std::set<std::string>{"n1-0", "n1-1"}));
  request = gang(9, {});
  request.required = "rack";
  const GangOutcome never = place(request);
  EXPECT_TRUE(std::holds_alternative<Infeasible>(never));
  EXPECT_EQ(reason(never),
            "gang g needs 9 members at once in one rack; rack r1, the largest, has room for 8 even when "
            "nothing else runs");
  EXPECT_EQ(std::get<Infeasible>(never).needs, (NodeNeed{"n2-0", 1, "rack r2", "heddle.dev/rack", "r2"}));
}

TEST_F(GangTest, APreferredLevelGivesWayToTheNextOne) {
  add_racks(4, 2, 4);
  GangRequest request = gang(12, {});
  request.preferred = "rack";
  const auto nodes = grant(request);
  ASSERT_EQ(nodes.size(), 12U);
  for (const std::string& node : nodes) EXPECT_TRUE(node.starts_with("n0-") || node.starts_with("n1-")) << node;
}

TEST_F(GangTest, TheFullestDomainThatTakesItIsTaken) {
  add_racks(3, 2, 4);
  take("n2-0", 2);
  GangRequest request = gang(6, {});
  request.preferred = "rack";
  for (const std::string& node : grant(request)) EXPECT_TRUE(node.starts_with("n2-")) << node;
}

TEST_F(GangTest, NeighboursInRankAreNeighbours) {
  add_racks(3, 4, 2);
  take("n0-2", 2);
  const auto nodes = grant(gang(14, {}));
  ASSERT_EQ(nodes.size(), 14U);
  std::set<std::string> left;
  std::string rack;
  for (const std::string& node : nodes) {
    const std::string now = node.substr(0, 2);
    if (now != rack) {
      EXPECT_TRUE(left.insert(now).second) << "back in " << now;
    }
    rack = now;
  }
  EXPECT_EQ(left.size(), 2U);
}

TEST_F(GangTest, FewerThanAllStartWhenTheMinimumAllowsIt) {
  add_node("a", 3);
  GangRequest request = gang(5, {});
  request.minimum = 2;
  EXPECT_EQ(grant(request), (std::vector<std::string>{"a", "a", "a", "-", "-"}));
}

TEST_F(GangTest, MembersOfSeveralShapesGoTogether) {
  add_node("a", 4);
  add_node("b", 2);
  GangRequest request;
  request.name = "g";
  for (int i = 0; i < 3; ++i) request.members.push_back(member(i, {.count = 1}));
  request.members.push_back(member(3, {.count = 3}));
  request.minimum = 4;
  EXPECT_EQ(grant(request).at(3), "a");
  EXPECT_EQ(grant(gang(1, {})).size(), 0U);
}

TEST_F(GangTest, TheDomainIsOneThatTakesThoseThatComeLaterToo) {
  add_racks(3, 1, 8);
  take("n0-0", 5);
  take("n1-0", 3);
  GangRequest request = gang(3, {});
  request.required = "rack";
  EXPECT_EQ(std::get<GangAssigned>(place(request)).domain, "r0") << "the one with the least free";
  for (int i = 3; i < 5; ++i) request.later.push_back(member(i, {}));
  GangOutcome outcome = place(request);
  EXPECT_EQ(std::get<GangAssigned>(outcome).domain, "r1");
  EXPECT_EQ(std::get<GangAssigned>(outcome).members.size(), 3U);
  for (int i = 5; i < 9; ++i) request.later.push_back(member(i, {}));
  EXPECT_EQ(std::get<GangAssigned>(place(request)).domain, "r2") << "where most of them fit, if not all";
  take("n2-0", 6);
  request.minimum = 3;
  EXPECT_EQ(std::get<GangAssigned>(place(request)).domain, "r1") << "the core has room in it first of all";
}

// Members of one shape that may not go to the same nodes are not the same.
TEST_F(GangTest, NodesThatAreHeldFromOneMemberAreHeldFromItAlone) {
  add_node("n1", 1);
  add_node("n2", 1);
  for (const bool whole : {false, true}) {
    GangRequest request = gang(2, {});
    auto& barred = whole ? request.members[0].request.whole_nodes : request.members[0].request.held_nodes;
    barred.insert("n1");
    const GangOutcome outcome = place(request);
    const auto* assigned = std::get_if<GangAssigned>(&outcome);
    ASSERT_NE(assigned, nullptr);
    EXPECT_EQ(assigned->members[0]->node, "n2");
    EXPECT_EQ(assigned->members[1]->node, "n1");
  }
}

TEST_F(GangTest, ASubgroupKeepsItsMinimum) {
  add_node("a", 3);
  GangRequest request = gang(5, {});
  request.members[4].subgroup = "ps";
  request.members[4].shape = "ps";
  request.subgroup_minimum["ps"] = 1;
  request.minimum = 2;
  const auto nodes = grant(request);
  ASSERT_EQ(nodes.size(), 5U);
  EXPECT_EQ(nodes[4], "a");
}

TEST_F(GangTest, AReplacementStaysInTheDomainOfTheOthers) {
  add_racks(3, 2, 4);
  GangRequest request = gang(1, {});
  request.required = "rack";
  request.fixed_nodes = {"n1-0", "n1-0", "n2-1"};
  take("n1-1", 4);
  take("n1-0", 3);
  EXPECT_EQ(grant(request), std::vector<std::string>{"n1-0"});
  request.members[0] = member(9, {});
  const GangOutcome outcome = place(request);
  EXPECT_EQ(reason(outcome),
            "gang g needs 1 member at once in one rack; rack r1 has room for 0: short of 1 whole card");
}

TEST_F(GangTest, TheReasonSaysWhereHowManyAndWhatIsShort) {
  add_racks(2, 2, 4);
  take("n0-0", 4);
  take("n1-0", 3);
  GangRequest request = gang(3, {.count = 2});
  request.required = "rack";
  const GangOutcome outcome = place(request);
  ASSERT_TRUE(std::holds_alternative<Waiting>(outcome));
  EXPECT_EQ(reason(outcome),
            "gang g needs 3 members at once in one rack; rack r0, where most would fit, has room for 2: "
            "short of 2 whole cards; it would fit without the required level");
  const auto needs = std::get<Waiting>(outcome).needs;
  ASSERT_TRUE(needs.has_value());
  EXPECT_EQ(needs_node(*needs).message, "an empty node like n0-0 in rack r0 would take it");
}

TEST_F(GangTest, WhatIsShortMayBeNoDevice) {
  for (const char* name : {"a", "b"}) add_node(name, 8);
  model::Pod pod;
  pod.meta.uid = "u";
  pod.containers.push_back({.name = "c", .requests = {{"cpu", test::quantity("20")}}, .limits = {}, .claims = {}});
  GangRequest request = gang(8, {});
  for (GangMember& one : request.members) one.request.pod = &pod;
  const GangOutcome outcome = place(request);
  EXPECT_EQ(reason(outcome), "gang g needs 8 members at once; the fleet has room for 6 even when nothing else runs");
  state_.upsert_pod_usage("other", "a", {{"cpu", 50000}});
  request = gang(6, {});
  for (GangMember& one : request.members) one.request.pod = &pod;
  EXPECT_EQ(
      reason(place(request)),
      "gang g needs 6 members at once; the fleet has room for 3: its nodes have the devices, but are short of cpu; "
      "a minimum of 3 would fit");
}

TEST_F(GangTest, WhatNoMemberCanHaveIsSaidAsForOnePod) {
  add_node("a", 2);
  const GangOutcome outcome = place(gang(2, {.count = 3}));
  ASSERT_TRUE(std::holds_alternative<Infeasible>(outcome));
  EXPECT_THAT(reason(outcome), HasSubstr("3 whole cards"));
}

TEST_F(GangTest, ALevelThatIsNotThereIsRefused) {
  add_node("a", 2);
  GangRequest request = gang(2, {});
  request.required = "galaxy";
  const auto outcome = place_gang(state_, default_topology(), request, random_);
  ASSERT_FALSE(outcome.has_value());
  EXPECT_THAT(outcome.error().message, HasSubstr("write one of node, linkDomain, rack"));
  request.required = "example.com/row";
  EXPECT_THAT(reason(place(request)), HasSubstr("no node says in which it is"));
  add_node("b", 2, {{"example.com/row", "7"}});
  EXPECT_EQ(grant(request), (std::vector<std::string>{"b", "b"}));
}

// Blocks of two racks of two nodes, all in one zone; the labels are those of this site.
TEST_F(GangTest, ALabelOfTheSiteLiesWhereTheNodesSayItLies) {
  for (int i = 0; i < 8; ++i) {
    add_node("n" + std::to_string(i), 1,
             {{"ex.com/rack", "r" + std::to_string(i / 2)},
              {"ex.com/block", "b" + std::to_string(i / 4)},
              {"ex.com/odd", "o" + std::to_string(i % 2)},
              {"topology.kubernetes.io/zone", "z"}});
  }
  take("n0", 1);
  const auto level_of = [&](const std::string& preferred, const std::string& required, int size) {
    GangRequest request = gang(size, {});
    request.preferred = preferred;
    request.required = required;
    const auto outcome = place_gang(state_, default_topology(), request, random_);
    if (!outcome) return outcome.error().text();
    const auto* assigned = std::get_if<GangAssigned>(&*outcome);
    return assigned == nullptr ? reason(*outcome) : assigned->level + " " + assigned->domain;
  };
  EXPECT_EQ(level_of("ex.com/rack", "zone", 2), "ex.com/rack r1");
  EXPECT_EQ(level_of("ex.com/rack", "zone", 3), "zone z");
  EXPECT_EQ(level_of("ex.com/rack", "ex.com/block", 2), "ex.com/rack r1");
  EXPECT_EQ(level_of("ex.com/rack", "ex.com/block", 3), "ex.com/block b0");
  EXPECT_EQ(level_of("ex.com/rack", "", 2), "ex.com/rack r1");
  EXPECT_EQ(level_of("ex.com/none", "zone", 2), "zone z") << "no node says it";
  EXPECT_THAT(level_of("zone", "ex.com/rack", 2), testing::HasSubstr("is narrower than the preferred one"));
  EXPECT_THAT(level_of("ex.com/rack", "ex.com/odd", 2),
              testing::HasSubstr("the levels ex.com/odd and ex.com/rack cut across each other: o0 lies in r0 and r1 of "
                                 "ex.com/rack, and r0 in o0 and o1 of ex.com/odd"));
}

// A fleet of one domain each: what is preferred is meant as the narrower one.
TEST_F(GangTest, WhereTwoLevelsAreOneTheyLieAsTheyAreMeant) {
  for (int i = 0; i < 2; ++i)
    add_node("n" + std::to_string(i), 1, {{"ex.com/rack", "r"}, {"topology.kubernetes.io/zone", "z"}});
  for (const bool turned : {false, true}) {
    GangRequest request = gang(2, {});
    request.preferred = turned ? "zone" : "ex.com/rack";
    request.required = turned ? "ex.com/rack" : "zone";
    const GangOutcome outcome = place(request);
    ASSERT_TRUE(std::holds_alternative<GangAssigned>(outcome)) << reason(outcome);
    EXPECT_EQ(std::get<GangAssigned>(outcome).level, request.preferred);
  }
}

TEST_F(GangTest, NodesThatAreClosedAreNamedWhereTheyWouldDo) {
  for (const char* name : {"n0", "n1", "n2"}) add_node(name, 2);
  const auto set = [&](const std::string& name, bool cordoned, model::Node::Ready ready) {
    model::Node node = test::make_node(name);
    node.unschedulable = cordoned;
    node.ready = ready;
    state_.upsert_node(node);
  };
  using Ready = model::Node::Ready;
  set("n0", true, Ready::kTrue);
  const auto answer = [&](int size) {
    const GangOutcome outcome = place(gang(size, {}));
    const auto* waiting = std::get_if<Waiting>(&outcome);
    if (waiting == nullptr) return reason(outcome);
    return waiting->reasons.front().code + ": " + waiting->reasons.front().message +
           (waiting->needs ? " / " + waiting->needs->like : "");
  };
  EXPECT_EQ(
      answer(6),
      "NodeFit: gang g needs 6 members at once; the fleet has room for 4; it would fit if closed nodes were open: "
      "n0 is marked unschedulable");
  set("n0", false, Ready::kFalse);
  set("n1", true, Ready::kTrue);
  EXPECT_EQ(
      answer(6),
      "NodeFit: gang g needs 6 members at once; the fleet has room for 2; it would fit if closed nodes were open: "
      "n1 is marked unschedulable, n0 is not ready");
  EXPECT_EQ(
      answer(4),
      "NodeFit: gang g needs 4 members at once; the fleet has room for 2; it would fit if closed nodes were open: "
      "n1 is marked unschedulable");
  // With one card of it taken, opening the other is not enough; a node like an open one is what helps.
  set("n1", false, Ready::kTrue);
  take("n2", 1);
  EXPECT_EQ(
      answer(6),
      "Capacity: gang g needs 6 members at once; the fleet has room for 3: short of 3 whole cards; a minimum of 3 "
      "would fit / n1");
}

TEST_F(GangTest, SharesOfDifferentCardsFindTheRoomThatOneByOneMisses) {
  // Two cards with 60% and 40% and 20% free ...: a member takes 20% of two cards each.
  add_node("a", 3);
  const auto hold = [&](const std::string& key, const std::string& cores) {
    PlacementRequest request;
    const ClaimRequest claim = make_claim(key, {.memory = "1Mi", .cores = cores});
    request.claims.push_back(claim);
    const auto outcome = state_.place(request, random_);
    ASSERT_TRUE(outcome && std::holds_alternative<Assigned>(*outcome));
    state_.upsert_claim(test::granted(claim, std::get<Assigned>(*outcome).allocations[0]));
  };
  hold("ns/x", "60");
  hold("ns/y", "80");
  hold("ns/z", "60");
  GangRequest request;
  request.name = "g";
  for (int i = 0; i < 2; ++i) {
    GangMember one = member(i, {.memory = "1Mi", .cores = "20", .count = 2});
    one.request.claims[0].spec.constraints.push_back(
        {.requests = {}, .match_attribute = {}, .distinct_attribute = "accelerator.heddle.dev/uuid"});
    request.members.push_back(std::move(one));
  }
  request.minimum = 2;
  EXPECT_EQ(grant(request), (std::vector<std::string>{"a", "a"}));
}

// Against every way to put the members on nodes.
TEST_F(GangTest, OnTinyFleetsTheAnswerIsThatOfTryingAll) {
  SeededRandom dice(11);
  int placed = 0;
  for (int round = 0; round < 400; ++round) {
    state_ = State();
    state_.upsert_class(test::make_class());
    const int nodes = 1 + static_cast<int>(dice.below(4));
    std::map<std::string, std::vector<int>> free;  // rack -> whole cards free by node
    std::map<std::string, std::string> rack_of;
    for (int node = 0; node < nodes; ++node) {
      const std::string rack = "r" + std::to_string(dice.below(2));
      const int cards = 1 + static_cast<int>(dice.below(4));
      const int held = static_cast<int>(dice.below(static_cast<uint64_t>(cards) + 1));
      add_node("n" + std::to_string(node), cards, {{"heddle.dev/rack", rack}});
      if (held > 0) take("n" + std::to_string(node), held);
      free[rack].push_back(cards - held);
      rack_of["n" + std::to_string(node)] = rack;
    }
    const int each = 1 + static_cast<int>(dice.below(3));
    const int size = 1 + static_cast<int>(dice.below(6));
    GangRequest request = gang(size, {.count = each});
    request.minimum = 1 + static_cast<int64_t>(dice.below(static_cast<uint64_t>(size)));
    const bool required = dice.below(2) == 0;
    if (required) request.required = "rack";
    int most = 0;
    int everywhere = 0;
    for (const auto& [rack, cards] : free) {
      int here = 0;
      for (const int card : cards) here += card / each;
      everywhere += here;
      most = std::max(most, here);
    }
    const int room = required ? most : everywhere;
    const auto got = grant(request);
    SCOPED_TRACE("round " + std::to_string(round));
    if (room < request.minimum) {
      EXPECT_TRUE(got.empty());
      continue;
    }
    ++placed;
    ASSERT_EQ(got.size(), request.members.size());
    EXPECT_EQ(std::count(got.begin(), got.end(), "-"), std::max(0, size - room));
    std::set<std::string> racks;
    for (const std::string& node : got) {
      if (node != "-") racks.insert(rack_of.at(node));
    }
    if (required) {
      EXPECT_EQ(racks.size(), 1U);
    }
  }
  EXPECT_GT(placed, 100);
}

TEST_F(GangTest, TheSameInputGivesTheSameAnswer) {
  add_racks(4, 3, 4);
  GangRequest request = gang(10, {});
  request.preferred = "linkDomain";
  SeededRandom first(3);
  SeededRandom second(3);
  const auto one = place_gang(state_, default_topology(), request, first);
  const auto two = place_gang(state_, default_topology(), request, second);
  ASSERT_TRUE(one && two);
  const auto& a = std::get<GangAssigned>(*one);
  const auto& b = std::get<GangAssigned>(*two);
  for (size_t i = 0; i < a.members.size(); ++i) {
    EXPECT_EQ(a.members[i]->node, b.members[i]->node);
    EXPECT_EQ(a.members[i]->allocations, b.members[i]->allocations);
  }
}

// The agents of an NVL72 publish the fabric that the driver names; no node has a label.
TEST_F(GangTest, AFabricHoldsAllOfItByWhatItsCardsSay) {
  for (int node = 0; node < 6; ++node) {
    const std::string name = "t" + std::to_string(node);
    model::ResourceSlice slice = test::make_slice(name, 4, 80000 * kMiB);
    for (model::Device& device : slice.devices)
      device.attributes["linkDomain"] = std::string(node % 3 == 0 ? "6c1e-uuid.1" : "6c1e-uuid.2");
    state_.upsert_node(test::make_node(name));
    state_.upsert_slice(slice);
  }
  GangRequest request = gang(4, {.count = 4});
  request.required = "linkDomain";
  const GangOutcome outcome = place(request);
  const auto* assigned = std::get_if<GangAssigned>(&outcome);
  ASSERT_NE(assigned, nullptr) << reason(outcome);
  EXPECT_EQ(assigned->domain, "6c1e-uuid.2");
  std::vector<std::string> nodes;
  for (const auto& one : assigned->members) nodes.push_back(one->node);
  EXPECT_EQ(nodes, (std::vector<std::string>{"t1", "t2", "t4", "t5"}));
  request = gang(5, {.count = 4});
  request.required = "linkDomain";
  EXPECT_EQ(
      reason(place(request)),
      "gang g needs 5 members at once in one linkDomain; linkDomain 6c1e-uuid.2, the largest, has room for 4 even "
      "when nothing else runs");
}

// Of eight cards on two PCIe roots, taken so that the tightest fit by itself would mix the roots.
TEST_F(GangTest, TheCardsOfAMemberLieCloseTogether) {
  model::ResourceSlice slice = test::make_slice("a", 8, 80000 * kMiB);
  for (size_t i = 0; i < slice.devices.size(); ++i)
    slice.devices[i].attributes["resource.kubernetes.io/pcieRoot"] = std::string(i % 2 == 0 ? "even" : "odd");
  state_.upsert_node(test::make_node("a"));
  state_.upsert_slice(slice);
  const GangOutcome outcome = place(gang(2, {.count = 3}));
  const auto& members = std::get<GangAssigned>(outcome).members;
  std::set<std::string> taken;
  for (const auto& one : members) {
    std::set<int> roots;
    for (const model::DeviceResult& result : one->allocations.at(0).results) {
      roots.insert((result.device.back() - '0') % 2);
      EXPECT_TRUE(taken.insert(result.device).second);
    }
    EXPECT_EQ(roots.size(), 1U);
  }
  EXPECT_EQ(taken.size(), 6U);
}

}  // namespace
}  // namespace heddle::engine
