#include "state/schedule.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

namespace nvsim {
namespace {

constexpr std::int64_t kMs = 1'000'000;

// A card with two registered processes, at time 0 of its own clock.
class ScheduleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    void* memory =
        mmap(nullptr, sizeof(CardState), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    card_ = static_cast<CardState*>(memory);
    card_->config.sms = 100;
    card_->config.slice_ns = 2 * kMs;
    card_->config.switch_ns = 50'000;
    card_->schedule.current = card_->schedule.resident = -1;
    card_->used_mask = 0b11;
    card_->slots[0].gpu_instance = card_->slots[1].gpu_instance = -1;
    card_->slots[0].serial = 1;
    card_->slots[1].serial = 2;
  }
  void TearDown() override { munmap(card_, sizeof(CardState)); }

  void kernel(int slot, int queue, std::int64_t duration, std::uint32_t sms = 100) {
    Item item = {};
    item.kind = ItemKind::kKernel;
    item.remaining_ns = duration;
    item.sms = sms;
    push(*card_, slot, queue, item);
  }
  void event(int slot, int queue, std::uint32_t index) {
    Item item = {};
    item.kind = ItemKind::kEvent;
    item.target = index;
    item.number = 1;
    push(*card_, slot, queue, item);
  }
  std::int64_t event_time(int slot, std::uint32_t index) {
    const Event& entry = card_->slots[slot].events[index];
    return entry.done == 1 ? entry.time_ns : -1;
  }

