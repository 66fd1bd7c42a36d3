// Memory limits against the simulated machine: after each step what is charged is what the device really holds, and no
// way of dying, forking or racing changes that.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

#include "guard/harness.h"

namespace heddle::guard::test {
namespace {

constexpr int64_t kContext = 300 * kMiB;

class LimitsTest : public testing::Test {
 protected:
  LimitsTest() : machine_(folder_, {2, 8192, 300, 64}) {}

  void give(int64_t first_mib, int64_t second_mib = 1000, int64_t context = kContext) const {
    write_guard_files(folder_.path(), limits_for({{machine_.uuid(0), first_mib * kMiB, 0, false, context},
                                                  {machine_.uuid(1), second_mib * kMiB, 0, false, context}}));
  }
  Probe probe(Probe::Setup setup = {}) const { return Probe(folder_.path(), HEDDLE_SIM_LIBRARIES, std::move(setup)); }
  int64_t charged_on(size_t device) const { return charged(folder_.path(), device); }

  // What the guard says equals what the device says.
  void expect_exact(const std::string& after) const {
    EXPECT_EQ(charged_on(0), machine_.taken(0)) << "card 0 after " << after;
    EXPECT_EQ(charged_on(1), machine_.taken(1)) << "card 1 after " << after;
  }

  // Tells a probe and compares; gives the second number of the answer.
  int64_t step(Probe& p, const std::string& line, int64_t expected = kOk) const {
    const auto answer = p.tell(line);
    EXPECT_EQ(answer.at(0), expected) << line;
    expect_exact(line);
    return answer.size() > 1 ? answer[1] : 0;
  }

