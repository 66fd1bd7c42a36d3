#include "vendors/run_program.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/temporary_folder.h"

namespace heddle::vendors {
namespace {

class RunProgramTest : public testing::Test {
 protected:
  static Result<void> shell(const std::string& script, Duration deadline = Duration::seconds(60)) {
    return run_program("/", {"/bin/sh", "-c", script}, deadline);
  }

  const TemporaryFolder folder_of_test_;
  const std::string dir_ = folder_of_test_.path();
};

TEST_F(RunProgramTest, SaysHowTheProgramEnded) {
  EXPECT_TRUE(shell("exit 0"));
  EXPECT_EQ(shell("exit 3").error().text(), "/bin/sh ended with 3");
  EXPECT_EQ(shell("kill -KILL $$").error().text(), "/bin/sh was ended by signal 9");
  const Result<void> missing = run_program("", {"/no/such/program"}, Duration::seconds(60));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kUnavailable);
  EXPECT_NE(missing.error().text().find("cannot start /no/such/program: No such file"), std::string::npos);
}

TEST_F(RunProgramTest, GivesItNoVariablesOfThisProcessAndNoInput) {
  ASSERT_EQ(::setenv("LD_PRELOAD_OF_TEST", "x", 1), 0);
  EXPECT_TRUE(shell("test -z \"$LD_PRELOAD_OF_TEST\" && test -n \"$PATH\" && test -z \"$(cat)\""));
  ::unsetenv("LD_PRELOAD_OF_TEST");
}

TEST_F(RunProgramTest, KillsWhatDoesNotEnd) {
  const Result<void> hung = shell("echo $$ > " + dir_ + "/pid; exec sleep 1000", Duration::millis(500));
  ASSERT_FALSE(hung);
  EXPECT_EQ(hung.error().code, Code::kDeadlineExceeded);
  const auto pid = read_file(dir_ + "/pid");
  if (pid) {
    EXPECT_FALSE(file_exists("/proc/" + pid->substr(0, pid->find('\n')) + "/stat")) << "it is gone";
  }
}

TEST_F(RunProgramTest, ARootThatCannotBeEnteredIsAnError) {
  const Result<void> nowhere = run_program(dir_ + "/nowhere", {"/bin/true"}, Duration::seconds(60));
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace heddle::vendors
