// Every order of events of small worlds: decisions come to an end, quota holds on the way, and where they end nobody
// waits who could take back what is its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "queueing/preemption.h"

namespace heddle::queueing {
namespace {

constexpr int64_t kCard = 1000;
constexpr int64_t kSites = 2;
constexpr int64_t kCardsASite = 2;

struct Job {
  std::string queue;
  int64_t cards = 1;
  int32_t priority = 0;
};

struct Scene {
  std::map<std::string, int64_t> guaranteed;
  std::vector<Job> jobs;
};

// What can happen: a decision of ours; a victim goes; a victim is refused; a job ends; a job arrives.
struct Event {
  enum class Kind { kDecide, kGone, kRefuse, kEnd, kArrive } kind = Kind::kDecide;
  std::string id;
};

class World final : public FitOracle {
 public:
  explicit World(const Scene& setup) : setup_(setup) {
    Config config;
    config.patience = std::nullopt;
    config.meters = {
        {.name = "cards", .kind = Meter::Kind::kDevices, .device_class = {}, .vendor = {}, .model = {}, .shape = {}}};
    config.queues = {{.name = "root", .parent = "", .weight = 1, .quotas = {}}};
    config.queues[0].quotas["cards"].guaranteed = kSites * kCardsASite * kCard;
    for (const auto& [name, cards] : setup.guaranteed) {
      config.queues.push_back({.name = name, .parent = "root", .weight = 1, .quotas = {}});
      config.queues.back().quotas["cards"].guaranteed = cards * kCard;
    }
    queues_.emplace(Queues::make(std::move(config)).value());
    preemptions_.emplace(*queues_);
  }

  // Whether anything happened.
  bool apply(const Event& event) {
    now_ = now_ + Duration::seconds(1);
    switch (event.kind) {
      case Event::Kind::kDecide:
        return decide();
      case Event::Kind::kGone:
        site_.erase(event.id);
        for (const std::string& ready : preemptions_->gone(event.id, now_)) start(ready);
        break;
      case Event::Kind::kRefuse:
        refused_.insert(event.id);
        for (const auto& id : held()) {
          const auto& victims = preemptions_->under_way().at(id).victims;
          if (std::find(victims.begin(), victims.end(), event.id) != victims.end()) site_.erase(id);
        }
        preemptions_->refuse(event.id, now_);
        break;
      case Event::Kind::kEnd:
        site_.erase(event.id);
        preemptions_->remove(event.id);
        queues_->remove(event.id, now_);
        break;
      case Event::Kind::kArrive: {
        const Job& job = setup_.jobs[static_cast<size_t>(event.id[1] - '0')];
        Portion portion;
        portion.milli_devices = job.cards * kCard;
        EXPECT_TRUE(queues_
                        ->submit({.id = event.id,
                                  .queue = job.queue,
                                  .priority = job.priority,
                                  .submitted = now_,
                                  .portions = {portion},
                                  .runtime = {},
                                  .reservation = {}},
                                 now_)
                        .has_value());
        break;
      }
    }
    return true;
  }

  [[nodiscard]] std::vector<std::string> in(Phase phase) const {
    std::vector<std::string> ids;
    for (size_t j = 0; j < setup_.jobs.size(); ++j) {
      if (queues_->phase(id_of(j)) == phase) ids.push_back(id_of(j));
    }
    return ids;
  }
  [[nodiscard]] std::vector<std::string> held() const { return in(Phase::kHeld); }
  [[nodiscard]] static std::string id_of(size_t job) { return "j" + std::to_string(job); }

  // What decisions depend on, apart from the time.
  [[nodiscard]] std::string state() const {
    std::string out;
    for (size_t j = 0; j < setup_.jobs.size(); ++j) {
      const std::string id = id_of(j);
      const auto phase = queues_->phase(id);
      out += phase ? std::to_string(static_cast<int>(*phase)) : "-";
      out += site_.contains(id) ? site_.at(id) : "?";
      out += queues_->entitled(id) ? "e " : "b ";
    }
    return out;
  }

  void check() const { EXPECT_THAT(queues_->violations(), testing::ElementsAre()); }

  // Nothing is under way, and nothing can be decided: then no entitled job waits that could have a site.
  void check_end() {
    for (const std::string& id : in(Phase::kWaiting)) {
      if (!queues_->would_be_entitled(id)) continue;
      const Job& job = job_of(id);
      for (int64_t s = 0; s < kSites; ++s) {
        int64_t free = kCardsASite;
        for (const auto& [other, site] : site_) {
          const bool takes = queues_->entitled(other) || job_of(other).queue == job.queue || refused_.contains(other);
          if (site == name_of(s) && takes) free -= job_of(other).cards;
        }
        EXPECT_LT(free, job.cards) << id << " waits while others borrow at " << name_of(s) << ": " << state();
      }
    }
  }

  [[nodiscard]] bool single_site() const override { return true; }
  [[nodiscard]] bool fits(const std::string& site, const std::vector<const Victim*>& gone) override {
    int64_t free = free_at(site);
    for (const Victim* victim : gone) free += victim->cost / kCard;
    return free >= needs_;
  }

