#include "vendors/worker.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <memory>

#include "base/file.h"
#include "base/temporary_folder.h"
#include "vendors/source.h"
#include "vendors/wire.h"

namespace heddle::vendors {
namespace {

std::string test_dir() {
  const char* dir = std::getenv("HEDDLE_TEST_DIR");
  return dir != nullptr ? dir : "build/release/test";
}

// Each test has its own file from which the fake library reads the fault of the moment.
class WorkerTest : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("FAKE_NVML_FAULT_FILE", fault_file().c_str(), 1);
    set_fault("none");
  }

  [[nodiscard]] std::string fault_file() const { return dir_ + "/fault"; }
  void set_fault(std::string_view fault) { ASSERT_TRUE(write_file_atomic(fault_file(), fault, 0600)); }

  static WorkerOptions options(const std::string& library) {
    return {{test_dir() + "/vendor_worker_for_test", library}, Duration::millis(1), Duration::millis(5)};
  }
  static std::string fake_library() { return test_dir() + "/fake_nvml.so"; }

  // Calls until the worker answers again; its back-off is a few milliseconds.
  static Result<std::string> call_until_answered(Worker& worker, std::string_view operation) {
    Result<std::string> answer = fail(Code::kUnavailable, "not called");
    for (int i = 0; i < 20'000 && !answer; ++i) {
      answer = worker.call(operation, Duration::seconds(20));
      if (!answer) ::usleep(1000);
    }
    return answer;
  }

  const TemporaryFolder folder_of_test_;
  const std::string dir_ = folder_of_test_.path();
  SystemClock clock_;
};

TEST_F(WorkerTest, DescribesTheCards) {
  Worker worker(options(fake_library()), clock_);
  const auto answer = worker.call("cards", Duration::seconds(20));
  ASSERT_TRUE(answer) << answer.error().text();
  const auto inventory = parse_inventory(*answer);
  ASSERT_TRUE(inventory);
  EXPECT_EQ(inventory->state, LibraryState::kOk) << inventory->detail;
  ASSERT_EQ(inventory->cards.size(), 2U);
  const Card& card = inventory->cards[1];
  EXPECT_EQ(card.uuid, "GPU-fake-1");
  EXPECT_EQ(card.model, "NVIDIA Fake 8G");
  EXPECT_EQ(card.architecture, "Hopper");
  EXPECT_EQ(card.minor, 1);
  EXPECT_EQ(card.memory_bytes, (int64_t{8} << 30) + 12345);
  EXPECT_EQ(card.pci_bus_id, "0000:3b:00.0");
  EXPECT_EQ(card.driver_version, "570.86.15");
  EXPECT_EQ(card.runtime_version, "12.8");
  EXPECT_FALSE(card.partitioned);
}

TEST_F(WorkerTest, NumbersThatCannotBeAreNotBelieved) {
  set_fault("many");
  {
    Worker worker(options(fake_library()), clock_);
    const auto answer = worker.call("cards", Duration::seconds(20));
    ASSERT_TRUE(answer) << answer.error().text();
    const auto inventory = parse_inventory(*answer);
    ASSERT_TRUE(inventory);
    EXPECT_EQ(inventory->state, LibraryState::kInitFailed);
    EXPECT_NE(inventory->detail.find("4294967295"), std::string::npos) << inventory->detail;
  }
  set_fault("endless");
  {
    Worker worker(options(fake_library()), clock_);
    const auto answer = worker.call("status", Duration::seconds(20));
    ASSERT_TRUE(answer) << "no memory is taken for a list that cannot be: " << answer.error().text();
    const auto report = parse_status(*answer);
    ASSERT_TRUE(report);
    ASSERT_EQ(report->cards.size(), 2U);
    EXPECT_TRUE(report->cards[0].processes.empty());
  }
  set_fault("huge");
  Worker worker(options(fake_library()), clock_);
  const auto answer = worker.call("status", Duration::seconds(20));
  ASSERT_TRUE(answer);
  const auto report = parse_status(*answer);
  ASSERT_TRUE(report);
  ASSERT_EQ(report->cards[0].processes.size(), 100U);
  for (const CardProcess& process : report->cards[0].processes) {
    EXPECT_EQ(process.memory_bytes, -1) << "more than the card has is not known, not a reason to end a process";
  }
}

