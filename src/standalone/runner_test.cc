#include "standalone/runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/file.h"
#include "standalone/process.h"

namespace heddle::standalone {
namespace {

// Waits for something that must come; the deadline is for a test that has failed already.
bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    usleep(5'000);
  }
  return true;
}

class RunnerTest : public testing::Test {
 protected:
  RunnerTest() : folder_(testing::TempDir() + "runner-" + std::to_string(getpid())) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    plan_.folder = folder_;
    plan_.record = [](int64_t) { return Result<void>(); };
    // Marks every process of this test, so that one that was forgotten can be found.
    uid_ = "runner-test-" + std::to_string(getpid());
    plan_.environment[kJobVariable] = uid_;
  }
  ~RunnerTest() override {
    for (const int64_t pid : processes_of_job(uid_, "")) kill(static_cast<pid_t>(pid), SIGKILL);
    std::filesystem::remove_all(folder_);
  }

  void shell(const std::string& script) { plan_.command = {"/bin/sh", "-c", script}; }

  // run_command in a process of its own, as `heddle run` is. -Code - 1 stands for an error.
  pid_t start() {
    const pid_t client = fork();
    if (client != 0) return client;
    setpgid(0, 0);
    block_signals();
    const auto end = run_command(plan_);
    if (end && end->told) std::ofstream(folder_ + "/told") << (end->interrupted ? "interrupted" : "told");
    _exit(end ? end->exit_code : 200 + static_cast<int>(end.error().code));
  }

