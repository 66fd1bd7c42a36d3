// Ways by which a tenant's processes could hold more of a card than is charged, or be charged for what they no longer
// hold, against the simulated machine.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "guard/harness.h"

namespace heddle::guard::test {
namespace {

constexpr int64_t kContext = 300 * kMiB;

std::string text(int64_t number) {
  return std::to_string(static_cast<uint64_t>(number));
}

class LeaksTest : public testing::Test {
 protected:
  LeaksTest() : machine_(folder_, {1, 8192, 300, 64}) {}

  void give(int64_t mib, int64_t context = kContext, int cores = 0) const {
    write_guard_files(folder_.path(), limits_for({{machine_.uuid(0), mib * kMiB, cores, false, context}}));
  }
  Probe probe(Probe::Setup setup = {}) const { return Probe(folder_.path(), HEDDLE_SIM_LIBRARIES, std::move(setup)); }

  // Tells a probe and compares what is charged with what the device holds; gives the second number of the answer.
  int64_t step(Probe& p, const std::string& line, int64_t expected = kOk) const {
    const auto answer = p.tell(line);
    EXPECT_EQ(answer.at(0), expected) << line;
    EXPECT_EQ(charged(folder_.path(), 0), machine_.taken(0)) << "after " << line;
    return answer.size() > 1 ? answer[1] : 0;
  }

