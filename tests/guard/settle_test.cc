// Work that no later launch settles is charged all the same: that of processes which end after it, of contexts that are
// destroyed behind it, and of more contexts than there are events for. Measured is the device's time over the time that
// passed, from above alone: a busy machine makes it less.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

#include "base/file.h"
#include "guard/harness.h"
#include "guard/layout.h"

namespace heddle::guard::test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kCores = 10;
constexpr milliseconds kKernel{100};
constexpr milliseconds kMeasured{3000};
// The burst credit, and a kernel at either end.
constexpr double kMost = kCores + 2 + 100.0 * (20 + 2 * 100) / 3000;

class SettleTest : public testing::Test {
 protected:
  SettleTest() : machine_(folder_, {1, 8192, 10, 64}) {
    write_guard_files(folder_.path(), limits_for({{machine_.uuid(0), 8000 * kMiB, kCores, false, 10 * kMiB}}));
  }
  Probe start() const {
    Probe p(folder_.path(), HEDDLE_SIM_LIBRARIES, {});
    EXPECT_EQ(p.code("init"), kOk);
    return p;
  }
  static void make_context(Probe& p, milliseconds kernel) {
    EXPECT_EQ(p.code("ctx 0"), kOk);
    EXPECT_EQ(p.code("stream"), kOk);
    EXPECT_EQ(p.code("kernel " + std::to_string(kernel.count() * 1000)), kOk);
  }
  // Percent of the device that `once` got, which uses it for `kKernel` each time.
  static double share(const std::function<void()>& once) {
    const auto start = Clock::now();
    int times = 0;
    for (; Clock::now() - start < kMeasured; ++times) once();
    const std::chrono::duration<double> took = Clock::now() - start;
    return 100.0 * times * std::chrono::duration<double>(kKernel) / took;
  }

  // Device time of processes that are gone, which no launch has put on the clock yet.
  [[nodiscard]] uint64_t left_ns() const {
    const auto content = read_file(folder_.path("usage"));
    uint64_t left = 0;
    EXPECT_TRUE(content && content->size() == sizeof(heddle_guard_usage));
    if (content) std::memcpy(&left, content->data() + offsetof(heddle_guard_usage, devices[0].left_ns), sizeof(left));
    return left;
  }

  Folder folder_;
  Machine machine_;
};

TEST_F(SettleTest, AProcessThatWaitsForItsOnlyKernelAndEnds) {
  const double got = share([&] {
    Probe p = start();
    make_context(p, kKernel);
    EXPECT_EQ(p.code("launch"), kOk);
    EXPECT_EQ(p.code("sync"), kOk);
    p.end();
  });
  EXPECT_LE(got, kMost);
}

TEST_F(SettleTest, AProcessThatEndsWhileItsKernelRuns) {
  for (const bool killed : {false, true}) {
    const double got = share([&] {
      Probe p = start();
      make_context(p, 3 * kKernel);
      EXPECT_EQ(p.code("launch"), kOk);
      std::this_thread::sleep_for(kKernel);
      if (killed) {
        p.kill();
      } else {
        p.end();
      }
    });
    EXPECT_LE(got, kMost) << (killed ? "killed" : "by itself");
  }
}

// It is charged from its launch until it was found gone, and no more than that.
TEST_F(SettleTest, WhatAKilledProcessLeftIsChargedWhenItIsFoundGone) {
  Probe p = start();
  make_context(p, 2 * kKernel);
  const auto before = Clock::now();
  ASSERT_EQ(p.code("launch"), kOk);
  const auto launched = Clock::now();
  std::this_thread::sleep_for(kKernel);
  p.kill();
  const auto killed = Clock::now();
  Probe next = start();
  make_context(next, milliseconds(1));
  const auto found = Clock::now();
  const uint64_t left = left_ns();
  constexpr std::chrono::nanoseconds kPredicted = milliseconds(1);  // on the clock since the launch
  EXPECT_GE(left, static_cast<uint64_t>((killed - launched - kPredicted).count()));
  EXPECT_LE(left, static_cast<uint64_t>((found - before).count()));
}

// Who learned that its work is through, by whatever way, has paid for it, and pays nothing for what it does after that.
TEST_F(SettleTest, WhatAProcessKnowsToBeThroughIsPaidFor) {
  for (const std::string way : {"query", "event", "copy"}) {
    Probe p = start();
    ASSERT_EQ(p.code("ctx 0"), kOk);
    if (way != "copy") {
      ASSERT_EQ(p.code("stream"), kOk);
    }
    ASSERT_EQ(p.code("kernel 20000"), kOk);
    ASSERT_EQ(p.code("launch"), kOk);
    ASSERT_EQ(p.code("through " + way), kOk);
    p.end();
    EXPECT_EQ(left_ns(), 0u) << way;
  }
}

TEST_F(SettleTest, AContextThatIsDestroyedBehindItsOnlyKernel) {
  for (const bool waits : {true, false}) {
    Probe p = start();
    const double got = share([&] {
      const auto made = p.tell("ctx 0");
      ASSERT_EQ(made.at(0), kOk);
      ASSERT_EQ(p.code("stream"), kOk);
      ASSERT_EQ(p.code("kernel " + std::to_string(kKernel.count() * 1000)), kOk);
      EXPECT_EQ(p.code("launch"), kOk);
      if (waits) {
        EXPECT_EQ(p.code("ctx-sync"), kOk);
      }
      EXPECT_EQ(p.code("ctx-destroy " + std::to_string(made.at(1))), kOk);
    });
    EXPECT_LE(got, kMost) << (waits ? "waited for" : "not waited for");
  }
}

TEST_F(SettleTest, MoreContextsThanEventsAreKeptFor) {
  for (const int contexts : {9, 66}) {
    Probe p = start();
    for (int i = 1; i < contexts; ++i) {
      make_context(p, milliseconds(1));
      ASSERT_EQ(p.code("launch"), kOk) << i;
      ASSERT_EQ(p.code("sync"), kOk) << i;
    }
    make_context(p, kKernel);
    const auto answer = p.tell("run " + std::to_string(kMeasured.count()) + " 1");
    ASSERT_EQ(answer.size(), 3u);
    const double got = 100.0 * static_cast<double>(answer[1] * kKernel.count() * 1000) / static_cast<double>(answer[2]);
    EXPECT_LE(got, kMost) << contexts << " contexts";
    EXPECT_GE(got, kCores * 0.3) << contexts << " contexts";
  }
}

}  // namespace
}  // namespace heddle::guard::test