TEST_F(WorkerTest, ACardThatBearsTheNameOfAnotherIsNotOffered) {
  set_fault("twins");
  Worker worker(options(fake_library()), clock_);
  const auto answer = worker.call("cards", Duration::seconds(20));
  ASSERT_TRUE(answer);
  const auto inventory = parse_inventory(*answer);
  ASSERT_TRUE(inventory);
  EXPECT_EQ(inventory->cards.size(), 1U);
  const auto report = parse_status(worker.call("status", Duration::seconds(20)).value_or(""));
  ASSERT_TRUE(report);
  EXPECT_EQ(report->cards.size(), 1U);
}

TEST_F(WorkerTest, ReadsProcessListsThatNeedALargerBuffer) {
  Worker worker(options(fake_library()), clock_);
  const auto answer = worker.call("status", Duration::seconds(20));
  ASSERT_TRUE(answer) << answer.error().text();
  const auto report = parse_status(*answer);
  ASSERT_TRUE(report);
  ASSERT_EQ(report->cards.size(), 2U);
  ASSERT_EQ(report->cards[0].processes.size(), 100U);
  EXPECT_EQ(report->cards[0].processes[0].memory_bytes, 1 << 20);
  EXPECT_EQ(report->cards[0].processes[1].memory_bytes, -1) << "not available is not a number of bytes";
  EXPECT_EQ(report->cards[0].utilization_percent, -1) << "an absent function is not zero";
}

TEST_F(WorkerTest, AHangEndsAtTheDeadlineAndTheNextWorkerAnswers) {
  Worker worker(options(fake_library()), clock_);
  ASSERT_TRUE(worker.call("cards", Duration::seconds(20)));
  set_fault("hang");
  const auto hung = worker.call("status", Duration::millis(100));
  ASSERT_FALSE(hung);
  EXPECT_EQ(hung.error().code, Code::kDeadlineExceeded) << hung.error().text();
  set_fault("none");
  EXPECT_TRUE(call_until_answered(worker, "status"));
  EXPECT_EQ(worker.starts(), 2);
}

TEST_F(WorkerTest, ACrashIsReportedWithItsSignal) {
  Worker worker(options(fake_library()), clock_);
  ASSERT_TRUE(worker.call("cards", Duration::seconds(20)));
  set_fault("crash");
  const auto died = worker.call("status", Duration::seconds(20));
  ASSERT_FALSE(died);
  EXPECT_EQ(died.error().code, Code::kUnavailable);
  EXPECT_NE(died.error().message.find("signal 6"), std::string::npos) << died.error().text();
  set_fault("none");
  EXPECT_TRUE(call_until_answered(worker, "status"));
}

TEST_F(WorkerTest, TheFourStatesOfALibraryDiffer) {
  struct Case {
    const char* name;
    std::string library;
    const char* fault;
    LibraryState state;
  };
  const std::vector<Case> cases = {{"missing", "", "none", LibraryState::kMissing},
                                   {"missing file", "/nonexistent/libnvidia-ml.so.1", "none", LibraryState::kMissing},
                                   {"init fails", fake_library(), "init", LibraryState::kInitFailed},
                                   {"partial", test_dir() + "/partial_nvml.so", "none", LibraryState::kIncomplete},
                                   {"whole", fake_library(), "none", LibraryState::kOk}};
  for (const Case& c : cases) {
    set_fault(c.fault);
    Worker worker(options(c.library), clock_);
    const auto answer = worker.call("cards", Duration::seconds(20));
    ASSERT_TRUE(answer) << c.name << answer.error().text();
    const auto inventory = parse_inventory(*answer);
    ASSERT_TRUE(inventory) << c.name;
    EXPECT_EQ(inventory->state, c.state) << c.name << ": " << inventory->detail;
    EXPECT_EQ(inventory->detail.empty(), c.state == LibraryState::kOk) << c.name;
  }
}

TEST_F(WorkerTest, ADriverThatComesUpLaterIsFoundByTheSameWorker) {
  set_fault("init");
  Worker worker(options(fake_library()), clock_);
  ASSERT_TRUE(worker.call("cards", Duration::seconds(20)));
  set_fault("none");
  const auto inventory = parse_inventory(*worker.call("cards", Duration::seconds(20)));
  ASSERT_TRUE(inventory);
  EXPECT_EQ(inventory->state, LibraryState::kOk);
}

