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

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>

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

// A user that is not root, and that this user namespace has; 0: it has none.
uid_t another_user() {
  std::ifstream map("/proc/self/uid_map");
  for (int64_t first = 0, outside = 0, count = 0; map >> first >> outside >> count;) {
    if (first + count > 1)
      return static_cast<uid_t>(std::min<int64_t>(first + count - 1, std::max<int64_t>(first, 4711)));
  }
  return 0;
}

// How far the tenant's process came: what it could do that it must not, or what kept it from trying.
enum class Step : int { kHeld, kUser, kNamespace, kMap, kReach, kOpened, kChanged, kRemoved, kRemounted };

struct Came {
  Step step = Step::kHeld;
  int error = 0;
};

// Never returns to the test: in a process of its own.
Came try_as_root_of_a_namespace(const GuardFolder& folder, const std::string& place, uid_t user) {
  // A process that has changed its user cannot write its own map until it is dumpable again.
  if (::setgid(user) != 0 || ::setuid(user) != 0 || ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0) {
    return {Step::kUser, errno};
  }
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return {Step::kNamespace, errno};
  const UniqueFd map(::open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC));
  const std::string line = "0 " + std::to_string(user) + " 1";
  if (::write(map.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) return {Step::kMap, errno};
  if (::open(folder.limits.c_str(), O_RDONLY | O_CLOEXEC) < 0) return {Step::kReach, errno};
  if (::open(folder.limits.c_str(), O_WRONLY | O_CLOEXEC) >= 0) return {Step::kOpened, 0};
  if (::chmod(folder.limits.c_str(), 0666) == 0 || ::truncate(folder.limits.c_str(), 0) == 0)
    return {Step::kChanged, 0};
  if (::unlink(folder.limits.c_str()) == 0 || ::rename(folder.usage.c_str(), folder.limits.c_str()) == 0) {
    return {Step::kRemoved, 0};
  }
  if (::mount(nullptr, place.c_str(), nullptr, MS_REMOUNT | MS_BIND, nullptr) == 0) return {Step::kRemounted, 0};
  return {};
}

// A tenant that makes itself root of a user namespace of its own is nobody here.
TEST_F(HostileTest, RootOfAUserNamespaceCannotChangeItsLimits) {
  const uid_t user = another_user();
  if (::geteuid() != 0) GTEST_SKIP() << "the agent is root, and only root can be another user as well";
  if (user == 0) GTEST_SKIP() << "this user namespace has no user but root";
  ASSERT_EQ(::chmod(root_.c_str(), 0755), 0);
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd from(ends[0]);
  UniqueFd to(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    const Came came = try_as_root_of_a_namespace(bad_, root_ + "/bad", user);
    ::_exit(::write(to.get(), &came, sizeof(came)) == sizeof(came) ? 0 : 1);
  }
  to.reset();
  Came came;
  const ssize_t told = ::read(from.get(), &came, sizeof(came));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(told, static_cast<ssize_t>(sizeof(came))) << "status " << status;
  const std::string why = std::strerror(came.error);
  if (came.step == Step::kUser) GTEST_SKIP() << "this process cannot become another user: " << why;
  if (came.step == Step::kNamespace) {
    GTEST_SKIP() << "the kernel makes no user namespace for that user (user.max_user_namespaces, a filter of system "
                    "calls): "
                 << why;
  }
  if (came.step == Step::kMap) GTEST_SKIP() << "the kernel takes no map of users from it: " << why;
  ASSERT_NE(came.step, Step::kReach) << "nothing was tried, the tenant does not reach its own folder: " << why;
  EXPECT_EQ(came.step, Step::kHeld);
  const auto content = read_file(bad_.limits);
  ASSERT_TRUE(content);
  EXPECT_TRUE(guard::decode_limits(*content));
}

}  // namespace
}  // namespace heddle::agent
