#include "guard/ledger.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

namespace heddle::guard {
namespace {

using ledger::Outcome;

// A usage region that forked processes share.
class LedgerTest : public testing::Test {
 protected:
  void SetUp() override {
    void* memory =
        ::mmap(nullptr, sizeof(heddle_guard_usage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    usage_ = static_cast<heddle_guard_usage*>(memory);
  }
  void TearDown() override { ::munmap(usage_, sizeof(heddle_guard_usage)); }

  void own(uint32_t slot, uint32_t pid) const {
    heddle_guard_slot& s = usage_->slots[slot];
    ledger::store(s.owner, ledger::pack_owner(pid, ledger::load(s.generation), 1));
  }
  void free_slot(uint32_t slot) const {
    const heddle_guard_slot& s = usage_->slots[slot];
    ledger::free_dead_slot(*usage_, slot, ledger::load(s.owner), ledger::load(s.generation));
  }
  uint64_t charged(uint32_t slot) const { return ledger::charge_pages(usage_->slots[slot].devices[0].charge); }

  heddle_guard_usage* usage_ = nullptr;
};

TEST(Pages, RoundUpAndSaturate) {
  EXPECT_EQ(pages_of(0), 0u);
  EXPECT_EQ(pages_of(1), 1u);
  EXPECT_EQ(pages_of(4096), 1u);
  EXPECT_EQ(pages_of(4097), 2u);
  EXPECT_EQ(pages_of(~uint64_t{0}), kMaxPages + 1);
}

TEST_F(LedgerTest, ReservesUpToTheLimitAndNotBeyond) {
  own(5, 50);
  own(6, 60);
  EXPECT_EQ(ledger::change(*usage_, 5, 0, 60, 100), Outcome::kApplied);
  EXPECT_EQ(ledger::change(*usage_, 6, 0, 41, 100), Outcome::kRefused);
  EXPECT_EQ(ledger::change(*usage_, 6, 0, 40, 100), Outcome::kApplied);
  EXPECT_EQ(ledger::change(*usage_, 6, 0, 1, 100), Outcome::kRefused);
  EXPECT_EQ(ledger::total_pages(*usage_, 0), 100u);
  EXPECT_EQ(charged(6), 40u);
  EXPECT_EQ(ledger::change(*usage_, 5, 0, -60, 100), Outcome::kApplied);
  EXPECT_EQ(ledger::total_pages(*usage_, 0), 40u);
  EXPECT_EQ(ledger::change(*usage_, 5, 0, static_cast<int64_t>(kMaxPages + 1), kMaxPages), Outcome::kRefused);
  EXPECT_EQ(ledger::total_pages(*usage_, 1), 0u);
}

TEST_F(LedgerTest, RefusalsNeverMeetTheirOwnOldNumber) {
  own(5, 50);
  ASSERT_EQ(ledger::change(*usage_, 5, 0, 10, 10), Outcome::kApplied);
  for (uint64_t i = 0; i < (uint64_t{1} << 21) + 5; ++i) {
    ASSERT_EQ(ledger::change(*usage_, 5, 0, 1, 10), Outcome::kRefused) << i;
  }
  EXPECT_EQ(ledger::total_pages(*usage_, 0), 10u);
  EXPECT_EQ(charged(5), 10u);
}

TEST_F(LedgerTest, AFreedSlotGivesAllBackAndIsFree) {
  own(5, 50);
  own(6, 60);
  for (uint32_t device = 0; device < 3; ++device) ledger::change(*usage_, 5, device, 10 + device, 100);
  ledger::change(*usage_, 6, 0, 7, 100);
  free_slot(5);
  EXPECT_EQ(ledger::total_pages(*usage_, 0), 7u);
  EXPECT_EQ(ledger::total_pages(*usage_, 1), 0u);
  EXPECT_EQ(ledger::total_pages(*usage_, 2), 0u);
  EXPECT_EQ(usage_->slots[5].owner, 0u);
  own(5, 51);
  EXPECT_EQ(ledger::change(*usage_, 5, 0, 93, 100), Outcome::kApplied);
}

TEST_F(LedgerTest, AHelperThatComesLateDoesNoHarm) {
  own(5, 50);
  ledger::change(*usage_, 5, 0, 10, 100);
  const uint64_t owner = usage_->slots[5].owner;
  const uint64_t generation = usage_->slots[5].generation;
  free_slot(5);
  own(5, 50);  // the same pid in the same slot
  ledger::change(*usage_, 5, 0, 20, 100);
  ledger::free_dead_slot(*usage_, 5, owner, generation);
  EXPECT_EQ(ledger::total_pages(*usage_, 0), 20u);
  EXPECT_NE(usage_->slots[5].owner, 0u);
}

class UnsettledTest : public LedgerTest {
 protected:
  static constexpr int64_t kLaunched = 1000000000;
  void launched(uint32_t slot, int64_t since, uint64_t predicted) const {
    usage_->unsettled[slot][0].since_ns = since;
    usage_->slots[slot].devices[0].outstanding_ns = predicted;
  }
  uint64_t charge(uint32_t slot, int64_t end, uint64_t generation = 0) const {
    const uint64_t before = usage_->devices[0].left_ns;
    ledger::charge_unsettled(*usage_, slot, generation, end, end + 7);
    return usage_->devices[0].left_ns - before;
  }
};

TEST_F(UnsettledTest, WhatADeadProcessHadIsChargedOnceAndWithoutWhatWasPredicted) {
  own(5, 50);
  EXPECT_EQ(charge(5, kLaunched + 500), 0u) << "it had nothing";
  launched(5, kLaunched, 100);
  EXPECT_EQ(charge(5, kLaunched + 500), 400u);
  EXPECT_EQ(usage_->devices[0].watermark_ns, kLaunched + 500);
  EXPECT_EQ(charge(5, kLaunched + 900), 0u) << "once";
}

TEST_F(UnsettledTest, TimeThatAnotherProcessWasChargedForIsNotChargedAgain) {
  own(5, 50);
  own(6, 60);
  launched(5, kLaunched, 0);
  launched(6, kLaunched + 200, 0);
  EXPECT_EQ(charge(5, kLaunched + 500), 500u);
  EXPECT_EQ(charge(6, kLaunched + 600), 100u);
}

TEST_F(UnsettledTest, WhoeverIsFoundLateIsChargedForTenSecondsAtMost) {
  own(5, 50);
  launched(5, kLaunched, 0);
  EXPECT_EQ(charge(5, kLaunched + 3600 * int64_t{1000000000}), static_cast<uint64_t>(ledger::kMostUnsettled));
  EXPECT_EQ(usage_->devices[0].watermark_ns, kLaunched + ledger::kMostUnsettled);
}

TEST_F(UnsettledTest, LessThanPredictedAndALaterProcessOfTheSlotAreLeftAlone) {
  own(5, 50);
  launched(5, kLaunched, 1000);
  EXPECT_EQ(charge(5, kLaunched + 500), 0u);
  launched(5, kLaunched, 0);
  EXPECT_EQ(charge(5, kLaunched + 500, 1), 0u) << "of another generation";
  EXPECT_EQ(usage_->unsettled[5][0].since_ns, kLaunched);
  EXPECT_EQ(charge(5, kLaunched), 0u) << "launched after the end";
  EXPECT_EQ(usage_->unsettled[5][0].since_ns, kLaunched);
}

TEST_F(LedgerTest, ManyThreadsInManySlotsKeepTheSum) {
  constexpr uint32_t kThreads = 8;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t) {
    own(t, 100 + t);
    threads.emplace_back([this, t] {
      std::mt19937 random(t);
      int64_t held = 0;
      for (int i = 0; i < 20000; ++i) {
        const int64_t want = 1 + static_cast<int64_t>(random() % 30);
        if (random() % 2 == 0) {
          if (ledger::change(*usage_, t, 0, want, 100) == Outcome::kApplied) held += want;
        } else if (held > 0) {
          const int64_t back = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(held));
          ledger::change(*usage_, t, 0, -back, 100);
          held -= back;
        }
        ASSERT_LE(ledger::total_pages(*usage_, 0), 100u);
        ASSERT_EQ(charged(t), static_cast<uint64_t>(held));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  uint64_t sum = 0;
  for (uint32_t t = 0; t < kThreads; ++t) sum += charged(t);
  EXPECT_EQ(ledger::total_pages(*usage_, 0), sum);
}

// Dies after `steps` instructions of the change, or exits when the change is done before. True: it died inside.
bool die_inside(heddle_guard_usage& usage, uint32_t slot, uint32_t account, int64_t delta, int steps) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    ::raise(SIGSTOP);
    ledger::change(usage, slot, account, delta, 1000);
    ::raise(SIGSTOP);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  bool inside = true;
  for (int i = 0; i < steps && inside; ++i) {
    ::ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr);
    ::waitpid(child, &status, 0);
    if (WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP) inside = false;
    if (!WIFSTOPPED(status)) return false;
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  return inside;
}

bool tracing_allowed() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0 ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_F(LedgerTest, TheBooksOfADeviceAreApartAndEndWithTheSlot) {
  own(5, 50);
  EXPECT_EQ(ledger::change(*usage_, 5, 2, 10, 20), Outcome::kApplied);
  EXPECT_EQ(ledger::change(*usage_, 5, 2 + ledger::kAddressed, 40, 40), Outcome::kApplied);
  EXPECT_EQ(ledger::change(*usage_, 5, 2 + ledger::kAddressed, 1, 40), Outcome::kRefused);
  EXPECT_EQ(ledger::total_pages(*usage_, 2), 10u);
  EXPECT_EQ(ledger::total_pages(*usage_, 2 + ledger::kAddressed), 40u);
  EXPECT_EQ(ledger::total_pages(*usage_, 3), 0u);
  free_slot(5);
  EXPECT_EQ(ledger::total_pages(*usage_, 2), 0u);
  EXPECT_EQ(ledger::total_pages(*usage_, 2 + ledger::kAddressed), 0u);
}

TEST_F(LedgerTest, ADeathAtAnyInstructionLeavesNothingCharged) {
  if (!tracing_allowed()) GTEST_SKIP() << "this machine does not allow tracing";
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
  GTEST_SKIP() << "one step at a time through the sanitizer's own code has no end";
#endif
#endif
  struct Case {
    uint32_t account;
    int64_t delta;
  };
  own(9, 90);
  for (const uint32_t account : {0u, ledger::kAddressed}) {
    ASSERT_EQ(ledger::change(*usage_, 9, account, 33, 1000), Outcome::kApplied);
  }
  for (const auto& [account, delta] : {Case{0, 10}, Case{0, -4}, Case{ledger::kAddressed, 10}}) {
    bool inside = true;
    int steps = 0;
    for (; inside; ++steps) {
      own(5, 50);
      // The slot holds something, and another process' operation is the last one or this slot's own is.
      ledger::change(*usage_, 5, account, 5, 1000);
      if (steps % 2 == 0) {
        ledger::change(*usage_, 9, account, 1, 1000);
        ledger::change(*usage_, 9, account, -1, 1000);
      }
      inside = die_inside(*usage_, 5, account, delta, steps);
      if (steps % 3 == 0) ledger::change(*usage_, 9, account, 1, 1000);
      if (steps % 3 == 0) ledger::change(*usage_, 9, account, -1, 1000);
      free_slot(5);
      ASSERT_EQ(ledger::total_pages(*usage_, account), 33u) << "delta " << delta << ", died after step " << steps;
      ASSERT_EQ(usage_->slots[5].owner, 0u);
    }
    EXPECT_GT(steps, 20) << "the steps did go through the change";
  }
}

// The same for a helper that dies while it frees a slot: the next one goes on from there.
TEST_F(LedgerTest, AHelperMayDieAtAnyInstructionToo) {
  if (!tracing_allowed()) GTEST_SKIP() << "this machine does not allow tracing";
  bool inside = true;
  for (int steps = 0; inside; steps += 1 + steps / 40) {
    own(5, 50);
    own(9, 90);
    ledger::change(*usage_, 5, 0, 21, 1000);
    ledger::change(*usage_, 9, 0, 4, 1000);
    const pid_t child = ::fork();
    if (child == 0) {
      ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
      ::raise(SIGSTOP);
      free_slot(5);
      ::raise(SIGSTOP);
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    for (int i = 0; i < steps && inside; ++i) {
      ::ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr);
      ::waitpid(child, &status, 0);
      if (!WIFSTOPPED(status) || WSTOPSIG(status) == SIGSTOP) inside = false;
    }
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    if (usage_->slots[5].owner != 0) free_slot(5);
    ASSERT_EQ(ledger::total_pages(*usage_, 0), 4u) << "died after step " << steps;
    ASSERT_EQ(usage_->slots[5].owner, 0u);
    free_slot(9);
    ASSERT_EQ(ledger::total_pages(*usage_, 0), 0u);
  }
}

// Real processes that are killed at random moments while others go on. HEDDLE_GUARD_DEATHS: how many.
TEST_F(LedgerTest, KilledProcessesBesideLiveOnes) {
  std::mt19937 random(7);
  const char* wanted = std::getenv("HEDDLE_GUARD_DEATHS");
  const int rounds = (wanted != nullptr ? std::atoi(wanted) : 240) / 4;
  for (int round = 0; round < rounds; ++round) {
    std::vector<pid_t> children;
    for (uint32_t c = 0; c < 4; ++c) {
      own(c, 100 + c);
      const pid_t child = ::fork();
      if (child == 0) {
        std::mt19937 own_random(static_cast<uint32_t>(round) * 4 + c);
        for (;;) {
          const int64_t want = 1 + static_cast<int64_t>(own_random() % 30);
          if (ledger::change(*usage_, c, 0, want, 100) == Outcome::kApplied && own_random() % 4 != 0) {
            ledger::change(*usage_, c, 0, -want, 100);
          } else if (charged(c) > 0) {
            ledger::change(*usage_, c, 0, -static_cast<int64_t>(charged(c)), 100);
          }
        }
      }
      children.push_back(child);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
    for (uint32_t c = 0; c < 4; ++c) {
      ::kill(children[c], SIGKILL);
      ::waitpid(children[c], nullptr, 0);
      free_slot(c);
      EXPECT_LE(ledger::total_pages(*usage_, 0), 100u);
    }
    ASSERT_EQ(ledger::total_pages(*usage_, 0), 0u) << "round " << round;
  }
}

}  // namespace
}  // namespace heddle::guard
