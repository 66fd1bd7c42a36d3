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
struct Job {
  std::string queue;
  int64_t cards = 1;
  int32_t priority = 0;
  bool gang = false;    // its cards may be at several sites
  bool growth = false;  // a further member of job 0, which is a gang: it goes when that goes
  bool never = false;   // it never preempts
};

struct Scene {
  int64_t sites = 2;
  int64_t cards_a_site = 2;
  std::map<std::string, int64_t> guaranteed = {};
  std::vector<Job> jobs = {};
};

// What can happen: a decision of ours; a victim goes; a victim is refused; a job ends; a job arrives; a card of a gang
// breaks, and with it goes a member.
struct Event {
  enum class Kind { kDecide, kGone, kRefuse, kEnd, kArrive, kBreak } kind = Kind::kDecide;
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
    config.queues[0].quotas["cards"].guaranteed = setup.sites * setup.cards_a_site * kCard;
    for (int64_t site = 0; site < setup.sites; ++site) {
      for (int64_t card = 0; card < setup.cards_a_site; ++card) there_[name_of(site)].insert(card);
    }
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
        places_.erase(event.id);
        for (const std::string& ready : preemptions_->gone(event.id, now_)) start(ready);
        break;
      case Event::Kind::kRefuse:
        refused_.insert(event.id);
        for (const auto& id : held()) {
          const auto& victims = preemptions_->under_way().at(id).victims;
          if (std::find(victims.begin(), victims.end(), event.id) != victims.end()) places_.erase(id);
        }
        if (const auto preemptor = preemptions_->refuse(event.id, now_)) coming_.erase(*preemptor);
        break;
      case Event::Kind::kBreak: {
        Place& place = places_.at(event.id);
        auto& [site, cards] = *place.begin();
        there_.at(site).erase(*cards.begin());
        cards.erase(cards.begin());
        if (cards.empty()) place.erase(place.begin());
        ++lost_[event.id];
        break;
      }
      case Event::Kind::kEnd:
        forget(event.id);
        places_.erase(event.id);
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
                                  .reservation = {},
                                  .growth = job.growth,
                                  .never_preempts = job.never},
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
  // Gangs of which a member may die.
  [[nodiscard]] std::vector<std::string> whole_gangs() const {
    std::vector<std::string> ids = in(Phase::kRunning);
    std::erase_if(ids, [&](const std::string& id) { return !job_of(id).gang || lost_.contains(id); });
    return ids;
  }
  [[nodiscard]] static std::string id_of(size_t job) { return "j" + std::to_string(job); }

  // What decisions depend on, apart from the time.
  [[nodiscard]] std::string state() const {
    std::string out;
    for (size_t j = 0; j < setup_.jobs.size(); ++j) {
      const std::string id = id_of(j);
      const auto phase = queues_->phase(id);
      out += phase ? std::to_string(static_cast<int>(*phase)) : "-";
      if (!places_.contains(id)) out += "?";
      out += text_of(places_, id);
      if (lost_.contains(id)) out += "l" + std::to_string(lost_.at(id));
      if (coming_.contains(id)) out += "c" + text_of(coming_, id);
      out += queues_->entitled(id) ? "e " : "b ";
    }
    return out;
  }

  // No card is for two, but for what leaves and the one that it leaves for.
  void check() const {
    EXPECT_THAT(queues_->violations(), testing::ElementsAre());
    std::map<std::pair<std::string, int64_t>, std::string> takers;
    for (const auto* places : {&places_, &coming_}) {
      for (const auto& [id, place] : *places) {
        if (queues_->phase(id) == Phase::kLeaving) continue;
        for (const auto& [site, cards] : place) {
          for (const int64_t card : cards) {
            const auto [taker, alone] = takers.emplace(std::pair(site, card), id);
            EXPECT_TRUE(alone) << id << " and " << taker->second << " have one card: " << state();
          }
        }
      }
    }
  }

  // Nothing is under way, and nothing can be decided: then no entitled job waits that could have a site.
  void check_end() {
    for (const std::string& id : in(Phase::kWaiting)) {
      if (!queues_->would_be_entitled(id)) continue;
      const Job& job = job_of(id);
      int64_t together = 0;
      int64_t most = 0;
      for (const auto& [site, there] : there_) {
        auto free = static_cast<int64_t>(there.size());
        for (const auto& [other, place] : places_) {
          const bool takes = queues_->entitled(other) || job_of(other).queue == job.queue || refused().contains(other);
          const auto here = place.find(site);
          if (takes && here != place.end()) free -= static_cast<int64_t>(here->second.size());
        }
        together += free;
        most = std::max(most, free);
      }
      EXPECT_LT(job.gang ? together : most, job.cards) << id << " waits while others borrow: " << state();
    }
    for (const auto& [id, cards] : lost_) {
      if (!queues_->entitled(id)) continue;
      for (const auto& [other, place] : places_) {
        const bool may_go = !queues_->entitled(other) && job_of(other).queue != job_of(id).queue;
        EXPECT_TRUE(!may_go || refused().contains(other) || cards > 1)
            << id << " lacks a card that " << other << " borrows";
      }
    }
  }

  [[nodiscard]] bool single_site() const override { return !asks_->gang; }
  [[nodiscard]] bool fits(const std::string& site, const std::vector<const Victim*>& gone) override {
    std::set<std::string> without;
    for (const Victim* victim : gone) without.insert(victim->id);
    int64_t together = 0;
    for (const auto& [other, there] : there_) together += std::ssize(free_at(other, without));
    return (asks_->gang ? together : std::ssize(free_at(site, without))) >= asks_->cards;
  }
  [[nodiscard]] bool room_later() override {
    const std::vector<std::string> leaving = in(Phase::kLeaving);
    return place_of(*asks_, {leaving.begin(), leaving.end()}).has_value();
  }

 private:
  using Cards = std::set<int64_t>;
  using Place = std::map<std::string, Cards>;  // by site

  [[nodiscard]] static std::string name_of(int64_t site) { return "n" + std::to_string(site); }
  [[nodiscard]] const Job& job_of(const std::string& id) const { return setup_.jobs[static_cast<size_t>(id[1] - '0')]; }
  [[nodiscard]] static std::string text_of(const std::map<std::string, Place>& places, const std::string& id) {
    std::string out;
    for (const auto& [site, cards] : places.contains(id) ? places.at(id) : Place()) {
      out += site + "x";
      for (const int64_t card : cards) out += std::to_string(card);
    }
    return out;
  }
  [[nodiscard]] Cards free_at(const std::string& site, const std::set<std::string>& without = {}) const {
    Cards free = there_.at(site);
    for (const auto* places : {&places_, &coming_}) {
      for (const auto& [id, place] : *places) {
        const auto here = place.find(site);
        if (here == place.end() || without.contains(id)) continue;
        for (const int64_t card : here->second) free.erase(card);
      }
    }
    return free;
  }
  static Cards first_of(const Cards& cards, int64_t count) {
    return {cards.begin(), std::next(cards.begin(), std::min<int64_t>(count, std::ssize(cards)))};
  }

  // Where it goes when these have gone; nothing: nowhere.
  [[nodiscard]] std::optional<Place> place_of(const Job& job, const std::set<std::string>& without) const {
    Place place;
    int64_t left = job.cards;
    for (const auto& [site, there] : there_) {
      const Cards free = first_of(free_at(site, without), left);
      if (!job.gang && std::ssize(free) == left) return Place{{site, free}};
      if (!job.gang || free.empty()) continue;
      place[site] = free;
      left -= std::ssize(free);
    }
    return job.gang && left == 0 ? std::optional(place) : std::nullopt;
  }

  void forget(const std::string& id) {
    if (coming_.erase(id) > 0) preemptions_->cancel(id, now_);
    lost_.erase(id);
  }

  // What a running gang has lost is there again.
  void mend(const std::string& id, const Place& place) {
    for (const auto& [site, cards] : place) places_[id][site].insert(cards.begin(), cards.end());
    lost_.erase(id);
    start(id);
  }

  void start(const std::string& id) {
    if (coming_.contains(id)) {
      const Place place = coming_.at(id);
      coming_.erase(id);
      return mend(id, place);
    }
    queues_->start(id, now_);
    const Place& place = places_.at(id);
    Victim victim{id, job_of(id).queue, job_of(id).priority, now_, job_of(id).cards * kCard, {}, false};
    for (const auto& [site, cards] : place) victim.sites.push_back(site);
    if (place.size() == 1) victim.site = place.begin()->first;
    preemptions_->upsert(std::move(victim));
  }

  // A gang that would have to go with a further member that may not, may not either.
  [[nodiscard]] std::set<std::string> refused() const {
    std::set<std::string> out = refused_;
    for (const std::string& id : refused_) {
      if (job_of(id).growth) out.insert(id_of(0));
    }
    return out;
  }

  // Gangs that run and lack a member, when there is room.
  bool mend_one() {
    const std::map<std::string, int64_t> lost = lost_;
    for (const auto& [id, cards] : lost) {
      if (coming_.contains(id) || queues_->phase(id) != Phase::kRunning) continue;
      const Job part{.queue = {}, .cards = cards, .gang = true};
      if (const auto place = place_of(part, {})) {
        mend(id, *place);
        return true;
      }
    }
    return false;
  }

  bool make_room_for_one() {
    for (const auto& [id, cards] : lost_) {
      if (coming_.contains(id) || queues_->phase(id) != Phase::kRunning) continue;
      const Job part{.queue = {}, .cards = cards, .gang = true};
      asks_ = &part;
      auto answer = preemptions_->plan(id, now_, *this, refused());
      if (!answer.eviction) continue;
      std::vector<std::string>& victims = answer.eviction->victims;
      add_growth(victims);
      const auto place = place_of(part, {victims.begin(), victims.end()});
      EXPECT_TRUE(place) << "a plan makes room";
      if (!place) return false;
      begin(*answer.eviction);
      coming_[id] = *place;
      return true;
    }
    return false;
  }

  void add_growth(std::vector<std::string>& victims) const {
    const bool whole_gang = std::find(victims.begin(), victims.end(), id_of(0)) != victims.end();
    for (const std::string& other : whole_gang ? in(Phase::kRunning) : std::vector<std::string>()) {
      if (job_of(other).growth && std::find(victims.begin(), victims.end(), other) == victims.end())
        victims.push_back(other);
    }
  }

  // A victim that was making room for a part of itself needs none.
  void begin(const Eviction& eviction) {
    preemptions_->begin(eviction, now_);
    for (const std::string& victim : eviction.victims) forget(victim);
  }

  bool decide() {
    if (mend_one()) return true;
    auto pass = queues_->pass(now_);
    while (const auto offer = pass.next()) {
      const auto place = place_of(job_of(offer->id), {});
      if (!place) {
        pass.refused({});
        continue;
      }
      places_[offer->id] = *place;
      start(offer->id);
      return true;
    }
    if (make_room_for_one()) return true;
    for (const std::string& id : in(Phase::kWaiting)) {
      asks_ = &job_of(id);
      auto answer = preemptions_->plan(id, now_, *this, refused());
      if (!answer.eviction) continue;
      std::vector<std::string>& victims = answer.eviction->victims;
      add_growth(victims);
      const std::set<std::string> without(victims.begin(), victims.end());
      const std::string& site = answer.eviction->site;
      auto place = asks_->gang ? place_of(*asks_, without)
                               : std::optional(Place{{site, first_of(free_at(site, without), asks_->cards)}});
      const bool roomy = place && (asks_->gang || std::ssize(place->at(site)) == asks_->cards);
      EXPECT_TRUE(roomy) << "a plan makes room";
      if (!roomy) return false;
      begin(*answer.eviction);
      places_[id] = *std::move(place);
      return true;
    }
    return false;
  }

  const Scene& setup_;
  std::optional<Queues> queues_;
  std::optional<Preemptions> preemptions_;
  std::map<std::string, Place> places_;  // of what runs, leaves or is held
  Place there_;                          // cards that there are
  std::map<std::string, int64_t> lost_;  // cards of gangs that run
  std::map<std::string, Place> coming_;  // where room is being made for them
  std::set<std::string> refused_;
  const Job* asks_ = nullptr;  // whom the oracle is asked for
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
      for (const std::string& id : world.whole_gangs()) then({Event::Kind::kBreak, id}, outside - 1, refusals, {});
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

