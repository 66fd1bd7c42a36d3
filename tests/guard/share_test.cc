// The limit of the compute share against the simulated machine, where kernels take real time: what a tenant got is the
// work it completed over the time that this took. Bounds are generous, because the machine that runs the test may be
// busy.
#include <gtest/gtest.h>

#include "guard/harness.h"
#include "guard/ticking.h"

namespace heddle::guard::test {
namespace {

constexpr int kMilliseconds = 1500;

class ShareTest : public testing::Test {
 protected:
  ShareTest() : machine_(folder_, {1, 8192, 300, 64}) {}

  void give(int cores) const {
    write_guard_files(folder_.path(), limits_for({{machine_.uuid(0), 4000 * kMiB, cores, false, 300 * kMiB}}));
  }
  Probe start(int kernel_us) const {
    Probe p(folder_.path(), HEDDLE_SIM_LIBRARIES, {});
    EXPECT_EQ(p.code("init"), kOk);
    EXPECT_EQ(p.code("ctx 0"), kOk);
    EXPECT_EQ(p.code("stream"), kOk);
    EXPECT_EQ(p.code("kernel " + std::to_string(kernel_us)), kOk);
    return p;
  }
  // Percent of the device's time.
  static double share(const std::vector<int64_t>& answer, int kernel_us) {
    EXPECT_EQ(answer.at(0), kOk);
    if (answer.size() < 3 || answer[2] <= 0) return -1;
    return 100.0 * static_cast<double>(answer[answer.size() - 2]) * kernel_us / static_cast<double>(answer.back());
  }

  Folder folder_;
  Machine machine_;
};

TEST_F(ShareTest, OneProcessGetsWhatItWasGiven) {
  struct Case {
    int cores;
    int kernel_us;
    int synchronise_after;  // launches; 0: as far ahead as it goes
  };
  const Case cases[] = {{30, 2000, 0}, {30, 200, 0}, {70, 5000, 0}, {50, 1000, 4}, {20, 20000, 0}};
  for (const Case& c : cases) {
    give(c.cores);
    Probe p = start(c.kernel_us);
    const std::string run = "run " + std::to_string(kMilliseconds) + " " + std::to_string(c.synchronise_after);
    const double got = share(p.tell(run), c.kernel_us);
    std::printf("cores %d, kernels of %d us: %.1f %%\n", c.cores, c.kernel_us, got);
    // The burst credit and the longest kernel may come on top within so short a time.
    const double slack = 100.0 * (20.0 + 2.0 * c.kernel_us / 1000.0) / kMilliseconds;
    EXPECT_LE(got, c.cores + 2 + slack) << c.cores << " / " << c.kernel_us;
    EXPECT_GE(got, c.cores * 0.4) << c.cores << " / " << c.kernel_us;
    const auto report = read_usage(folder_.path("usage"));
    ASSERT_TRUE(report);
    EXPECT_GT(report->throttled_ns, 0);
  }
}

TEST_F(ShareTest, NoLimitMeansNoWaiting) {
  for (const int cores : {0, 100}) {
    give(cores);
    Probe p = start(500);
    const double got = share(p.tell("run 500 64"), 500);
    EXPECT_GE(got, 50) << cores;
    EXPECT_EQ(read_usage(folder_.path("usage"))->throttled_ns, 0);
  }
}

TEST_F(ShareTest, ProcessesOfOneTenantShareOneClock) {
  give(40);
  Probe a = start(1000);
  Probe b = start(1000);
  const std::string run = "run " + std::to_string(kMilliseconds) + " 0";
  a.send(run);
  b.send(run);
  const double first = share(a.receive(), 1000);
  const double second = share(b.receive(), 1000);
  std::printf("two processes under 40: %.1f %% and %.1f %%\n", first, second);
  EXPECT_LE(first + second, 40 + 8);
  EXPECT_GE(first + second, 40 * 0.5);
}

// Neither has a share; the one of low priority has the card while the other does nothing, and next to nothing else.
TEST_F(ShareTest, LowPriorityGivesWay) {
  const Folder other;
  write_guard_files(other.path(), limits_for({{machine_.uuid(0), 2000 * kMiB, 0, false, 300 * kMiB}}));
  ClaimLimits low = limits_for({{machine_.uuid(0), 2000 * kMiB, 0, false, 300 * kMiB, -1, true}});
  low.priority = 1;
  write_guard_files(folder_.path(), low);
  const Ticking ticking(
      {{"low", folder_.path("limits"), folder_.path("usage")}, {"online", other.path("limits"), other.path("usage")}});
  Probe a = start(1000);
  const double alone = share(a.tell("run 1000 0"), 1000);
  Probe b(other.path(), HEDDLE_SIM_LIBRARIES, {});
  for (const char* line : {"init", "ctx 0", "stream", "kernel 1000"}) EXPECT_EQ(b.code(line), kOk) << line;
  b.send("run 2500 4");
  EXPECT_EQ(a.tell("run 1500 0").at(0), kOk);
  const double online = share(b.receive(), 1000);
  const auto report = read_usage(folder_.path("usage"));
  ASSERT_TRUE(report);
  std::printf("low priority alone: %.1f %%; the online work beside it: %.1f %%\n", alone, online);
  EXPECT_GE(alone, 60);
  EXPECT_GE(online, 60) << "without giving way it would have half of the card";
  EXPECT_GT(report->throttled_ns, 500'000'000);
}

TEST_F(ShareTest, WhatIsIdleIsLentAndComesBack) {
  const Folder other;
  give(30);
  write_guard_files(other.path(), limits_for({{machine_.uuid(0), 2000 * kMiB, 70, false, 300 * kMiB}}));
  const Ticking ticking(
      {{"a", folder_.path("limits"), folder_.path("usage")}, {"b", other.path("limits"), other.path("usage")}});
  Probe a = start(1000);
  const double alone = share(a.tell("run 1000 0"), 1000);
  Probe b(other.path(), HEDDLE_SIM_LIBRARIES, {});
  for (const char* line : {"init", "ctx 0", "stream", "kernel 1000"}) EXPECT_EQ(b.code(line), kOk) << line;
  a.send("run 1500 0");
  b.send("run 1500 0");
  const double shared = share(a.receive(), 1000);
  const double owner = share(b.receive(), 1000);
  std::printf("30 alone: %.1f %%; beside a busy 70: %.1f %% and %.1f %%\n", alone, shared, owner);
  EXPECT_GE(alone, 60);
  EXPECT_LE(shared, 40);
  EXPECT_GE(owner, 35);
}

TEST_F(ShareTest, AProcessThatWasKilledLeavesNoDebtBehind) {
  give(30);
  Probe a = start(1000);
  a.send("run 60000 0");
  Probe b = start(1000);
  ASSERT_EQ(b.code("run 200 0"), kOk);
  a.kill();
  const double got = share(b.tell("run 1000 0"), 1000);
  EXPECT_GE(got, 15);
}

TEST_F(ShareTest, GraphsAreLimited) {
  for (const int cores : {30, 50}) {
    give(cores);
    Probe p = start(500);
    const auto answer = p.tell("graph 10 " + std::to_string(kMilliseconds));
    ASSERT_EQ(answer.size(), 4u) << cores;
    EXPECT_EQ(answer[0], kOk);
    EXPECT_EQ(answer[1], 10) << "only the program's own kernels are in the graph";
    const double got = share(answer, 5000);
    std::printf("graphs of 5 ms under %d: %.1f %%\n", cores, got);
    EXPECT_LE(got, cores + 5);
    EXPECT_GE(got, cores / 2);
  }
}

}  // namespace
}  // namespace heddle::guard::test