  static int result_of(pid_t client) {
    int status = 0;
    waitpid(client, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  [[nodiscard]] std::string content(const std::string& name) const {
    return read_file(folder_ + "/" + name).value_or("");
  }
  [[nodiscard]] bool appears(const std::string& name) const {
    return eventually([&] { return !content(name).empty(); });
  }
  [[nodiscard]] bool all_gone() const {
    return eventually([&] { return processes_of_job(uid_, "").empty(); });
  }

  std::string folder_;
  std::string uid_;
  RunPlan plan_;
};

TEST_F(RunnerTest, GivesTheExitCodeAsAShellWould) {
  struct Case {
    std::vector<std::string> command;
    int code;
  };
  std::ofstream(folder_ + "/data") << "not a program";
  const std::vector<Case> cases = {{{"true"}, 0},
                                   {{"/bin/sh", "-c", "exit 7"}, 7},
                                   {{"/bin/sh", "-c", "kill -9 $$"}, 137},
                                   {{"/bin/sh", "-c", "kill -TERM $$"}, 143},
                                   {{"heddle-no-such-command"}, 127},
                                   {{folder_ + "/data"}, 126}};
  for (const auto& c : cases) {
    plan_.command = c.command;
    EXPECT_EQ(result_of(start()), c.code) << c.command.back();
    EXPECT_EQ(content("exit"), std::to_string(c.code) + "\n");
    EXPECT_EQ(content("told"), "") << "it ended by itself";
  }
}

TEST_F(RunnerTest, PutsItsLibrariesBeforeTheUsers) {
  setenv("LD_LIBRARY_PATH", "/users/own", 1);
  plan_.environment["LD_LIBRARY_PATH"] = "/heddles";
  plan_.environment["CUDA_VISIBLE_DEVICES"] = "GPU-1";
  shell("echo $LD_LIBRARY_PATH $CUDA_VISIBLE_DEVICES > " + folder_ + "/seen");
  EXPECT_EQ(result_of(start()), 0);
  unsetenv("LD_LIBRARY_PATH");
  EXPECT_EQ(content("seen"), "/heddles:/users/own GPU-1\n");
}

TEST_F(RunnerTest, StartsNothingThatIsNotWrittenDown) {
  shell("echo started > " + folder_ + "/seen");
  plan_.record = [](int64_t) -> Result<void> { return fail(Code::kConflict, "taken away"); };
  EXPECT_EQ(result_of(start()), 200 + static_cast<int>(Code::kConflict));
  EXPECT_EQ(content("seen"), "");

  // A daemon that is away for a moment is waited for.
  plan_.record = [tries = 0](int64_t) mutable -> Result<void> {
    if (++tries < 3) return fail(Code::kUnavailable, "away");
    return {};
  };
  EXPECT_EQ(result_of(start()), 0);
  EXPECT_EQ(content("seen"), "started\n");
}

TEST_F(RunnerTest, EndsWhatTheCommandLeavesBehind) {
  shell("(trap '' TERM; setsid sleep 600) & setsid sleep 600 & exit 3");
  EXPECT_EQ(result_of(start()), 3);
  EXPECT_TRUE(processes_of_job(uid_, "").empty()) << "the share is free only when all are gone";
}

TEST_F(RunnerTest, PassesSignalsOn) {
  shell("trap 'echo got > " + folder_ + "/seen; exit 9' TERM; echo up > " + folder_ +
        "/up; while :; do sleep 0.01; done");
  const pid_t client = start();
  ASSERT_TRUE(appears("up"));
  kill(client, SIGTERM);
  EXPECT_EQ(result_of(client), 9);
  EXPECT_EQ(content("seen"), "got\n");
}

TEST_F(RunnerTest, EndsWithAKilledClient) {
  shell("setsid sleep 600 & echo up > " + folder_ + "/up; sleep 600");
  const pid_t client = start();
  ASSERT_TRUE(appears("up"));
  kill(client, SIGKILL);
  EXPECT_EQ(result_of(client), -SIGKILL);
  EXPECT_TRUE(all_gone());
  EXPECT_TRUE(appears("exit"));
}

TEST_F(RunnerTest, EndsWithAKilledSupervisor) {
  plan_.record = [this](int64_t pid) {
    std::ofstream(folder_ + "/supervisor") << pid;
    return Result<void>();
  };
  shell("setsid sleep 600 & echo up > " + folder_ + "/up; sleep 600");
  const pid_t client = start();
  ASSERT_TRUE(appears("up"));
  kill(std::stoi(content("supervisor")), SIGKILL);
  EXPECT_EQ(result_of(client), 137);
  EXPECT_TRUE(processes_of_job(uid_, "").empty());
}

TEST_F(RunnerTest, EndsAJobThatTheDaemonCancels) {
  plan_.record = [this](int64_t pid) {
    std::ofstream(folder_ + "/supervisor") << pid;
    return Result<void>();
  };
  shell("echo up > " + folder_ + "/up; sleep 600");
  const pid_t client = start();
  ASSERT_TRUE(appears("up"));
  kill(std::stoi(content("supervisor")), SIGTERM);
  EXPECT_EQ(result_of(client), 143);
  EXPECT_TRUE(all_gone());
  EXPECT_EQ(content("told"), "told");
  EXPECT_EQ(content("exit"), "143 told\n");
}

TEST_F(RunnerTest, AnEvictedCommandHasTheGraceThatItsDaemonSays) {
  plan_.record = [this](int64_t pid) {
    std::ofstream(folder_ + "/supervisor") << pid;
    return Result<void>();
  };
  // It is told to end, and ends in its own time; long before SIGKILL, which comes to it only when it is asked again.
  shell("trap 'echo got > " + folder_ + "/seen' TERM; echo up > " + folder_ + "/up; while :; do sleep 0.01; done");
  const pid_t client = start();
  ASSERT_TRUE(appears("up"));
  const ProcessId supervisor = identify(std::stoi(content("supervisor"))).value();
  ask_to_end(supervisor, Duration::seconds(3600));
  ASSERT_TRUE(appears("seen"));
  EXPECT_TRUE(alive(supervisor));
  ask_to_end(supervisor, Duration{1'000'000});
  EXPECT_EQ(result_of(client), 137);
  EXPECT_EQ(content("exit"), "137 told\n");
}

TEST_F(RunnerTest, WhatItsUserEndsIsNotToldByTheDaemon) {
  shell("echo up > " + folder_ + "/up; exec sleep 600");
  const pid_t client = start();
  ASSERT_TRUE(appears("up"));
  kill(client, SIGINT);
  EXPECT_EQ(result_of(client), 130);
  EXPECT_EQ(content("told"), "");
  EXPECT_EQ(content("exit"), "130\n");
}

TEST_F(RunnerTest, KeepsTheOutputOfADetachedJob) {
  plan_.output = folder_ + "/output";
  shell("echo out; echo err >&2");
  EXPECT_EQ(result_of(start()), 0);
  EXPECT_EQ(content("output"), "out\nerr\n");
}

}  // namespace
}  // namespace heddle::standalone
