// Random histories of a small fleet, checked after each step against what must always hold. The seed is printed on
// failure; HEDDLE_SEED runs one seed alone.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <map>
#include <set>

#include "engine/engine.h"
#include "engine/test_fleet.h"

namespace heddle::engine {
namespace {

using test::kMiB;

constexpr int kNodes = 4;
constexpr int kCards = 3;
constexpr int64_t kMemory = 8000 * kMiB;

struct Live {
  ClaimRequest claim;
  model::Allocation allocation;
};

// What a history does, recorded so that two runs can be compared byte by byte.
class History {
 public:
  History(uint64_t seed, model::PlacementPolicy policy) : random_(seed), shares_(seed + 1), policy_(policy) {
    state_.upsert_class(test::make_class());
    for (int i = 0; i < kNodes; ++i) add_node(i);
  }

  void run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      step(i);
      check();
    }
  }

  [[nodiscard]] const std::string& log() const { return log_; }

 private:
  static std::string name_of(int node) { return "node-" + std::to_string(node); }

  void add_node(int node) {
    state_.upsert_node(test::make_node(name_of(node)));
    state_.upsert_slice(test::make_slice(name_of(node), kCards, kMemory));
    missing_.erase(name_of(node));
  }

  void step(int number) {
    const uint64_t what = random_.below(20);
    if (what < 12) return place(number);
    if (what < 17) return end_one();
    const int node = static_cast<int>(random_.below(kNodes));
    if (what == 17) {
      state_.remove_slice(name_of(node) + "-heddle-nvidia-0");
      missing_.insert(name_of(node));
      log_ += "slice gone " + name_of(node) + "\n";
    } else if (what == 18) {
      state_.remove_node(name_of(node));
      missing_.insert(name_of(node));
      log_ += "node gone " + name_of(node) + "\n";
    } else {
      add_node(node);
      log_ += "back " + name_of(node) + "\n";
    }
  }

  ClaimRequest random_claim(const std::string& key) {
    test::Ask ask;
    ask.count = random_.below(5) == 0 ? 2 : 1;
    const uint64_t kind = random_.below(5);
    if (kind == 0) return test::make_claim(key, ask);
    const int64_t cores[] = {0, 10, 30, 50, 99, 100};
    ask.cores = std::to_string(cores[random_.below(6)]);
    if (kind == 1) {
      ask.memory_percent = static_cast<int64_t>(random_.below(100)) + 1;
    } else {
      ask.memory = std::to_string(random_.below(8200) + 1) + "Mi";
    }
    return test::make_claim(key, ask);
  }

  void place(int number) {
    PlacementRequest request;
    request.policy = policy_;
    const size_t claims = random_.below(4) == 0 ? 2 : 1;
    for (size_t i = 0; i < claims; ++i) {
      request.claims.push_back(random_claim("ns/p" + std::to_string(number) + "-" + std::to_string(i)));
    }
    if (random_.below(2) == 0) state_.arrive(request);
    const auto outcome = state_.place(request, shares_);
    ASSERT_TRUE(outcome.has_value()) << outcome.error().text();
    if (const auto* waiting = std::get_if<Waiting>(&*outcome)) return log_reasons("waiting", waiting->reasons);
    if (const auto* infeasible = std::get_if<Infeasible>(&*outcome))
      return log_reasons("infeasible", infeasible->reasons);
    const auto& assigned = std::get<Assigned>(*outcome);
    ASSERT_FALSE(missing_.contains(assigned.node)) << assigned.node << " is not there";
    ASSERT_EQ(assigned.allocations.size(), request.claims.size());
    for (size_t i = 0; i < claims; ++i) {
      const model::Allocation& allocation = assigned.allocations[i];
      const auto& exactly = *request.claims[i].spec.requests[0].exactly;
      ASSERT_EQ(static_cast<int64_t>(allocation.results.size()), exactly.count.value_or(1));
      ASSERT_EQ(model::allocated_node(allocation), assigned.node);
      log_ += codec::allocation_json(allocation) + "\n";
      state_.upsert_claim(test::granted(request.claims[i], allocation));
      live_[request.claims[i].uid] = {request.claims[i], allocation};
    }
  }

  void log_reasons(const char* kind, const std::vector<Reason>& reasons) {
    ASSERT_FALSE(reasons.empty()) << "an outcome without a reason";
    for (const Reason& reason : reasons) {
      ASSERT_FALSE(reason.message.empty());
      log_ += std::string(kind) + " " + reason.code + ": " + reason.message + "\n";
    }
  }

  void end_one() {
    if (live_.empty()) return;
    auto victim = live_.begin();
    std::advance(victim, static_cast<int64_t>(random_.below(live_.size())));
    log_ += "end " + victim->first + "\n";
    if (random_.below(2) == 0) {
      state_.remove_claim(victim->first);
    } else {
      model::ResourceClaim cleared = test::granted(victim->second.claim, {});
      cleared.allocation.reset();
      state_.upsert_claim(cleared);
    }
    live_.erase(victim);
  }