TEST_F(WorkerTest, ALostCardIsUnhealthyAndTheOthersAreNot) {
  Worker worker(options(fake_library()), clock_);
  CardSource source({}, [&](std::string_view what, Duration deadline) { return worker.call(what, deadline); }, clock_);
  source.refresh();
  ASSERT_TRUE(source.snapshot().inventory.cards[1].healthy);
  set_fault("lost");
  source.refresh();
  const Snapshot snapshot = source.snapshot();
  ASSERT_EQ(snapshot.inventory.cards.size(), 2U);
  EXPECT_TRUE(snapshot.inventory.cards[0].healthy);
  EXPECT_FALSE(snapshot.inventory.cards[1].healthy);
  EXPECT_FALSE(snapshot.inventory.cards[1].health_message.empty());
}

TEST_F(WorkerTest, AnXidIsRememberedOverARestartOfTheWorker) {
  Worker worker(options(fake_library()), clock_);
  CardSource source({}, [&](std::string_view what, Duration deadline) { return worker.call(what, deadline); }, clock_);
  set_fault("xid");
  source.refresh();
  EXPECT_EQ(source.snapshot().inventory.cards[0].health_message, "XID 79");
  set_fault("crash");
  source.refresh();
  set_fault("none");
  ASSERT_TRUE(call_until_answered(worker, "status"));
  source.refresh();
  const Snapshot snapshot = source.snapshot();
  EXPECT_TRUE(snapshot.current);
  EXPECT_EQ(snapshot.inventory.cards[0].health_message, "XID 79");
  EXPECT_TRUE(snapshot.inventory.cards[1].healthy);
}

TEST_F(WorkerTest, EccErrorsAreNewsOnlyWhenTheyGrow) {
  Worker worker(options(fake_library()), clock_);
  const auto events = [&] { return parse_status(*worker.call("status", Duration::seconds(20)))->events; };
  EXPECT_TRUE(events().empty());
  set_fault("ecc");
  const std::vector<HealthEvent> first = events();
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].uuid, "GPU-fake-0");
  EXPECT_EQ(first[0].message, "uncorrectable ECC errors: 3");
  EXPECT_FALSE(first[0].needs_reset);
  EXPECT_TRUE(events().empty());
  set_fault("none");
  EXPECT_TRUE(events().empty()) << "a reset sets the count to zero";
  set_fault("ecc");
  EXPECT_EQ(events().size(), 1U);
}

// Stands for a library that is stuck in the kernel: while another process traces a dead one, its parent cannot reap it.
class Tracer {
 public:
  explicit Tracer(pid_t traced) {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      const char ok = ::ptrace(PTRACE_SEIZE, traced, nullptr, nullptr) == 0 ? '1' : '0';
      if (::write(ends[1], &ok, 1) != 1) ::_exit(1);
      while (true) ::pause();
    }
    char ok = '0';
    attached_ = ::read(ends[0], &ok, 1) == 1 && ok == '1';
    ::close(ends[0]);
    ::close(ends[1]);
  }
  ~Tracer() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;
  [[nodiscard]] bool attached() const { return attached_; }

 private:
  pid_t pid_ = -1;
  bool attached_ = false;
};

// The one child of this process that runs the worker's program.
pid_t worker_pid() {
  for (const std::string& name : list_directory("/proc").value_or(std::vector<std::string>{})) {
    const std::string stat = read_file("/proc/" + name + "/stat").value_or("");
    const size_t close = stat.rfind(')');
    if (close == std::string::npos || stat.find("(vendor_worker_f") == std::string::npos) continue;
    if (std::stoi(stat.substr(close + 4)) == ::getpid()) return std::stoi(name);
  }
  return -1;
}

TEST_F(WorkerTest, ProcessesThatAreStuckInTheKernelDoNotPileUp) {
  WorkerOptions limited = options(fake_library());
  limited.most_stuck = 1;
  Worker worker(limited, clock_);
  ASSERT_TRUE(worker.call("cards", Duration::seconds(20)));
  const auto tracer = std::make_unique<Tracer>(worker_pid());
  if (!tracer->attached()) GTEST_SKIP() << "no right to trace";
  set_fault("hang");
  ASSERT_FALSE(worker.call("status", Duration::millis(50)));
  ::usleep(20'000);  // its back-off
  const auto refused = worker.call("status", Duration::millis(50));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("stuck"), std::string::npos) << refused.error().text();
  EXPECT_EQ(worker.starts(), 1);
}

}  // namespace
}  // namespace heddle::vendors
