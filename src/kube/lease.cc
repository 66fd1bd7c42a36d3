#include "kube/lease.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "kube/election.h"
#include "kube/paths.h"

namespace heddle::kube {
namespace {

class ThreadedLease final : public LeaderLease {
 public:
  ThreadedLease(LeaseOptions options, Client& client, const Clock& clock, const Logger& log,
                std::function<void(bool)> on_change)
      : election_(std::move(options)), client_(client), clock_(clock), log_(log), on_change_(std::move(on_change)) {
    thread_ = std::thread([this] { run(); });
  }

  ~ThreadedLease() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    stopped_.notify_all();
    thread_.join();
  }

  [[nodiscard]] bool is_leader() const override {
    return clock_.monotonic_nanos() < lead_until_.load(std::memory_order_acquire);
  }

 private:
  void run();
  void act(const Election::Action& action);
  void read();
  void write(const Election::Action& action);
  void give_back();
  void publish();
  void pause(Duration duration);
  [[nodiscard]] bool stopping() {
    const std::lock_guard lock(mutex_);
    return stop_;
  }
  // Several tries must fit before the lead runs out.
  [[nodiscard]] Duration request_timeout() const {
    return Duration{std::max<int64_t>(election_.options().renew_deadline.nanos / 3, 1'000'000)};
  }
  [[nodiscard]] std::string path() const {
    return lease_path(election_.options().name_space, election_.options().name);
  }

  Election election_;  // of the thread
  Client& client_;
  const Clock& clock_;
  const Logger& log_;
  std::function<void(bool)> on_change_;
  std::atomic<int64_t> lead_until_{INT64_MIN};
  bool told_ = false;  // what on_change_ heard last; of the thread

  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;  // guarded by mutex_
  std::thread thread_;
};

void ThreadedLease::run() {
  while (!stopping()) {
    const Election::Action action = election_.next(clock_.monotonic_nanos(), clock_.now());
    act(action);
    publish();
  }
  give_back();
}

void ThreadedLease::act(const Election::Action& action) {
  switch (action.step) {
    case Election::Step::kWait: {
      // Not beyond the end of the lead, so that its end is told in time.
      const int64_t left = told_ ? election_.lead_until() - clock_.monotonic_nanos() : 0;
      return pause(left > 0 ? std::min(action.wait, Duration{left}) : action.wait);
    }
    case Election::Step::kRead:
      return read();
    case Election::Step::kCreate:
    case Election::Step::kUpdate:
      return write(action);
  }
}

void ThreadedLease::read() {
  Request request;
  request.path = path();
  request.timeout = request_timeout();
  request.lane = Lane::kUrgent;
  const auto answer = client_.call(std::move(request));
  const int64_t now = clock_.monotonic_nanos();
  if (!answer && answer.error().code == Code::kNotFound) return election_.saw(std::nullopt, now);
  if (!answer) {
    log_.warning("the lease cannot be read", {{"why", answer.error().text()}});
    return election_.failed(Code::kUnavailable, now);
  }
  const auto record = parse_lease(answer->body);
  if (!record) {
    log_.warning("the lease cannot be read", {{"why", record.error().text()}});
    return election_.failed(Code::kUnavailable, now);
  }
  election_.saw(*record, now);
}

void ThreadedLease::write(const Election::Action& action) {
  Request request;
  const bool create = action.step == Election::Step::kCreate;
  request.method = create ? Method::kPost : Method::kPut;
  request.path = create ? collection_path(kLeases, election_.options().name_space) : path();
  request.body = lease_json(election_.options(), action.record);
  request.timeout = request_timeout();
  request.lane = Lane::kUrgent;
  const int64_t sent_at = clock_.monotonic_nanos();
  const auto answer = client_.call(std::move(request));
  const int64_t now = clock_.monotonic_nanos();
  if (!answer) {
    log_.warning("the lease cannot be written", {{"why", answer.error().text()}});
    return election_.failed(answer.error().code, now);
  }
  const auto record = parse_lease(answer->body);
  if (!record || record->holder != action.record.holder) return election_.failed(Code::kUnavailable, now);
  election_.wrote(*record, sent_at, now);
}

void ThreadedLease::publish() {
  lead_until_.store(election_.lead_until(), std::memory_order_release);
  const bool leads = is_leader();
  if (leads == told_) return;
  told_ = leads;
  log_.info(leads ? "this process leads" : "this process leads no more", {{"identity", election_.options().identity}});
  if (on_change_) on_change_(leads);
}

void ThreadedLease::give_back() {
  lead_until_.store(INT64_MIN, std::memory_order_release);
  if (std::exchange(told_, false) && on_change_) on_change_(false);
  const auto record = election_.release(clock_.now());
  if (!record) return;
  Request request;
  request.method = Method::kPut;
  request.path = path();
  request.body = lease_json(election_.options(), *record);
  request.timeout = request_timeout();
  request.lane = Lane::kUrgent;
  const auto answer = client_.call(std::move(request));
  if (!answer) log_.warning("the lease could not be given back", {{"why", answer.error().text()}});
}

void ThreadedLease::pause(Duration duration) {
  std::unique_lock lock(mutex_);
  stopped_.wait_for(lock, std::chrono::nanoseconds(duration.nanos), [this] { return stop_; });
}

}  // namespace

std::unique_ptr<LeaderLease> LeaderLease::start(LeaseOptions options, Client& client, const Clock& clock,
                                                const Logger& log, std::function<void(bool)> on_change) {
  return std::make_unique<ThreadedLease>(std::move(options), client, clock, log, std::move(on_change));
}

}  // namespace heddle::kube
