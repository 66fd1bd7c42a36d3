#include "placement/placer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "placement/heddle_policy.h"

namespace heddle::placement {
namespace {

constexpr int64_t kGib = int64_t{1} << 30;

Node node(int64_t cpu, std::vector<uint16_t> cards, Kind kind = 0) {
  return {cpu, 100 * kGib, std::move(cards), kind};
}

TEST(HeddlePolicy, BalanceIsCloseToTheScarcest) {
  // The mix asks for 2 CPU and 10 GiB a card: kc is 0.7 * 2000 / 1000, km 0.7 * 10 GiB / 1000.
  const Mix mix{{{{2000, 10 * kGib, 1, 1000, {}}, 4}}, 4};
  HeddlePolicy policy;
  const FleetTotals nothing;
  policy.learn(mix, {nothing, {}});
  const double kc = 0.7 * 2;
  const double km = 0.7 * static_cast<double>(10 * kGib) / 1000;
  for (const auto& [cpu, memory, cards] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{
           {16000, 64 * kGib, 8000}, {1000, 64 * kGib, 8000}, {0, 0, 1000}, {64000, 1 * kGib, 100}}) {
    const double expected = 1 / std::sqrt(0.7 / std::pow(static_cast<double>(cards), 2) +
                                          0.2 / std::pow(std::max(1.0, static_cast<double>(cpu) / kc), 2) +
                                          0.1 / std::pow(std::max(1.0, static_cast<double>(memory) / km), 2));
    EXPECT_NEAR(static_cast<double>(policy.balance(cpu, memory, cards)) / HeddlePolicy::kScale, expected, 0.01) << cpu;
  }
  EXPECT_EQ(policy.balance(1000, kGib, 0), 0);
}

// Where CPU is plenty and the mix needs whole boxes, a card is taken where most are taken: the other node is the one
// that will be whole again.
TEST(HeddlePolicy, OfEqualPlacesTheFullerNodeIsTaken) {
  const Mix mix{{{{1000, kGib, 8, 1000, {}}, 1}, {{1000, kGib, 1, 1000, {}}, 3}}, 4};
  Placer placer({PolicyName::kHeddle, mix, 0});
  ASSERT_TRUE(placer.nodes().add(node(200'000, {0, 1000, 1000, 1000, 1000, 1000, 1000, 1000})));
  ASSERT_TRUE(placer.nodes().add(node(196'000, {0, 0, 0, 0, 0, 1000, 1000, 1000})));
  const RequestId id = placer.intern({1000, kGib, 1, 1000, {}});
  EXPECT_EQ(placer.choose(id)->node, 1U);
}

TEST(HeddlePolicy, RoomsAreWorthMoreWhenTheyAreRare) {
  const Mix mix{{{{4000, 0, 2, 1000, {}}, 1}, {{0, 0, 1, 1000, {}}, 2}}, 3};  // half of all milli needs two cards
  const std::vector<uint16_t> cards = {1000, 1000};
  const auto worth = [&](int64_t nodes_with_two, int64_t all_cards) {
    HeddlePolicy policy;
    FleetTotals totals;
    totals.card_milli = all_cards * 1000;
    // Only nodes that have the CPU as well are rooms.
    const std::vector<StateNodes> states = {{{4000, 0, cards.data(), 2, 0}, nodes_with_two},
                                            {{3999, 0, cards.data(), 2, 0}, 5}};
    policy.learn(mix, {totals, states});
    return -policy.value({4000, 0, cards.data(), 2, 0}) + policy.value({3999, 0, cards.data(), 2, 0});
  };
  const auto room = [](double level) { return 2 * 1000.0 / 64 * level * level * level * HeddlePolicy::kScale; };
  const int64_t base = worth(0, 0);  // nothing is expected while nothing is free
  // 32 cards free: 8 rooms of two are expected, and 12 * sqrt(8) in stock.
  const double wanted = 8 + 12 * std::sqrt(8.0);
  EXPECT_NEAR(static_cast<double>(worth(80, 32) - base), room(wanted / 80), 2);
  EXPECT_NEAR(static_cast<double>(worth(40, 32) - base), room(wanted / 40), 2);
  EXPECT_NEAR(static_cast<double>(worth(0, 32) - base), room(3), 2);
}

// On a small fleet few pods ever come: until a mix is known the policy must not be worse than best fit.
TEST(HeddlePolicy, IsBestFitUntilAMixIsKnown) {
  const auto fill = [](PolicyName name) {
    Placer placer({name, std::nullopt, 0});
    for (const int64_t cpu : {16000, 32000, 64000}) {
      if (!placer.nodes().add(node(cpu, {1000, 1000, 1000, 1000}))) return std::vector<std::optional<Choice>>();
    }
    SeededRandom random(5);
    std::vector<std::optional<Choice>> choices;
    for (int i = 0; i < MixLearner::kFirst - 1; ++i) {
      const RequestId id = placer.intern(
          {1000 * static_cast<int64_t>(1 + random.below(4)), kGib, 1, random.below(2) == 0 ? 300 : 1000, {}});
      placer.arrive(id);
      choices.push_back(placer.choose(id));
      if (choices.back() && !placer.take(id, *choices.back())) choices.clear();
    }
    return choices;
  };
  const auto choices = fill(PolicyName::kHeddle);
  ASSERT_EQ(choices.size(), static_cast<size_t>(MixLearner::kFirst - 1));
  EXPECT_EQ(choices, fill(PolicyName::kBestFit));
}

TEST(Placer, TakesTheLowestNodeAndCardOfEquals) {
  for (const PolicyName name : {PolicyName::kHeddle, PolicyName::kFgd, PolicyName::kBestFit}) {
    Placer placer({name, std::nullopt, 0});
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(placer.nodes().add(node(8000, {1000, 1000})));
    const RequestId id = placer.intern({1000, kGib, 1, 1000, {}});
    placer.arrive(id);
    EXPECT_EQ(placer.choose(id), (Choice{0, {0}}));
  }
}

TEST(Placer, KnowsTheKinds) {
  Placer placer({PolicyName::kHeddle, std::nullopt, 0});
  ASSERT_TRUE(placer.nodes().add(node(8000, {1000}, 0)));
  ASSERT_TRUE(placer.nodes().add(node(8000, {1000}, 2)));
  EXPECT_EQ(placer.choose(placer.intern({1, 1, 1, 1000, {1, 2}})), (Choice{1, {0}}));
  EXPECT_EQ(placer.choose(placer.intern({1, 1, 1, 1000, {1, 9}})), std::nullopt);
}

TEST(Placer, ChoosesNothingThatDoesNotFit) {
  Placer placer({PolicyName::kHeddle, std::nullopt, 0});
  ASSERT_TRUE(placer.nodes().add(node(8000, {1000, 600})));
  const std::vector<std::pair<Request, bool>> cases = {
      {{8000, 100 * kGib, 2, 600, {}}, true},
      {{8001, 1, 0, 0, {}}, false},
      {{1, 100 * kGib + 1, 0, 0, {}}, false},
      {{1, 1, 2, 601, {}}, false},
      {{1, 1, 3, 1, {}}, false},
      {{8000, 1, 1, 1000, {}}, true},
      {{0, 0, 0, 0, {}}, true},
      {{1, 1, 1'000'000, 1000, {}}, false},
  };
  for (const auto& [request, fits] : cases) {
    EXPECT_EQ(placer.choose(placer.intern(request)).has_value(), fits) << request.cpu_milli << " " << request.cards;
  }
}

TEST(Placer, SmallPodsGoWhereNothingIsLost) {
  // The mix is half 810 and half 190: a card with 190 left is the place for a 190.
  const Mix mix{{{{1000, kGib, 1, 810, {}}, 50}, {{1000, kGib, 1, 190, {}}, 50}}, 100};
  Placer placer({PolicyName::kHeddle, mix, 0});
  ASSERT_TRUE(placer.nodes().add(node(8000, {1000, 1000})));
  ASSERT_TRUE(placer.nodes().add(node(8000, {1000, 190})));
  EXPECT_EQ(placer.choose(placer.intern({1000, kGib, 1, 190, {}})), (Choice{1, {1}}));
}

TEST(NodeClasses, RefusesWhatIsNotFree) {
  NodeClasses nodes;
  ASSERT_TRUE(nodes.add(node(8000, {1000, 300})));
  const Request share{1000, kGib, 1, 500, {}};
  const std::vector<std::pair<Choice, Code>> cases = {
      {{0, {1}}, Code::kConflict}, {{0, {2}}, Code::kConflict},    {{0, {}}, Code::kConflict},
      {{1, {0}}, Code::kNotFound}, {{0, {0, 1}}, Code::kConflict},
  };
  for (const auto& [choice, code] : cases) {
    const auto taken = nodes.take(choice, share);
    ASSERT_FALSE(taken);
    EXPECT_EQ(taken.error().code, code);
  }
  EXPECT_EQ(nodes.take({0, {0}}, {9000, 0, 1, 500, {}}).error().code, Code::kConflict);
  EXPECT_EQ(nodes.take({0, {0, 0}}, {1, 1, 2, 100, {}}).error().code, Code::kConflict);
  EXPECT_EQ(nodes.give_back({0, {0}}, share).error().code, Code::kConflict) << "would have more than a card free";
  EXPECT_EQ(nodes.node(0), node(8000, {1000, 300})) << "a refusal changes nothing";
  EXPECT_EQ(nodes.add(node(-1, {})).error().code, Code::kInvalidArgument);
  EXPECT_EQ(nodes.add(node(1, {1001})).error().code, Code::kInvalidArgument);
  EXPECT_EQ(nodes.add(node(1, std::vector<uint16_t>(129, 0))).error().code, Code::kInvalidArgument);
}

TEST(NodeClasses, ForgetsARemovedNode) {
  NodeClasses nodes;
  ASSERT_TRUE(nodes.add(node(8000, {1000})));
  ASSERT_TRUE(nodes.remove(0));
  EXPECT_FALSE(nodes.has(0));
  EXPECT_EQ(nodes.remove(0).error().code, Code::kNotFound);
  EXPECT_EQ(nodes.totals().card_milli, 0);
  EXPECT_EQ(nodes.add(node(8000, {1000})).value(), 1U) << "numbers are not used again";
}

// The same decisions, from nothing but the policy and every node looked at.
class Rescan {
 public:
  Rescan(PolicyName name, const std::optional<Mix>& known) : policy_(make_policy(name)), known_(known) {}

  void arrive(RequestId id, const RequestTable& requests, const NodeClasses& nodes) {
    const std::vector<StateNodes> states = nodes.states();
    const Fleet fleet{nodes.totals(), states};
    if (arrivals_ == 0) policy_->learn(known_.value_or(Mix{}), fleet);
    if (learner_.add(id) && !known_) policy_->learn(learner_.mix(requests), fleet);
    if (arrivals_++ % 32 == 0) (void)policy_->observe(fleet);
  }

  std::optional<NodeId> choose(const Request& request, const NodeClasses& nodes) {
    std::optional<NodeId> best;
    int64_t least = 0;
    for (NodeId id = 0; id < nodes.node_count(); ++id) {
      if (!nodes.has(id)) continue;
      Node node = nodes.node(id);
      if (!request.kinds.empty() && std::count(request.kinds.begin(), request.kinds.end(), node.kind) == 0) continue;
      std::sort(node.free_milli.rbegin(), node.free_milli.rend());
      const StateView view{node.cpu_milli, node.memory_bytes, node.free_milli.data(),
                           static_cast<int>(node.free_milli.size()), node.kind};
      if (!fits(view, request)) continue;
      const int64_t cost =
          int64_t{policy_->cheapest(view, policy_->value(view), request).cost} + policy_->kind_cost(node.kind, request);
      if (best && cost >= least) continue;
      best = id;
      least = cost;
    }
    return best;
  }

 private:
  std::unique_ptr<Policy> policy_;
  std::optional<Mix> known_;
  MixLearner learner_;
  int64_t arrivals_ = 0;
};

// A random fleet and a random stream of requests over few shapes, so that classes and mixes repeat.
Node random_node(SeededRandom& random) {
  Node made{static_cast<int64_t>(4 + random.below(3) * 8) * 1000, static_cast<int64_t>(1 + random.below(3)) * 16 * kGib,
            std::vector<uint16_t>(size_t{1} << random.below(4), kWholeCard), static_cast<Kind>(random.below(3))};
  return made;
}

Request random_request(SeededRandom& random) {
  Request request{static_cast<int64_t>(random.below(5)) * 1000, static_cast<int64_t>(random.below(4)) * kGib, 0, 0, {}};
  constexpr std::array<int, 5> kShares = {110, 330, 470, 650, 810};
  switch (random.below(5)) {
    case 0:
      break;
    case 1:
    case 2:
      request.cards = 1;
      request.milli = kShares[random.below(5)];
      break;
    case 3:
      request.cards = 1;
      request.milli = kWholeCard;
      break;
    default:
      request.cards = 1 << random.below(4);
      request.milli = random.below(2) == 0 ? kWholeCard : 500;
  }
  if (random.below(4) == 0) request.kinds = {static_cast<Kind>(random.below(3))};
  return request;
}

int64_t events() {
  const char* text = std::getenv("HEDDLE_PLACEMENT_EVENTS");  // make soak asks for more
  return text != nullptr ? std::strtoll(text, nullptr, 10) : 6000;
}

struct Held {
  RequestId request = 0;
  Choice choice;
};

class RandomHistory : public testing::TestWithParam<std::tuple<PolicyName, bool>> {};

// No card is ever over-allocated (take() would refuse), what is free is what was never granted, the incremental
// decisions are those of a full rescan, and a second run decides the same.
TEST_P(RandomHistory, DecidesAsAFullRescanDoes) {
  const auto [name, is_known] = GetParam();
  const int64_t count = events() / 6;
  std::vector<std::vector<Choice>> runs(2);
  for (std::vector<Choice>& run : runs) {
    SeededRandom random(11);
    std::optional<Mix> known;
    if (is_known) {
      known = Mix{};
      for (int i = 0; i < 40; ++i)
        known->classes.push_back({random_request(random), static_cast<int64_t>(1 + random.below(9))});
      for (const MixClass& entry : known->classes) known->total += entry.weight;
    }
    Placer placer({name, known, 5});
    Rescan rescan(name, known);
    RequestTable requests;
    for (int i = 0; i < 40; ++i) ASSERT_TRUE(placer.nodes().add(random_node(random)));
    std::vector<Held> held;
    std::vector<Node> empty_nodes;
    empty_nodes.reserve(40);
    for (NodeId id = 0; id < 40; ++id) empty_nodes.push_back(placer.nodes().node(id));
    for (int64_t event = 0; event < count; ++event) {
      if (random.below(5) < 2 && !held.empty()) {
        const size_t at = random.below(held.size());
        ASSERT_TRUE(placer.give_back(held[at].request, held[at].choice));
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
        continue;
      }
      const Request request = random_request(random);
      const RequestId id = placer.intern(request);
      ASSERT_EQ(requests.intern(request), id);
      rescan.arrive(id, requests, placer.nodes());
      placer.arrive(id);
      const auto choice = placer.choose(id);
      const auto expected = rescan.choose(request, placer.nodes());
      ASSERT_EQ(choice.has_value(), expected.has_value()) << "event " << event;
      if (!choice) continue;
      if (name != PolicyName::kRandom) {
        ASSERT_EQ(choice->node, *expected) << "event " << event;
      }
      ASSERT_TRUE(placer.take(id, *choice)) << "event " << event;
      held.push_back({id, *choice});
      run.push_back(*choice);
    }
    for (const Held& grant : held) ASSERT_TRUE(placer.give_back(grant.request, grant.choice));
    for (NodeId id = 0; id < 40; ++id) EXPECT_EQ(placer.nodes().node(id), empty_nodes[id]);
  }
  EXPECT_EQ(runs[0], runs[1]);
}

INSTANTIATE_TEST_SUITE_P(Policies, RandomHistory,
                         testing::Combine(testing::Values(PolicyName::kHeddle, PolicyName::kFgd, PolicyName::kBestFit,
                                                          PolicyName::kRandom),
                                          testing::Bool()));

}  // namespace
}  // namespace heddle::placement
