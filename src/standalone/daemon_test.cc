// Which card a job gets, from what the daemon has seen come.
#include "standalone/daemon.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "standalone/process.h"

namespace heddle::standalone {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kMilli = 10;  // MiB that are a thousandth of a card here

std::vector<vendors::Card> cards(int count) {
  std::vector<vendors::Card> out;
  for (int i = 0; i < count; ++i) {
    vendors::Card card;
    card.vendor = "nvidia";
    card.kind = "gpu";
    card.uuid = "GPU-" + std::to_string(i);
    card.model = "NVIDIA H100";
    card.index = card.minor = i;
    card.memory_bytes = 1000 * kMilli * kMiB;
    out.push_back(card);
  }
  return out;
}

class DaemonTest : public testing::Test {
 protected:
  DaemonTest() : folder_(testing::TempDir() + "daemon-" + std::to_string(getpid())) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    start();
  }
  ~DaemonTest() override {
    daemon_.reset();
    std::filesystem::remove_all(folder_);
  }

  // With what the ledger has.
  void start() {
    daemon_.reset();
    Machine machine;
    machine.node = "n";
    machine.cards = cards(12);
    machine.slices = machine_slices(machine.node, machine.cards);
    DaemonOptions options;
    options.state_dir = folder_;
    auto ledger = Ledger::open(folder_ + "/ledger.db");
    ASSERT_TRUE(ledger.has_value()) << ledger.error().text();
    auto daemon = Daemon::create(options, std::move(*ledger), std::move(machine), clock_, log_);
    ASSERT_TRUE(daemon.has_value()) << daemon.error().text();
    daemon_ = std::move(*daemon);
  }

  // Its id and its card.
  std::pair<int64_t, std::string> run(int milli) {
    JobRequest request;
    request.command = {"true"};
    request.memory_bytes = milli * kMilli * kMiB;
    request.cores = 0;
    const auto answer = daemon_->submit(request, *identify(getpid()), {static_cast<int64_t>(geteuid()), 0, "me"});
    const auto* view = answer ? std::get_if<JobView>(&*answer) : nullptr;
    if (view == nullptr || view->shares.empty()) return {0, "none"};
    return {view->job.id, view->shares[0].card};
  }
  void cancel(int64_t id) { EXPECT_TRUE(daemon_->cancel(id, "enough").has_value()); }

  std::string folder_;
  ManualClock clock_{Time{1'800'000'000'000'000'000}};
  Logger log_{"test", LogLevel::kError, clock_, 2};
  std::unique_ptr<Daemon> daemon_;
};

// One card with 200 taken and one with a half, on a machine whose work is halves and 300s: a 300 fills the first
// without waste. Beside the half, where best fit puts it, it wastes 200. The same after a restart, from the jobs that
// live.
TEST_F(DaemonTest, ACardIsKeptForWhatFillsIt) {
  const auto large = run(800);
  EXPECT_EQ(run(200).second, large.second);
  std::vector<std::pair<int64_t, std::string>> halves;
  for (int i = 0; i < 16; ++i) halves.push_back(run(500));
  for (int i = 0; i < 9; ++i) EXPECT_NE(run(300).second, "none");
  EXPECT_EQ(halves[0].second, halves[1].second);
  cancel(large.first);
  cancel(halves[0].first);
  const auto first = run(300);
  EXPECT_EQ(first.second, large.second);
  cancel(first.first);
  start();
  EXPECT_EQ(run(300).second, large.second);
}

}  // namespace
}  // namespace heddle::standalone
