#include "standalone/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace heddle::standalone {
namespace {

// A child that lives until it is killed; `variable` is put into its environment by exec.
pid_t sleeper(const std::string& variable) {
  const pid_t child = fork();
  if (child == 0) {
    std::array<char*, 2> environment = {const_cast<char*>(variable.c_str()), nullptr};
    std::array<char*, 3> arguments = {const_cast<char*>("sleep"), const_cast<char*>("600"), nullptr};
    execve("/bin/sleep", arguments.data(), environment.data());
    _exit(1);
  }
  return child;
}

TEST(Process, KnowsAProcessAgainUntilItEnds) {
  const pid_t child = sleeper("A=b");
  const auto id = identify(child).value();
  EXPECT_TRUE(alive(id));
  EXPECT_EQ(user_of(child).value(), getuid());
  ProcessId other = id;
  ++other.start_ticks;
  EXPECT_FALSE(alive(other)) << "another process under the same pid";
  other = id;
  other.boot_id = "another start of the machine";
  EXPECT_FALSE(alive(other));
  EXPECT_FALSE(open_process(other).valid());

  const UniqueFd fd = open_process(id);
  ASSERT_TRUE(fd.valid());
  kill(child, SIGKILL);
  pollfd ended = {fd.get(), POLLIN, 0};
  EXPECT_EQ(poll(&ended, 1, 60'000), 1);
  EXPECT_FALSE(alive(id)) << "a zombie does not run";
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(alive(id));
  EXPECT_FALSE(open_process(id).valid());
  EXPECT_FALSE(alive(ProcessId{}));
}

TEST(Process, FindsTheProcessesOfAJob) {
  const pid_t ours = sleeper(std::string(kJobVariable) + "=uid-1");
  const pid_t similar = sleeper(std::string(kJobVariable) + "=uid-12");
  const pid_t prefixed = sleeper(std::string("X") + kJobVariable + "=uid-1");
  // exec has not necessarily happened yet: wait for it.
  std::vector<int64_t> found;
  for (int i = 0; i < 6000 && found.empty(); ++i) {
    found = processes_of_job("uid-1", "");
    if (found.empty()) usleep(10'000);
  }
  EXPECT_THAT(found, testing::ElementsAre(ours));
  EXPECT_THAT(descendants(getpid()), testing::UnorderedElementsAre(ours, similar, prefixed));
  for (const pid_t pid : {ours, similar, prefixed}) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  EXPECT_TRUE(processes_of_job("uid-1", "").empty());
  EXPECT_TRUE(descendants(getpid()).empty());
}

}  // namespace
}  // namespace heddle::standalone