  Folder folder_;
  Machine machine_;
};

TEST_F(LimitsTest, EveryFamilyIsChargedWithWhatTheDeviceTakes) {
  for (const char* access : {"dlsym", "proc"}) {
    ASSERT_EQ(unlink(folder_.path("usage").c_str()) == 0 || errno == ENOENT, true);
    give(3000);
    Probe::Setup setup;
    setup.access = access;
    Probe p = probe(setup);
    step(p, "init");
    step(p, "ctx 0");
    EXPECT_EQ(charged_on(0), kContext);
    const int64_t plain = step(p, "alloc 1000000");
    EXPECT_EQ(charged_on(0), kContext + 2 * kMiB) << "rounded up as the device does";
    const int64_t managed = step(p, "managed 5000000");
    const int64_t pitched = step(p, "pitch 1000 5000");
    step(p, "free " + text(plain));
    step(p, "free " + text(managed));
    step(p, "free " + text(pitched));
    EXPECT_EQ(charged_on(0), kContext);
    p.kill();
  }
}

TEST_F(LimitsTest, HandlesAreChargedOnceHoweverOftenMapped) {
  give(3000);
  Probe p = probe();
  step(p, "init");
  step(p, "ctx 0");
  const auto first = p.tell("create 4194304");
  if (first[0] == kNotSupported) GTEST_SKIP() << "the simulated driver has no such memory";
  const int64_t handle = first.at(1);
  expect_exact("create");
  const int64_t mapped = step(p, "map " + text(handle) + " 4194304");
  const int64_t again = step(p, "map " + text(handle) + " 4194304");
  EXPECT_EQ(charged_on(0), kContext + 4 * kMiB);
  step(p, "release-handle " + text(handle));
  step(p, "unmap " + text(mapped) + " 4194304");
  const int64_t retained = step(p, "retain-handle " + text(again));
  step(p, "unmap " + text(again) + " 4194304");
  EXPECT_EQ(charged_on(0), kContext + 4 * kMiB) << "a reference still holds it";
  step(p, "release-handle " + text(retained));
  EXPECT_EQ(charged_on(0), kContext);
  step(p, "create 4294967296", kOutOfMemory);
}

TEST_F(LimitsTest, ArraysAreChargedWithWhatTheDeviceTakes) {
  give(3000);
  Probe p = probe();
  step(p, "init");
  step(p, "ctx 0");
  const auto first = p.tell("array 1000 1000");
  if (first[0] == kNotSupported) GTEST_SKIP() << "the simulated driver has no arrays";
  expect_exact("array");
  EXPECT_GE(charged_on(0), kContext + 16000000);
  const int64_t mipmap = step(p, "mipmap 1024 1024 5");
  step(p, "array-destroy " + text(first.at(1)));
  step(p, "mipmap-destroy " + text(mipmap));
  EXPECT_EQ(charged_on(0), kContext);
  step(p, "array 60000 60000", kOutOfMemory);
}

TEST_F(LimitsTest, PoolsAreChargedByWhatTheyReserve) {
  give(3000);
  Probe p = probe();
  step(p, "init");
  step(p, "retain 0");
  step(p, "stream");
  const int64_t first = step(p, "async 100000000");
  const int64_t second = step(p, "async 5000000");
  step(p, "free-async " + text(first));
  step(p, "sync");
  step(p, "keep 1000000000");
  step(p, "free-async " + text(second));
  step(p, "sync");
  const int64_t third = step(p, "async 3000000");
  step(p, "free-async " + text(third));
  step(p, "sync");
  step(p, "trim 0");
  step(p, "pool");
  const int64_t pooled = step(p, "frompool 50000000");
  step(p, "free-async " + text(pooled));
  step(p, "sync");
  step(p, "pool-destroy");
  const int64_t plain = step(p, "alloc 10000000");
  EXPECT_EQ(p.code("free-async " + text(plain)), kOk);
  step(p, "sync");
  EXPECT_EQ(charged_on(0), kContext);
  step(p, "async 2900000000", kOutOfMemory);
  EXPECT_EQ(charged_on(0), kContext);
}

TEST_F(LimitsTest, MemoryOfGraphsIsChargedHoweverTheNodeWasMade) {
  for (const char* access : {"dlsym", "proc"}) {
    for (const char* way : {"plain", "any"}) {
      ASSERT_EQ(unlink(folder_.path("usage").c_str()) == 0 || errno == ENOENT, true);
      give(1000);
      Probe::Setup setup;
      setup.access = access;
      Probe p = probe(setup);
      step(p, "init");
      step(p, "ctx 0");
      step(p, "stream");
      const int64_t graph = step(p, std::string("graph-memory ") + way + " 314572800");
      EXPECT_EQ(charged_on(0), kContext + 300 * kMiB) << access << " " << way;
      step(p, "alloc 419430401", kOutOfMemory);
      step(p, std::string("graph-memory ") + way + " 1073741824", kOutOfMemory);
      ASSERT_EQ(p.code("graph-end " + text(graph)), kOk);
      step(p, "sync");
      EXPECT_EQ(charged_on(0), kContext) << access << " " << way;
      p.kill();
    }
  }
}

TEST_F(LimitsTest, CodeAndGlobalsOfModulesAreCharged) {
  for (const char* kind : {"module", "library"}) {
    ASSERT_EQ(unlink(folder_.path("usage").c_str()) == 0 || errno == ENOENT, true);
    give(1000);
    Probe p = probe();
    step(p, "init");
    step(p, "ctx 0");
    const int64_t first = step(p, std::string(kind) + " 5000000 104857600");
    EXPECT_EQ(charged_on(0), kContext + 106 * kMiB);
    const int64_t second = step(p, std::string(kind) + " 0 209715200");
    step(p, std::string(kind) + " 1000 734003200", kOutOfMemory);
    EXPECT_EQ(charged_on(0), kContext + 306 * kMiB) << "what did not fit is gone again";
    step(p, "alloc 414187521", kOutOfMemory);
    step(p, std::string(kind) + "-unload " + text(first));
    step(p, "alloc 414187521");
    step(p, std::string(kind) + "-unload " + text(second));
    const int64_t context = step(p, "ctx 1");
    step(p, std::string(kind) + " 4000000 1");
    step(p, "ctx-destroy " + text(context));
    EXPECT_EQ(charged_on(1), 0) << "code of a context that is gone";
    p.kill();
  }
}

TEST_F(LimitsTest, TheHeapOfKernelsIsCharged) {
  give(1000);
  Probe p = probe();
  step(p, "init");
  const int64_t context = step(p, "ctx 0");
  step(p, "heap 110100480");
  EXPECT_EQ(charged_on(0), kContext + 97 * kMiB + kMiB);
  step(p, "heap 2147483648", kOutOfMemory);
  step(p, "heap 20971520");
  EXPECT_EQ(charged_on(0), kContext + 12 * kMiB);
  step(p, "ctx-destroy " + text(context));
  EXPECT_EQ(charged_on(0), 0);
}

TEST_F(LimitsTest, AnExportedHandleIsChargedUntilItsLastImportIsGone) {
  give(1000);
  Probe p = probe();
  step(p, "init");
  step(p, "ctx 0");
  const int64_t handle = step(p, "create-shared 104857600");
  const int64_t again = step(p, "reimport " + text(handle));
  step(p, "release-handle " + text(handle));
  EXPECT_EQ(charged_on(0), kContext + 100 * kMiB) << "the import still holds the memory";
  const int64_t mapped = step(p, "map " + text(again) + " 104857600");
  step(p, "release-handle " + text(again));
  step(p, "unmap " + text(mapped) + " 104857600");
  EXPECT_EQ(charged_on(0), kContext);
}

TEST_F(LimitsTest, ALibraryThatLooksPastUsIsLimited) {
  give(1000);
  Probe p = probe();
  step(p, "init");
  step(p, "ctx 0");
  step(p, "deep " HEDDLE_PLUGIN " 104857600");
  EXPECT_EQ(charged_on(0), kContext + 100 * kMiB);
  step(p, "deep " HEDDLE_PLUGIN " 734003200", kOutOfMemory);
}

TEST_F(LimitsTest, AGraphWaitsForEveryCardThatItRunsOn) {
  write_guard_files(folder_.path(), limits_for({{machine_.uuid(0), 1000 * kMiB, 0, false, kContext},
                                                {machine_.uuid(1), 1000 * kMiB, 10, false, kContext}}));
  Probe p = probe();
  step(p, "init");
  const int64_t other = step(p, "ctx 1");
  step(p, "ctx 0");
  step(p, "stream");
  ASSERT_EQ(p.code("kernel 2000"), kOk);
  const auto answer = p.tell("graph-cards " + text(other) + " 600");
  ASSERT_EQ(answer.size(), 3u);
  EXPECT_EQ(answer[0], kOk);
  EXPECT_GT(read_usage(folder_.path("usage"))->throttled_ns, 100'000'000) << "a tenth of the other card";
}

TEST_F(LimitsTest, ContextsAreChargedOnEveryDeviceAndGiveBackWhatTheyOwned) {
  give(3000);
  Probe p = probe();
  step(p, "init");
  const int64_t one = step(p, "ctx 0");
  step(p, "alloc 100000000");
  step(p, "ctx 1");
  step(p, "alloc 100000000");
  EXPECT_EQ(charged_on(1), kContext + 96 * kMiB);
  step(p, "ctx-destroy " + text(one));
  EXPECT_EQ(charged_on(0), 0);
  step(p, "retain 0");
  step(p, "retain 0");
  EXPECT_EQ(charged_on(0), kContext);
  step(p, "alloc 100000000");
  step(p, "release 0");
  EXPECT_EQ(charged_on(0), kContext + 96 * kMiB);
  step(p, "release 0");
  EXPECT_EQ(charged_on(0), 0);
  step(p, "retain 0");
  step(p, "alloc 100000000");
  step(p, "reset 0");
}

TEST_F(LimitsTest, AStreamOfAnotherCardIsTheOtherCards) {
  write_guard_files(folder_.path(), limits_for({{machine_.uuid(0), 1000 * kMiB, 10, false, kContext},
                                                {machine_.uuid(1), 3000 * kMiB, 0, false, kContext}}));
  Probe p = probe();
  step(p, "init");
  step(p, "ctx 0");
  step(p, "stream");
  step(p, "ctx 1");
  const int64_t address = step(p, "async 104857600");
  EXPECT_EQ(charged_on(0), kContext + 100 * kMiB);
  EXPECT_EQ(charged_on(1), kContext);
  step(p, "async 943718400", kOutOfMemory);
  step(p, "free-async " + text(address));
  ASSERT_EQ(p.code("kernel 2000"), kOk);
  ASSERT_EQ(p.tell("run 400 4").at(0), kOk);
  EXPECT_GT(read_usage(folder_.path("usage"))->throttled_ns, 0) << "a tenth of the card is what it has there";
}

TEST_F(LimitsTest, AContextThatDoesNotFitIsOutOfMemory) {
  give(200);
  Probe p = probe();
  step(p, "init");
  step(p, "retain 0", kOutOfMemory);
  step(p, "ctx 0", kOutOfMemory);
  step(p, "ctx 1");
}

TEST_F(LimitsTest, MeasuresAContextWhereNobodySaysWhatItTakes) {
  give(3000, 1000, 0);
  Probe p = probe();
  step(p, "init");
  step(p, "ctx 0");
  EXPECT_EQ(read_usage(folder_.path("usage"))->devices[0].context_overhead_bytes, kContext);
  Probe q = probe();
  step(q, "init");
  step(q, "ctx 0");
}

TEST_F(LimitsTest, MeasuresAContextInAPidNamespaceOfItsOwn) {
  if (std::system("unshare --pid --fork --mount-proc true 2> /dev/null") != 0) {
    GTEST_SKIP() << "no right to make a namespace";
  }
  give(3000, 1000, 0);
  Probe outside = probe();
  ASSERT_EQ(outside.code("init"), kOk);
  Probe::Setup setup;
  setup.program = "/usr/bin/env";
  setup.access = "unshare --pid --fork --mount-proc --kill-child " HEDDLE_PROBE " dlsym";
  Probe p = probe(setup);
  step(p, "init");
  step(p, "ctx 0");
  EXPECT_EQ(charged_on(0), kContext);
  step(p, "alloc 1000000");
  const auto live = LiveProcesses::scan();
  ASSERT_TRUE(live);
  const auto report = read_usage(folder_.path("usage"));
  ASSERT_TRUE(report);
  ASSERT_EQ(report->processes.size(), 1u);
  EXPECT_EQ(report->processes[0].owner.pid, 1u) << "as it sees itself";
  EXPECT_TRUE(live->contains(report->processes[0].owner)) << "and the host recognises it";
  const auto find_pid = [&](const SlotOwner& owner) { return live->pid_of(owner); };
  EXPECT_EQ(*tell_host_pids(folder_.path("usage"), find_pid), 1);
  EXPECT_EQ(*tell_host_pids(folder_.path("usage"), find_pid), 0) << "it knows by then";
  const int64_t module = step(p, "module 5000000 1");
  step(p, "module-unload " + text(module));
  // From outside nobody may judge it: it stays charged until the agent says that it is gone.
  p.kill();
  ASSERT_EQ(outside.code("ctx 1"), kOk);
  EXPECT_EQ(charged_on(0), kContext + 2 * kMiB);
  const SlotOwner owner = report->processes[0].owner;
  // The namespace ends a little after the process that made it.
  Result<LiveProcesses> now = LiveProcesses::scan();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (now && now->contains(owner) && std::chrono::steady_clock::now() < deadline) now = LiveProcesses::scan();
  ASSERT_TRUE(now);
  EXPECT_EQ(*free_slots_of_dead(folder_.path("usage"), [&](const SlotOwner& o) { return now->contains(o); }), 1);
  ASSERT_EQ(outside.code("ctx 0"), kOk);
  EXPECT_EQ(outside.tell("info")[1], 2700 * kMiB);
}

TEST_F(LimitsTest, TheShareIsShownEverywhere) {
  give(3000);
  Probe p = probe();
  step(p, "init");
  step(p, "ctx 0");
  EXPECT_EQ(p.tell("total 0"), (std::vector<int64_t>{kOk, 3000 * kMiB}));
  EXPECT_EQ(p.tell("total 1"), (std::vector<int64_t>{kOk, 1000 * kMiB}));
  EXPECT_EQ(p.tell("info"), (std::vector<int64_t>{kOk, 2700 * kMiB, 3000 * kMiB}));
  step(p, "alloc 1048576000");
  EXPECT_EQ(p.tell("info"), (std::vector<int64_t>{kOk, 1700 * kMiB, 3000 * kMiB}));
  EXPECT_EQ(p.tell("nvml 0"), (std::vector<int64_t>{0, 3000 * kMiB, 1300 * kMiB, 1700 * kMiB, 3000 * kMiB, 1300 * kMiB,
                                                    1700 * kMiB, 1, p.pid()}));
  EXPECT_EQ(p.tell("nvml 1"), (std::vector<int64_t>{0, 1000 * kMiB, 0, 1000 * kMiB, 1000 * kMiB, 0, 1000 * kMiB, 0}));
}

TEST_F(LimitsTest, NeverPromisesMoreThanTheCardHas) {
  give(7000);
  const Folder other;
  write_guard_files(other.path(), limits_for({{machine_.uuid(0), 7000 * kMiB, 0, false, kContext}}));
  Probe neighbour(other.path(), HEDDLE_SIM_LIBRARIES, {});
  ASSERT_EQ(neighbour.code("init"), kOk);
  ASSERT_EQ(neighbour.code("ctx 0"), kOk);
  ASSERT_EQ(neighbour.code("alloc 5242880000"), kOk);
  Probe p = probe();
  ASSERT_EQ(p.code("init"), kOk);
  ASSERT_EQ(p.code("ctx 0"), kOk);
  EXPECT_EQ(p.tell("info"), (std::vector<int64_t>{kOk, (8192 - 300 - 5000 - 300) * kMiB, 7000 * kMiB}));
  ASSERT_EQ(p.code("alloc 4294967296"), kOutOfMemory) << "the driver's own refusal";
  EXPECT_EQ(charged_on(0), kContext) << "and what it refused is given back";
}

TEST_F(LimitsTest, TheOrderOfVisibleDevicesDoesNotMatter) {
  give(3000);
  const std::string forms[] = {"1,0", machine_.uuid(1) + "," + machine_.uuid(0), "1"};
  for (const std::string& form : forms) {
    Probe::Setup setup;
    setup.environment["CUDA_VISIBLE_DEVICES"] = form;
    Probe p = probe(setup);
    ASSERT_EQ(p.code("init"), kOk);
    EXPECT_EQ(p.tell("total 0"), (std::vector<int64_t>{kOk, 1000 * kMiB})) << form;
    ASSERT_EQ(p.code("ctx 0"), kOk);
    EXPECT_EQ(p.tell("info")[1], 700 * kMiB) << form;
    p.kill();
  }
}

TEST_F(LimitsTest, ALinkedProgramIsLimitedLikeAnyOther) {
  give(1000);
  Probe::Setup setup;
  setup.program = HEDDLE_LINKED_PROBE;
  Probe p = probe(setup);
  step(p, "init");
  step(p, "ctx 0");
  EXPECT_EQ(p.tell("total 0"), (std::vector<int64_t>{kOk, 1000 * kMiB}));
  step(p, "alloc 500000000");
  step(p, "alloc 500000000", kOutOfMemory);
}

TEST_F(LimitsTest, ProcessesShareTheLimitExactly) {
  give(1000);
  Probe a = probe();
  Probe b = probe();
  for (Probe* p : {&a, &b}) {
    step(*p, "init");
    step(*p, "ctx 0");
  }
  step(a, "alloc 314572800");
  const int64_t last = step(b, "alloc 104857600");
  step(a, "alloc 1", kOutOfMemory);
  step(b, "alloc 1", kOutOfMemory);
  step(b, "free " + text(last));
  step(a, "alloc 104857601", kOutOfMemory);
  step(a, "alloc 104857600");
}

TEST_F(LimitsTest, AStormOfProcessesAndThreadsNeverPassesTheLimit) {
  give(2000);
  std::vector<Probe> probes;
  for (int i = 0; i < 5; ++i) {
    probes.push_back(probe());
    ASSERT_EQ(probes.back().code("init"), kOk);
    ASSERT_EQ(probes.back().code("ctx 0"), kOk);
  }
  for (const Probe& p : probes) p.send("storm 3 300 6000000");
  bool running = true;
  std::thread watch([&] {
    while (__atomic_load_n(&running, __ATOMIC_RELAXED)) EXPECT_LE(machine_.taken(0), 2000 * kMiB);
  });
  int64_t done = 0;
  int64_t refused = 0;
  for (Probe& p : probes) {
    const auto answer = p.receive();
    ASSERT_EQ(answer.size(), 3u);
    done += answer[0];
    refused += answer[1];
    EXPECT_EQ(answer[2], 0);
  }
  __atomic_store_n(&running, false, __ATOMIC_RELAXED);
  watch.join();
  EXPECT_GT(done, 0);
  EXPECT_GT(refused, 0) << "the limit was reached";
  expect_exact("the storm");
  EXPECT_EQ(charged_on(0), 5 * kContext);
}

TEST_F(LimitsTest, KilledAtRandomMomentsLeavesNothingCharged) {
  give(2000);
  std::mt19937 random(11);
  const char* wanted = std::getenv("HEDDLE_GUARD_DEATHS");
  const int rounds = (wanted != nullptr ? std::atoi(wanted) : 45) / 3;
  for (int round = 0; round < rounds; ++round) {
    std::vector<Probe> probes;
    for (int i = 0; i < 3; ++i) {
      probes.push_back(probe());
      ASSERT_EQ(probes.back().code("init"), kOk);
      ASSERT_EQ(probes.back().code("ctx 0"), kOk);
    }
    for (const Probe& p : probes) p.send("storm 2 1000000 6000000");
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 40));
    for (Probe& p : probes) p.kill();
    Probe p = probe();
    ASSERT_EQ(p.code("init"), kOk);
    ASSERT_EQ(p.code("ctx 0"), kOk);
    ASSERT_EQ(p.tell("info"), (std::vector<int64_t>{kOk, 1700 * kMiB, 2000 * kMiB})) << "round " << round;
    ASSERT_EQ(p.code("alloc 1782579200"), kOk) << "all of it can be had again, round " << round;
    expect_exact("the deaths");
  }
}

