// A tenant against the files of its own claim: whatever it does to them, the agent goes on, and no other claim notices.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "agent/account.h"
#include "agent/guard_folder.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/unique_fd.h"
#include "guard/share_broker.h"

namespace heddle::agent {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

guard::ClaimLimits limits_of(const std::string& uid) {
  return {uid, "gpu", {{"GPU-1", 1000 * kMiB, 40, false, 0}}, {}, 0, 0};
}

class HostileTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/heddle-hostile-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    root_ = name;
    good_ = make("good");
    bad_ = make("bad");
  }
  void TearDown() override {
    for (const char* claim : {"good", "bad"}) EXPECT_TRUE(remove_guard_folder(root_ + "/" + claim));
    EXPECT_TRUE(remove_tree(root_));
  }

  [[nodiscard]] GuardFolder make(const std::string& uid) const {
    auto folder = write_guard_folder(root_ + "/" + uid, limits_of(uid), UsageKind::kTmpfs);
    EXPECT_TRUE(folder) << folder.error().text();
    return folder.value_or(GuardFolder());
  }

  // Everything that the agent does with accounts, with the bad one among them.
  void expect_that_the_agent_goes_on(const std::string& what) const {
    const Logger log("test", LogLevel::kError, clock_);
    ClaimRecord good;
    good.uid = "good";
    ClaimRecord bad;
    bad.uid = "bad";
    const std::vector<ClaimAccount> accounts = {{bad, bad_.usage}, {good, good_.usage}};
    EXPECT_EQ(free_dead_processes(accounts, "/proc", log), 0) << what;
    ASSERT_EQ(charged(accounts[1]).size(), 1u) << what;
    for (const ChargedDevice& device : charged(accounts[0])) EXPECT_GE(device.bytes, 0) << what;
    guard::ShareBroker broker;
    broker.set_claims({{"bad", bad_.limits, bad_.usage}, {"good", good_.limits, good_.usage}});
    EXPECT_TRUE(broker.has_work()) << what;
    EXPECT_GE(broker.tick(1000000000, nullptr).written, 1) << what;
    EXPECT_TRUE(guard::read_usage(good_.usage)) << what;
  }

  SystemClock clock_;
  std::string root_;
  GuardFolder good_;
  GuardFolder bad_;
};

TEST_F(HostileTest, WhateverLiesInThePlaceOfItsAccount) {
  struct Case {
    const char* what;
    std::function<void(const std::string& path)> make;
  };
  const Case cases[] = {
      {"nothing", [](const std::string&) {}},
      {"an empty file", [](const std::string& p) { EXPECT_TRUE(write_file_atomic(p, "", 0666)); }},
      {"other content",
       [](const std::string& p) { EXPECT_TRUE(write_file_atomic(p, std::string(2686976, 'x'), 0666)); }},
      {"a file that nobody may read", [](const std::string& p) { EXPECT_TRUE(write_file_atomic(p, "x", 0)); }},
      {"another user's file",
       [](const std::string& p) {
         EXPECT_TRUE(write_file_atomic(p, "x", 0600));
         EXPECT_TRUE(::geteuid() != 0 || ::chown(p.c_str(), 4711, 4711) == 0);
       }},
      {"a pipe", [](const std::string& p) { EXPECT_EQ(::mkfifo(p.c_str(), 0666), 0); }},
      {"a folder", [](const std::string& p) { EXPECT_EQ(::mkdir(p.c_str(), 0777), 0); }},
      {"a link to an endless file", [](const std::string& p) { EXPECT_EQ(::symlink("/dev/zero", p.c_str()), 0); }},
      {"a link to itself", [](const std::string& p) { EXPECT_EQ(::symlink(p.c_str(), p.c_str()), 0); }},
      {"a socket",
       [](const std::string& p) {
         sockaddr_un name{};
         name.sun_family = AF_UNIX;
         p.copy(name.sun_path, sizeof(name.sun_path) - 1);
         const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
         EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)), 0);
       }},
  };
  for (const Case& c : cases) {
    ASSERT_TRUE(remove_tree(bad_.usage));
    c.make(bad_.usage);
    expect_that_the_agent_goes_on(c.what);
    // The next Prepare or repair puts a good one in its place, unless a folder is in the way of it.
    EXPECT_EQ(guard::create_usage(bad_.usage, limits_of("bad")).has_value(), std::string(c.what) != "a folder")
        << c.what;
  }
}

TEST_F(HostileTest, CutGrownAndFilled) {
  for (const int64_t size : {int64_t{0}, int64_t{1}, int64_t{4096}, int64_t{65536}, int64_t{1} << 40}) {
    const bool done = ::truncate(bad_.usage.c_str(), size) == 0;
    EXPECT_TRUE(done || size == int64_t{1} << 40) << "but for a file system with a bound";
    expect_that_the_agent_goes_on("of " + std::to_string(size) + " bytes");
  }
  ASSERT_EQ(::truncate(bad_.usage.c_str(), 0), 0);
  if (bad_.kind != UsageKind::kTmpfs) GTEST_SKIP() << "no tmpfs here: " << bad_.note;
  const UniqueFd fd(::open(bad_.usage.c_str(), O_WRONLY | O_CLOEXEC));
  const std::string block(kMiB, 'x');
  int64_t filled = 0;
  while (filled < 100 * kMiB) {
    const ssize_t wrote = ::write(fd.get(), block.data(), block.size());
    if (wrote <= 0) break;
    filled += wrote;
  }
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_LE(filled, 8 * kMiB) << "all that a tenant can take of the node";
  expect_that_the_agent_goes_on("full");
  EXPECT_TRUE(write_guard_folder(root_ + "/good", limits_of("good"), UsageKind::kTmpfs))
      << "others have their own room";
}

// A tenant that makes itself root of a user namespace of its own is nobody here.
TEST_F(HostileTest, RootOfAUserNamespaceCannotChangeItsLimits) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  ASSERT_EQ(::chmod(root_.c_str(), 0755), 0);
  enum : int { kHeld = 0, kNoNamespace = 1, kOpened = 2, kChanged = 3, kRemoved = 4, kRemounted = 5 };
  const pid_t child = ::fork();
  if (child == 0) {
    // A process that has changed its user cannot write its own map until it is dumpable again.
    const bool changed = ::setgid(4711) == 0 && ::setuid(4711) == 0 && ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0;
    if (!changed) ::_exit(kNoNamespace);
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) ::_exit(kNoNamespace);
    const UniqueFd map(::open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC));
    if (::write(map.get(), "0 4711 1", 8) != 8) ::_exit(kNoNamespace);
    if (::open(bad_.limits.c_str(), O_WRONLY | O_CLOEXEC) >= 0) ::_exit(kOpened);
    if (::chmod(bad_.limits.c_str(), 0666) == 0 || ::truncate(bad_.limits.c_str(), 0) == 0) ::_exit(kChanged);
    if (::unlink(bad_.limits.c_str()) == 0 || ::rename(bad_.usage.c_str(), bad_.limits.c_str()) == 0) ::_exit(kRemoved);
    if (::mount(nullptr, (root_ + "/bad").c_str(), nullptr, MS_REMOUNT | MS_BIND, nullptr) == 0) ::_exit(kRemounted);
    ::_exit(kHeld);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNoNamespace) GTEST_SKIP() << "no user namespaces here";
  EXPECT_EQ(WEXITSTATUS(status), kHeld);
  const auto content = read_file(bad_.limits);
  ASSERT_TRUE(content);
  EXPECT_TRUE(guard::decode_limits(*content));
}

}  // namespace
}  // namespace heddle::agent
