// The policies that others use, to be compared with.
#include <algorithm>
#include <cmath>

#include "placement/fragmentation.h"
#include "placement/heddle_policy.h"
#include "placement/policy.h"
#include "placement/ways.h"

namespace heddle::placement {
namespace {

int64_t total_of(const StateView& state) {
  int64_t total = 0;
  for (int i = 0; i < state.count; ++i) total += state.cards[i];
  return total;
}

// Fragmentation gradient descent as its authors' simulator scores it: the classes that make 95 % of the mix, no memory,
// the change of fragmentation through a sigmoid to a whole number from 0 to 100.
class FgdPolicy final : public Policy {
 public:
  void learn(const Mix& mix, const Fleet& /*fleet*/) override {
    Mix typical = most_frequent(mix, 95);
    weight_without_cards_ = 0;
    for (MixClass& entry : typical.classes) {
      entry.request.memory_bytes = 0;
      if (entry.request.cards == 0) weight_without_cards_ += entry.weight;
    }
    fragmentation_ = Fragmentation(typical);
    total_weight_ = std::max<int64_t>(1, typical.total);
  }
  int observe(const Fleet& /*fleet*/) override { return kNoState; }

  int64_t value(const StateView& state) override {
    const int64_t total = total_of(state);
    const auto room = fragmentation_.room(state.kind, state.cpu_milli, state.memory_bytes);
    return weighted(room, state.cards, state.count, total);
  }

  Way cheapest(const StateView& state, int64_t value, const Request& request) override {
    const int64_t total = total_of(state) - request.card_milli();
    const auto room = fragmentation_.room(state.kind, state.cpu_milli - request.cpu_milli, state.memory_bytes);
    if (request.cards == 0) return {cost(value, weighted(room, state.cards, state.count, total)), 0};
    Way best;
    Cards left;
    for (int way = next_way(state, request, -1); way >= 0; way = next_way(state, request, way)) {
      take_way(state, request, way, left);
      const Cost found = cost(value, weighted(room, left.milli.data(), left.count, total));
      if (found < best.cost) best = {found, way};
    }
    return best;
  }

  [[nodiscard]] Cost kind_cost(Kind /*kind*/, const Request& /*request*/) const override { return 0; }

 private:
  // Pods without cards can use none of them.
  [[nodiscard]] int64_t weighted(Fragmentation::Room room, const uint16_t* cards, int count, int64_t total) const {
    return fragmentation_.weighted(room, cards, count, total) + weight_without_cards_ * total;
  }
  [[nodiscard]] Cost cost(int64_t before, int64_t after) const {
    const double gain = static_cast<double>(before - after) / static_cast<double>(total_weight_) / 1000;
    return 100 - static_cast<Cost>(100 / (1 + std::exp(-gain)));
  }

  Fragmentation fragmentation_;
  int64_t total_weight_ = 1;
  int64_t weight_without_cards_ = 0;
};

// Least free CPU and free cards afterwards, each as a part of the largest node's; on the tightest card.
class BestFitPolicy final : public Policy {
 public:
  void learn(const Mix& /*mix*/, const Fleet& fleet) override { totals_ = fleet.totals; }
  int observe(const Fleet& /*fleet*/) override { return kNoState; }
  int64_t value(const StateView& /*state*/) override { return 0; }

  Way cheapest(const StateView& state, int64_t /*value*/, const Request& request) override {
    const int64_t cards = total_of(state) - request.card_milli();
    const int64_t cpu = state.cpu_milli - request.cpu_milli;
    Way best{part(cards, totals_.largest_card_milli) + part(cpu, totals_.largest_cpu_milli), 0};
    if (request.cards == 0) return best;
    for (int way = next_way(state, request, -1); way >= 0; way = next_way(state, request, way)) best.first = way;
    return best;
  }

  [[nodiscard]] Cost kind_cost(Kind /*kind*/, const Request& /*request*/) const override { return 0; }
  [[nodiscard]] Cost alike() const override { return part(kAlikeMilli, totals_.largest_card_milli); }

 private:
  static Cost part(int64_t amount, int64_t largest) {
    return largest > 0 ? static_cast<Cost>(amount * (1 << 24) / largest) : 0;
  }

  FleetTotals totals_;
};

// Every node costs the same; the caller draws.
class RandomPolicy final : public Policy {
 public:
  void learn(const Mix& /*mix*/, const Fleet& /*fleet*/) override {}
  int observe(const Fleet& /*fleet*/) override { return kNoState; }
  int64_t value(const StateView& /*state*/) override { return 0; }
  Way cheapest(const StateView& /*state*/, int64_t /*value*/, const Request& /*request*/) override { return {0, 0}; }
  [[nodiscard]] Cost kind_cost(Kind /*kind*/, const Request& /*request*/) const override { return 0; }
};

}  // namespace

std::unique_ptr<Policy> make_policy(PolicyName name) {
  switch (name) {
    case PolicyName::kHeddle:
      return std::make_unique<HeddlePolicy>();
    case PolicyName::kFgd:
      return std::make_unique<FgdPolicy>();
    case PolicyName::kBestFit:
      return std::make_unique<BestFitPolicy>();
    case PolicyName::kRandom:
      return std::make_unique<RandomPolicy>();
  }
  return nullptr;
}

}  // namespace heddle::placement