TEST_F(LimitsTest, AForkIsAProcessOfItsOwn) {
  give(2000);
  Probe p = probe();
  step(p, "init");
  step(p, "ctx 0");
  const int64_t address = step(p, "alloc 104857600");
  // The driver does not work in a child; the guard must neither hang there nor touch the parent's charges.
  EXPECT_NE(p.code("fork alloc 1048576"), kOk);
  EXPECT_NE(p.code("fork free " + text(address)), kOk);
  EXPECT_NE(p.code("fork storm 2 50 6000000"), -1);
  step(p, "free " + text(address));
  step(p, "alloc 1677721600");
}

TEST_F(LimitsTest, AForkBeforeTheDriverIsAnOrdinaryProcess) {
  give(1000);
  Probe p = probe();
  EXPECT_EQ(p.tell("fork total 0").at(0), 3) << "not initialised: the driver's own answer";
  step(p, "init");
  step(p, "ctx 0");
  step(p, "alloc 734003201", kOutOfMemory);
  step(p, "alloc 734003200", kOk);
}

TEST_F(LimitsTest, ClosingEveryDescriptorChangesNothing) {
  give(1000);
  Probe p = probe();
  step(p, "init");
  step(p, "ctx 0");
  step(p, "alloc 104857600");
  const auto before = charged_on(0);
  ASSERT_EQ(p.code("close-descriptors"), 0);
  Probe q = probe();
  ASSERT_EQ(q.code("init"), kOk);
  ASSERT_EQ(q.code("ctx 0"), kOk);
  EXPECT_EQ(q.tell("info")[1], 1000 * kMiB - before - kContext) << "the first process still holds its share";
}

TEST_F(LimitsTest, TheAgentsWordFreesTheDeadOfOtherNamespaces) {
  give(1000);
  Probe p = probe();
  step(p, "init");
  step(p, "ctx 0");
  Probe q = probe();
  ASSERT_EQ(q.code("init"), kOk);
  EXPECT_EQ(*free_slots_of_dead(folder_.path("usage"), [](const SlotOwner&) { return true; }), 0);
  const auto live = LiveProcesses::scan();
  ASSERT_TRUE(live);
  EXPECT_EQ(*free_slots_of_dead(folder_.path("usage"), [&](const SlotOwner& o) { return live->contains(o); }), 0);
  EXPECT_EQ(*free_slots_of_dead(folder_.path("usage"), [](const SlotOwner&) { return false; }), 1);
  ASSERT_EQ(q.code("ctx 0"), kOk);
  EXPECT_EQ(q.tell("info")[1], 700 * kMiB) << "as if the first process were gone";
}

}  // namespace
}  // namespace heddle::guard::test