  // Counted from the grants themselves, not from what the engine believes.
  void check() {
    struct Sum {
      int64_t memory = 0;
      int64_t cores = 0;
      int holders = 0;
      int alone = 0;
    };
    std::map<DeviceKey, Sum> sums;
    for (const auto& [uid, live] : live_) {
      std::set<DeviceKey> own;
      for (const model::DeviceResult& result : live.allocation.results) {
        const DeviceKey key{result.driver, result.pool, result.device};
        EXPECT_TRUE(own.insert(key).second) << "one claim has a card twice";
        EXPECT_FALSE(result.share_id.empty());
        Sum& sum = sums[key];
        const int64_t memory = result.consumed_capacity.at("memory").value().value();
        const int64_t cores = result.consumed_capacity.at("cores").value().value();
        EXPECT_EQ(memory % kMiB, 0);
        EXPECT_GT(memory, 0);
        sum.memory += memory;
        sum.cores += cores;
        ++sum.holders;
        sum.alone += cores == 100 ? 1 : 0;
      }
    }
    for (const auto& [key, sum] : sums) {
      EXPECT_LE(sum.memory, kMemory) << key.pool << "/" << key.device;
      EXPECT_LE(sum.cores, 100) << key.pool << "/" << key.device;
      EXPECT_TRUE(sum.alone == 0 || sum.holders == 1) << key.pool << "/" << key.device << " is not alone";
    }
    EXPECT_TRUE(state_.over_commits().empty());
    size_t held = 0;
    for (const DeviceUse& use : state_.device_uses()) {
      held += use.holders.empty() ? 0U : 1U;
      const auto sum = sums.find(use.device);
      EXPECT_EQ(use.holders.size(), sum == sums.end() ? 0U : static_cast<size_t>(sum->second.holders));
    }
    EXPECT_EQ(held, sums.size()) << "vanished devices keep their holders";
  }

  SeededRandom random_;
  SeededRandom shares_;
  model::PlacementPolicy policy_;
  State state_;
  std::map<std::string, Live> live_;
  std::set<std::string> missing_;
  std::string log_;
};

TEST(EnginePropertyTest, RandomHistoriesGrantNothingTwiceAndRepeat) {
  const char* one = std::getenv("HEDDLE_SEED");
  const uint64_t first = one == nullptr ? 1 : std::strtoull(one, nullptr, 10);
  const uint64_t last = one == nullptr ? 160 : first;
  constexpr std::array kPolicies = {model::PlacementPolicy::kPacking, model::PlacementPolicy::kBestFit,
                                    model::PlacementPolicy::kSpread, model::PlacementPolicy::kLeastLoaded};
  for (uint64_t seed = first; seed <= last; ++seed) {
    const model::PlacementPolicy policy = kPolicies[seed % kPolicies.size()];
    SCOPED_TRACE("HEDDLE_SEED=" + std::to_string(seed) + " " + std::string(model::policy_name(policy)));
    History history(seed, policy);
    history.run(150);
    if (HasFailure()) return;
    History again(seed, policy);
    again.run(150);
    ASSERT_EQ(history.log(), again.log()) << "the same input gave another output";
  }
}

// A request that waits must start when what the reason names has ended, and an empty fleet must take what is not
// infeasible.
TEST(EnginePropertyTest, WaitingEndsWhenEverythingEnds) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SeededRandom random(seed);
    State state;
    state.upsert_class(test::make_class());
    for (int i = 0; i < 2; ++i) {
      state.upsert_node(test::make_node("node-" + std::to_string(i)));
      state.upsert_slice(test::make_slice("node-" + std::to_string(i), 2, kMemory));
    }
    std::vector<std::string> granted;
    for (int i = 0; i < 40; ++i) {
      const std::string key = "ns/p" + std::to_string(i);
      test::Ask ask{.memory = std::to_string(random.below(9000) + 1) + "Mi",
                    .cores = std::to_string(random.below(101))};
      if (random.below(4) == 0) ask = {.count = static_cast<int64_t>(random.below(3)) + 1};
      PlacementRequest request;
      request.claims.push_back(test::make_claim(key, ask));
      const auto outcome = state.place(request, random);
      ASSERT_TRUE(outcome.has_value());
      if (const auto* assigned = std::get_if<Assigned>(&*outcome)) {
        state.upsert_claim(test::granted(request.claims[0], assigned->allocations[0]));
        granted.push_back(key);
        continue;
      }
      State empty;
      empty.upsert_class(test::make_class());
      for (int j = 0; j < 2; ++j) {
        empty.upsert_node(test::make_node("node-" + std::to_string(j)));
        empty.upsert_slice(test::make_slice("node-" + std::to_string(j), 2, kMemory));
      }
      const bool fits_empty = std::holds_alternative<Assigned>(empty.place(request, random).value());
      EXPECT_EQ(std::holds_alternative<Waiting>(*outcome), fits_empty) << key;
      if (const auto* waiting = std::get_if<Waiting>(&*outcome)) {
        const std::string& message = waiting->reasons.at(0).message;
        const size_t named = message.find("; fits when ");
        ASSERT_NE(named, std::string::npos) << message;
        const std::string rest = message.substr(named + 12);
        if (!rest.ends_with(" ends")) continue;
        const std::string holder = rest.substr(0, rest.size() - 5);
        state.remove_claim(holder);
        std::erase(granted, holder);
        EXPECT_TRUE(std::holds_alternative<Assigned>(state.place(request, random).value())) << message;
      }
    }
  }
}

}  // namespace
}  // namespace heddle::engine
