// Which card a share goes to, among those that the policy values alike, by who is on them.
#include "engine/interference.h"

#include <gtest/gtest.h>

#include <map>

#include "engine/engine.h"
#include "engine/test_fleet.h"

namespace heddle::engine {
namespace {

using model::PlacementPolicy;
using test::kMiB;

constexpr PlacementPolicy kAll[] = {PlacementPolicy::kPacking, PlacementPolicy::kBestFit, PlacementPolicy::kSpread,
                                    PlacementPolicy::kLeastLoaded};
constexpr bool kLow = true;

// A thousandth of a card is a MiB of its memory.
struct Share {
  int milli = 0;
  bool gives_way = false;
  int cores = 0;
};

std::string name_of(const testing::TestParamInfo<PlacementPolicy>& param) {
  return "p" + std::to_string(static_cast<int>(param.param));
}

model::OpaqueConfig low_priority(std::vector<std::string> requests = {}) {
  return {std::move(requests), test::kDriver, codec::share_config_json({.memory_percent = {}, .priority = 1})};
}

class InterferenceTest : public testing::TestWithParam<PlacementPolicy> {
 protected:
  InterferenceTest() { state_.upsert_class(test::make_class()); }

  void add_node(const std::string& name, int cards) {
    state_.upsert_node(test::make_node(name));
    state_.upsert_slice(test::make_slice(name, cards, 1000 * kMiB));
  }

  void hold(const std::string& node, int card, const Share& share) {
    std::vector<model::AllocatedConfig> config;
    if (share.gives_way) config.push_back({.from_class = false, .config = low_priority()});
    state_.upsert_claim(
        test::held("held-" + std::to_string(++claims_), node, card, share.milli * kMiB, share.cores, config));
  }

  PlacementRequest request(const Share& share, int64_t count = 1) {
    PlacementRequest made;
    made.policy = policy_;
    const test::Ask ask{
        .memory = std::to_string(share.milli) + "Mi", .cores = std::to_string(share.cores), .count = count};
    made.claims.push_back(test::make_claim("ns/c" + std::to_string(++claims_), ask));
    if (share.gives_way) made.claims[0].spec.config.push_back(low_priority());
    return made;
  }

  // "node/card", and it has it.
  std::string grant(const PlacementRequest& asked) {
    const auto outcome = state_.place(asked, random_);
    if (!outcome) return outcome.error().text();
    const auto* assigned = std::get_if<Assigned>(&*outcome);
    if (assigned == nullptr) return "waiting";
    state_.upsert_claim(test::granted(asked.claims[0], assigned->allocations[0]));
    std::string text;
    for (const auto& result : assigned->allocations[0].results)
      text += (text.empty() ? "" : " ") + assigned->node + "/" + result.device.substr(4);
    return text;
  }
  std::string grant(const Share& share, int64_t count = 1) { return grant(request(share, count)); }

