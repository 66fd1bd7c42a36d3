#include "queueing/queueing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "queueing/decay.h"

namespace heddle::queueing {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kCard = 1000;

Time at(int64_t seconds) {
  return Time{seconds * 1'000'000'000};
}

Meter cards(const std::string& model = "") {
  return {.name = model.empty() ? "cards" : model + " cards",
          .kind = Meter::Kind::kDevices,
          .device_class = {},
          .vendor = {},
          .model = model,
          .shape = {}};
}

Quota own(int64_t guaranteed) {
  return {.guaranteed = guaranteed * kCard, .limit = {}, .borrowing = {}, .lending = {}};
}

QueueSpec queue(const std::string& name, const std::string& parent, std::map<std::string, Quota> quotas,
                int64_t weight = 1) {
  return {.name = name, .parent = parent, .weight = weight, .quotas = std::move(quotas)};
}

Workload work(const std::string& id, const std::string& queue, int64_t count, int64_t submitted = 0,
              int32_t priority = 0) {
  Portion portion;
  portion.model = "h100";
  portion.milli_devices = count * kCard;
  return {.id = id,
          .queue = queue,
          .priority = priority,
          .submitted = at(submitted),
          .portions = {portion},
          .runtime = {},
          .reservation = {}};
}

class QueuesTest : public testing::Test {
 protected:
  void make(Config config) {
    config.meters.push_back(cards());
    auto made = Queues::make(std::move(config));
    ASSERT_TRUE(made.has_value()) << made.error().text();
    queues_.emplace(*std::move(made));
  }
  // Two queues with 8 cards each of 20.
  void make_two(Quota a = own(8), Quota b = own(8)) {
    Config config;
    config.queues = {queue("root", "", {{"cards", own(20)}}), queue("a", "root", {{"cards", a}}),
                     queue("b", "root", {{"cards", b}})};
    make(std::move(config));
  }
  void submit(const Workload& workload) {
    const auto done = queues_->submit(workload, workload.submitted);
    EXPECT_TRUE(done.has_value()) << done.error().text();
  }
  void run(const Workload& workload) {
    submit(workload);
    queues_->start(workload.id, workload.submitted);
  }
  // All offers of a pass in which everything that is offered starts while `room` cards last.
  std::vector<std::string> offers(int64_t now, int64_t room = 1000) {
    std::vector<std::string> ids;
    auto pass = queues_->pass(at(now));
    while (const auto offer = pass.next()) {
      ids.push_back(offer->id);
      const int64_t needs = queues_->demand(offer->id)->at(0) / kCard;
      if (needs > room) {
        pass.refused({});
        continue;
      }
      room -= needs;
      queues_->start(offer->id, at(now));
    }
    EXPECT_THAT(queues_->violations(), ElementsAre());
    return ids;
  }
  std::string refusal(const std::string& id, int64_t now = 0) {
    const auto reason = queues_->refusal(id, at(now));
    return reason ? reason->code + ": " + reason->message : "none";
  }

  std::optional<Queues> queues_;
};

TEST(MeterTest, CountsByKindAndFilter) {
  const std::vector<Meter> meters = {cards(),
                                     cards("h100"),
                                     {.name = "nvidia memory",
                                      .kind = Meter::Kind::kMemory,
                                      .device_class = {},
                                      .vendor = "nvidia",
                                      .model = {},
                                      .shape = {}},
                                     {.name = "fast cores",
                                      .kind = Meter::Kind::kCores,
                                      .device_class = "fast",
                                      .vendor = {},
                                      .model = {},
                                      .shape = {}},
                                     {.name = "boxes",
                                      .kind = Meter::Kind::kBoxes,
                                      .device_class = {},
                                      .vendor = {},
                                      .model = {},
                                      .shape = "8-card box"}};
  const Portion box{"", "nvidia", "h100", 8000, 100, 800, "8-card box", 1};
  const Portion share{"fast", "amd", "mi300", 500, 30, 50, "", 0};
  EXPECT_THAT(measure(meters, {box, share}), ElementsAre(8500, 8000, 100, 50, 1));
  EXPECT_EQ(amount_text(meters[0], 8500), "8500m cards");
  EXPECT_EQ(amount_text(meters[1], 8000), "8 h100 cards");
  EXPECT_EQ(amount_text(meters[2], int64_t{3} << 30), "3Gi of nvidia memory");
}

TEST(DecayTest, AgreesWithTheExactValue) {
  const Duration half = Duration::seconds(1000);
  for (int64_t seconds = 0; seconds < 20000; seconds += 37) {
    const double exact = std::exp2(-static_cast<double>(seconds) / 1000);
    EXPECT_NEAR(static_cast<double>(decay(Duration::seconds(seconds), half)) / static_cast<double>(kOne), exact, 1e-9);
  }
  EXPECT_EQ(decay(Duration::seconds(0), half), kOne);
  EXPECT_EQ(decay(Duration::seconds(70000), half), 0);
  // Short of the half-life, usage is nearly cards times seconds.
  EXPECT_NEAR(static_cast<double>(advance(0, 8000, Duration::seconds(10), Duration::seconds(1'000'000))), 80000, 2);
  // In one step or in many, the same.
  int64_t past = 0;
  for (int i = 0; i < 100; ++i) past = advance(past, 8000, Duration::seconds(10), half);
  EXPECT_NEAR(static_cast<double>(past), static_cast<double>(advance(0, 8000, half, half)), 100);
}

TEST_F(QueuesTest, PriorityThenAgeThenName) {
  make_two();
  submit(work("young", "a", 1, 5));
  submit(work("z", "a", 1, 3));
  submit(work("y", "a", 1, 3));
  submit(work("high", "a", 1, 9, 1));
  EXPECT_EQ(queues_->position("young", at(9)), 4U);
  EXPECT_THAT(offers(9), ElementsAre("high", "y", "z", "young"));
}

TEST_F(QueuesTest, EntitledDemandGoesBeforeBorrowing) {
  make_two();
  run(work("a0", "a", 8));
  submit(work("a1", "a", 4, 1));
  submit(work("b1", "b", 8, 2));
  EXPECT_FALSE(queues_->would_be_entitled("a1"));
  EXPECT_TRUE(queues_->would_be_entitled("b1"));
  EXPECT_THAT(offers(3), ElementsAre("b1", "a1"));
  EXPECT_TRUE(queues_->entitled("b1"));
  EXPECT_FALSE(queues_->entitled("a1"));
  queues_->remove("a0", at(4));
  EXPECT_TRUE(queues_->entitled("a1")) << "there is room in its guarantee now";
}

TEST_F(QueuesTest, TheOneThatHadLessForItsWeightGoesFirst) {
  Config config;
  config.half_life = Duration::seconds(1000);
  config.queues = {queue("root", "", {}), queue("a", "root", {}, 2), queue("b", "root", {})};
  make(std::move(config));
  for (int i = 0; i < 6; ++i) submit(work("a" + std::to_string(i), "a", 1, i));
  for (int i = 0; i < 6; ++i) submit(work("b" + std::to_string(i), "b", 1, i));
  EXPECT_THAT(offers(10, 6), testing::Contains("a3"));
  EXPECT_EQ(queues_->usage("a").at(0), 4 * kCard);
  EXPECT_EQ(queues_->usage("b").at(0), 2 * kCard);
  // a alone runs for long: what it had still counts when both ask again.
  for (const char* id : {"b0", "b1"}) queues_->remove(id, at(11));
  for (const char* id : {"a0", "a1", "a2", "a3"}) queues_->remove(id, at(3000));
  EXPECT_THAT(offers(3000, 1), ElementsAre("b2", "b3", "b4", "b5", "a4", "a5"));
}

TEST_F(QueuesTest, PastUsageSurvivesARestart) {
  make_two();
  run(work("a0", "a", 4));
  const auto past = queues_->past(at(1000));
  EXPECT_NEAR(static_cast<double>(past.at("a").milli_device_seconds), 4e6, 1e4);
  Config config;
  config.past = past;
  config.queues = {queue("root", "", {{"cards", own(20)}}), queue("a", "root", {}), queue("b", "root", {})};
  make(std::move(config));
  submit(work("a1", "a", 1, 1000));
  submit(work("b1", "b", 1, 1001));
  EXPECT_THAT(offers(1001), ElementsAre("b1", "a1"));
}

TEST_F(QueuesTest, RefusalsSayWhatWouldHelp) {
  Quota a = own(4);
  a.limit = 6 * kCard;
  Quota b = own(8);
  b.borrowing = 2 * kCard;
  b.lending = 3 * kCard;
  make_two(a, b);
  submit(work("big", "a", 7));
  EXPECT_EQ(refusal("big"),
            "Limit: queue a: the limit is 6 cards, and 7 cards are asked for: fits with a limit of 7 cards");
  run(work("a0", "a", 5));
  submit(work("a1", "a", 2));
  EXPECT_EQ(
      refusal("a1"),
      "Limit: queue a: the limit is 6 cards, 5 cards in use, 2 cards asked: fits when 1 cards of it end, or with a "
      "limit of 7 cards");
  submit(work("b0", "b", 11));
  EXPECT_EQ(
      refusal("b0"),
      "Borrowing: queue b: 8 cards are guaranteed and it may borrow 2 cards; 0 cards in use, 11 cards asked: fits "
      "when 1 cards of it end");
}

TEST_F(QueuesTest, WhatIsNotLentStaysForItsOwner) {
  Quota b = own(8);
  b.lending = 2 * kCard;
  make_two(own(8), b);
  submit(work("a0", "a", 14));
  EXPECT_EQ(refusal("a0"), "none") << "12 are no part of b's, and b lends 2";
  queues_->start("a0", at(0));
  submit(work("a1", "a", 1));
  EXPECT_THAT(refusal("a1"), HasSubstr("Guarantee: there are 20 cards, 14 cards in use and 6 cards kept by queues"));
  submit(work("b0", "b", 6));
  EXPECT_EQ(refusal("b0"), "none");
  submit(work("b1", "b", 8));
  EXPECT_THAT(refusal("b1"), HasSubstr("it is within the queue's guarantee, so borrowed ones can be taken back"));
  EXPECT_THAT(queues_->violations(), ElementsAre());
}

TEST_F(QueuesTest, AHoldTakesQuota) {
  make_two();
  submit(work("b0", "b", 8));
  queues_->hold("b0", at(1));
  submit(work("a0", "a", 13));
  EXPECT_THAT(refusal("a0", 1), HasSubstr("Guarantee"));
  EXPECT_EQ(queues_->phase("b0"), Phase::kHeld);
  queues_->start("b0", at(2));
  EXPECT_EQ(queues_->phase("b0"), Phase::kRunning);
  queues_->requeue("b0", at(3));
  EXPECT_EQ(queues_->phase("b0"), Phase::kWaiting);
  EXPECT_EQ(refusal("a0", 3), "none");
}

TEST_F(QueuesTest, WhatStarvesIsNotPassedBut) {
  Config config;
  config.patience = Duration::seconds(100);
  config.queues = {queue("root", "", {}), queue("a", "root", {}), queue("b", "root", {{"cards", own(2)}})};
  make(std::move(config));
  submit(work("large", "a", 8, 0));
  submit(work("small", "a", 1, 50, 9));
  EXPECT_THAT(offers(60, 4), ElementsAre("small", "large")) << "still passed by priority";
  submit(work("late", "a", 1, 70, 9));
  Workload brief = work("brief", "a", 1, 71);
  brief.runtime = Duration::seconds(20);
  submit(brief);
  submit(work("owned", "b", 1, 72));
  auto pass = queues_->pass(at(110));
  const auto first = pass.next();
  EXPECT_EQ(first->id, "large");
  EXPECT_TRUE(first->starving);
  pass.refused(at(130));
  EXPECT_EQ(pass.next()->id, "owned") << "entitled, and large only borrows";
  EXPECT_EQ(pass.next()->id, "brief") << "it ends before large could start";
  EXPECT_EQ(pass.next(), std::nullopt);
}

// Singles of the queue come as fast as its guarantee lets them: without end the two cards are never free at once.
TEST_F(QueuesTest, SmallWorkDoesNotUseUpTheGuaranteeThatTheLargeWorkOfItsQueueWaitsFor) {
  Config config;
  config.patience = Duration::seconds(100);
  config.queues = {queue("root", "", {{"cards", own(4)}}), queue("a", "root", {{"cards", own(2)}}),
                   queue("b", "root", {{"cards", own(2)}})};
  make(std::move(config));
  run(work("a0", "a", 1));
  submit(work("large", "a", 2, 1));
  submit(work("a1", "a", 1, 2));
  submit(work("b1", "b", 1, 3));
  EXPECT_THAT(offers(110, 1), ElementsAre("large", "b1")) << "b has a guarantee of its own";
  queues_->remove("a0", at(120));
  EXPECT_THAT(offers(120, 2), ElementsAre("large", "a1")) << "the other would borrow, and finds no room";
}

// What it asks for beyond its queue's guarantee it can only borrow, and that may never come: its queue goes on
// meanwhile.
TEST_F(QueuesTest, WorkThatCanOnlyBorrowDoesNotKeepItsQueueFromItsGuarantee) {
  Config config;
  config.patience = Duration::seconds(100);
  config.queues = {queue("root", "", {{"cards", own(4)}}), queue("a", "root", {{"cards", own(2)}}),
                   queue("b", "root", {})};
  make(std::move(config));
  run(work("b0", "b", 2));
  submit(work("large", "a", 3, 1));
  submit(work("a1", "a", 1, 2));
  submit(work("b1", "b", 1, 3));
  EXPECT_THAT(offers(110, 2), ElementsAre("a1")) << "what borrows does not pass it";
}

// "wide" can only borrow and waits for ever; behind it "large" still gets its queue's own cards.
TEST_F(QueuesTest, BehindWorkThatMayBorrowForEverNothingWaitsForItsGuarantee) {
  Config config;
  config.patience = Duration::seconds(100);
  config.queues = {queue("root", "", {{"cards", own(4)}}), queue("a", "root", {{"cards", own(2)}}),
                   queue("b", "root", {{"cards", own(2)}})};
  make(std::move(config));
  run(work("a0", "a", 1));
  run(work("b0", "b", 1));
  submit(work("wide", "b", 4, 1));
  submit(work("large", "a", 2, 2));
  submit(work("a1", "a", 1, 3));
  submit(work("b1", "b", 1, 4));
  EXPECT_THAT(offers(110, 2), ElementsAre("b1")) << "a1 would keep large waiting";
  queues_->remove("a0", at(120));
  EXPECT_THAT(offers(120, 2), ElementsAre("large"));
}

// No quota counts anything here: what has waited longest is still not passed for ever, but by what takes other devices.
TEST_F(QueuesTest, WithoutAnyMeterWhatStarvesIsNotPassedByWhatTakesTheSameDevices) {
  Config config;
  config.patience = Duration::seconds(100);
  config.queues = {queue("root", "", {}), queue("a", "root", {})};
  auto made = Queues::make(std::move(config));
  ASSERT_TRUE(made.has_value()) << made.error().text();
  queues_.emplace(*std::move(made));
  submit(work("large", "a", 8, 0));
  submit(work("same", "a", 1, 50));
  Workload any = work("any", "a", 1, 51);
  any.portions.front().model.clear();
  submit(any);
  Workload other = work("other", "a", 1, 52);
  other.portions.front().model = "a100";
  submit(other);
  auto pass = queues_->pass(at(110));
  EXPECT_EQ(pass.next()->id, "large");
  pass.refused({});
  EXPECT_EQ(pass.next()->id, "other");
  EXPECT_EQ(pass.next(), std::nullopt);
}

TEST_F(QueuesTest, AQueueAtItsLimitHoldsBackItselfOnly) {
  Config config;
  config.patience = Duration::seconds(10);
  Quota a = own(0);
  a.limit = 4 * kCard;
  config.queues = {queue("root", "", {{"cards", own(20)}}), queue("a", "root", {{"cards", a}}), queue("b", "root", {})};
  make(std::move(config));
  run(work("a0", "a", 3));
  submit(work("a1", "a", 2, 1));
  submit(work("a2", "a", 1, 2));
  submit(work("b1", "b", 1, 3));
  EXPECT_THAT(offers(50), ElementsAre("b1")) << "a2 would keep a1 waiting for ever";
  queues_->remove("a0", at(51));
  EXPECT_THAT(offers(51), ElementsAre("a1", "a2"));
}

TEST_F(QueuesTest, ReservationsKeepTheirTimeFree) {
  Config config;
  config.meters = {cards("h100")};  // of what the reservation does not name it says nothing
  config.queues = {queue("root", "", {{"cards", own(10)}}), queue("a", "root", {})};
  config.reservations = {{.name = "demo", .start = at(1000), .end = at(2000), .amounts = {{"cards", 6 * kCard}}}};
  make(std::move(config));
  Workload member = work("member", "a", 6);
  member.reservation = "demo";
  submit(member);
  EXPECT_THAT(refusal("member"), HasSubstr("Reservation: reservation demo starts at"));
  submit(work("open", "a", 5));
  EXPECT_THAT(refusal("open"), HasSubstr("fits with a declared runtime that ends before"));
  Workload brief = work("brief", "a", 10);
  brief.runtime = Duration::seconds(1000);
  submit(brief);
  EXPECT_EQ(refusal("brief"), "none");
  submit(work("few", "a", 4));
  EXPECT_EQ(refusal("few"), "none");
  queues_->start("brief", at(0));
  EXPECT_THAT(refusal("few"), HasSubstr("Guarantee"));
  queues_->remove("brief", at(900));
  queues_->start("few", at(1000));
  EXPECT_EQ(refusal("member", 1000), "none");
  queues_->start("member", at(1000));
  Workload second = member;
  second.id = "second";
  submit(second);
  EXPECT_THAT(refusal("second", 1000), HasSubstr("reservation demo is for 6 cards, 6 cards in use"));
  EXPECT_THAT(queues_->violations(), ElementsAre());
}

TEST_F(QueuesTest, GuaranteedBoxesAreKeptIntact) {
  Config config;
  config.meters = {
      {.name = "boxes", .kind = Meter::Kind::kBoxes, .device_class = {}, .vendor = {}, .model = {}, .shape = "box"}};
  Quota two;
  two.guaranteed = 2;
  config.queues = {queue("root", "", {}), queue("a", "root", {{"boxes", two}}), queue("b", "root", {})};
  make(std::move(config));
  Workload box = work("box", "a", 8);
  box.portions[0].shape = "box";
  box.portions[0].boxes = 1;
  submit(work("single", "b", 1));
  submit(box);
  auto pass = queues_->pass(at(1));
  auto offer = pass.next();
  EXPECT_EQ(offer->id, "box");
  EXPECT_THAT(offer->keep_intact, ElementsAre(1, 0)) << "one of the two is its own";
  queues_->start("box", at(1));
  auto second = queues_->pass(at(2));
  offer = second.next();
  EXPECT_EQ(offer->id, "single");
  EXPECT_THAT(offer->keep_intact, ElementsAre(1, 0));
}

// Two portions of one box: the first has its number.
TEST_F(QueuesTest, EachPartOfABoxIsWithinItsGuarantee) {
  Config config;
  config.meters = {
      {.name = "boxes", .kind = Meter::Kind::kBoxes, .device_class = {}, .vendor = {}, .model = {}, .shape = "box"}};
  Quota one;
  one.guaranteed = 1;
  config.queues = {queue("root", "", {}), queue("a", "root", {{"boxes", one}})};
  make(std::move(config));
  Workload box = work("box", "a", 4);
  box.portions[0].shape = "box";
  box.portions.push_back(box.portions[0]);
  box.portions[0].boxes = 1;
  submit(box);
  auto pass = queues_->pass(at(1));
  const auto offer = pass.next();
  ASSERT_TRUE(offer.has_value());
  EXPECT_TRUE(offer->entitled);
  EXPECT_THAT(offer->keep_intact, ElementsAre(0, 0)) << "the one that it takes";
}

TEST_F(QueuesTest, AWaitingOneIsRestatedInsideAPass) {
  make_two();
  submit(work("w", "a", 1));
  submit(work("x", "a", 1, 1));
  EXPECT_THAT(queues_->waiting("a", at(2)), ElementsAre("w", "x"));
  auto pass = queues_->pass(at(2));
  ASSERT_EQ(pass.next()->id, "w");
  queues_->restate("w", work("w", "a", 1000).portions);
  EXPECT_TRUE(queues_->refusal("w", at(2)).has_value()) << "there are not so many";
  queues_->restate("w", work("w", "a", 2).portions);
  EXPECT_FALSE(queues_->refusal("w", at(2)).has_value());
  queues_->start("w", at(2));
  EXPECT_EQ(queues_->usage("a")[0], 2 * kCard);
  queues_->restate("w", work("w", "a", 1).portions);
  EXPECT_EQ(queues_->usage("a")[0], 2 * kCard) << "it runs";
  ASSERT_EQ(pass.next()->id, "x");
  EXPECT_TRUE(queues_->violations().empty());
}

TEST(ConfigTest, BadTreesAreRefusedByName) {
  struct Case {
    const char* what;
    Config config;
    const char* expected;
  };
  const auto with = [](std::vector<QueueSpec> queues) {
    Config config;
    config.meters = {cards()};
    config.queues = std::move(queues);
    return config;
  };
  Quota inverted = own(4);
  inverted.limit = 1;
  Quota negative;
  negative.lending = -1;
  Config reserved = with({queue("root", "", {})});
  reserved.reservations = {{.name = "r", .start = at(1), .end = at(2), .amounts = {{"cards", 1}}}};
  const std::vector<Case> cases = {
      {"no root", with({queue("a", "b", {})}), "0 queues have no parent"},
      {"two roots", with({queue("a", "", {}), queue("b", "", {})}), "2 queues have no parent"},
      {"twice", with({queue("a", "", {}), queue("a", "a", {})}), "queue a: name: is there twice"},
      {"unknown parent", with({queue("a", "", {}), queue("b", "x", {})}), "queue b: parent: there is no queue x"},
      {"a ring", with({queue("r", "", {}), queue("a", "b", {}), queue("b", "a", {})}),
       "queue a: parent: its parents form a ring"},
      {"unknown meter", with({queue("a", "", {{"x", own(1)}})}), "queue a: quotas[x]: there is no such meter"},
      {"limit below guarantee", with({queue("a", "", {{"cards", inverted}})}), "queue a: quotas[cards].limit: is 1"},
      {"negative", with({queue("a", "", {{"cards", negative}})}), "must not be negative"},
      {"weight", with({queue("a", "", {}, 0)}), "queue a: weight: is 0"},
      {"too much promised",
       with({queue("r", "", {{"cards", own(10)}}), queue("a", "r", {{"cards", own(6)}}),
             queue("b", "r", {{"cards", own(5)}})}),
       "queue r: quotas[cards].guaranteed: is 10 cards, and its queues are guaranteed 11 cards together"},
      {"a reservation of nothing known", reserved, "reservation r: amounts: the root queue does not say"},
  };
  for (const Case& test : cases) {
    const auto made = Queues::make(test.config);
    ASSERT_FALSE(made.has_value()) << test.what;
    EXPECT_THAT(made.error().text(), HasSubstr(test.expected)) << test.what;
  }
}

TEST_F(QueuesTest, BadWorkloadsAreRefused) {
  make_two();
  EXPECT_THAT(queues_->submit(work("w", "root", 1), at(0)).error().text(), HasSubstr("has queues below it"));
  EXPECT_THAT(queues_->submit(work("w", "x", 1), at(0)).error().text(), HasSubstr("there is no queue x"));
  submit(work("w", "a", 1));
  EXPECT_EQ(queues_->submit(work("w", "b", 1), at(0)).error().code, Code::kAlreadyExists);
}

TEST_F(QueuesTest, WhatRunsCanTakeOtherThingsThanItStartedWith) {
  make_two({.guaranteed = 4 * kCard, .limit = 6 * kCard, .borrowing = {}, .lending = {}});
  submit(work("gang", "a", 4));
  submit(work("other", "a", 2));
  queues_->start("gang", at(1));
  queues_->start("other", at(1));
  const auto take = [](int64_t count) { return work("", "a", count).portions; };
  EXPECT_EQ(queues_->refusal_of("gang", take(4), at(2)), std::nullopt) << "what it has is no more";
  EXPECT_THAT(queues_->refusal_of("gang", take(5), at(2))->message, HasSubstr("the limit is 6"));
  EXPECT_EQ(queues_->usage("a"), Amounts{6 * kCard}) << "asking changes nothing";
  EXPECT_TRUE(queues_->entitled("gang"));
  EXPECT_FALSE(queues_->entitled("other"));
  queues_->revise("gang", take(2), at(3));
  EXPECT_TRUE(queues_->entitled("gang"));
  EXPECT_TRUE(queues_->entitled("other")) << "room came up within the guarantee";
  queues_->revise("gang", take(4), at(4));
  EXPECT_FALSE(queues_->entitled("gang")) << "others are within the guarantee now";
  EXPECT_EQ(queues_->usage("root"), Amounts{6 * kCard});
  queues_->remove("other", at(5));
  EXPECT_TRUE(queues_->entitled("gang"));
  EXPECT_THAT(queues_->violations(), ElementsAre());
}

TEST_F(QueuesTest, WhatAGangHasBeyondItsMinimumBorrows) {
  make_two();
  Workload growth = work("growth", "a", 1);
  growth.growth = true;
  submit(growth);
  EXPECT_FALSE(queues_->would_be_entitled("growth"));
  queues_->start("growth", at(1));
  EXPECT_FALSE(queues_->entitled("growth"));
  EXPECT_EQ(queues_->borrowers("a"), 1U);
  submit(work("own", "a", 8));
  queues_->start("own", at(2));
  EXPECT_TRUE(queues_->entitled("own"));
  EXPECT_THAT(queues_->violations(), ElementsAre());
}

}  // namespace
}  // namespace heddle::queueing
