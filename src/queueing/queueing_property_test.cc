// Random histories: quota, conservation, the same decisions for the same input, and the bound of starvation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/random.h"
#include "queueing/queueing.h"

namespace heddle::queueing {
namespace {

constexpr int64_t kCard = 1000;
constexpr int64_t kLongest = 20;  // seconds that anything runs
constexpr int64_t kPatience = 30;
constexpr int64_t kMostOfALeaf = 12;  // cards, where it has a limit of all

Time at(int64_t seconds) {
  return Time{seconds * 1'000'000'000};
}

struct Job {
  std::string queue;
  std::map<std::string, int64_t> cards;  // by model
  int64_t submitted = 0;
  int64_t runs = 0;
  bool declared = false;
  bool guaranteed = false;  // its demand is within its leaf's guarantee
  bool growth = false;      // what an elastic gang has beyond its minimum
  std::string lost;         // the model of a member that died and was not replaced
  int64_t started = -1;
  int64_t starving_before = -1;  // those that came before it, at the moment when it began to starve
};

// kStreams: little else comes, and in some leaves single cards as fast as the leaf's guarantee takes them, so that
// large work of the same leaf finds it free at no moment.
enum class Load { kHeavy, kStreams };

// A fleet of two models, without shape: what fits is a matter of counts.
class World {
 public:
  explicit World(uint64_t seed, Load load = Load::kHeavy) : random_(seed), load_(load) {
    for (const char* model : {"x", "y"}) room_[model] = 4 + below(13);
    Config config;
    config.half_life = Duration::seconds(60);
    config.patience = Duration::seconds(kPatience);
    config.meters = {meter(""), meter("x"), meter("y")};
    config.queues.push_back({.name = "root", .parent = "", .weight = 1, .quotas = {}});
    for (const char* model : {"x", "y"}) {
      config.queues[0].quotas[model].guaranteed = room_[model] * kCard;
      left_[model] = room_[model];
    }
    for (const char* inner : {"p", "q"}) {
      QueueSpec spec{.name = inner, .parent = "root", .weight = 1 + static_cast<int64_t>(below(4)), .quotas = {}};
      std::map<std::string, int64_t> mine;
      for (const char* model : {"x", "y"}) {
        mine[model] = below(left_[model] + 1);
        left_[model] -= mine[model];
        spec.quotas[model].guaranteed = mine[model] * kCard;
      }
      config.queues.push_back(spec);
      for (int i = 0; i < 2; ++i) config.queues.push_back(leaf(inner, i, mine));
    }
    auto made = Queues::make(config);
    EXPECT_TRUE(made.has_value()) << made.error().text();
    queues_.emplace(*std::move(made));
  }

  void run(int64_t seconds) {
    for (now_ = 0; now_ < seconds; ++now_) {
      finish();
      replace_members();
      if (now_ < seconds - 40 * kLongest) come();  // at last everything that can start does
      pass();
      EXPECT_THAT(queues_->violations(), testing::ElementsAre());
      note_starving();
    }
  }

  void check_starvation() const {
    for (const auto& [id, job] : jobs_) {
      if (!job.guaranteed) continue;
      ASSERT_GE(job.started, 0) << id << " never started";
      const int64_t before = std::max<int64_t>(job.starving_before, 0);
      EXPECT_LE(job.started - job.submitted, kPatience + 2 * (before + 1) * (kLongest + 1)) << id;
    }
  }

  [[nodiscard]] const std::string& log() const { return log_; }
  [[nodiscard]] size_t started() const { return started_; }
  [[nodiscard]] size_t replaced() const { return replaced_; }
  [[nodiscard]] int64_t most_starving() const { return most_starving_; }
  // Starved, within their leaf's guarantee.
  [[nodiscard]] int64_t starved() const {
    return std::count_if(jobs_.begin(), jobs_.end(), [](const auto& entry) {
      return entry.second.guaranteed && entry.second.starving_before >= 0;
    });
  }
  [[nodiscard]] const Queues& queues() const { return *queues_; }

 private:
  int64_t below(int64_t bound) { return static_cast<int64_t>(random_.below(static_cast<uint64_t>(bound))); }

  static Meter meter(const std::string& model) {
    return {.name = model.empty() ? "all" : model,
            .kind = Meter::Kind::kDevices,
            .device_class = {},
            .vendor = {},
            .model = model,
            .shape = {}};
  }

  QueueSpec leaf(const std::string& inner, int i, std::map<std::string, int64_t>& left) {
    QueueSpec spec{.name = inner + std::to_string(i), .parent = inner, .weight = 1 + below(4), .quotas = {}};
    for (auto& [model, amount] : left) {
      const int64_t mine = below(amount + 1);
      amount -= mine;
      guaranteed_[spec.name][model] = mine;
      Quota& quota = spec.quotas[model];
      quota.guaranteed = mine * kCard;
      if (below(3) == 0) quota.limit = (mine + below(5)) * kCard;
      if (below(3) == 0) quota.borrowing = below(6) * kCard;
      if (below(3) == 0) quota.lending = below(mine + 1) * kCard;
    }
    if (below(3) == 0) spec.quotas["all"].limit = kMostOfALeaf * kCard;
    leaves_.push_back(spec.name);
    return spec;
  }

  void come() {
    if (load_ == Load::kHeavy) {
      for (int64_t n = below(3); n > 0; --n) submit(some_job());
      return;
    }
    if (below(16) == 0) submit(some_job());
    for (const std::string& leaf : leaves_) {
      for (const auto& [model, count] : guaranteed_[leaf]) {
        if (count < 2) continue;
        if (below(120) == 0) submit(single_kind(leaf, model, count, 1 + below(kLongest)));
        if (now_ % ((kLongest + count - 1) / count) == 0) submit(single_kind(leaf, model, 1, kLongest));
      }
    }
  }

  [[nodiscard]] Job single_kind(const std::string& leaf, const std::string& model, int64_t count, int64_t runs) {
    Job job;
    job.queue = leaf;
    job.cards[model] = count;
    job.submitted = now_;
    job.runs = runs;
    job.declared = below(2) == 0;
    job.guaranteed = count <= kMostOfALeaf;
    return job;
  }

  Job some_job() {
    Job job;
    job.queue = leaves_[static_cast<size_t>(below(static_cast<int64_t>(leaves_.size())))];
    job.cards[below(2) == 0 ? "x" : "y"] = 1 + below(6);
    if (below(8) == 0) job.cards[below(2) == 0 ? "x" : "y"] = 1 + below(3);
    job.submitted = now_;
    job.runs = 1 + below(kLongest);
    job.declared = below(2) == 0;
    job.guaranteed = std::accumulate(job.cards.begin(), job.cards.end(), int64_t{0},
                                     [](int64_t sum, const auto& entry) { return sum + entry.second; }) <= kMostOfALeaf;
    job.growth = below(10) == 0;
    job.guaranteed = job.guaranteed && !job.growth;
    for (const auto& [model, count] : job.cards) {
      job.guaranteed = job.guaranteed && count <= guaranteed_[job.queue][model];
    }
    return job;
  }

  void submit(const Job& job) {
    Workload workload{.id = "j" + std::to_string(jobs_.size()),
                      .queue = job.queue,
                      .priority = static_cast<int32_t>(below(3)),
                      .submitted = at(now_),
                      .portions = portions_of(job),
                      .runtime = {},
                      .reservation = {},
                      .growth = job.growth};
    if (job.declared) workload.runtime = Duration::seconds(job.runs);
    jobs_.emplace(workload.id, job);
    EXPECT_TRUE(queues_->submit(std::move(workload), at(now_)).has_value());
  }

  static std::vector<Portion> portions_of(const Job& job) {
    std::vector<Portion> portions;
    for (const auto& [model, count] : job.cards) {
      Portion portion;
      portion.model = model;
      portion.milli_devices = count * kCard;
      portions.push_back(portion);
    }
    return portions;
  }

  // Members of what runs die, and others come in their place when there is room and quota for them.
  void replace_members() {
    for (const std::string& id : running_) {
      Job& job = jobs_.at(id);
      if (job.lost.empty()) {
        const auto [model, count] = *job.cards.begin();
        if (count < 2 || below(12) != 0) continue;
        job.lost = model;
        --job.cards[model];
        ++room_[model];
        queues_->revise(id, portions_of(job), at(now_));
        continue;
      }
      if (room_[job.lost] == 0 || below(3) != 0) continue;
      Job whole = job;
      ++whole.cards[job.lost];
      const bool refused = queues_->refusal_of(id, portions_of(whole), at(now_)).has_value();
      log_ += id + (refused ? "- " : "+ ");
      if (refused) continue;
      --room_[job.lost];
      whole.lost.clear();
      job = whole;
      queues_->revise(id, portions_of(job), at(now_));
      ++replaced_;
    }
  }

  void finish() {
    for (auto it = running_.begin(); it != running_.end();) {
      Job& job = jobs_.at(*it);
      if (job.started + job.runs > now_) {
        ++it;
        continue;
      }
      for (const auto& [model, count] : job.cards) room_[model] += count;
      queues_->remove(*it, at(now_));
      it = running_.erase(it);
    }
  }

  [[nodiscard]] bool fits(const Job& job) const {
    return std::all_of(job.cards.begin(), job.cards.end(),
                       [&](const auto& entry) { return entry.second <= room_.at(entry.first); });
  }

  void pass() {
    auto pass = queues_->pass(at(now_));
    while (const auto offer = pass.next()) {
      Job& job = jobs_.at(offer->id);
      if (!fits(job)) {
        pass.refused({});
        continue;
      }
      for (const auto& [model, count] : job.cards) room_[model] -= count;
      job.started = now_;
      running_.push_back(offer->id);
      queues_->start(offer->id, at(now_));
      EXPECT_FALSE(offer->entitled && job.growth) << offer->id;
      log_ += offer->id + "@" + std::to_string(now_) + (offer->entitled ? "e " : "b ");
      ++started_;
    }
  }

  void note_starving() {
    const auto starves = [&](const Job& job) { return job.started < 0 && now_ - job.submitted >= kPatience; };
    std::set<std::pair<int64_t, std::string>> order;
    for (const auto& [id, job] : jobs_) {
      if (starves(job)) order.emplace(job.submitted, id);
    }
    int64_t before = 0;
    for (const auto& [submitted, id] : order) {
      Job& job = jobs_.at(id);
      if (job.starving_before < 0) job.starving_before = before;
      ++before;
    }
    most_starving_ = std::max(most_starving_, before);
  }

  SeededRandom random_;
  Load load_;
  std::map<std::string, int64_t> room_;
  std::map<std::string, int64_t> left_;
  std::map<std::string, std::map<std::string, int64_t>> guaranteed_;
  std::vector<std::string> leaves_;
  std::optional<Queues> queues_;
  std::map<std::string, Job> jobs_;
  std::vector<std::string> running_;
  std::string log_;
  size_t started_ = 0;
  size_t replaced_ = 0;
  int64_t most_starving_ = 0;
  int64_t now_ = 0;
};

TEST(QueuesPropertyTest, QuotaHoldsAndNothingStarves) {
  size_t started = 0;
  size_t replaced = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    World world(seed);
    world.run(1200);
    world.check_starvation();
    started += world.started();
    replaced += world.replaced();
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(started, 5000U);
  EXPECT_GT(replaced, 500U);
}

// Few starve at a time, so that the bound is no matter of how much waits.
TEST(QueuesPropertyTest, StreamsOfSmallWorkDoNotKeepLargeWorkFromItsGuarantee) {
  int64_t starved = 0;
  for (uint64_t seed = 1; seed <= 16; ++seed) {
    SCOPED_TRACE(seed);
    World world(seed, Load::kStreams);
    world.run(1600);
    world.check_starvation();
    starved += world.starved();
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(starved, 200);
}

TEST(QueuesPropertyTest, TheSameInputGivesTheSameDecisions) {
  World a(7);
  World b(7);
  a.run(1200);
  b.run(1200);
  EXPECT_GT(a.started(), 50U);
  EXPECT_EQ(a.log(), b.log());
  EXPECT_EQ(a.queues().past(at(1200)), b.queues().past(at(1200)));
}

TEST(QueuesPropertyTest, WhatQueuesUsedIsWhatTheirParentUsed) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    World world(seed);
    world.run(1200);
    const auto past = world.queues().past(at(1200));
    for (const char* parent : {"p", "q"}) {
      const std::string name = parent;
      const auto parts = past.at(name + "0").milli_device_seconds + past.at(name + "1").milli_device_seconds;
      EXPECT_NEAR(static_cast<double>(past.at(name).milli_device_seconds), static_cast<double>(parts), 200) << seed;
    }
  }
}

}  // namespace
}  // namespace heddle::queueing
