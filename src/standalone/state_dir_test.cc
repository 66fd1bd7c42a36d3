#include "standalone/state_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/file.h"
#include "base/temporary_folder.h"
#include "standalone/simulated.h"

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

TEST(StateDir, TakesANewAnEmptyAndItsOwnFolderAndNoOther) {
  const TemporaryFolder temporary;
  const auto mode_of = [](const std::string& path) {
    struct stat info{};
    EXPECT_EQ(::stat(path.c_str(), &info), 0);
    return info.st_mode & 07777U;
  };
  const std::string made = temporary.path() + "/a/new";
  ASSERT_TRUE(take_state_dir(made, 0700));
  EXPECT_EQ(mode_of(made), 0700U);
  ASSERT_TRUE(take_state_dir(made, 0711)) << "empty";
  EXPECT_EQ(mode_of(made), 0711U);
  ASSERT_TRUE(write_file_atomic(made + "/ledger.db", "", 0600));
  ASSERT_TRUE(make_directories(made + "/jobs", 0711));
  ASSERT_TRUE(take_state_dir(made, 0700)) << "of a Heddle before";
  EXPECT_EQ(mode_of(made), 0700U);

  const std::string others = temporary.path() + "/others";
  ASSERT_TRUE(make_directories(others, 0755));
  ASSERT_TRUE(write_file_atomic(others + "/sh", "", 0755));
  const auto refused = take_state_dir(others, 0700);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_EQ(refused.error().field, "--state-dir");
  EXPECT_EQ(mode_of(others), 0755U) << "nothing is changed";
  EXPECT_FALSE(take_state_dir(others + "/sh", 0700)) << "no folder";
  if (::geteuid() == 0) {
    const std::string of_another = temporary.path() + "/user";
    ASSERT_TRUE(make_directories(of_another, 0755));
    ASSERT_EQ(::chown(of_another.c_str(), 1000, 1000), 0);
    EXPECT_FALSE(take_state_dir(of_another, 0700));
  }
}

TEST(StateDir, KnowsWhoServesIt) {
  const TemporaryFolder temporary;
  const auto paths = state_paths(temporary.path());
  EXPECT_EQ(serving_process(paths), "");
  {
    const auto lock = lock_state_dir(paths);
    ASSERT_TRUE(lock);
    EXPECT_EQ(serving_process(paths), std::to_string(getpid()));
  }
  EXPECT_EQ(serving_process(paths), "") << "what a daemon that has ended left";
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

// Of one vendor.
std::string yaml_of(const std::string& simulate, const std::string& vendor) {
  const auto cards = simulated_cards(simulate);
  if (!cards || cards->size() != 1 || cards->front().vendor != vendor) return "";
  return cards->front().yaml;
}

TEST(Simulation, TakesModelAndCount) {
  EXPECT_EQ(yaml_of("h100x2", "nvidia"), "cards:\n  - {model: H100, count: 2}\n");
  EXPECT_EQ(yaml_of("a100-80x1", "nvidia"), "cards:\n  - {model: A100-80, count: 1}\n");
  EXPECT_EQ(yaml_of("a100x8", "nvidia"), "cards:\n  - {model: A100-80, count: 8}\n");
  EXPECT_EQ(yaml_of("ascend910B4x2", "ascend"), "cards:\n  - {model: 910B4, count: 2}\n");
  EXPECT_EQ(yaml_of("ascend310px1", "ascend"), "cards:\n  - {model: 310P, count: 1}\n");
  EXPECT_EQ(yaml_of("Ascend910Bx1", "ascend"), "cards:\n  - {model: 910B4, count: 1}\n");
  for (const char* bad : {"", "h100", "x2", "h100x", "h100x0", "h100x17", "h100x-1", "h100x2x", "h100x2 ", "h100x1,"}) {
    EXPECT_FALSE(simulated_cards(bad)) << bad;
  }
}

TEST(Simulation, PartsOfAVendorAddUpAndAFileIsAllOfIt) {
  EXPECT_EQ(yaml_of("h100x2,l4x1", "nvidia"), "cards:\n  - {model: H100, count: 2}\n  - {model: L4, count: 1}\n");
  const auto both = simulated_cards("ascend910B2x1,h100x1");
  ASSERT_TRUE(both && both->size() == 2);
  EXPECT_EQ((*both)[0].vendor, "ascend");
  EXPECT_EQ((*both)[1].vendor, "nvidia");
  const std::string folder = testing::TempDir() + "simulation-" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  ASSERT_TRUE(write_file_atomic(folder + "/a,b.yaml", "cards: [{model: 310P}]\n", 0644));
  ASSERT_TRUE(write_file_atomic(folder + "/npus.yaml", "cards: [{model: 310P}]\n", 0644));
  EXPECT_EQ(yaml_of(folder + "/a,b.yaml", "nvidia"), "cards: [{model: 310P}]\n");
  const std::string npus =
      "ascend:" + folder + "/../" + std::filesystem::path(folder).filename().string() + "/npus.yaml";
  EXPECT_EQ(yaml_of(npus, "ascend"), "cards: [{model: 310P}]\n");
  EXPECT_EQ(with_full_paths("h100x1," + npus).value(), "h100x1,ascend:" + folder + "/npus.yaml");
  EXPECT_FALSE(simulated_cards(npus + ",ascend310Px1"));
  EXPECT_FALSE(simulated_cards("ascend310Px1," + npus));
  EXPECT_FALSE(with_full_paths(folder + "/none.yaml"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace heddle::standalone
