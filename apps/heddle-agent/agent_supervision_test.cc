// Who is found on the cards, and what becomes of him: the program as a whole.
#include "agent_fixture.h"

namespace heddle::agent {
namespace {

constexpr const char* kEvents = "/api/v1/namespaces/default/events/";

// A process that does nothing until it is ended.
pid_t idle_process() {
  const pid_t child = ::fork();
  if (child == 0) {
    while (true) ::pause();
  }
  return child;
}

TEST_F(AgentTest, ReportsAProcessWithoutAGrantAndEndsItWhereThePolicySaysSo) {
  start("one", {"--policy=enforce"});
  ASSERT_TRUE(eventually([&] { return api_.list(kSlices).size() == 1; }));
  const pid_t child = idle_process();
  ASSERT_TRUE(write_file_atomic(dir_ + "/pid", std::to_string(child), 0600));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child) << "the agent ends it";
  EXPECT_TRUE(WIFSIGNALED(status));
  ASSERT_TRUE(eventually([&] { return !api_.list(kEvents).empty(); }));
  const json event = api_.list(kEvents).begin()->second;
  EXPECT_EQ(event.at("reason"), "HeddleProcessEnded");
  EXPECT_EQ(event.at("involvedObject").at("kind"), "Node");
}

TEST_F(AgentTest, ACardInUseBeforeTheAgentCameIsForeignUntilItIsIdle) {
  const pid_t child = idle_process();
  ASSERT_TRUE(write_file_atomic(dir_ + "/pid", std::to_string(child), 0600));
  start("one", {"--policy=enforce"});
  ASSERT_TRUE(eventually([&] { return api_.list(kSlices).size() == 1; }));
  EXPECT_EQ(taints(1), (std::vector<std::string>{"heddle.dev/managed", "heddle.dev/foreign-owner"}));
  EXPECT_EQ(taints(0), std::vector<std::string>{"heddle.dev/managed"});
  ASSERT_TRUE(eventually([&] { return !api_.list(kEvents).empty(); })) << "it is reported";
  EXPECT_EQ(::kill(child, 0), 0) << "and not ended";
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  ASSERT_TRUE(eventually([&] { return taints(1).size() == 1; }));
}

// The card was offered by the agent before: whoever came to it while none ran did not come before Heddle.
TEST_F(AgentTest, WhoCameWhileTheAgentWasDownIsAnIntruder) {
  start("one");
  ASSERT_TRUE(eventually([&] { return taints(1).size() == 1; }));
  stop(SIGKILL);
  const pid_t child = idle_process();
  ASSERT_TRUE(write_file_atomic(dir_ + "/pid", std::to_string(child), 0600));
  start("two", {"--policy=enforce"});
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child) << "the agent ends it";
  EXPECT_TRUE(WIFSIGNALED(status));
  ASSERT_TRUE(eventually([&] { return !api_.list(kEvents).empty(); }));
  EXPECT_EQ(api_.list(kEvents).begin()->second.at("reason"), "HeddleProcessEnded");
  EXPECT_EQ(taints(1), std::vector<std::string>{"heddle.dev/managed"});
  EXPECT_EQ(api_.slice_writes(), 1) << "nobody was told that the card is another's";
}

// The kubelet takes the slices of a driver that is away for long; what a claim holds is Heddle's all the same.
TEST_F(AgentTest, ACardThatAClaimHoldsIsNotLostWithItsSlice) {
  start("one");
  ASSERT_TRUE(eventually([&] { return taints(1).size() == 1; }));
  put_claim("u1", "1Gi", 10, "gpu-1");
  ASSERT_EQ(prepare({"u1"}).claims().at("u1").error(), "");
  stop(SIGKILL);
  ASSERT_TRUE(api_.remove(kSlices + "node-1-heddle-nvidia-0"));
  const pid_t child = idle_process();
  ASSERT_TRUE(write_file_atomic(dir_ + "/pid", std::to_string(child), 0600));
  start("two", {"--policy=enforce"});
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child) << "the agent ends it";
  EXPECT_TRUE(WIFSIGNALED(status));
  ASSERT_TRUE(eventually([&] { return taints(1).size() == 1; }));
  EXPECT_EQ(unprepare("u1"), "");
}

// It was there before Heddle, and a second start of the agent does not change that.
TEST_F(AgentTest, ACardThatWasForeignStaysSoOverARestart) {
  const pid_t child = idle_process();
  ASSERT_TRUE(write_file_atomic(dir_ + "/pid", std::to_string(child), 0600));
  start("one", {"--policy=enforce"});
  ASSERT_TRUE(eventually([&] { return taints(1).size() == 2; }));
  ASSERT_TRUE(eventually([&] { return api_.list(kEvents).size() == 1; }));
  stop(SIGKILL);
  start("two", {"--policy=enforce"});
  ASSERT_TRUE(eventually([&] { return api_.list(kEvents).size() == 2; })) << "it is reported again";
  EXPECT_EQ(::kill(child, 0), 0) << "and not ended";
  EXPECT_EQ(taints(1), (std::vector<std::string>{"heddle.dev/managed", "heddle.dev/foreign-owner"}));
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
}

}  // namespace
}  // namespace heddle::agent
