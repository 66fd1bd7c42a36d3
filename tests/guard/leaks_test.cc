// Ways by which a tenant's processes could hold more of a card than is charged, or be charged for what they no longer
// hold, against the simulated machine.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "guard/harness.h"
#include "guard/ledger.h"

namespace heddle::guard::test {
namespace {

constexpr int64_t kContext = 300 * kMiB;

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

// Killed anywhere between its start and its end: while it takes its slot, measures and makes its context, settles
// allocations, makes, uses and ends pools, loads code, and becomes another program. HEDDLE_GUARD_DEATHS: how many.
TEST_F(LeaksTest, KilledAtAnyPointOfItsLifeItLeavesNothingCharged) {
  const std::vector<std::string> life = {"init",
                                         "ctx 0",
                                         "alloc 5000000",
                                         "stream",
                                         "pool",
                                         "frompool 50000000",
                                         "frompool 1000000",
                                         "pool-destroy",
                                         "module 5000000 1",
                                         "async 3000000",
                                         "retain 0",
                                         "exec"};
  const char* wanted = std::getenv("HEDDLE_GUARD_DEATHS");
  const int deaths = wanted != nullptr ? std::atoi(wanted) : 36;
  std::mt19937 random(3);
  for (int i = 0; i < deaths; ++i) {
    ASSERT_TRUE(unlink(folder_.path("usage").c_str()) == 0 || errno == ENOENT);
    give(2000, i % 2 == 0 ? kContext : 0);
    Probe dying = probe();
    // What comes before the death's own line is over by then.
    const size_t last = random() % life.size();
    for (size_t at = 0; at < last; ++at) ASSERT_EQ(dying.code(life[at]), kOk) << life[at];
    dying.send(life[last]);
    usleep(static_cast<useconds_t>(random() % 600));
    dying.kill();
    Probe next = probe();
    ASSERT_EQ(next.code("init"), kOk);
    ASSERT_EQ(next.code("ctx 0"), kOk);
    ASSERT_EQ(next.code("info"), kOk);
    ASSERT_EQ(machine_.taken(0), kContext) << "killed in " << life[last];
    ASSERT_EQ(charged(folder_.path(), 0), kContext) << "killed in " << life[last];
  }
}

// Inputs that another vendor-neutral limiter is known to be tested with.
TEST_F(LeaksTest, HandlesOfTheHostAndThoseMadeWithoutAContext) {
  give(1000);
  Probe p = probe();
  step(p, "init");
  step(p, "create-host 2097152");
  EXPECT_EQ(charged(folder_.path(), 0), 0) << "memory of the host";
  step(p, "create 2097152000", kOutOfMemory);
  const int64_t handle = step(p, "create 419430400");
  EXPECT_EQ(charged(folder_.path(), 0), 400 * kMiB);
  step(p, "release-handle " + text(handle));
  EXPECT_EQ(charged(folder_.path(), 0), 0);
}

TEST_F(LeaksTest, ALimitThatIsLoweredBelowWhatIsUsedAllowsNothingMore) {
  give(2000);
  Probe p = probe();
  step(p, "init");
  step(p, "ctx 0");
  step(p, "alloc 1572864000");
  give(500);
  Probe q = probe();
  step(q, "init");
  step(q, "ctx 0", kOutOfMemory);
  step(q, "retain 0", kOutOfMemory);
  EXPECT_EQ(q.tell("nvml 0"),
            (std::vector<int64_t>{0, 500 * kMiB, 500 * kMiB, 0, 500 * kMiB, 500 * kMiB, 0, 1, p.pid()}));
  p.kill();
  ASSERT_EQ(q.code("ctx 0"), kOk);
  EXPECT_EQ(q.tell("info"), (std::vector<int64_t>{kOk, 200 * kMiB, 500 * kMiB}));
  step(q, "alloc 209715200");
  step(q, "alloc 1", kOutOfMemory);
}

TEST_F(LeaksTest, OfTwoThatAskForMoreThanHalfAtATimeExactlyOneHasIt) {
  give(1024 + 600);
  Probe a = probe();
  Probe b = probe();
  for (Probe* p : {&a, &b}) {
    step(*p, "init");
    step(*p, "ctx 0");
  }
  for (int round = 0; round < 50; ++round) {
    a.send("alloc 629145600");
    b.send("alloc 629145600");
    const auto first = a.receive();
    const auto second = b.receive();
    ASSERT_EQ(first.at(0) + second.at(0), kOk + kOutOfMemory) << "round " << round;
    EXPECT_EQ(charged(folder_.path(), 0), machine_.taken(0));
    Probe& winner = first[0] == kOk ? a : b;
    step(winner, "free " + text(first[0] == kOk ? first.at(1) : second.at(1)));
  }
}

// In another pid namespace, where only the agent can tell.
TEST_F(LeaksTest, AProcessThatDiedBeforeItWroteItsStartTimeHoldsNoSlot) {
  give(1000);
  Probe p = probe();
  step(p, "init");
  step(p, "ctx 0");
  const int file = ::open(folder_.path("usage").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(file, 0);
  void* memory = ::mmap(nullptr, sizeof(heddle_guard_usage), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  ASSERT_NE(memory, MAP_FAILED);
  auto* usage = static_cast<heddle_guard_usage*>(memory);
  constexpr uint32_t kSlot = 7;
  usage->slots[kSlot].owner = ledger::pack_owner(4321, usage->slots[kSlot].generation, 12345);
  usage->header.slots_used = kSlot + 1;
  ASSERT_EQ(p.code("info"), kOk);
  EXPECT_NE(usage->slots[kSlot].owner, 0u) << "nobody has said anything of it yet";
  const auto owner_is_gone = [](const SlotOwner& owner) { return owner.pid != 4321; };
  EXPECT_EQ(*free_slots_of_dead(folder_.path("usage"), [](const SlotOwner&) { return true; }), 0);
  EXPECT_EQ(*free_slots_of_dead(folder_.path("usage"), owner_is_gone), 1);
  ASSERT_EQ(p.code("info"), kOk);
  EXPECT_EQ(usage->slots[kSlot].owner, 0u);
  ::munmap(memory, sizeof(heddle_guard_usage));
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