 private:
  [[nodiscard]] static std::string name_of(int64_t site) { return "n" + std::to_string(site); }
  [[nodiscard]] const Job& job_of(const std::string& id) const { return setup_.jobs[static_cast<size_t>(id[1] - '0')]; }
  [[nodiscard]] int64_t free_at(const std::string& site) const {
    int64_t free = kCardsASite;
    for (const auto& [id, where] : site_) free -= where == site ? job_of(id).cards : 0;
    return free;
  }

  void start(const std::string& id) {
    queues_->start(id, now_);
    preemptions_->upsert(
        {id, job_of(id).queue, job_of(id).priority, now_, job_of(id).cards * kCard, site_.at(id), false});
  }

  bool decide() {
    auto pass = queues_->pass(now_);
    while (const auto offer = pass.next()) {
      for (int64_t s = 0; s < kSites; ++s) {
        if (free_at(name_of(s)) < job_of(offer->id).cards) continue;
        site_[offer->id] = name_of(s);
        start(offer->id);
        return true;
      }
      pass.refused({});
    }
    for (const std::string& id : in(Phase::kWaiting)) {
      needs_ = job_of(id).cards;
      const auto answer = preemptions_->plan(id, now_, *this, refused_);
      if (!answer.eviction) continue;
      preemptions_->begin(*answer.eviction, now_);
      site_[id] = answer.eviction->site;
      return true;
    }
    return false;
  }

  const Scene& setup_;
  std::optional<Queues> queues_;
  std::optional<Preemptions> preemptions_;
  std::map<std::string, std::string> site_;  // of what runs, leaves or is held
  std::set<std::string> refused_;
  int64_t needs_ = 0;
  Time now_{1};
};

class Walk {
 public:
  explicit Walk(const Scene& setup) : setup_(setup) {}

  // outside: how many jobs may still end, and how many victims may still be refused.
  void explore(std::vector<Event> events, int outside, int refusals, std::set<std::string> decided) {
    if (testing::Test::HasFailure()) return;
    ++steps_;
    ASSERT_LT(events.size(), 60U) << "decisions do not end";
    World world(setup_);
    for (const Event& event : events) world.apply(event);
    world.check();
    const std::string state = world.state();
    ASSERT_TRUE(decided.insert(state).second) << "decisions come back to " << state;
    if (!seen_.insert(state + "/" + std::to_string(outside) + "/" + std::to_string(refusals) + refused_of(events))
             .second)
      return;
    const auto then = [&](Event event, int ends, int refused, const std::set<std::string>& path) {
      std::vector<Event> longer = events;
      longer.push_back(std::move(event));
      explore(std::move(longer), ends, refused, path);
    };
    const auto leaving = world.in(Phase::kLeaving);
    for (const std::string& id : leaving) {
      then({Event::Kind::kGone, id}, outside, refusals, decided);
      if (refusals > 0) then({Event::Kind::kRefuse, id}, outside, refusals - 1, {});
    }
    if (outside > 0) {
      for (const std::string& id : world.in(Phase::kRunning)) then({Event::Kind::kEnd, id}, outside - 1, refusals, {});
    }
    const bool acted = world.apply({Event::Kind::kDecide, ""});
    if (acted) {
      then({Event::Kind::kDecide, ""}, outside, refusals, decided);
    } else if (leaving.empty()) {
      world.check_end();
      ++ends_;
    }
  }

  [[nodiscard]] int64_t steps() const { return steps_; }
  [[nodiscard]] int64_t ends() const { return ends_; }

 private:
  static std::string refused_of(const std::vector<Event>& events) {
    std::set<std::string> refused;
    for (const Event& event : events) {
      if (event.kind == Event::Kind::kRefuse) refused.insert(event.id);
    }
    std::string out;
    for (const std::string& id : refused) out += id;
    return out;
  }

  const Scene& setup_;
  std::set<std::string> seen_;
  int64_t steps_ = 0;
  int64_t ends_ = 0;
};

TEST(PreemptionModelTest, EveryOrderOfEventsEnds) {
  int64_t steps = 0;
  int64_t ends = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(seed);
    Scene setup;
    const auto total = kSites * kCardsASite;
    setup.guaranteed["a"] = static_cast<int64_t>(random.below(static_cast<uint64_t>(total) + 1));
    setup.guaranteed["b"] =
        static_cast<int64_t>(random.below(static_cast<uint64_t>(total - setup.guaranteed["a"]) + 1));
    setup.guaranteed["c"] = total - setup.guaranteed["a"] - setup.guaranteed["b"];
    std::vector<Event> arrivals;
    for (size_t j = 0; j < 5; ++j) {
      static const char* const kQueues[] = {"a", "b", "c"};
      setup.jobs.push_back(
          {kQueues[random.below(3)], 1 + static_cast<int64_t>(random.below(2)), static_cast<int32_t>(random.below(3))});
      arrivals.push_back({Event::Kind::kArrive, World::id_of(j)});
      // Some are placed before the others come.
      for (uint64_t n = random.below(3); n > 0; --n) arrivals.push_back({Event::Kind::kDecide, ""});
    }
    Walk walk(setup);
    walk.explore(arrivals, 1, 1, {});
    steps += walk.steps();
    ends += walk.ends();
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(steps, 3000);
  EXPECT_GT(ends, 300);
}

}  // namespace
}  // namespace heddle::queueing
