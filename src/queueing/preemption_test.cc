#include "queueing/preemption.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"

namespace heddle::queueing {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kCard = 1000;

Time at(int64_t seconds) {
  return Time{seconds * 1'000'000'000};
}

// Sites with so many free cards each; what a victim frees is its cost.
class Cards final : public FitOracle {
 public:
  Cards(std::map<std::string, int64_t> free, int64_t needs, int64_t members = 1)
      : free_(std::move(free)), needs_(needs), members_(members) {}
  [[nodiscard]] bool single_site() const override { return members_ == 1; }
  [[nodiscard]] bool fits(const std::string& site, const std::vector<const Victim*>& gone) override {
    ++calls;
    auto free = free_;
    for (const Victim* victim : gone) free[victim->site] += victim->cost / kCard;
    int64_t members = 0;
    for (const auto& [name, cards] : free) {
      if (site.empty() || name == site) members += cards / needs_;
    }
    return members >= members_;
  }
  int64_t calls = 0;

 private:
  std::map<std::string, int64_t> free_;
  int64_t needs_;
  int64_t members_;
};

class PreemptionTest : public testing::Test {
 protected:
  PreemptionTest() {
    Config config;
    config.meters = {
        {.name = "cards", .kind = Meter::Kind::kDevices, .device_class = {}, .vendor = {}, .model = {}, .shape = {}}};
    const auto spec = [](const char* name, const char* parent, int64_t guaranteed) {
      QueueSpec queue{.name = name, .parent = parent, .weight = 1, .quotas = {}};
      queue.quotas["cards"].guaranteed = guaranteed * kCard;
      return queue;
    };
    config.queues = {spec("root", "", 16), spec("a", "root", 8), spec("b", "root", 8)};
    queues_.emplace(Queues::make(std::move(config)).value());
    preemptions_.emplace(*queues_);
  }

  void wait(const std::string& id, const std::string& queue, int64_t cards, int32_t priority = 0,
            bool never_preempts = false) {
    Portion portion;
    portion.milli_devices = cards * kCard;
    Workload workload{.id = id,
                      .queue = queue,
                      .priority = priority,
                      .submitted = at(0),
                      .portions = {portion},
                      .runtime = {},
                      .reservation = {},
                      .never_preempts = never_preempts};
    ASSERT_TRUE(queues_->submit(std::move(workload), now()).has_value());
  }
  void run(const std::string& id, const std::string& queue, int64_t cards, const std::string& site,
           int32_t priority = 0) {
    wait(id, queue, cards, priority);
    queues_->start(id, now());
    preemptions_->upsert({id, queue, priority, now(), cards * kCard, site, false});
    ++clock_;
  }
  [[nodiscard]] Time now() const { return at(clock_); }
  std::vector<std::string> victims(const std::string& id, FitOracle& oracle,
                                   const std::set<std::string>& refused = {}) {
    const auto answer = preemptions_->plan(id, now(), oracle, refused);
    if (answer.eviction) return answer.eviction->victims;
    return {answer.reason->code + ": " + answer.reason->message};
  }

  std::optional<Queues> queues_;
  std::optional<Preemptions> preemptions_;
  int64_t clock_ = 1;
};

TEST_F(PreemptionTest, OneThatNeverPreemptsTakesBackWhatOthersBorrowedAndNothingElse) {
  run("first", "b", 6, "n1");
  run("second", "b", 2, "n2");
  run("own", "a", 4, "n3");
  run("lent", "b", 4, "n4");  // b has its 8 in use: this one is borrowed
  preemptions_->upsert({"plain", "", -1, now(), 0, "n5", false});
  Cards borrowed({{"n3", 0}, {"n4", 0}, {"n5", 0}}, 4);
  wait("never", "a", 4, 9, true);
  EXPECT_THAT(victims("never", borrowed), ElementsAre("lent"));
  EXPECT_THAT(victims("never", borrowed, {"lent"}), ElementsAre(testing::StartsWith("Guarantee: there are 16 cards")));
  wait("proud", "a", 4, 9);
  EXPECT_THAT(victims("proud", borrowed, {"lent"}), ElementsAre("own")) << "what is below its priority, without Never";
}

TEST_F(PreemptionTest, OnlyWhatWasBorrowedIsTakenBack) {
  run("own", "a", 8, "n1");
  run("old", "a", 2, "n2");
  run("new", "a", 2, "n2", 5);
  wait("p", "b", 2);
  Cards oracle({{"n1", 0}, {"n2", 0}}, 2);
  EXPECT_THAT(victims("p", oracle), ElementsAre("old")) << "less priority, though it is older";
  EXPECT_THAT(victims("p", oracle, {"old"}), ElementsAre("new")) << "a disruption budget keeps the other";
  EXPECT_THAT(victims("p", oracle, {"old", "new"}), ElementsAre("NoVictims: nothing that runs may be evicted for it"));
  wait("q", "b", 9);
  EXPECT_THAT(victims("q", oracle), ElementsAre(HasSubstr("queue b would borrow them")));
}

TEST_F(PreemptionTest, VictimsAreOnOneNodeAndNoneTooMany) {
  run("own", "a", 8, "n0");
  for (int i = 0; i < 4; ++i) run("x" + std::to_string(i), "a", 1, i % 2 == 0 ? "n1" : "n2");
  run("large", "a", 4, "n3");
  wait("p", "b", 2);
  // Youngest first: large on n3 has room for 4 alone, and it comes first.
  Cards roomy({{"n0", 0}, {"n1", 0}, {"n2", 0}, {"n3", 0}}, 2);
  EXPECT_THAT(victims("p", roomy), ElementsAre("large"));
  EXPECT_THAT(victims("p", roomy, {"large"}), ElementsAre("x3", "x1")) << "both on n2, none of n1";
}

TEST_F(PreemptionTest, WithinAQueuePriorityDecides) {
  run("low", "a", 4, "n1");
  run("high", "a", 4, "n1", 9);
  wait("p", "a", 4, 5);
  Cards oracle({{"n1", 0}}, 4);
  EXPECT_THAT(victims("p", oracle), ElementsAre("low")) << "it takes its place in the guarantee";
  preemptions_->begin(*preemptions_->plan("p", now(), oracle).eviction, now());
  EXPECT_TRUE(queues_->entitled("p"));
  EXPECT_EQ(queues_->phase("low"), Phase::kLeaving);
  EXPECT_EQ(queues_->phase("p"), Phase::kHeld);
  EXPECT_EQ(queues_->refusal("low", now()), std::nullopt);
  EXPECT_EQ(queues_->pass(now()).next(), std::nullopt) << "low has not gone yet";
  EXPECT_THAT(preemptions_->gone("low", now()), ElementsAre("p"));
  queues_->start("p", now());
  EXPECT_EQ(queues_->pass(now()).next()->id, "low");
  EXPECT_THAT(queues_->violations(), ElementsAre());
}

TEST_F(PreemptionTest, PriorityDecidesAboutWhatNoMeterCounts) {
  Config config;
  config.queues = {{.name = "root", .parent = "", .weight = 1, .quotas = {}},
                   {.name = "a", .parent = "root", .weight = 1, .quotas = {}}};
  queues_.emplace(Queues::make(std::move(config)).value());
  preemptions_.emplace(*queues_);
  run("low", "a", 2, "n1", 1);
  wait("high", "a", 1, 5);
  Cards cards({{"n1", 0}}, 1);
  const auto answer = preemptions_->plan("high", now(), cards);
  ASSERT_TRUE(answer.eviction.has_value()) << answer.reason->message;
  EXPECT_THAT(answer.eviction->victims, ElementsAre("low"));
}

TEST_F(PreemptionTest, PodsWithoutAcceleratorsCanBeInTheWay) {
  preemptions_->upsert({"web", "", 0, at(0), 0, "n1", false});
  preemptions_->upsert({"db", "", 100, at(0), 0, "n1", false});
  wait("p", "a", 1, 10);
  struct Cpu final : FitOracle {
    [[nodiscard]] bool single_site() const override { return true; }
    [[nodiscard]] bool fits(const std::string&, const std::vector<const Victim*>& gone) override {
      return !gone.empty();
    }
  } oracle;
  EXPECT_THAT(victims("p", oracle), ElementsAre("web"));
  EXPECT_THAT(victims("p", oracle, {"web"}), ElementsAre(HasSubstr("NoVictims")));
}

TEST_F(PreemptionTest, WhatLeavesAnywayGoesFirst) {
  run("own", "a", 8, "n1");
  run("x", "a", 1, "n2");
  run("y", "a", 1, "n3");
  preemptions_->upsert({"x", "a", 0, at(2), kCard, "n2", true});
  wait("p", "b", 1);
  Cards oracle({}, 1);
  EXPECT_THAT(victims("p", oracle), ElementsAre("x"));
}

TEST_F(PreemptionTest, AGangTakesTheFewestOverAllSites) {
  run("own", "a", 8, "n9");
  for (int i = 0; i < 8; ++i) run("x" + std::to_string(i), "a", 1, "n" + std::to_string(i % 4));
  wait("p", "b", 4);
  Cards pairs({}, 2, 2);  // two members of two cards each
  EXPECT_THAT(victims("p", pairs), ElementsAre("x7", "x6", "x3", "x2"));
  EXPECT_LT(pairs.calls, 30);
}

TEST_F(PreemptionTest, QuotaMayNeedMoreVictimsThanTheNode) {
  run("x", "a", 8, "n1");
  run("y", "a", 3, "n1");
  run("z", "a", 5, "n2");
  wait("p", "b", 4);
  Cards oracle({{"n1", 4}, {"n2", 0}}, 4);
  EXPECT_THAT(victims("p", oracle), ElementsAre("z")) << "there are devices, and no quota";
  struct Roomy final : FitOracle {
    [[nodiscard]] bool single_site() const override { return true; }
    [[nodiscard]] bool fits(const std::string& site, const std::vector<const Victim*>&) override {
      return site == "n3";
    }
    [[nodiscard]] std::optional<std::string> room_now() override { return "n3"; }
  } roomy;
  const auto answer = preemptions_->plan("p", now(), roomy);
  ASSERT_TRUE(answer.eviction.has_value());
  EXPECT_EQ(answer.eviction->site, "n3") << "a node without any victim";
  EXPECT_THAT(answer.eviction->victims, ElementsAre("z"));
}

// A victim that has not gone yet still has its devices: until then they count against its queue's limit.
TEST(QueuesLeavingTest, WhatLeavesCountsAgainstLimitsUntilItHasGone) {
  Config config;
  config.meters = {
      {.name = "cards", .kind = Meter::Kind::kDevices, .device_class = {}, .vendor = {}, .model = {}, .shape = {}}};
  QueueSpec root{.name = "root", .parent = "", .weight = 1, .quotas = {}};
  QueueSpec leaf{.name = "a", .parent = "root", .weight = 1, .quotas = {}};
  leaf.quotas["cards"].limit = 6 * kCard;
  config.queues = {root, leaf};
  Queues queues = Queues::make(std::move(config)).value();
  const auto submit = [&](const char* id, int64_t cards, int32_t priority) {
    Portion portion;
    portion.milli_devices = cards * kCard;
    Workload workload{.id = id,
                      .queue = "a",
                      .priority = priority,
                      .submitted = at(0),
                      .portions = {portion},
                      .runtime = {},
                      .reservation = {}};
    ASSERT_TRUE(queues.submit(std::move(workload), at(0)).has_value());
  };
  submit("victim", 4, 0);
  queues.start("victim", at(1));
  submit("high", 1, 9);
  submit("next", 3, 0);
  queues.evict_for("high", {"victim"}, at(2));
  ASSERT_TRUE(queues.refusal("next", at(3)).has_value()) << "3 beside the 4 that have not gone";
  EXPECT_EQ(queues.refusal("next", at(3))->code, "Limit");
  EXPECT_THAT(queues.violations(), testing::IsEmpty());
  queues.requeue("victim", at(30));
  EXPECT_FALSE(queues.refusal("next", at(30)).has_value()) << "3 beside the 1 that is held";
  queues.evict_for("next", {}, at(30));
  queues.start("high", at(31));
  EXPECT_EQ(queues.refusal("victim", at(31))->code, "Limit");
  EXPECT_THAT(queues.violations(), testing::IsEmpty());
}

TEST_F(PreemptionTest, NobodyGoesForWhatFits) {
  run("x", "a", 8, "n1");
  run("y", "a", 1, "n1");
  wait("p", "b", 1);
  Cards oracle({{"n1", 1}}, 1);
  EXPECT_THAT(victims("p", oracle), ElementsAre("Fits: it fits without any victim"));
}

TEST_F(PreemptionTest, ARefusedVictimGivesThePlanUp) {
  run("own", "a", 8, "n1");
  run("x", "a", 1, "n2");
  run("y", "a", 1, "n2");
  wait("p", "b", 2);
  wait("q", "b", 1);
  Cards oracle({}, 2);
  const auto answer = preemptions_->plan("p", now(), oracle);
  ASSERT_THAT(answer.eviction->victims, ElementsAre("y", "x"));
  preemptions_->begin(*answer.eviction, now());
  Cards one({}, 1);
  EXPECT_THAT(victims("q", one), ElementsAre(HasSubstr("NoVictims"))) << "victims of one plan are not another's";
  EXPECT_THAT(preemptions_->gone("y", now()), ElementsAre());
  EXPECT_EQ(preemptions_->refuse("x", now()), "p");
  EXPECT_EQ(queues_->phase("x"), Phase::kRunning);
  EXPECT_EQ(queues_->phase("y"), Phase::kWaiting);
  EXPECT_EQ(queues_->phase("p"), Phase::kWaiting);
  EXPECT_TRUE(preemptions_->under_way().empty());
  EXPECT_THAT(queues_->violations(), ElementsAre());
}

TEST_F(PreemptionTest, WhatRunsMakesRoomForAPartThatItLost) {
  run("g", "b", 4, "n1", 1);
  run("own", "a", 8, "n2");
  run("lent", "a", 2, "n3");
  run("low", "b", 1, "n4");
  wait("w", "b", 1, 5);
  Cards oracle({}, 1, 1);
  const auto answer = preemptions_->plan("g", now(), oracle);
  ASSERT_TRUE(answer.eviction);
  EXPECT_THAT(answer.eviction->victims, ElementsAre("lent")) << "borrowed before entitled";
  const auto used = queues_->usage("b");
  preemptions_->begin(*answer.eviction, now());
  EXPECT_EQ(queues_->phase("g"), Phase::kRunning);
  EXPECT_EQ(queues_->phase("lent"), Phase::kLeaving);
  EXPECT_EQ(queues_->usage("b"), used) << "it has its quota already";
  EXPECT_THAT(victims("g", oracle), ElementsAre(HasSubstr("does not wait"))) << "one plan at a time";
  EXPECT_EQ(preemptions_->refuse("lent", now()), "g");
  EXPECT_EQ(queues_->phase("g"), Phase::kRunning);
  EXPECT_EQ(queues_->phase("lent"), Phase::kRunning);
  EXPECT_THAT(victims("g", oracle, {"lent"}), ElementsAre("low"));
  EXPECT_THAT(victims("g", oracle, {"lent", "low"}), ElementsAre(HasSubstr("nothing that runs may be evicted")));
}

TEST_F(PreemptionTest, WhatBorrowsTakesTheLesserOfItsQueueForAPartThatItLost) {
  run("own", "a", 8, "n1");
  run("g", "a", 2, "n2", 1);
  run("lent", "b", 1, "n3");
  run("more", "a", 1, "n4");
  run("owned", "b", 7, "n5");
  run("over", "b", 1, "n6");
  Cards oracle({}, 1, 1);
  EXPECT_FALSE(queues_->entitled("g"));
  EXPECT_THAT(victims("g", oracle), ElementsAre("more"));
  EXPECT_THAT(victims("g", oracle, {"more"}), ElementsAre(HasSubstr("NoVictims")));
}

// On random worlds: what a plan says fits, and without any one of its victims it would not.
TEST(PreemptionPropertyTest, PlansAreEnoughAndMinimal) {
  int64_t planned = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SeededRandom random(seed);
    const auto below = [&](uint64_t bound) { return static_cast<int64_t>(random.below(bound)); };
    Config config;
    config.meters = {
        {.name = "cards", .kind = Meter::Kind::kDevices, .device_class = {}, .vendor = {}, .model = {}, .shape = {}}};
    config.queues = {{.name = "root", .parent = "", .weight = 1, .quotas = {}},
                     {.name = "a", .parent = "root", .weight = 1, .quotas = {}},
                     {.name = "b", .parent = "root", .weight = 1, .quotas = {}}};
    config.queues[1].quotas["cards"].guaranteed = below(6) * kCard;
    config.queues[2].quotas["cards"].guaranteed = 8 * kCard;
    Queues queues = Queues::make(std::move(config)).value();
    Preemptions preemptions(queues);
    std::map<std::string, Victim> victims;
    const auto submit = [&](const std::string& id, const std::string& queue, int64_t cards, int32_t priority) {
      Portion portion;
      portion.milli_devices = cards * kCard;
      ASSERT_TRUE(queues
                      .submit({.id = id,
                               .queue = queue,
                               .priority = priority,
                               .submitted = at(0),
                               .portions = {portion},
                               .runtime = {},
                               .reservation = {}},
                              at(1))
                      .has_value());
    };
    for (int i = 0; i < 14; ++i) {
      Victim victim{"v" + std::to_string(i),
                    below(3) == 0 ? "b" : "a",
                    static_cast<int32_t>(below(3)),
                    at(2 + below(4)),
                    (1 + below(3)) * kCard,
                    "n" + std::to_string(below(4)),
                    false};
      submit(victim.id, victim.queue, victim.cost / kCard, victim.priority);
      queues.start(victim.id, at(2));
      victims[victim.id] = victim;
      preemptions.upsert(victim);
    }
    submit("p", "b", 1 + below(5), static_cast<int32_t>(below(4)));
    const int64_t members = below(3) == 0 ? 2 : 1;
    Cards oracle({}, std::max<int64_t>(queues.demand("p")->at(0) / kCard / members, 1), members);
    const auto answer = preemptions.plan("p", at(3), oracle);
    if (!answer.eviction) continue;
    ++planned;
    const bool entitled = queues.would_be_entitled("p", answer.eviction->victims);
    const auto enough = [&](const std::vector<std::string>& ids) {
      std::vector<const Victim*> gone;
      gone.reserve(ids.size());
      for (const std::string& id : ids) gone.push_back(&victims.at(id));
      return oracle.fits(answer.eviction->site, gone) && !queues.refusal_without("p", ids, at(3)) &&
             queues.would_be_entitled("p", ids) == entitled;
    };
    EXPECT_TRUE(enough(answer.eviction->victims)) << seed;
    for (const std::string& left_out : answer.eviction->victims) {
      std::vector<std::string> fewer;
      for (const std::string& id : answer.eviction->victims) {
        if (id != left_out) fewer.push_back(id);
      }
      EXPECT_FALSE(enough(fewer)) << seed << ": " << left_out << " was not needed";
      const Victim& victim = victims.at(left_out);
      const bool lower = victim.priority < queues.workload("p")->priority;
      EXPECT_TRUE(victim.queue == "b" ? lower : entitled && !queues.entitled(victim.id)) << seed;
    }
  }
  EXPECT_GT(planned, 100);
}

}  // namespace
}  // namespace heddle::queueing
