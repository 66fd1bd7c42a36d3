#include "agent/account.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/guard_folder.h"
#include "agent/supervise.h"
#include "base/file.h"
#include "guard/layout.h"

namespace heddle::agent {
namespace {

class AccountTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "heddle-account-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    const guard::ClaimLimits limits{"u1", "gpu", {{"GPU-1", 1 << 30, 10, false, 0}}, {}, 0};
    const auto folder = write_guard_folder(dir_ + "/gpu", limits, UsageKind::kPlain);
    ASSERT_TRUE(folder);
    account_ = {{"u1", "ns", "c", {}, {}, {}, {}}, folder->usage};
  }
  void TearDown() override { ASSERT_TRUE(remove_tree(dir_)); }

  // A slot as a process in this pid namespace takes it.
  void take_slot(size_t index, pid_t pid, uint64_t start_time) {
    struct stat ns{};
    ASSERT_EQ(::stat("/proc/self/ns/pid", &ns), 0);
    std::string bytes = *read_file(account_.usage_file);
    auto* usage = reinterpret_cast<heddle_guard_usage*>(bytes.data());
    usage->slots[index].owner = (static_cast<uint64_t>(pid) << 42) | (static_cast<uint64_t>(ns.st_ino) & 0xffffffffU);
    usage->slots[index].start_time = start_time;
    ASSERT_TRUE(write_file_atomic(account_.usage_file, bytes, 0666));
  }
  uint64_t dead_start_time(size_t index) {
    const std::string bytes = *read_file(account_.usage_file);
    return reinterpret_cast<const heddle_guard_usage*>(bytes.data())->slots[index].dead_start_time;
  }

  std::string dir_;
  ClaimAccount account_;
  SystemClock clock_;
  Logger log_{"test", LogLevel::kError, clock_};
};

TEST_F(AccountTest, TakesTheDeadOffAndLeavesTheLiving) {
  const auto self = identify_process("/proc", ::getpid());
  ASSERT_TRUE(self);
  take_slot(0, ::getpid(), self->start_time);
  take_slot(1, ::getpid(), self->start_time + 1);  // the same pid, another process: gone
  EXPECT_EQ(free_dead_processes({account_}, "/proc", log_), 1);
  EXPECT_EQ(dead_start_time(0), 0U);
  EXPECT_EQ(dead_start_time(1), self->start_time + 1);
  EXPECT_EQ(free_dead_processes({account_}, "/proc", log_), 0) << "once";
}

TEST_F(AccountTest, WithoutAListOfProcessesNobodyIsDead) {
  take_slot(0, ::getpid(), 1);
  EXPECT_EQ(free_dead_processes({account_}, "/nonexistent", log_), 0);
}

TEST_F(AccountTest, ADamagedAccountIsSkipped) {
  ASSERT_TRUE(write_file_atomic(account_.usage_file, "tenant wrote here", 0666));
  EXPECT_EQ(free_dead_processes({account_}, "/proc", log_), 0);
  EXPECT_TRUE(charged(account_).empty());
}

TEST(SeesAllProcesses, OnlyInTheFirstNamespaceWhenInAPod) {
  EXPECT_TRUE(sees_all_processes("/proc", false));
  EXPECT_FALSE(sees_all_processes("/nonexistent", true));
}

}  // namespace
}  // namespace heddle::agent
