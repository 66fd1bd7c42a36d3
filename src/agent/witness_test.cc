#include "agent/witness.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "base/temporary_folder.h"
#include "guard/layout.h"
#include "guard/ledger.h"

namespace heddle::agent {
namespace {

// A /proc of our own with one process in it, and a ledger.
class WitnessTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(make_directories(dir_ + "/proc/42/ns", 0755));
    // Field 20 is the threads, field 22 the start time.
    write("proc/42/stat", "42 (py thon)) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 1 0 777 0 0\n");
    write("proc/42/status", "Name:\tpython\nNSpid:\t42\t9\n");
    write("proc/42/ns/pid", "");
    map("7f00-7f01 r-xp 00000000 fd:01 5 /run/heddle/lib/libheddle_guard.so\n");
    guard::ClaimLimits limits;
    limits.claim_uid = "claim";
    limits.devices.push_back({"GPU-1", int64_t{1} << 30, 10});
    ASSERT_TRUE(guard::create_usage(ledger(), limits));
    write("limits", guard::encode_limits(limits).value());
  }

  void write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(write_file_atomic(dir_ + "/" + name, text, 0644));
  }
  void map(const std::string& lines) {
    write("proc/42/maps", "5500-5501 r-xp 00000000 fd:01 4 /bin/python3\n" + lines);
  }
  [[nodiscard]] std::string ledger() const { return dir_ + "/usage"; }
  [[nodiscard]] uint32_t pid_namespace() const {
    struct stat info{};
    EXPECT_EQ(::stat((dir_ + "/proc/42/ns/pid").c_str(), &info), 0);
    return static_cast<uint32_t>(info.st_ino);
  }
  // A slot as the guard in a process of this pid takes it.
  void take_slot(uint32_t pid, uint32_t pid_ns, uint64_t start_time) {
    heddle_guard_slot slot{};
    slot.owner = guard::ledger::pack_owner(pid, 0, pid_ns);
    slot.start_time = start_time;
    std::fstream file(ledger(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offsetof(heddle_guard_usage, slots) + 3 * sizeof(slot)));
    file.write(reinterpret_cast<const char*>(&slot), sizeof(slot));
    ASSERT_TRUE(file.good());
  }
  Guarding look(uint64_t start_time = 777) {
    const ProcessIdentity process{42, start_time, "pod", "python3"};
    return GuardWitness(dir_ + "/proc").look(process, {dir_ + "/none", ledger()});
  }

  const TemporaryFolder folder_;
  const std::string dir_ = folder_.path();
};

TEST_F(WitnessTest, ASlotAndTheLibraryAreAGuard) {
  EXPECT_EQ(look(), Guarding::kNo) << "nobody has a slot";
  take_slot(9, pid_namespace(), 777);
  EXPECT_EQ(look(), Guarding::kYes);
  take_slot(9, pid_namespace(), 0);
  EXPECT_EQ(look(), Guarding::kYes) << "it is just taking it";
}

TEST_F(WitnessTest, ASlotOfAnotherProcessIsNone) {
  take_slot(42, pid_namespace(), 777);
  EXPECT_EQ(look(), Guarding::kNo) << "by the host's pid, where the container has 9";
  take_slot(9, pid_namespace() + 1, 777);
  EXPECT_EQ(look(), Guarding::kNo) << "of another pid namespace";
  take_slot(9, pid_namespace(), 776);
  EXPECT_EQ(look(), Guarding::kNo) << "of the process that had the pid before";
}

TEST_F(WitnessTest, WhatTookThePlaceOfAGuardedProgramIsNotGuarded) {
  take_slot(9, pid_namespace(), 777);
  map("7f00-7f01 r-xp 00000000 fd:01 6 /lib/libc.so.6\n");
  EXPECT_EQ(look(), Guarding::kNo);
  map("7f00-7f01 r-xp 00000000 fd:01 6 /lib/not-libheddle_guard.so\n");
  EXPECT_EQ(look(), Guarding::kNo);
}

TEST_F(WitnessTest, WhoIsEndingIsNotJudged) {
  write("proc/42/maps", "");
  EXPECT_EQ(look(), Guarding::kUnknown) << "its memory is gone, what it holds of the card not yet";
  take_slot(9, pid_namespace(), 777);
  EXPECT_EQ(look(), Guarding::kUnknown);
  EXPECT_EQ(look(778), Guarding::kUnknown) << "the pid is another process's by now";
}

TEST_F(WitnessTest, ADamagedLedgerNamesNobodyAndANewerOneIsNotJudged) {
  take_slot(9, pid_namespace(), 777);
  const auto put = [this](const std::string& name, size_t offset, uint32_t value) {
    std::fstream file(dir_ + "/" + name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file.write(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  put("usage", offsetof(heddle_guard_usage_header, version), HEDDLE_GUARD_VERSION + 1);
  EXPECT_EQ(look(), Guarding::kNo) << "the limits say of what version it is; the tenant cannot";
  put("limits", offsetof(heddle_guard_limits, version), HEDDLE_GUARD_VERSION + 1);
  EXPECT_EQ(look(), Guarding::kUnknown);
  put("limits", offsetof(heddle_guard_limits, version), HEDDLE_GUARD_VERSION);
  put("usage", offsetof(heddle_guard_usage_header, version), HEDDLE_GUARD_VERSION);
  EXPECT_EQ(look(), Guarding::kYes);
  put("usage", offsetof(heddle_guard_usage_header, magic), 0);
  EXPECT_EQ(look(), Guarding::kNo);
  ASSERT_EQ(::truncate(ledger().c_str(), 100), 0);
  EXPECT_EQ(look(), Guarding::kNo);
}

}  // namespace
}  // namespace heddle::agent