  CardState* card_ = nullptr;
};

TEST_F(ScheduleTest, KernelsOfOneStreamRunOneAfterTheOther) {
  kernel(0, 0, 3 * kMs);
  event(0, 0, 0);
  kernel(0, 0, 4 * kMs);
  event(0, 0, 1);
  advance(*card_, 6 * kMs);
  EXPECT_EQ(event_time(0, 0), 3 * kMs);
  EXPECT_EQ(event_time(0, 1), -1);
  advance(*card_, 100 * kMs);
  EXPECT_EQ(event_time(0, 1), 7 * kMs);
  EXPECT_EQ(card_->slots[0].busy_ns, 7 * kMs);
  EXPECT_EQ(card_->slots[0].kernels, 2);
  EXPECT_EQ(card_->schedule.now_ns, 100 * kMs);
}

TEST_F(ScheduleTest, ClientsOfMpsRunBesideEachOtherOnTheirPartOfTheSms) {
  card_->slots[0].mps_percent = 30;
  card_->slots[1].mps_percent = 50;
  kernel(0, 0, 3 * kMs);
  kernel(1, 0, 4 * kMs, 25);
  event(0, 0, 0);
  event(1, 0, 0);
  advance(*card_, 100 * kMs);
  EXPECT_EQ(event_time(0, 0), 10 * kMs) << "100 SMs' work on 30 of them";
  EXPECT_EQ(event_time(1, 0), 4 * kMs) << "25 SMs are within its 50, beside the other and without a switch";
  EXPECT_EQ(card_->schedule.switch_ns, 0);
}

TEST_F(ScheduleTest, ClientsOfMpsThatWantMoreThanTheCardGetLess) {
  card_->slots[0].mps_percent = 100;
  card_->slots[1].mps_percent = 100;
  kernel(0, 0, 3 * kMs);
  kernel(1, 0, 3 * kMs);
  event(0, 0, 0);
  event(1, 0, 0);
  advance(*card_, 100 * kMs);
  EXPECT_EQ(event_time(0, 0), 6 * kMs);
  EXPECT_EQ(event_time(1, 0), 6 * kMs);
}

TEST_F(ScheduleTest, ClientsOfMpsAreOnePartyInTheTurns) {
  card_->used_mask = 0b111;
  card_->slots[2].gpu_instance = -1;
  card_->slots[2].serial = 3;
  card_->slots[0].mps_percent = 50;
  card_->slots[2].mps_percent = 50;
  for (int slot = 0; slot < 3; ++slot) {
    kernel(slot, 0, 1000 * kMs, 50);
  }
  advance(*card_, 410 * kMs);
  EXPECT_EQ(card_->slots[0].busy_ns, card_->slots[2].busy_ns) << "they have the card at the same time";
  EXPECT_NEAR(static_cast<double>(card_->slots[0].busy_ns) / static_cast<double>(card_->slots[1].busy_ns), 1, 0.02)
      << "and together as often as the third process";
  card_->used_mask = 0b101;
  const std::int64_t before = card_->slots[0].busy_ns;
  advance(*card_, 510 * kMs);
  EXPECT_GT(card_->slots[0].busy_ns, before + 98 * kMs);
}

TEST_F(ScheduleTest, HowOftenOneLooksDoesNotMatter) {
  kernel(0, 0, 7 * kMs);
  kernel(1, 0, 5 * kMs);
  event(0, 0, 0);
  event(1, 0, 0);
  for (std::int64_t now = 0; now < 40 * kMs; now += 77'777) {
    advance(*card_, now);
  }
  const std::int64_t often[] = {event_time(0, 0), event_time(1, 0)};
  TearDown();
  SetUp();
  kernel(0, 0, 7 * kMs);
  kernel(1, 0, 5 * kMs);
  event(0, 0, 0);
  event(1, 0, 0);
  advance(*card_, 40 * kMs);
  EXPECT_EQ(event_time(0, 0), often[0]);
  EXPECT_EQ(event_time(1, 0), often[1]);
}

TEST_F(ScheduleTest, StreamsOverlapWhileTheSmsLast) {
  kernel(0, 1, 4 * kMs, 50);
  kernel(0, 2, 4 * kMs, 50);
  event(0, 1, 1);
  event(0, 2, 2);
  advance(*card_, 20 * kMs);
  EXPECT_EQ(event_time(0, 1), 4 * kMs);
  EXPECT_EQ(event_time(0, 2), 4 * kMs);
  EXPECT_EQ(card_->slots[0].busy_ns, 4 * kMs);
}

TEST_F(ScheduleTest, StreamsThatWantMoreThanTheSmsTakeLonger) {
  kernel(0, 1, 4 * kMs, 100);
  kernel(0, 2, 4 * kMs, 100);
  event(0, 1, 1);
  event(0, 2, 2);
  advance(*card_, 20 * kMs);
  EXPECT_NEAR(static_cast<double>(event_time(0, 1)), 8.0 * kMs, 1000);
  EXPECT_NEAR(static_cast<double>(event_time(0, 2)), 8.0 * kMs, 1000);
}

TEST_F(ScheduleTest, TwoProcessesTakeTurnsAndPayTheSwitch) {
  for (int index = 0; index < 200; ++index) {
    kernel(0, 0, 10 * kMs);
    kernel(1, 0, 300'000);
  }
  const std::int64_t end = 60 * kMs;
  advance(*card_, end);
  const std::int64_t first = card_->slots[0].busy_ns, second = card_->slots[1].busy_ns;
  EXPECT_NEAR(static_cast<double>(first), static_cast<double>(second), 2.0 * kMs);
  EXPECT_EQ(first + second + card_->schedule.switch_ns, end);
  EXPECT_NEAR(static_cast<double>(card_->schedule.switch_ns), static_cast<double>(end) * 50 / 2050, 100'000);
}

TEST_F(ScheduleTest, AnIdleProcessGivesTheCardAwayAtOnce) {
  kernel(0, 0, kMs / 2);
  kernel(1, 0, kMs);
  event(1, 0, 0);
  advance(*card_, 10 * kMs);
  EXPECT_EQ(event_time(1, 0), kMs / 2 + 50'000 + kMs);
}

TEST_F(ScheduleTest, WorkOfADeadProcessVanishes) {
  kernel(0, 0, 1000 * kMs);
  kernel(1, 0, 4 * kMs);
  event(1, 0, 0);
  advance(*card_, 3 * kMs);
  card_->used_mask = 0b10;
  advance(*card_, 10 * kMs);
  // Slice of the first to 2 ms, switch, then the second alone.
  EXPECT_EQ(event_time(1, 0), 2 * kMs + 50'000 + 4 * kMs);
  EXPECT_EQ(card_->schedule.current, -1);
}

TEST_F(ScheduleTest, AWaitHoldsItsStreamUntilTheOtherHasComeThere) {
  kernel(0, 1, 3 * kMs, 10);
  Item wait = {};
  wait.kind = ItemKind::kWait;
  wait.target = 1;
  wait.number = card_->slots[0].queues[1].tail;
  push(*card_, 0, 2, wait);
  kernel(0, 2, kMs, 10);
  event(0, 2, 0);
  advance(*card_, 10 * kMs);
  EXPECT_EQ(event_time(0, 0), 4 * kMs);
}

TEST_F(ScheduleTest, AQueueHasAnEnd) {
  for (std::uint64_t index = 0; index < kQueueDepth; ++index) {
    ASSERT_TRUE(has_room(card_->slots[0], 0, 1));
    kernel(0, 0, kMs);
  }
  EXPECT_FALSE(has_room(card_->slots[0], 0, 1));
  advance(*card_, kMs);
  EXPECT_TRUE(has_room(card_->slots[0], 0, 1));
  EXPECT_EQ(earliest_end(*card_, 0, 0, kQueueDepth), kMs + static_cast<std::int64_t>(kQueueDepth - 1) * kMs);
}

TEST_F(ScheduleTest, LoadIsThePartOfTheWindowWithWork) {
  for (int second = 0; second < 3; ++second) {
    for (int step = 0; step < 10; ++step) {
      kernel(0, 0, 30 * kMs);
      advance(*card_, card_->schedule.now_ns + 100 * kMs);
    }
  }
  EXPECT_EQ(busy_percent(card_->schedule.buckets, card_->schedule.now_ns, 1'000'000'000), 30U);
  EXPECT_EQ(busy_percent(card_->slots[0].buckets, card_->schedule.now_ns, 1'000'000'000), 30U);
  advance(*card_, card_->schedule.now_ns + 5'000 * kMs);
  EXPECT_EQ(busy_percent(card_->schedule.buckets, card_->schedule.now_ns, 1'000'000'000), 0U);
}

TEST_F(ScheduleTest, FilesFromBeforeTheLastBootStartAgain) {
  card_->schedule.now_ns = 1'000'000 * kMs;
  kernel(0, 0, kMs);
  advance(*card_, 5 * kMs);
  EXPECT_EQ(card_->schedule.now_ns, 5 * kMs);
}

}  // namespace
}  // namespace nvsim
