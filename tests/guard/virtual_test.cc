// Virtual memory against the simulated machine: beyond what a tenant was granted of the card its allocations are
// managed memory, up to its virtual limit, and never take what others were granted.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "guard/harness.h"

namespace heddle::guard::test {
namespace {

constexpr int64_t kContext = 300 * kMiB;

std::string mib(const std::string& verb, int64_t amount) {
  return verb + " " + std::to_string(amount * kMiB);
}

std::string at(const std::string& verb, int64_t address) {
  return verb + " " + std::to_string(static_cast<uint64_t>(address));
}

DeviceLimit share(const Machine& machine, int64_t memory_mib, int64_t virtual_mib) {
  DeviceLimit limit{machine.uuid(0), memory_mib * kMiB, 0, false, kContext};
  limit.virtual_bytes = virtual_mib * kMiB;
  return limit;
}

DeviceUsage used(const Folder& folder) {
  const auto report = read_usage(folder.path("usage"));
  EXPECT_TRUE(report);
  return report ? report->devices.at(0) : DeviceUsage{};
}

Probe start(const Folder& folder, const std::string& access = "dlsym") {
  Probe::Setup setup;
  setup.access = access;
  Probe probe(folder.path(), HEDDLE_SIM_LIBRARIES, setup);
  EXPECT_EQ(probe.code("init"), kOk);
  EXPECT_EQ(probe.code("ctx 0"), kOk);
  return probe;
}

TEST(VirtualTest, WhatTheGrantHasNoRoomForIsManagedUpToTheVirtualLimit) {
  for (const char* access : {"dlsym", "proc"}) {
    const Folder folder;
    const Machine machine(folder, {1, 8192, 300, 64});
    write_guard_files(folder.path(), limits_for({share(machine, 2000, 6000)}));
    Probe p = start(folder, access);
    EXPECT_EQ(p.tell("total 0").at(1), 6000 * kMiB);
    EXPECT_EQ(p.tell("info"), (std::vector<int64_t>{kOk, 5700 * kMiB, 6000 * kMiB}));
    EXPECT_EQ(p.code(mib("alloc", 1500)), kOk);
    EXPECT_EQ(used(folder).charged_bytes, 1800 * kMiB);
    EXPECT_EQ(used(folder).managed_bytes, 0);
    const auto beyond = p.tell(mib("alloc", 1500));
    ASSERT_EQ(beyond.at(0), kOk);
    EXPECT_EQ(used(folder).charged_bytes, 1800 * kMiB) << "the card's part of the grant is as it was";
    EXPECT_EQ(used(folder).managed_bytes, 1500 * kMiB);
    EXPECT_EQ(p.code(mib("alloc", 2701)), kOutOfMemory) << "300 + 1500 + 1500 + 2701 is more than 6000";
    const auto pitched = p.tell("pitch 1048576 2600");
    EXPECT_EQ(pitched.at(0), kOk);
    EXPECT_EQ(used(folder).managed_bytes, 4100 * kMiB);
    EXPECT_EQ(p.code(mib("alloc", 200)), kOutOfMemory) << "the grant has room for it, the virtual limit has not";
    EXPECT_EQ(p.code(mib("managed", 100)), kOk);
    EXPECT_EQ(used(folder).charged_bytes, 1900 * kMiB);
    EXPECT_EQ(p.tell("info"), (std::vector<int64_t>{kOk, 0, 6000 * kMiB}));
    EXPECT_EQ(p.code(at("free", beyond.at(1))), kOk);
    EXPECT_EQ(used(folder).managed_bytes, 2600 * kMiB);
    EXPECT_EQ(p.code(at("free", beyond.at(1))), 1) << "it is gone";
    EXPECT_EQ(p.code("stream"), kOk);
    EXPECT_EQ(p.code(at("free-async", pitched.at(1))), kOk);
    EXPECT_EQ(used(folder).managed_bytes, 0);
    EXPECT_EQ(used(folder).charged_bytes, 1900 * kMiB);
  }
}

TEST(VirtualTest, TheVendorsLibraryOfTheMachineShowsWhatWasGrantedOfTheCard) {
  const Folder folder;
  const Machine machine(folder, {1, 8192, 300, 64});
  write_guard_files(folder.path(), limits_for({share(machine, 2000, 6000)}));
  Probe p = start(folder);
  EXPECT_EQ(p.code(mib("alloc", 4000)), kOk);
  const auto memory = p.tell("nvml 0");
  EXPECT_NE(std::find(memory.begin(), memory.end(), 2000 * kMiB), memory.end());
  EXPECT_EQ(std::find(memory.begin(), memory.end(), 6000 * kMiB), memory.end());
}

TEST(VirtualTest, TwoTenantsAddressMoreThanTheCardHasAndEachKeepsItsGrant) {
  const Folder one;
  const Folder two;
  const Machine machine(one, {1, 8192, 300, 64});
  write_guard_files(one.path(), limits_for({share(machine, 4000, 12000)}));
  write_guard_files(two.path(), limits_for({share(machine, 4000, 12000)}));
  Probe first = start(one);
  EXPECT_EQ(first.code(mib("alloc", 11000)), kOk);
  EXPECT_EQ(machine.taken(0), 8192 * kMiB) << "what does not fit lies on the host";
  Probe second = start(two);
  EXPECT_EQ(second.code(mib("alloc", 3700)), kOk) << "managed memory of the first gives way to what was granted";
  EXPECT_EQ(used(two).charged_bytes, 4000 * kMiB);
  EXPECT_EQ(first.code(mib("alloc", 600)), kOk);
  EXPECT_EQ(used(one).charged_bytes, 900 * kMiB);
  EXPECT_EQ(second.code(mib("alloc", 7000)), kOk);
  EXPECT_EQ(used(one).charged_bytes + used(one).managed_bytes + used(two).charged_bytes + used(two).managed_bytes,
            (11900 + 11000) * kMiB);
  for (Probe* p : {&first, &second}) {
    EXPECT_EQ(p->code("kernel 100 1"), kOk);
    EXPECT_EQ(p->code("launch"), kOk);
    EXPECT_EQ(p->code("ctx-sync"), kOk);
  }
  EXPECT_EQ(machine.taken(0), 8192 * kMiB);
}

TEST(VirtualTest, ADeadProcessGivesBackWhatItAddressed) {
  const Folder folder;
  const Machine machine(folder, {1, 8192, 300, 64});
  write_guard_files(folder.path(), limits_for({share(machine, 2000, 6000)}));
  Probe dies = start(folder);
  EXPECT_EQ(dies.code(mib("alloc", 1000)), kOk);
  EXPECT_EQ(dies.code(mib("alloc", 4000)), kOk);
  Probe p = start(folder);
  EXPECT_EQ(p.code(mib("alloc", 1000)), kOutOfMemory) << "300 + 1000 + 4000 + 300 + 1000 is more than 6000";
  dies.kill();
  EXPECT_EQ(p.code(mib("alloc", 5700)), kOk);
  EXPECT_EQ(used(folder).charged_bytes, 300 * kMiB);
  EXPECT_EQ(used(folder).managed_bytes, 5700 * kMiB);
}

TEST(VirtualTest, ProcessesOfATenantNeverAddressMoreThanItsVirtualLimitTogether) {
  const Folder folder;
  const Machine machine(folder, {1, 8192, 300, 64});
  write_guard_files(folder.path(), limits_for({share(machine, 2000, 4000)}));
  std::vector<Probe> probes;
  for (int i = 0; i < 4; ++i) probes.push_back(start(folder));
  for (int round = 0; round < 10; ++round) {
    for (const Probe& p : probes) p.send(mib("alloc", 900));
    std::vector<std::pair<Probe*, int64_t>> got;
    for (Probe& p : probes) {
      const auto answer = p.receive();
      if (answer.at(0) == kOk) got.emplace_back(&p, answer.at(1));
    }
    EXPECT_EQ(got.size(), 3u) << "4 x 300 + 3 x 900 are 3900";
    EXPECT_EQ(used(folder).charged_bytes + used(folder).managed_bytes, 3900 * kMiB);
    EXPECT_LE(used(folder).charged_bytes, 2000 * kMiB);
    for (const auto& [p, address] : got) EXPECT_EQ(p->code(at("free", address)), kOk);
    EXPECT_EQ(used(folder).charged_bytes, 1200 * kMiB);
    EXPECT_EQ(used(folder).managed_bytes, 0);
  }
}

TEST(VirtualTest, AContextTakesItsManagedMemoryWithIt) {
  const Folder folder;
  const Machine machine(folder, {1, 8192, 300, 64});
  write_guard_files(folder.path(), limits_for({share(machine, 2000, 6000)}));
  Probe p = start(folder);
  const auto context = p.tell("ctx 0");
  ASSERT_EQ(context.at(0), kOk);
  EXPECT_EQ(p.code(mib("alloc", 3000)), kOk);
  EXPECT_EQ(used(folder).managed_bytes, 3000 * kMiB);
  EXPECT_EQ(p.code(at("ctx-destroy", context.at(1))), kOk);
  EXPECT_EQ(used(folder).managed_bytes, 0);
  EXPECT_EQ(used(folder).charged_bytes, 300 * kMiB);
}

TEST(VirtualTest, PagesThatLieOnTheCardAreToldApartFromCode) {
  const Folder folder;
  const Machine machine(folder, {1, 8192, 300, 64});
  write_guard_files(folder.path(), limits_for({share(machine, 1000, 6000)}));
  Probe p = start(folder);
  EXPECT_EQ(p.code(mib("alloc", 2000)), kOk);
  const auto module = p.tell("module 5000000 1");
  ASSERT_EQ(module.at(0), kOk);
  if (machine.taken(0) != (2000 + 308) * kMiB) GTEST_SKIP() << "the vendor's account does not know this process here";
  EXPECT_EQ(used(folder).charged_bytes, 308 * kMiB) << "context, code and a global";
  EXPECT_EQ(used(folder).managed_bytes, 2000 * kMiB);
  EXPECT_EQ(used(folder).managed_resident_bytes, 2000 * kMiB);
}

TEST(VirtualTest, ThereIsNoneWhereTheDeviceDoesNotMovePagesByItself) {
  const Folder folder;
  const Machine machine(folder, {1, 8192, 300, 64, false});
  write_guard_files(folder.path(), limits_for({share(machine, 2000, 6000)}));
  Probe p = start(folder);
  EXPECT_EQ(p.tell("total 0").at(1), 2000 * kMiB);
  EXPECT_EQ(p.tell("info"), (std::vector<int64_t>{kOk, 1700 * kMiB, 2000 * kMiB}));
  EXPECT_EQ(p.code(mib("alloc", 1701)), kOutOfMemory);
  EXPECT_EQ(p.code(mib("managed", 1701)), kOutOfMemory);
  EXPECT_EQ(p.code(mib("alloc", 1700)), kOk);
  EXPECT_EQ(used(folder).managed_bytes, 0);
}

TEST(VirtualTest, OtherKindsOfMemoryKeepToTheGrant) {
  const Folder folder;
  const Machine machine(folder, {1, 8192, 300, 64});
  write_guard_files(folder.path(), limits_for({share(machine, 2000, 6000)}));
  Probe p = start(folder);
  EXPECT_EQ(p.code("stream"), kOk);
  EXPECT_EQ(p.code(mib("async", 1800)), kOutOfMemory);
  EXPECT_EQ(p.code(mib("create", 1800)), kOutOfMemory);
  EXPECT_EQ(p.code(mib("async", 1600)), kOk);
  EXPECT_EQ(used(folder).managed_bytes, 0);
  EXPECT_EQ(used(folder).charged_bytes, 1900 * kMiB);
}

}  // namespace
}  // namespace heddle::guard::test
