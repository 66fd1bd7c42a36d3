// Nodes that levels reserve: pods alone, evictions, and random histories of pods and gangs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "engine/eviction.h"
#include "engine/gang_eviction.h"
#include "engine/test_gangs.h"

namespace heddle::engine {
namespace {

using testing::HasSubstr;

class ReserveTest : public test::GangFleet {
 protected:
  void reserve(int64_t nodes, ReserveUse use) {
    levels_ = default_topology();
    for (TopologyLevel& level : levels_) {
      if (level.name == "rack") level.reserve_nodes = nodes;
      level.reserve_use = use;
    }
    state_.keep_reserve(levels_);
  }

  PlacementRequest pod(int64_t cards, Reserve reserve = Reserve::kKept) {
    PlacementRequest request;
    request.claims.push_back(test::make_claim("ns/p" + std::to_string(made_++), {.count = cards}));
    request.reserve = reserve;
    return request;
  }

  // Its node, or why not.
  std::string put(const PlacementRequest& request) {
    const auto outcome = state_.place(request, random_);
    if (!outcome) return outcome.error().text();
    if (const auto* waiting = std::get_if<Waiting>(&*outcome)) {
      std::string all;
      for (const Reason& reason : waiting->reasons) all += reason.code + ": " + reason.message + "\n";
      return all;
    }
    const auto* assigned = std::get_if<Assigned>(&*outcome);
    if (assigned == nullptr) return "never";
    state_.upsert_claim(test::granted(request.claims[0], assigned->allocations[0]));
    return assigned->node;
  }

  std::vector<TopologyLevel> levels_ = default_topology();
  int made_ = 0;
};

TEST_F(ReserveTest, APodAloneLeavesThem) {
  add_racks(1, 3, 2);
  reserve(1, ReserveUse::kReplacements);
  EXPECT_EQ(put(pod(2)), "n0-0");
  EXPECT_EQ(put(pod(2)), "n0-1");
  EXPECT_THAT(put(pod(1)), HasSubstr("Reserve: n0-2 is kept empty for nodes that fail"));
  EXPECT_EQ(put(pod(2, Reserve::kOpen)), "n0-2") << "in the place of something that was lost";
}

TEST_F(ReserveTest, APodThatFitsNowhereElseTakesOneThatIsLent) {
  add_racks(1, 3, 2);
  reserve(1, ReserveUse::kWhenNeeded);
  EXPECT_EQ(put(pod(1)), "n0-0");
  EXPECT_EQ(put(pod(2)), "n0-1");
  EXPECT_EQ(put(pod(1)), "n0-0");
  EXPECT_EQ(put(pod(1)), "n0-2");
}

TEST_F(ReserveTest, NoLevelReservesAnyMore) {
  add_racks(1, 1, 2);
  reserve(1, ReserveUse::kReplacements);
  EXPECT_THAT(put(pod(1)), HasSubstr("Reserve: "));
  const uint64_t before = state_.generation();
  state_.keep_reserve(default_topology());
  EXPECT_GT(state_.generation(), before) << "what waits is tried again";
  EXPECT_EQ(put(pod(1)), "n0-0");
}

TEST_F(ReserveTest, WhatReplacesNothingIsNoSpare) {
  add_racks(1, 3, 2);
  reserve(1, ReserveUse::kReplacements);
  model::Node closed = test::make_node("n0-2");
  closed.meta.labels["heddle.dev/rack"] = "r0";
  closed.unschedulable = true;
  state_.upsert_node(closed);
  EXPECT_EQ(put(pod(2)), "n0-0");
  EXPECT_THAT(put(pod(2)), HasSubstr("n0-1 is kept empty"));
  model::ResourceSlice sick = test::make_slice("n0-1", 2, 80000 * test::kMiB);
  sick.devices[1].taints.push_back({.key = "heddle.dev/unhealthy", .value = {}, .effect = "NoSchedule", .added = {}});
  state_.upsert_slice(sick);
  EXPECT_EQ(put(pod(1)), "n0-1") << "one of its cards is out of order";
}

// Nothing is evicted to empty a node that nobody gets then.
TEST_F(ReserveTest, EvictionsLeaveThemToo) {
  add_racks(1, 3, 2);
  reserve(1, ReserveUse::kReplacements);
  std::map<std::string, VictimHoldings> victims;
  std::vector<queueing::Victim> running(3);
  for (int i = 0; i < 3; ++i) {
    const PlacementRequest request = pod(2, Reserve::kOpen);
    const std::string node = put(request);
    running[static_cast<size_t>(i)].id = node;
    victims[node].claim_uids.push_back(request.claims[0].uid);
  }
  const PlacementRequest asked = pod(2);
  const auto fits = [&](const std::string& node) {
    const auto room = RoomWithout::make(state_, asked, victims);
    EXPECT_TRUE(room.has_value());
    const auto gone = std::find_if(running.begin(), running.end(), [&](const auto& one) { return one.id == node; });
    return (*room)->fits(node, {&*gone});
  };
  const auto gang_fits = [&](int members) {
    GangRequest request = gang(members, {.count = 2});
    const auto room = GangRoomWithout::make(state_, levels_, request, victims);
    EXPECT_TRUE(room.has_value());
    return (*room)->fits("", {&running[0], &running[1], &running[2]});
  };
  ASSERT_TRUE(victims.contains("n0-0") && victims.contains("n0-1") && victims.contains("n0-2"));
  EXPECT_FALSE(fits("n0-0")) << "it would be the only empty one";
  EXPECT_TRUE(gang_fits(2));
  EXPECT_FALSE(gang_fits(3));
  for (const std::string& uid : victims["n0-2"].claim_uids) state_.remove_claim(uid);
  EXPECT_TRUE(fits("n0-0")) << "n0-2 is empty";
  EXPECT_THAT(put(asked), HasSubstr("Reserve: "));
  for (const std::string& uid : victims["n0-0"].claim_uids) state_.remove_claim(uid);
  EXPECT_EQ(put(asked), "n0-0");
}

// Random histories of pods and gangs on two racks of four nodes, counted from the grants themselves.
class ReserveHistory : public ReserveTest {
 protected:
  static constexpr int kRacks = 2;
  static constexpr int kNodesOfARack = 4;

