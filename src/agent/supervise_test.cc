#include "agent/supervise.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/file.h"

namespace heddle::agent {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

CardProcesses::Entry process(int64_t pid, const std::string& owner, int64_t mib) {
  return {{pid, static_cast<uint64_t>(pid) * 10, owner, "cmd"}, mib < 0 ? -1 : mib * kMiB};
}

CardProcesses::Entry unguarded(int64_t pid, const std::string& owner, int64_t mib) {
  CardProcesses::Entry entry = process(pid, owner, mib);
  entry.guarded = false;
  return entry;
}

TEST(Judge, FindsWhatIsOutsideItsGrant) {
  const std::vector<Grant> grants = {{"pod-a", "card", 1000 * kMiB, false},
                                     {"pod-a", "card", 500 * kMiB, false},
                                     {"pod-w", "card", 8000 * kMiB, true},
                                     {"pod-a", "other", 9000 * kMiB, false}};
  struct Case {
    const char* name;
    std::vector<CardProcesses::Entry> entries;
    std::vector<std::pair<Finding::Kind, int64_t>> expected;
  };
  const auto ungranted = Finding::Kind::kUngranted;
  const auto beyond = Finding::Kind::kBeyondGrant;
  const auto no_guard = Finding::Kind::kUnguarded;
  const std::vector<Case> cases = {
      {"within", {process(1, "pod-a", 1500)}, {}},
      {"two grants of one pod add up, and the slack comes once",
       {process(1, "pod-a", 800), process(2, "pod-a", 800)},
       {}},
      {"the sum counts, and the largest is named", {process(1, "pod-a", 800), process(2, "pod-a", 801)}, {{beyond, 2}}},
      {"many small ones have no more slack than one",
       {process(1, "pod-a", 400), process(2, "pod-a", 400), process(3, "pod-a", 400), process(4, "pod-a", 401)},
       {{beyond, 4}}},
      {"within, but nobody holds it there", {unguarded(1, "pod-a", 10)}, {{no_guard, 1}}},
      {"an unguarded one has the grant and no slack", {unguarded(1, "pod-a", 1500)}, {{no_guard, 1}}},
      {"an unguarded one beyond it", {unguarded(1, "pod-a", 1501)}, {{no_guard, 1}, {beyond, 1}}},
      {"beside a guarded one there is one slack for both",
       {process(1, "pod-a", 1500), unguarded(2, "pod-a", 100)},
       {{no_guard, 2}}},
      {"and of the two the unguarded one is named",
       {process(1, "pod-a", 1500), unguarded(2, "pod-a", 101)},
       {{no_guard, 2}, {beyond, 2}}},
      {"a whole card needs no guard", {unguarded(1, "pod-w", 80'000)}, {}},
      {"without a grant that is all there is to say", {unguarded(1, "pod-b", 10)}, {{ungranted, 1}}},
      {"just beyond the slack", {process(1, "pod-a", 1601)}, {{beyond, 1}}},
      {"a whole card has no limit", {process(1, "pod-w", 80'000)}, {}},
      {"another pod", {process(1, "pod-b", 10)}, {{ungranted, 1}}},
      {"nobody's process", {process(1, "", 10)}, {{ungranted, 1}}},
      {"memory not known is not too much", {process(1, "pod-a", -1)}, {}}};
  for (const Case& c : cases) {
    std::vector<std::pair<Finding::Kind, int64_t>> found;
    for (const Finding& f : judge({{"card", c.entries}}, grants, 100 * kMiB)) found.emplace_back(f.kind, f.process.pid);
    EXPECT_EQ(found, c.expected) << c.name;
  }
}

class SupervisorTest : public testing::Test {
 protected:
  Supervisor make(Policy policy) {
    return Supervisor({policy, 0}, {[this](int64_t pid) -> std::optional<ProcessIdentity> {
                                      if (gone_) return std::nullopt;
                                      return ProcessIdentity{pid, start_time_, "", "cmd"};
                                    },
                                    [this](const ProcessIdentity&) {
                                      ++ended_;
                                      return true;
                                    },
                                    [this](const Finding& finding) { reports_.push_back(finding); }});
  }
  std::vector<vendors::CardStatus> one_process() {
    vendors::CardStatus status;
    status.uuid = "card";
    status.processes.push_back({7, kMiB});
    return {status};
  }
  bool gone_ = false;
  uint64_t start_time_ = 1;
  int ended_ = 0;
  std::vector<Finding> reports_;
};

TEST_F(SupervisorTest, AsksForTheGuardOfProcessesWithLimitsAndEndsByThePolicyOfTheirs) {
  const std::vector<Grant> limited = {{"pod", "card", 8 * kMiB, false}};
  const std::vector<Grant> whole = {{"pod", "card", 8 * kMiB, true}};
  int asked = 0;
  const auto supervisor = [&](Policy beyond, Policy unguarded) {
    SupervisorPorts ports{[](int64_t pid) { return ProcessIdentity{pid, 1, "pod", "cmd"}; },
                          [this](const ProcessIdentity&) { return ++ended_ > 0; },
                          [this](const Finding& finding) { reports_.push_back(finding); },
                          [&](const ProcessIdentity&) { return ++asked == 0; }};
    return Supervisor({beyond, 0, unguarded}, std::move(ports));
  };
  Supervisor watching = supervisor(Policy::kEnforce, Policy::kReport);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(watching.look(one_process(), whole).current.empty());
  EXPECT_EQ(asked, 0) << "there is no limit that a guard would hold";
  for (int i = 0; i < 2; ++i) watching.look(one_process(), limited);
  EXPECT_EQ(asked, 2);
  ASSERT_EQ(reports_.size(), 1U);
  EXPECT_EQ(reports_[0].kind, Finding::Kind::kUnguarded);
  EXPECT_EQ(reports_[0].granted_bytes, 8 * kMiB);
  EXPECT_EQ(ended_, 0) << "it uses no more than it may";
  Supervisor ending = supervisor(Policy::kReport, Policy::kEnforce);
  for (int i = 0; i < 2; ++i) ending.look(one_process(), limited);
  EXPECT_EQ(ended_, 1);
  EXPECT_TRUE(reports_.back().ended);
}

TEST_F(SupervisorTest, EndsAProcessOfTwoFaultsOnce) {
  SupervisorPorts ports{[](int64_t pid) { return ProcessIdentity{pid, 1, "pod", "cmd"}; },
                        [this](const ProcessIdentity&) { return ++ended_ > 0; },
                        [this](const Finding& finding) { reports_.push_back(finding); },
                        [](const ProcessIdentity&) { return false; }};
  Supervisor supervisor({Policy::kEnforce, 0, Policy::kEnforce}, std::move(ports));
  for (int i = 0; i < 2; ++i) supervisor.look(one_process(), {{"pod", "card", kMiB - 1, false}});
  EXPECT_EQ(ended_, 1);
  ASSERT_EQ(reports_.size(), 2U);
  EXPECT_TRUE(reports_[0].ended && reports_[1].ended);
}

TEST(Describe, NamesTheProcessTheCardAndWhatIsWrong) {
  Finding finding{Finding::Kind::kUnguarded, {7, 1, "pod", "python3"}, "GPU-1", kMiB, 8 * kMiB, false};
  EXPECT_NE(describe(finding).find("process 7 (python3) uses card GPU-1 without the guard"), std::string::npos);
  finding.kind = Finding::Kind::kBeyondGrant;
  EXPECT_NE(describe(finding).find("more of card GPU-1 than the 8 MiB"), std::string::npos);
}

TEST_F(SupervisorTest, ReportsAtTheSecondLookAndOnlyOnce) {
  Supervisor supervisor = make(Policy::kReport);
  const auto first = supervisor.look(one_process(), {});
  EXPECT_TRUE(first.look_again_soon);
  EXPECT_TRUE(first.current.empty());
  EXPECT_EQ(supervisor.look(one_process(), {}).current.size(), 1U);
  EXPECT_EQ(supervisor.look(one_process(), {}).current.size(), 1U);
  EXPECT_EQ(reports_.size(), 1U);
  EXPECT_EQ(ended_, 0);
}

TEST_F(SupervisorTest, AProcessThatEndsBetweenTheLooksIsNoFinding) {
  Supervisor supervisor = make(Policy::kEnforce);
  supervisor.look(one_process(), {});
  gone_ = true;
  EXPECT_TRUE(supervisor.look(one_process(), {}).current.empty());
  EXPECT_TRUE(reports_.empty());
}

TEST_F(SupervisorTest, ANewProcessWithTheSamePidIsANewFinding) {
  Supervisor supervisor = make(Policy::kReport);
  supervisor.look(one_process(), {});
  supervisor.look(one_process(), {});
  start_time_ = 2;
  EXPECT_TRUE(supervisor.look(one_process(), {}).look_again_soon);
  supervisor.look(one_process(), {});
  EXPECT_EQ(reports_.size(), 2U);
}

TEST_F(SupervisorTest, EnforceEndsExceptOnCardsThatWereInUseBefore) {
  Supervisor supervisor = make(Policy::kEnforce);
  supervisor.look(one_process(), {}, {"card"});
  supervisor.look(one_process(), {}, {"card"});
  EXPECT_EQ(ended_, 0);
  ASSERT_EQ(reports_.size(), 1U);
  EXPECT_FALSE(reports_[0].ended);
  supervisor.look(one_process(), {});
  EXPECT_EQ(ended_, 1);
}

TEST(Processes, IdentityAndEndOfARealProcess) {
  const pid_t child = ::fork();
  if (child == 0) {
    while (true) ::pause();
  }
  const auto identity = identify_process("/proc", child);
  ASSERT_TRUE(identity);
  EXPECT_GT(identity->start_time, 0U);
  EXPECT_FALSE(identity->command.empty());
  ProcessIdentity other = *identity;
  ++other.start_time;
  EXPECT_FALSE(end_process("/proc", other)) << "the pid belongs to another process now";
  EXPECT_TRUE(identify_process("/proc", child));
  EXPECT_TRUE(end_process("/proc", *identity));
  // Before it is waited for it is a zombie, which holds nothing.
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(identify_process("/proc", child));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_FALSE(identify_process("/proc", child));
}

TEST(Processes, AProcessWhoseFirstThreadEndedIsNotGone) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::thread([] {
      while (true) ::pause();
    }).detach();
    ::syscall(SYS_exit, 0);  // this thread alone
  }
  const auto is_zombie = [&] {
    const auto stat = read_file("/proc/" + std::to_string(child) + "/stat");
    return stat && stat->find(") Z ") != std::string::npos;
  };
  for (int i = 0; i < 60'000 && !is_zombie(); ++i) ::usleep(1000);
  ASSERT_TRUE(is_zombie());
  const auto identity = identify_process("/proc", child);
  ASSERT_TRUE(identity) << "its other threads may still hold the card";
  EXPECT_TRUE(end_process("/proc", *identity));
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
}

}  // namespace
}  // namespace heddle::agent