  State state_;
  SeededRandom random_{1};
  PlacementPolicy policy_ = GetParam();
  int claims_ = 0;
};
using InterferenceTestOfPacking = InterferenceTest;

INSTANTIATE_TEST_SUITE_P(Policies, InterferenceTest, testing::ValuesIn(kAll), name_of);
INSTANTIATE_TEST_SUITE_P(Policies, InterferenceTestOfPacking,
                         testing::Values(PlacementPolicy::kPacking, PlacementPolicy::kBestFit), name_of);

TEST(Disturbance, IsInTheOrderOfTheHeader) {
  const auto beside = [](const Newcomer& newcomer, const std::vector<Tenant>& tenants) {
    allocator::Sharers sharers;
    for (const Tenant& tenant : tenants) add(tenant, sharers);
    return disturbance(newcomer, sharers);
  };
  const Tenant online{false, 0};
  const Tenant capped{false, 30};
  const Tenant low{true, 0};
  const Tenant low_capped{true, 20};
  const Newcomer unlimited{};
  EXPECT_EQ(beside(unlimited, {}), 0);
  EXPECT_EQ(beside(unlimited, {low, low}), 0);
  EXPECT_LT(beside(unlimited, {low}), beside(unlimited, {low_capped}));
  EXPECT_LT(beside(unlimited, {low_capped}), beside(unlimited, {capped}));
  EXPECT_LT(beside(unlimited, {capped, capped, capped}), beside(unlimited, {online}));
  EXPECT_EQ(beside(unlimited, {online, low}), beside(unlimited, {online, online, low}));
  const Newcomer limited{.limited = true};
  EXPECT_EQ(beside(limited, {capped, low, low_capped}), 0);
  EXPECT_GT(beside(limited, {online}), 0);
  const Newcomer offline{.gives_way = true};
  EXPECT_EQ(beside(offline, {low}), 0);
  EXPECT_LT(beside(offline, {low_capped, low_capped, low_capped}), beside(offline, {capped}));
  EXPECT_LT(beside(offline, {capped}), beside(offline, {capped, low_capped}));
  EXPECT_LT(beside(offline, {capped, capped, capped}), beside(offline, {online}));
  for (const Newcomer& newcomer : {unlimited, limited, offline}) {
    EXPECT_LE(beside(newcomer, {online, {false, 100}, {false, 100}}), kMostDisturbed);
    EXPECT_LE(kUnusedCard, beside(newcomer, {online}));
  }
}

TEST(Disturbance, TheMarksOfATenantAreThoseOfItsRequest) {
  model::Allocation allocation;
  for (const char* name : {"a", "b/sub", "c"}) {
    model::DeviceResult result;
    result.request = name;
    result.share_id = name;
    result.consumed_capacity = {{"cores", Quantity::from_int(*name == 'c' ? 40 : 0)}};
    allocation.results.push_back(result);
  }
  allocation.config.push_back({.from_class = false, .config = low_priority({"b"})});
  allocation.config.push_back({.from_class = true, .config = low_priority({"c"})});
  allocation.config.push_back({.from_class = false, .config = {{"a"}, test::kDriver, "{"}});
  EXPECT_EQ(tenants_of(allocation), (std::vector<Tenant>{{false, 0}, {true, 0}, {false, 40}}));
}

TEST(Disturbance, ANewcomerIsWhatAllOfItsSharesAre) {
  model::ClaimSpec whole = test::make_claim("c", {}).spec;
  EXPECT_FALSE(newcomer_of({&whole}));
  model::ClaimSpec share = test::make_claim("c", {.memory = "1Gi", .cores = "20"}).spec;
  share.config.push_back(low_priority({"gpu"}));
  model::ClaimSpec part = test::make_claim("c", {.memory_percent = 20}).spec;
  const auto one = newcomer_of({&share});
  ASSERT_TRUE(one);
  EXPECT_TRUE(one->gives_way && one->limited && one->single);
  const auto both = newcomer_of({&share, &part});
  ASSERT_TRUE(both);
  EXPECT_FALSE(both->gives_way || both->limited || both->single);
}

TEST_P(InterferenceTest, OnACardOfTheNode) {
  add_node("n", 3);
  hold("n", 0, {300});
  hold("n", 1, {300, kLow});
  hold("n", 2, {300, !kLow, 2});
  EXPECT_EQ(grant({600}), "n/1") << "its tenant gives way";
  EXPECT_EQ(grant({650}), "n/2") << "a cap is better than none";
  EXPECT_EQ(grant({650}), "n/0") << "what fits is placed, also beside the worst";
  EXPECT_EQ(grant({650}), "waiting");
}

TEST_P(InterferenceTest, OnANode) {
  for (const char* name : {"a", "b"}) add_node(name, 1);
  hold("a", 0, {300});
  hold("b", 0, {300, kLow});
  EXPECT_EQ(grant({600, kLow}), "b/0") << "nobody there comes first";
  EXPECT_EQ(grant({600}), "a/0");
  add_node("c", 1);
  add_node("d", 1);
  hold("c", 0, {400});
  hold("d", 0, {400, kLow});
  EXPECT_EQ(grant({550, !kLow, 40}), "d/0") << "a promise is kept beside one that gives way";
}

TEST_P(InterferenceTest, SeveralSharesOfOnePod) {
  add_node("n", 4);
  hold("n", 0, {300});
  hold("n", 1, {300, kLow});
  hold("n", 2, {300});
  hold("n", 3, {300, kLow});
  EXPECT_EQ(grant({300}, 2), "n/1 n/3");
}

TEST_P(InterferenceTest, WhoGivesWayGoesWhereLeastIsPromised) {
  add_node("n", 2);
  hold("n", 0, {500, !kLow, 40});
  hold("n", 1, {250, !kLow, 10});
  hold("n", 1, {250, !kLow, 10});
  if (policy_ == PlacementPolicy::kSpread) return;  // there one tenant is fewer than two
  // Equal memory; more cores are left of n/1, so best fit has n/0 first: they are not alike for it.
  const bool by_cores = policy_ == PlacementPolicy::kBestFit;
  EXPECT_EQ(grant({200, kLow}), by_cores ? "n/0" : "n/1");
}

TEST_P(InterferenceTestOfPacking, AlikeIsASixteenthOfACard) {
  add_node("n", 2);
  hold("n", 0, {500});
  hold("n", 1, {490, kLow});
  EXPECT_EQ(grant({200}), "n/1") << "10 more are left there";
  add_node("o", 2);
  hold("o", 0, {900});
  hold("o", 1, {600, kLow});
  PlacementRequest asked = request({100});
  asked.pinned_node = "o";
  EXPECT_EQ(grant(asked), "o/0") << "it fills the card";
}

TEST_P(InterferenceTestOfPacking, AlikeNodes) {
  add_node("x", 1);
  add_node("y", 1);
  hold("x", 0, {500});
  hold("y", 0, {490, kLow});
  EXPECT_EQ(grant({200}), "y/0");
  EXPECT_EQ(grant({320}), "x/0") << "y has no room for it";
}

TEST_P(InterferenceTestOfPacking, NoCardIsBegunForIt) {
  add_node("a", 2);
  add_node("b", 2);
  hold("a", 0, {20});
  hold("b", 0, {500, kLow});
  hold("b", 1, {500, kLow, 10});
  PlacementRequest asked = request({20});
  asked.pinned_node = "a";
  EXPECT_EQ(grant(asked), "a/0") << "an unlimited neighbour, but the other card stays whole";
}

TEST_P(InterferenceTest, AnEndedTenantIsForgotten) {
  add_node("n", 2);
  hold("n", 0, {300});
  const std::string first = "held-" + std::to_string(claims_);
  hold("n", 1, {300, kLow});
  hold("n", 0, {300, kLow});
  hold("n", 1, {300});
  state_.remove_claim(first);
  hold("n", 0, {300, kLow});
  EXPECT_EQ(grant({300}), "n/0");
}

// Random shares come and go. What would fit on some card is placed, whoever is there.
TEST_P(InterferenceTest, WhatFitsIsPlaced) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    state_ = State();
    state_.upsert_class(test::make_class());
    for (const char* name : {"a", "b", "c"}) add_node(name, 2);
    SeededRandom random(seed);
    struct Live {
      std::string card;
      Share share;
    };
    std::map<std::string, Live> live;  // by claim
    const int cores[] = {0, 0, 10, 30};
    for (int step = 0; step < 120; ++step) {
      if (!live.empty() && random.below(5) < 2) {
        auto ends = std::next(live.begin(), static_cast<int64_t>(random.below(live.size())));
        state_.remove_claim(ends->first);
        live.erase(ends);
        continue;
      }
      const Share share{static_cast<int>(50 + 50 * random.below(12)), random.below(2) == 0, cores[random.below(4)]};
      std::map<std::string, Share> used;
      for (const auto& [claim, held] : live) {
        used[held.card].milli += held.share.milli;
        used[held.card].cores += held.share.cores;
      }
      bool fits = used.size() < 6;
      for (const auto& [card, sum] : used)
        fits = fits || (sum.milli + share.milli <= 1000 && sum.cores + share.cores <= 100);
      const PlacementRequest asked = request(share);
      const std::string card = grant(asked);
      EXPECT_EQ(card != "waiting", fits) << "seed " << seed << ", step " << step << ": " << card;
      if (card != "waiting") live[asked.claims[0].uid] = {card, share};
    }
  }
}

// Where all are alike nothing is told apart: the choices are the same whatever they all are.
TEST_P(InterferenceTest, EqualTenantsChangeNothing) {
  std::string choices[2];
  for (const bool low : {false, true}) {
    state_ = State();
    state_.upsert_class(test::make_class());
    for (const char* name : {"a", "b", "c"}) add_node(name, 4);
    claims_ = 0;
    SeededRandom random(7);
    for (int step = 0; step < 60; ++step) {
      const Share share{static_cast<int>(50 + 10 * random.below(50)), low};
      PlacementRequest asked = request(share);
      state_.arrive(asked);
      choices[low ? 1 : 0] += grant(asked) + "\n";
      if (random.below(4) == 0) state_.remove_claim("ns/c" + std::to_string(1 + random.below(20)));
    }
  }
  EXPECT_EQ(choices[0], choices[1]);
}

}  // namespace
}  // namespace heddle::engine
