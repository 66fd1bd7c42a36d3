#include "kube/login.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <mutex>
#include <thread>
#include <utility>

#include "base/unique_fd.h"

namespace heddle::kube {
namespace {

constexpr Duration kAhead = Duration::seconds(30);
constexpr Duration kBetweenRuns = Duration::seconds(10);
constexpr Duration kDeadline = Duration::seconds(60);

class PluginLogin final : public Login {
 public:
  PluginLogin(Config config, const Credential& first)
      : config_(std::move(config)), expires_(first.expires), cancel_(::eventfd(0, EFD_CLOEXEC)) {}

  ~PluginLogin() override {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t told = ::write(cancel_.get(), &one, sizeof(one));
    if (runner_.joinable()) runner_.join();
  }

  std::optional<Credential> renewed(Time now) override {
    auto fresh = take();
    if (fresh) {
      expires_ = fresh->expires;
      refused_ = false;
      return fresh;
    }
    const bool due = refused_ || (expires_ && now + kAhead >= *expires_);
    if (due && now >= next_run_) run(now);
    return std::nullopt;
  }

  void refused() override { refused_ = true; }

 private:
  std::optional<Credential> take() {
    {
      const std::lock_guard lock(mutex_);
      if (!ended_) return std::nullopt;
      ended_ = false;
    }
    runner_.join();
    return std::exchange(arrived_, std::nullopt);
  }

  void run(Time now) {
    if (runner_.joinable()) return;
    next_run_ = now + kBetweenRuns;
    runner_ = std::thread([this] {
      auto credential = run_credential_plugin(config_, false, kDeadline, cancel_.get());
      const std::lock_guard lock(mutex_);
      if (credential) arrived_ = *std::move(credential);
      ended_ = true;
    });
  }

  const Config config_;
  std::optional<Time> expires_;
  bool refused_ = false;
  Time next_run_{};
  UniqueFd cancel_;
  std::thread runner_;  // joinable from its start until take() has seen its end

  std::mutex mutex_;
  bool ended_ = false;                 // guarded by mutex_
  std::optional<Credential> arrived_;  // of the runner until ended_
};

}  // namespace

std::unique_ptr<Login> Login::create(Config config, const Credential& first) {
  return std::make_unique<PluginLogin>(std::move(config), first);
}

}  // namespace heddle::kube
