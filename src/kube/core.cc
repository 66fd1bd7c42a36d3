#include "kube/core.h"

#include <algorithm>
#include <utility>

#include "kube/wire.h"

namespace heddle::kube {
namespace {

constexpr size_t kMaxResponseBytes = size_t{512} << 20;

}  // namespace

class Core::Collector final : public ExchangeHandler {
 public:
  Collector(Core& core, Id id) : core_(core), id_(id) {}

  void on_data(std::string_view bytes) override {
    if (body_.size() + bytes.size() > kMaxResponseBytes) {
      too_long_ = true;
      body_.clear();
    }
    if (!too_long_) body_.append(bytes);
  }

  void on_done(const Ending& ending) override {
    if (!too_long_) return core_.finished(id_, ending, std::move(body_));
    Ending failed = ending;
    failed.error = Error{Code::kExhausted, "the answer is too long: ask in pages", {}};
    core_.finished(id_, failed, {});
  }

 private:
  Core& core_;
  Id id_;
  std::string body_;
  bool too_long_ = false;
};

Core::Core(Client::Limits limits, const Clock& clock, const Logger& log, std::unique_ptr<Transport> transport)
    : limits_(limits),
      clock_(clock),
      log_(log),
      tokens_(static_cast<double>(std::max<int64_t>(limits.burst, 1))),
      tokens_at_(clock.monotonic_nanos()),
      transport_(std::move(transport)) {}

void Core::submit(Request request, int64_t deadline_nanos, Callback done) {
  Pending pending{std::move(request), std::move(done), deadline_nanos, false, std::nullopt};
  if (closed_) return complete(std::move(pending), fail(Code::kUnavailable, "the client is shutting down"));
  const Id id = ++last_id_;
  if (pending.request.lane == Lane::kUrgent) return launch(id, std::move(pending));
  enqueue(id, std::move(pending));
  pump();
}

void Core::enqueue(Id id, Pending pending) {
  queue_.emplace(id, std::move(pending));
  counters_.queued.fetch_add(1, std::memory_order_relaxed);
}

// Sends what the limits allow; the rest gets a timer, so that none waits beyond its deadline.
void Core::pump() {
  while (!queue_.empty() && !closed_) {
    if (limits_.max_in_flight > 0 && counted_in_flight_ >= limits_.max_in_flight) break;
    if (!take_token()) break;
    auto node = queue_.extract(queue_.begin());
    counters_.queued.fetch_sub(1, std::memory_order_relaxed);
    if (node.mapped().expiry) transport_->cancel_timer(*node.mapped().expiry);
    node.mapped().expiry.reset();
    node.mapped().counted = true;
    ++counted_in_flight_;
    launch(node.key(), std::move(node.mapped()));
  }
  // New ones are at the end; those before them have their timers.
  for (auto it = queue_.rbegin(); it != queue_.rend() && !it->second.expiry; ++it) {
    const Id id = it->first;
    const Duration left{it->second.deadline - clock_.monotonic_nanos()};
    it->second.expiry = transport_->after(left, [this, id] { expire(id); });
  }
}

bool Core::take_token() {
  if (limits_.qps <= 0) return true;
  const int64_t now = clock_.monotonic_nanos();
  const double most = static_cast<double>(std::max<int64_t>(limits_.burst, 1));
  tokens_ = std::min(most, tokens_ + static_cast<double>(now - tokens_at_) * 1e-9 * limits_.qps);
  tokens_at_ = now;
  if (tokens_ >= 1) {
    tokens_ -= 1;
    return true;
  }
  if (!refill_armed_) {
    refill_armed_ = true;
    transport_->after(Duration{static_cast<int64_t>((1 - tokens_) / limits_.qps * 1e9) + 1}, [this] {
      refill_armed_ = false;
      pump();
    });
  }
  return false;
}

void Core::expire(Id id) {
  auto node = queue_.extract(id);
  if (node.empty()) return;
  counters_.queued.fetch_sub(1, std::memory_order_relaxed);
  complete(std::move(node.mapped()),
           fail(Code::kUnavailable, "not sent: the client's own limits held it back too long"));
}

void Core::launch(Id id, Pending pending) {
  const Duration left{pending.deadline - clock_.monotonic_nanos()};
  if (left.nanos <= 0) {
    if (pending.counted) --counted_in_flight_;
    return complete(std::move(pending), fail(Code::kUnavailable, "not sent: its time was over before"));
  }
  counters_.requests.fetch_add(1, std::memory_order_relaxed);
  counters_.in_flight.fetch_add(1, std::memory_order_relaxed);
  Exchange exchange{
      pending.request.method, pending.request.path, pending.request.body, pending.request.content_type, left,
      Pool::kRequests};
  running_.emplace(id, std::move(pending));
  transport_->start(std::move(exchange), std::make_shared<Collector>(*this, id));
}

void Core::finished(Id id, const Ending& ending, std::string body) {
  auto node = running_.extract(id);
  if (node.empty()) return;
  Pending pending = std::move(node.mapped());
  counters_.in_flight.fetch_sub(1, std::memory_order_relaxed);
  if (pending.counted) --counted_in_flight_;
  pending.counted = false;
  if (!ending.error && ending.retry_after && (ending.status == 429 || ending.status >= 500)) {
    const Duration delay = std::max(*ending.retry_after, Duration::millis(50));
    if (clock_.monotonic_nanos() + delay.nanos < pending.deadline) {
      retry_later(id, std::move(pending), delay);
      return pump();
    }
  }
  if (ending.error) {
    complete(std::move(pending), tl::unexpected<Error>(*ending.error));
  } else if (ending.status >= 200 && ending.status < 300) {
    complete(std::move(pending), Response{ending.status, std::move(body)});
  } else {
    const std::string what = std::string(method_name(pending.request.method)) + " " + pending.request.path;
    complete(std::move(pending), tl::unexpected<Error>(error_of_answer(what, ending.status, body)));
  }
  pump();
}

void Core::retry_later(Id id, Pending pending, Duration delay) {
  sleeping_.emplace(id, std::move(pending));
  transport_->after(delay, [this, id] {
    auto node = sleeping_.extract(id);
    if (node.empty()) return;
    if (node.mapped().request.lane == Lane::kUrgent) return launch(id, std::move(node.mapped()));
    enqueue(id, std::move(node.mapped()));
    pump();
  });
}

void Core::complete(Pending pending, Result<Response> result) {
  if (!result) counters_.failures.fetch_add(1, std::memory_order_relaxed);
  if (pending.done) pending.done(std::move(result));
}

void Core::shut_down() {
  closed_ = true;
  const auto end_all = [this](auto requests) {
    for (auto& [id, pending] : requests) {
      complete(std::move(pending), fail(Code::kUnavailable, "the client is shutting down"));
    }
  };
  counters_.in_flight.store(0, std::memory_order_relaxed);
  counters_.queued.store(0, std::memory_order_relaxed);
  end_all(std::exchange(queue_, {}));
  end_all(std::exchange(running_, {}));
  end_all(std::exchange(sleeping_, {}));
}

}  // namespace heddle::kube
