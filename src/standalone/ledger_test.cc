#include "standalone/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

namespace heddle::standalone {
namespace {

class LedgerTest : public testing::Test {
 protected:
  LedgerTest() : folder_(testing::TempDir() + "ledger-" + std::to_string(getpid())) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~LedgerTest() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path() const { return folder_ + "/ledger.db"; }

  std::string folder_;
};

Job a_job(const std::string& uid) {
  Job job;
  job.uid = uid;
  job.request.name = "train \xff";  // names may be any bytes
  job.request.command = {"python3", "train.py", "--lr", "3"};
  job.request.directory = "/home/a";
  job.request.memory_bytes = int64_t{3000} << 20;
  job.request.cores = 30;
  job.request.model = "H100";
  job.request.priority = -5;
  job.request.lifetime = Lifetime::kDetached;
  job.owner = {1000, 1001, "ann"};
  job.submitted = Time{1'700'000'000'000'000'001};
  job.client = {4711, 99, "boot-1"};
  return job;
}

model::Allocation an_allocation() {
  model::Allocation allocation;
  model::DeviceResult result;
  result.request = "card";
  result.driver = "accelerator.heddle.dev";
  result.pool = "node/nvidia";
  result.device = "gpu-0";
  result.share_id = "5c1b0c0e-0000-4000-8000-000000000001";
  result.consumed_capacity["memory"] = Quantity::bytes(int64_t{3000} << 20);
  result.consumed_capacity["cores"] = Quantity::from_int(30);
  allocation.results.push_back(result);
  return allocation;
}

mode_t mode_of(const std::string& path) {
  struct stat found{};
  return stat(path.c_str(), &found) == 0 ? found.st_mode & 0777 : 0;
}

TEST_F(LedgerTest, IsReadByNobodyElse) {
  for (const char* name : {"", "-wal"}) std::ofstream(path() + name).flush();
  std::filesystem::permissions(path(), std::filesystem::perms(0644));
  std::filesystem::permissions(path() + "-wal", std::filesystem::perms(0644));
  const auto ledger = Ledger::open(path());
  ASSERT_TRUE(ledger) << ledger.error().text();
  ASSERT_TRUE((*ledger)->add(a_job("a")));
  for (const char* name : {"", "-wal", "-shm"}) EXPECT_EQ(mode_of(path() + name), 0600U) << name;
}

// Files that cannot grow stand for a full disk.
TEST_F(LedgerTest, SaysWhyItCannotBeWrittenAndGoesOnWhenItCan) {
  auto ledger = Ledger::open(path()).value();
  ASSERT_TRUE(ledger->add(a_job("a")));
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit none{1, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  const auto refused = ledger->add(a_job("b"));
  const auto again = ledger->end(1, "done", 0, Time{1});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, handler);
  ASSERT_FALSE(refused);
  ASSERT_FALSE(again);
  for (const auto& error : {refused.error(), again.error()}) {
    EXPECT_THAT(error.message, testing::HasSubstr(path()));
    EXPECT_THAT(error.message, testing::HasSubstr("disk"));
    EXPECT_THAT(error.message, testing::Not(testing::HasSubstr("rollback")));
  }
  EXPECT_EQ(ledger->live().value().size(), 1U);
  EXPECT_TRUE(ledger->add(a_job("b")));
  EXPECT_EQ(ledger->live().value().size(), 2U);
}

TEST_F(LedgerTest, KeepsAJobThroughItsLife) {
  const ProcessId runner{4712, 100, "boot-1"};
  int64_t id = 0;
  {
    auto ledger = Ledger::open(path()).value();
    id = ledger->add(a_job("u1")).value();
    ASSERT_TRUE(ledger->grant(id, an_allocation(), Time{5}));
    ASSERT_TRUE(ledger->start(id, runner, Time{6}));
  }
  auto ledger = Ledger::open(path()).value();
  auto jobs = ledger->live().value();
  ASSERT_EQ(jobs.size(), 1U);
  const Job& job = jobs[0];
  EXPECT_EQ(job.state, JobState::kRunning);
  EXPECT_EQ(job.request.name, "train \xEF\xBF\xBD");
  EXPECT_EQ(job.request.command, a_job("").request.command);
  EXPECT_EQ(job.request.memory_bytes, int64_t{3000} << 20);
  EXPECT_EQ(job.request.cores, 30);
  EXPECT_EQ(job.request.priority, -5);
  EXPECT_EQ(job.request.lifetime, Lifetime::kDetached);
  EXPECT_EQ(job.owner.uid, 1000);
  EXPECT_EQ(job.owner.name, "ann");
  EXPECT_EQ(job.submitted, a_job("").submitted);
  EXPECT_EQ(job.client, a_job("").client);
  EXPECT_EQ(job.runner, runner);
  ASSERT_TRUE(job.allocation.has_value());
  EXPECT_EQ(job.allocation->results, an_allocation().results);

  ASSERT_TRUE(ledger->end(id, "done", 0, Time{7}));
  EXPECT_TRUE(ledger->live().value().empty());
  EXPECT_EQ(ledger->ended(10).value().at(0).exit_code, 0);
  EXPECT_EQ(ledger->find(id).value().outcome, "done");
}

TEST_F(LedgerTest, RefusesMovesThatWouldGrantTwice) {
  auto ledger = Ledger::open(path()).value();
  const int64_t id = ledger->add(a_job("u1")).value();
  const ProcessId one{1, 1, "b"};
  const ProcessId other{2, 1, "b"};
  const auto code = [](const Result<void>& result) { return result.error().code; };
  EXPECT_EQ(code(ledger->start(id, one, Time{1})), Code::kConflict) << "no share yet";
  ASSERT_TRUE(ledger->grant(id, an_allocation(), Time{1}));
  EXPECT_EQ(code(ledger->grant(id, an_allocation(), Time{2})), Code::kConflict);
  ASSERT_TRUE(ledger->start(id, one, Time{3}));
  EXPECT_TRUE(ledger->start(id, one, Time{4})) << "asked again: the answer was lost";
  EXPECT_EQ(code(ledger->start(id, other, Time{4})), Code::kConflict);
  ASSERT_TRUE(ledger->end(id, "done", std::nullopt, Time{5}));
  EXPECT_EQ(code(ledger->end(id, "again", std::nullopt, Time{6})), Code::kConflict);
  EXPECT_EQ(code(ledger->start(id, one, Time{7})), Code::kConflict);
  EXPECT_EQ(ledger->find(999).error().code, Code::kNotFound);
  EXPECT_EQ(code(ledger->add(a_job("u1")).map([](int64_t) {})), Code::kInternal) << "a uid is used once";
}

TEST_F(LedgerTest, NeverUsesAnIdAgain) {
  auto ledger = Ledger::open(path()).value();
  std::set<int64_t> ids;
  for (int i = 0; i < 5; ++i) {
    const int64_t id = ledger->add(a_job("u" + std::to_string(i))).value();
    EXPECT_TRUE(ids.insert(id).second);
    ASSERT_TRUE(ledger->end(id, "done", 0, Time{i}));
    EXPECT_EQ(ledger->forget(0).value(), std::vector<int64_t>{id});
  }
}

TEST_F(LedgerTest, ForgetsTheOldestThatEnded) {
  auto ledger = Ledger::open(path()).value();
  for (int i = 1; i <= 4; ++i) {
    ASSERT_EQ(ledger->add(a_job("u" + std::to_string(i))).value(), i);
    if (i != 2) {
      ASSERT_TRUE(ledger->end(i, "done", 0, Time{i}));
    }
  }
  EXPECT_THAT(ledger->forget(1).value(), testing::UnorderedElementsAre(1, 3));
  EXPECT_EQ(ledger->live().value().size(), 1U);
  EXPECT_EQ(ledger->ended(10).value().size(), 1U);
}

TEST_F(LedgerTest, KeepsSettings) {
  auto ledger = Ledger::open(path()).value();
  EXPECT_EQ(ledger->setting("machine").value(), std::nullopt);
  ASSERT_TRUE(ledger->set_setting("machine", "h100x2"));
  ASSERT_TRUE(ledger->set_setting("machine", "real"));
  EXPECT_EQ(Ledger::open(path()).value()->setting("machine").value(), "real");
}

TEST_F(LedgerTest, ThePastOfQueuesIsReplacedAsAWhole) {
  auto ledger = Ledger::open(path()).value();
  EXPECT_TRUE(ledger->past().value().empty());
  ASSERT_TRUE(ledger->keep_past({{"a", {Time{5}, 7}}, {"b", {Time{5}, 8}}}));
  ASSERT_TRUE(ledger->keep_past({{"b", {Time{6}, 9}}}));
  const auto past = Ledger::open(path()).value()->past().value();
  EXPECT_EQ(past, (std::map<std::string, model::QueuePast>{{"b", {Time{6}, 9}}}));
}

// The file of a Heddle from before there were queues: its jobs stay.
TEST_F(LedgerTest, AFileWithoutQueuesIsBroughtUpToDate) {
  {
    auto ledger = Ledger::open(path()).value();
    ASSERT_TRUE(ledger->add(a_job("u")));
    sqlite3* raw = nullptr;
    ASSERT_EQ(sqlite3_open(path().c_str(), &raw), SQLITE_OK);
    ASSERT_EQ(
        sqlite3_exec(raw,
                     "DROP TABLE queue_past; ALTER TABLE job DROP COLUMN evicted_by; ALTER TABLE job DROP COLUMN "
                     "evicted_why; ALTER TABLE job DROP COLUMN evicted_at; ALTER TABLE job DROP COLUMN evictions; "
                     "PRAGMA user_version = 1",
                     nullptr, nullptr, nullptr),
        SQLITE_OK);
    sqlite3_close(raw);
  }
  auto ledger = Ledger::open(path()).value();
  ASSERT_EQ(ledger->live().value().size(), 1U);
  EXPECT_EQ(ledger->live().value()[0].evictions, 0);
  EXPECT_FALSE(ledger->live().value()[0].eviction.has_value());
  EXPECT_TRUE(ledger->keep_past({{"a", {Time{5}, 7}}}));
}

TEST_F(LedgerTest, WhatIsEvictedWaitsAgainWithoutAShare) {
  auto ledger = Ledger::open(path()).value();
  const int64_t id = ledger->add(a_job("u")).value();
  const int64_t other = ledger->add(a_job("v")).value();
  const Eviction eviction{other, "job 2 has a higher priority", Time{9}};
  EXPECT_EQ(ledger->evict({{id, eviction}}).error().code, Code::kConflict) << "it does not run";
  EXPECT_EQ(ledger->requeue(id).error().code, Code::kConflict);
  ASSERT_TRUE(ledger->grant(id, an_allocation(), Time{1}));
  ASSERT_TRUE(ledger->start(id, {1, 1, "b"}, Time{2}));
  EXPECT_EQ(ledger->requeue(id).error().code, Code::kConflict) << "nobody evicted it";
  EXPECT_EQ(ledger->evict({{id, eviction}, {other, eviction}}).error().code, Code::kConflict);
  EXPECT_FALSE(ledger->find(id)->eviction.has_value()) << "all or none";
  ASSERT_TRUE(ledger->evict({{id, eviction}}));
  const Job told = Ledger::open(path()).value()->find(id).value();
  ASSERT_TRUE(told.eviction.has_value());
  EXPECT_EQ(told.eviction->by, other);
  EXPECT_EQ(told.eviction->why, "job 2 has a higher priority");
  EXPECT_EQ(told.eviction->at, Time{9});
  EXPECT_EQ(told.state, JobState::kRunning);
  ASSERT_TRUE(ledger->keep(id));
  EXPECT_EQ(ledger->requeue(id).error().code, Code::kConflict) << "not any more";
  ASSERT_TRUE(ledger->evict({{id, eviction}}));
  ASSERT_TRUE(ledger->requeue(id));
  const Job back = Ledger::open(path()).value()->find(id).value();
  EXPECT_EQ(back.state, JobState::kWaiting);
  EXPECT_FALSE(back.allocation.has_value());
  EXPECT_FALSE(back.granted.has_value());
  EXPECT_FALSE(back.started.has_value());
  EXPECT_FALSE(back.eviction.has_value());
  EXPECT_EQ(back.runner, ProcessId());
  EXPECT_EQ(back.evictions, 1);
  EXPECT_EQ(back.submitted, a_job("u").submitted);
  EXPECT_EQ(ledger->start(id, {1, 1, "b"}, Time{3}).error().code, Code::kConflict) << "the share is gone";
  EXPECT_TRUE(ledger->grant(id, an_allocation(), Time{4}));
}

TEST_F(LedgerTest, RefusesWhatItCannotRead) {
  {
    auto ledger = Ledger::open(path()).value();
    sqlite3* raw = nullptr;
    ASSERT_EQ(sqlite3_open(path().c_str(), &raw), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(raw, "PRAGMA user_version = 99", nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(raw);
  }
  EXPECT_EQ(Ledger::open(path()).error().code, Code::kUnsupported);
  std::ofstream(folder_ + "/garbage.db") << std::string(8192, 'x');
  EXPECT_EQ(Ledger::open(folder_ + "/garbage.db").error().code, Code::kInternal);
  EXPECT_FALSE(Ledger::open(folder_ + "/none/ledger.db"));
}

// One job's whole life, in which it is evicted once; stops at the first error.
Result<void> live_once(Ledger& ledger, const std::string& uid) {
  HEDDLE_TRY(const int64_t id, ledger.add(a_job(uid)));
  HEDDLE_CHECK_OK(ledger.grant(id, an_allocation(), Time{1}));
  HEDDLE_CHECK_OK(ledger.start(id, {1, 1, "b"}, Time{2}));
  HEDDLE_CHECK_OK(ledger.evict({{id, {id + 1, "for another", Time{3}}}}));
  HEDDLE_CHECK_OK(ledger.requeue(id));
  HEDDLE_CHECK_OK(ledger.grant(id, an_allocation(), Time{4}));
  HEDDLE_CHECK_OK(ledger.start(id, {2, 2, "b"}, Time{5}));
  HEDDLE_CHECK_OK(ledger.end(id, "done", 0, Time{6}));
  HEDDLE_CHECK_OK(ledger.forget(0));
  return {};
}

// Kills a child that writes at its nth crash point, for every n; what the file then says must be a state that the calls
// before that point explain, and the file must go on working.
TEST_F(LedgerTest, IsWholeAfterAKillAtEveryWrite) {
  for (int n = 1;; ++n) {
    const std::string file = folder_ + "/crash-" + std::to_string(n) + ".db";
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      int point = 0;
      const auto die = [&point, n](std::string_view) {
        if (++point == n) kill(getpid(), SIGKILL);
      };
      auto ledger = Ledger::open(file, die);
      _exit(ledger && live_once(**ledger, "u") ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    auto ledger = Ledger::open(file);
    ASSERT_TRUE(ledger) << "point " << n << ": " << ledger.error().text();
    const auto live = (*ledger)->live().value();
    const auto ended = (*ledger)->ended(10).value();
    // 1 to 6 migrations; 7, 8 add; then grant, start, evict, requeue, grant, start, end, forget: odd before the commit,
    // even after.
    const std::vector<std::string> expected = {
        "none",    "none",    "none",    "none",    "none",    "none",    "none",    "waiting", "waiting",
        "granted", "granted", "running", "running", "evicted", "evicted", "waiting", "waiting", "granted",
        "granted", "running", "running", "ended",   "ended",   "none",    "none"};
    std::string found = "none";
    if (!live.empty()) found = live[0].eviction ? "evicted" : state_name(live[0].state);
    if (!ended.empty()) found = "ended";
    ASSERT_LE(static_cast<size_t>(n), expected.size());
    EXPECT_EQ(found, expected[static_cast<size_t>(n) - 1]) << "point " << n;
    EXPECT_TRUE(live_once(**ledger, "next"));
    if (WIFEXITED(status)) {
      EXPECT_EQ(WEXITSTATUS(status), 0);
      EXPECT_EQ(n, 25);
      break;
    }
  }
}

}  // namespace
}  // namespace heddle::standalone