  void start() {
    state_ = State();
    state_.upsert_class(test::make_class());
    live_.clear();
    add_racks(kRacks, kNodesOfARack, 2);
  }

  [[nodiscard]] std::map<std::string, int64_t> empty_by_rack() const {
    std::map<std::string, int64_t> empty;
    for (int rack = 0; rack < kRacks; ++rack) empty["n" + std::to_string(rack)] = kNodesOfARack;
    std::set<std::string> used;
    for (const auto& [uid, node] : live_) used.insert(node);
    for (const std::string& node : used) --empty[node.substr(0, 2)];
    return empty;
  }

  // The nodes that it got by claim; a reason's code alone where it waits.
  std::pair<std::map<std::string, model::Allocation>, std::string> decide(const GangRequest& request,
                                                                          const std::vector<TopologyLevel>& levels) {
    state_.keep_reserve(levels);
    std::pair<std::map<std::string, model::Allocation>, std::string> out;
    const auto take = [&](const ClaimRequest& claim, const Assigned& assigned) {
      out.first[claim.uid] = assigned.allocations[0];
    };
    if (request.members.size() == 1 && request.required.empty()) {
      const auto outcome = state_.place(request.members[0].request, random_);
      EXPECT_TRUE(outcome.has_value());
      if (const auto* assigned = std::get_if<Assigned>(&*outcome))
        take(request.members[0].request.claims[0], *assigned);
      if (const auto* waiting = std::get_if<Waiting>(&*outcome)) {
        for (const Reason& reason : waiting->reasons) out.second += reason.code + " ";
      }
      return out;
    }
    const auto outcome = place_gang(state_, levels, request, random_);
    EXPECT_TRUE(outcome.has_value());
    if (const auto* assigned = std::get_if<GangAssigned>(&*outcome)) {
      for (size_t i = 0; i < request.members.size(); ++i) {
        if (assigned->members[i]) take(request.members[i].request.claims[0], *assigned->members[i]);
      }
    }
    if (const auto* waiting = std::get_if<Waiting>(&*outcome)) out.second = waiting->reasons.at(0).code + " ";
    return out;
  }

  GangRequest random_request(SeededRandom& random) {
    GangRequest request =
        gang(static_cast<int>(random.below(4)) + 1, {.count = static_cast<int64_t>(random.below(2)) + 1});
    for (GangMember& member : request.members)
      member.request.claims[0].uid = member.request.claims[0].key = "ns/h" + std::to_string(made_++);
    if (random.below(2) == 0) request.required = "rack";
    return request;
  }

  void step(SeededRandom& random, int64_t nodes, ReserveUse use) {
    if (random.below(5) < 2 && !live_.empty()) {
      const auto ended = std::next(live_.begin(), static_cast<int64_t>(random.below(live_.size())));
      state_.remove_claim(ended->first);
      live_.erase(ended);
      return;
    }
    reserve(nodes, ReserveUse::kReplacements);
    const std::vector<TopologyLevel> strict = levels_;
    reserve(nodes, use);
    const std::vector<TopologyLevel> levels = levels_;
    const GangRequest request = random_request(random);
    const auto before = empty_by_rack();
    const auto [granted, why] = decide(request, levels);
    if (granted.empty()) {
      const auto [open, no] = decide(request, default_topology());
      EXPECT_TRUE(open.empty() || why.find("Reserve") != std::string::npos) << why;
      EXPECT_TRUE(open.empty() || use == ReserveUse::kReplacements) << "nobody is kept from what is lent";
      return;
    }
    ASSERT_EQ(granted.size(), request.members.size());
    const auto [beside, no] = decide(request, strict);
    for (const auto& [uid, allocation] : granted) live_[uid] = model::allocated_node(allocation).value();
    const auto after = empty_by_rack();
    bool used = false;
    for (const auto& [rack, empty] : before) used = used || after.at(rack) < std::min(nodes, empty);
    if (used) {
      EXPECT_EQ(use, ReserveUse::kWhenNeeded) << "a node was kept for replacements";
      EXPECT_TRUE(beside.empty()) << "it would have fit beside the reserve";
    }
    for (const GangMember& member : request.members) {
      const ClaimRequest& claim = member.request.claims[0];
      state_.upsert_claim(test::granted(claim, granted.at(claim.uid)));
    }
    EXPECT_TRUE(state_.over_commits().empty());
  }

  std::map<std::string, std::string> live_;  // by claim: its node
};

TEST_F(ReserveHistory, UseNoReservedNodeUnlessTheLevelLendsIt) {
  for (uint64_t seed = 1; seed <= 80 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    start();
    SeededRandom random(seed);
    const auto nodes = static_cast<int64_t>(random.below(2)) + 1;
    const ReserveUse use = seed % 2 == 0 ? ReserveUse::kWhenNeeded : ReserveUse::kReplacements;
    for (int i = 0; i < 80 && !HasFailure(); ++i) step(random, nodes, use);
  }
}

}  // namespace
}  // namespace heddle::engine