// Guarantees that share out all cards, and five jobs of which some are placed before the others come.
struct Cast {
  bool gangs = false;
  bool some_never_preempt = false;
  int64_t sites = 2;
  int64_t cards_a_site = 2;
};
void walk_through(Cast cast, uint64_t seeds, int64_t least_steps, int64_t least_ends) {
  int64_t steps = 0;
  int64_t ends = 0;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(seed);
    Scene setup{.sites = cast.sites, .cards_a_site = cast.cards_a_site};
    const auto total = cast.sites * cast.cards_a_site;
    setup.guaranteed["a"] = static_cast<int64_t>(random.below(static_cast<uint64_t>(total) + 1));
    setup.guaranteed["b"] =
        static_cast<int64_t>(random.below(static_cast<uint64_t>(total - setup.guaranteed["a"]) + 1));
    setup.guaranteed["c"] = total - setup.guaranteed["a"] - setup.guaranteed["b"];
    std::vector<Event> arrivals;
    for (size_t j = 0; j < 5; ++j) {
      static const char* const kQueues[] = {"a", "b", "c"};
      Job job{.queue = kQueues[random.below(3)],
              .cards = 1 + static_cast<int64_t>(random.below(2)),
              .priority = static_cast<int32_t>(random.below(3))};
      if (cast.some_never_preempt) job.never = random.below(2) == 0;
      if (cast.gangs) {
        job.gang = j == 0 || random.below(2) == 0;
        job.cards = job.gang ? 2 + static_cast<int64_t>(random.below(2)) : job.cards;
        job.growth = j > 0 && random.below(3) == 0;
      }
      if (job.growth) job = {setup.jobs[0].queue, 1, setup.jobs[0].priority, false, true};
      setup.jobs.push_back(std::move(job));
      arrivals.push_back({Event::Kind::kArrive, World::id_of(j)});
      for (uint64_t n = random.below(3); n > 0; --n) arrivals.push_back({Event::Kind::kDecide, ""});
    }
    Walk walk(setup);
    walk.explore(arrivals, 1, 1, {});
    steps += walk.steps();
    ends += walk.ends();
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(steps, least_steps);
  EXPECT_GT(ends, least_ends);
}

TEST(PreemptionModelTest, EveryOrderOfEventsEnds) {
  walk_through({}, 150, 3000, 300);
}

// Several plans at a time for one site.
TEST(PreemptionModelTest, EveryOrderOfEventsEndsOnOneSite) {
  walk_through({.sites = 1, .cards_a_site = 4}, 100, 2000, 200);
}

TEST(PreemptionModelTest, EveryOrderOfEventsEndsWithGangs) {
  walk_through({.gangs = true}, 150, 3000, 300);
}

TEST(PreemptionModelTest, EveryOrderOfEventsEndsWithSomeThatNeverPreempt) {
  walk_through({.gangs = true, .some_never_preempt = true}, 100, 2000, 200);
}

}  // namespace
}  // namespace heddle::queueing
