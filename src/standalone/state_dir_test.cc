#include "standalone/state_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "standalone/machine.h"

namespace heddle::standalone {
namespace {

TEST(StateDir, IsFoundInTheUsualOrder) {
  struct Case {
    const char* given;
    Surroundings surroundings;
    const char* folder;  // empty: refused
  };
  const std::vector<Case> cases = {
      {"/given/", {"/env", "/xdg", "/home/a", 1000}, "/given"},
      {"", {"/env", "/xdg", "/home/a", 1000}, "/env"},
      {"", {"", "/xdg", "/home/a", 1000}, "/xdg/heddle"},
      {"", {"", "", "/home/a", 1000}, "/home/a/.local/state/heddle"},
      {"", {"", "", "/root", 0}, "/var/lib/heddle"},
      {"", {"", "", "", 1000}, ""},
      {"relative", {"", "", "/home/a", 1000}, ""},
  };
  for (const auto& c : cases) {
    const auto folder = own_state_dir(c.given, c.surroundings);
    if (*c.folder != '\0') {
      ASSERT_TRUE(folder) << c.folder;
      EXPECT_EQ(*folder, c.folder);
    } else {
      ASSERT_FALSE(folder);
      EXPECT_EQ(folder.error().field, "--state-dir");
    }
  }
  EXPECT_FALSE(own_state_dir("/" + std::string(100, 'x'), {})) << "too long for a socket";
  EXPECT_TRUE(own_state_dir("/" + std::string(90, 'x'), {}));
}

TEST(StateDir, KnowsAClosedFolderFromAMissingHeddle) {
  const std::string folder = testing::TempDir() + "state-dir-presence-" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  const std::string socket = state_paths(folder).socket;
  EXPECT_EQ(presence_of(socket), Presence::kNone);
  EXPECT_EQ(presence_of(folder + "/none/heddle.sock"), Presence::kNone);
  std::ofstream(socket).flush();
  EXPECT_EQ(presence_of(socket), Presence::kThere);
  if (geteuid() != 0) {
    std::filesystem::permissions(folder, std::filesystem::perms::none);
    EXPECT_EQ(presence_of(socket), Presence::kHidden);
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all);
  }
  std::filesystem::remove_all(folder);
}

TEST(StateDir, NeedsRoom) {
  EXPECT_TRUE(check_room(testing::TempDir()));
  EXPECT_TRUE(check_room("/x", int64_t{8} << 20));
  const auto refused = check_room("/x", (int64_t{8} << 20) - 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kExhausted);
  EXPECT_THAT(refused.error().text(), testing::HasSubstr("only 8191 KiB are free in /x"));
  EXPECT_THAT(refused.error().text(), testing::HasSubstr("--state-dir"));
}

TEST(StateDir, IsServedByOneDaemon) {
  const std::string folder = testing::TempDir() + "state-dir-lock";
  std::filesystem::create_directories(folder);
  const auto paths = state_paths(folder);
  {
    const auto first = lock_state_dir(paths);
    ASSERT_TRUE(first) << first.error().text();
    const auto second = lock_state_dir(paths);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Code::kAlreadyExists);
    EXPECT_THAT(second.error().message, testing::HasSubstr(std::to_string(getpid())));
  }
  EXPECT_TRUE(lock_state_dir(paths));
  std::filesystem::remove_all(folder);
}

TEST(StateDir, IsTakenFromADaemonThatIsStillDying) {
  const std::string folder = testing::TempDir() + "state-dir-dying-" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  const auto paths = state_paths(folder);
  auto dying = lock_state_dir(paths);
  ASSERT_TRUE(dying);
  const pid_t ended = fork();
  if (ended == 0) _exit(0);
  waitpid(ended, nullptr, 0);
  std::ofstream(paths.lock) << ended << "\n";
  std::thread last_thread([&dying] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    dying->reset();
  });
  EXPECT_TRUE(lock_state_dir(paths));
  last_thread.join();
  std::filesystem::remove_all(folder);
}

TEST(Simulation, TakesModelAndCount) {
  EXPECT_EQ(simulation_yaml("h100x2").value(), "cards:\n  - {model: H100, count: 2}\n");
  EXPECT_EQ(simulation_yaml("a100-80x1").value(), "cards:\n  - {model: A100-80, count: 1}\n");
  EXPECT_EQ(simulation_yaml("a100x8").value(), "cards:\n  - {model: A100-80, count: 8}\n");
  for (const char* bad : {"", "h100", "x2", "h100x", "h100x0", "h100x17", "h100x-1", "h100x2x", "h100x2 "}) {
    EXPECT_FALSE(simulation_yaml(bad)) << bad;
  }
}

}  // namespace
}  // namespace heddle::standalone