  Folder folder_;
  Machine machine_;
};

TEST_F(LeaksTest, AProgramThatIsReplacedByExecHoldsNothingAnyMore) {
  give(1000);
  Probe p = probe();
  for (int image = 0; image < 3; ++image) {
    ASSERT_EQ(p.code("init"), kOk);
    step(p, "ctx 0");
    step(p, "alloc 524288000");
    ASSERT_EQ(p.code("exec"), kOk);
  }
}

TEST_F(LeaksTest, AHandlerOfASignalThatComesWhileALaunchIsHeldIsLimited) {
  give(1000, kContext, 5);
  Probe p = probe();
  step(p, "init");
  step(p, "ctx 0");
  step(p, "stream");
  ASSERT_EQ(p.code("kernel 5000"), kOk);
  const auto answer = p.tell("interrupt 3145728000 5");
  ASSERT_EQ(answer.size(), 3u);
  EXPECT_EQ(answer[0], kOutOfMemory);
  EXPECT_EQ(charged(folder_.path(), 0), kContext);
  EXPECT_EQ(answer[1], 5);
  EXPECT_EQ(read_usage(folder_.path("usage"))->launches, answer[1] + answer[2]) << "each was asked for";
  EXPECT_GT(read_usage(folder_.path("usage"))->throttled_ns, 200'000'000) << "and held";
}

TEST_F(LeaksTest, ManyFirstContextsAtATimeDoNotPassTheLimit) {
  for (const char* line : {"ctx 0", "retain 0"}) {
    ASSERT_TRUE(unlink(folder_.path("usage").c_str()) == 0 || errno == ENOENT);
    give(700, 0);
    std::vector<Probe> probes;
    for (int i = 0; i < 8; ++i) {
      probes.push_back(probe());
      ASSERT_EQ(probes.back().code("init"), kOk);
    }
    for (const Probe& p : probes) p.send(line);
    int made = 0;
    for (Probe& p : probes) {
      const int64_t code = p.receive().at(0);
      EXPECT_TRUE(code == kOk || code == kOutOfMemory) << code;
      made += code == kOk ? 1 : 0;
    }
    EXPECT_EQ(made, 2) << line;
    EXPECT_EQ(machine_.taken(0), 2 * kContext);
    EXPECT_EQ(charged(folder_.path(), 0), 2 * kContext);
  }
}

TEST_F(LeaksTest, AFirstContextThatDoesNotFitIsGoneAgain) {
  give(200, 0);
  Probe p = probe();
  step(p, "init");
  step(p, "ctx 0", kOutOfMemory);
  step(p, "retain 0", kOutOfMemory);
  step(p, "ctx 0", kOutOfMemory);
}

// Killed while it measures: the next one takes its turn.
TEST_F(LeaksTest, AProcessThatDiesWhileItMeasuresHoldsNobodyUp) {
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(unlink(folder_.path("usage").c_str()) == 0 || errno == ENOENT);
    give(1000, 0);
    Probe dying = probe();
    ASSERT_EQ(dying.code("init"), kOk);
    dying.send("ctx 0");
    usleep(static_cast<useconds_t>(round) * 200);
    dying.kill();
    Probe p = probe();
    ASSERT_EQ(p.code("init"), kOk);
    ASSERT_EQ(p.code("ctx 0"), kOk);
    step(p, "info");
    EXPECT_EQ(charged(folder_.path(), 0), kContext);
  }
}

// In a container, before the agent has told which pid a process has for the vendor's account.
TEST_F(LeaksTest, CodeIsChargedWhereTheAccountDoesNotKnowTheProcessYet) {
  if (std::system("unshare --pid --fork --mount-proc true 2> /dev/null") != 0) {
    GTEST_SKIP() << "no right to make a namespace";
  }
  give(1000);
  Probe::Setup setup;
  setup.program = "/usr/bin/env";
  setup.access = "unshare --pid --fork --mount-proc --kill-child " HEDDLE_PROBE " dlsym";
  Probe p = probe(setup);
  step(p, "init");
  step(p, "ctx 0");
  step(p, "module 1000 3221225472", kOutOfMemory);
  EXPECT_EQ(charged(folder_.path(), 0), kContext) << "what did not fit is gone again";
  const int64_t first = step(p, "module 1000 209715200");
  const int64_t second = step(p, "library 5000000 104857600");
  step(p, "alloc 524288000", kOutOfMemory);
  step(p, "module-unload " + text(first));
  step(p, "alloc 524288000");
  const auto live = LiveProcesses::scan();
  ASSERT_TRUE(live);
  const auto find_pid = [&](const SlotOwner& owner) { return live->pid_of(owner); };
  ASSERT_EQ(*tell_host_pids(folder_.path("usage"), find_pid), 1);
  step(p, "library-unload " + text(second));
  step(p, "module 5000000 1");
  step(p, "module 1000 3221225472", kOutOfMemory);
  step(p, "info");
}

// Another tenant of the card, and this one, are at work; each sees itself alone in its share.
TEST_F(LeaksTest, WhatNvidiaSmiAsksForShowsTheShareAlone) {
  give(1000);
  const Folder other;
  write_guard_files(other.path(), limits_for({{machine_.uuid(0), 5000 * kMiB, 0, false, kContext}}));
  Probe mine = probe();
  Probe stranger(other.path(), HEDDLE_SIM_LIBRARIES, {});
  for (Probe* p : {&mine, &stranger}) {
    ASSERT_EQ(p->code("init"), kOk);
    ASSERT_EQ(p->code("ctx 0"), kOk);
    ASSERT_EQ(p->code("stream"), kOk);
    ASSERT_EQ(p->code("kernel 2000"), kOk);
  }
  ASSERT_EQ(mine.code("alloc 104857600"), kOk);
  ASSERT_EQ(stranger.code("alloc 4194304000"), kOk);
  mine.send("run 300 4");
  ASSERT_EQ(stranger.tell("run 300 4").at(0), kOk);
  ASSERT_EQ(mine.receive().at(0), kOk);
  const int64_t held = kContext + 100 * kMiB;
  EXPECT_EQ(mine.tell("smi 0"), (std::vector<int64_t>{1000 * kMiB, held, held, 1, mine.pid(), 1, mine.pid()}));
  const auto theirs = stranger.tell("smi 0");
  ASSERT_GT(theirs.size(), 4u);
  EXPECT_EQ(theirs[1], kContext + 4000 * kMiB);
  EXPECT_EQ(std::vector<int64_t>(theirs.begin() + 3, theirs.end()),
            (std::vector<int64_t>{1, stranger.pid(), 1, stranger.pid()}));
  Probe::Setup bare;
  bare.guarded = false;
  Probe operators(folder_.path(), HEDDLE_SIM_LIBRARIES, bare);
  const auto all = operators.tell("smi 0");
  ASSERT_GT(all.size(), 3u);
  EXPECT_EQ(all[3], 2) << "without the guard both are seen";
}

TEST_F(LeaksTest, APoolThatIsDestroyedInUseIsChargedUntilItsMemoryIsBack) {
  give(2000);
  Probe p = probe();
  step(p, "init");
  step(p, "ctx 0");
  step(p, "stream");
  step(p, "pool");
  const int64_t first = step(p, "frompool 524288000");
  const int64_t second = step(p, "frompool 104857600");
  step(p, "pool-destroy");
  EXPECT_EQ(charged(folder_.path(), 0), kContext + 600 * kMiB) << "in use still";
  step(p, "alloc 1258291200", kOutOfMemory);
  ASSERT_EQ(p.code("free-async " + text(first)), kOk);
  step(p, "sync");
  EXPECT_EQ(charged(folder_.path(), 0), kContext + 100 * kMiB);
  ASSERT_EQ(p.code("free-async " + text(second)), kOk);
  step(p, "ctx-sync");
  EXPECT_EQ(charged(folder_.path(), 0), kContext);
  step(p, "alloc 1363148800");
}

TEST_F(LeaksTest, ThereIsNoLimitToTheNumberOfPools) {
  give(4000);
  Probe p = probe();
  step(p, "init");
  step(p, "ctx 0");
  step(p, "stream");
  EXPECT_EQ(p.tell("pools 600 2097152"), (std::vector<int64_t>{kOk, 600}));
  EXPECT_EQ(charged(folder_.path(), 0), machine_.taken(0));
  EXPECT_EQ(p.code("pools 2000 2097152"), kOutOfMemory);
  EXPECT_EQ(charged(folder_.path(), 0), machine_.taken(0));
}

}  // namespace
}  // namespace heddle::guard::test
