// A daemon with queues on a machine of the test's, without sockets and commands. For tests of this folder.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "standalone/daemon.h"
#include "standalone/job_queues.h"
#include "standalone/process.h"

namespace heddle::standalone {

inline std::string queue(const std::string& name, const std::string& spec) {
  return R"({"kind":"AcceleratorQueue","metadata":{"name":")" + name + R"("},"spec":{)" + spec + "}}";
}

// A process that is there until it is ended, whatever it is told.
class Child {
 public:
  Child() {
    const auto before = ::signal(SIGTERM, SIG_IGN);
    pid_ = fork();
    while (pid_ == 0) pause();
    ::signal(SIGTERM, before);
  }
  ~Child() { end(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  [[nodiscard]] pid_t pid() const { return pid_; }
  void end() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
};

class QueuedDaemonTest : public testing::Test {
 protected:
  QueuedDaemonTest() : folder_(testing::TempDir() + "queued-" + std::to_string(getpid())) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~QueuedDaemonTest() override {
    daemon_.reset();
    std::filesystem::remove_all(folder_);
  }

  // Two cards, the first of another model; with what the ledger has.
  void start(const std::vector<std::string>& queues, int cards = 2) {
    daemon_.reset();
    Machine machine;
    machine.node = "n";
    for (int i = 0; i < cards; ++i) {
      vendors::Card card;
      card.vendor = "nvidia";
      card.kind = "gpu";
      card.uuid = "GPU-" + std::to_string(i);
      card.model = i == 0 ? "NVIDIA A100" : "NVIDIA H100";
      card.index = card.minor = i;
      card.memory_bytes = int64_t{80} << 30;
      machine.cards.push_back(card);
    }
    machine.slices = machine_slices(machine.node, machine.cards);
    cards_ = machine.cards;
    DaemonOptions options;
    options.state_dir = folder_;
    options.queues = check_queues(queues).value();
    auto ledger = Ledger::open(folder_ + "/ledger.db");
    ASSERT_TRUE(ledger.has_value()) << ledger.error().text();
    auto daemon = Daemon::create(options, std::move(*ledger), std::move(machine), clock_, log_);
    ASSERT_TRUE(daemon.has_value()) << daemon.error().text();
    daemon_ = std::move(*daemon);
  }
  std::variant<JobView, Refused> submit(const JobRequest& request) {
    clock_.advance(Duration::seconds(1));
    Owner owner{1000, 1000, "ann", {"staff"}};
    return daemon_->submit(request, *identify(getpid()), owner).value();
  }
  static JobRequest whole(const std::string& queue_name, int64_t count = 1) {
    JobRequest request;
    request.command = {"true"};
    request.queue = queue_name;
    request.count = count;
    return request;
  }
  static JobRequest share(const std::string& queue_name, int64_t gibibytes) {
    JobRequest request = whole(queue_name);
    request.memory_bytes = gibibytes << 30;
    return request;
  }
  // Whole cards.
  std::variant<JobView, Refused> run(const std::string& queue_name, int64_t count = 1) {
    return submit(whole(queue_name, count));
  }
  JobView job(const std::string& queue_name) { return std::get<JobView>(run(queue_name)); }
  std::string why(const std::string& queue_name, int64_t count = 1) {
    return std::get<Refused>(run(queue_name, count)).reasons.at(0).message;
  }
  std::string card_of(const JobRequest& request) {
    const JobView view = std::get<JobView>(submit(request));
    return view.shares.empty() ? "none" : view.shares.at(0).card;
  }
  // From now on the driver says so.
  void sick(const JobView& on) {
    for (vendors::Card& card : cards_) card.healthy = card.healthy && card.uuid != on.shares.at(0).uuid;
    vendors::Snapshot snapshot;
    snapshot.inventory.cards = cards_;
    snapshot.current = true;
    daemon_->observe(snapshot);
  }
  JobView now(const JobView& view) { return daemon_->find(view.job.id).value(); }

  std::string folder_;
  ManualClock clock_{Time{1'800'000'000'000'000'000}};
  Logger log_{"test", LogLevel::kError, clock_, 2};
  std::vector<vendors::Card> cards_;
  std::unique_ptr<Daemon> daemon_;
};

}  // namespace heddle::standalone
