// The part of a client that lives on its I/O thread: the limits, the queue behind them, and what answers mean.
// Internal to kube. Thread rule: I/O thread only, except the counters.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>

#include "base/clock.h"
#include "base/log.h"
#include "kube/client.h"
#include "kube/transport.h"

namespace heddle::kube {

struct Counters {
  std::atomic<uint64_t> requests{0};
  std::atomic<uint64_t> failures{0};
  std::atomic<uint64_t> watch_restarts{0};
  std::atomic<uint64_t> in_flight{0};
  std::atomic<uint64_t> queued{0};
};

class Core {
 public:
  Core(Client::Limits limits, const Clock& clock, const Logger& log, std::unique_ptr<Transport> transport);

  // deadline_nanos: on the monotonic clock.
  void submit(Request request, int64_t deadline_nanos, Callback done);
  // Ends every request with kUnavailable; nothing is sent from now on.
  void shut_down();

  [[nodiscard]] Transport& transport() { return *transport_; }
  [[nodiscard]] const Clock& clock() const { return clock_; }
  [[nodiscard]] const Logger& log() const { return log_; }
  [[nodiscard]] Counters& counters() { return counters_; }
  [[nodiscard]] bool closed() const { return closed_; }

 private:
  class Collector;
  struct Pending {
    Request request;
    Callback done;
    int64_t deadline = 0;
    bool counted = false;  // holds one of max_in_flight
    std::optional<Transport::TimerId> expiry;
  };
  using Id = uint64_t;

  void pump();
  bool take_token();
  void launch(Id id, Pending pending);
  void finished(Id id, const Ending& ending, std::string body);
  void retry_later(Id id, Pending pending, Duration delay);
  void enqueue(Id id, Pending pending);
  void expire(Id id);
  void complete(Pending pending, Result<Response> result);

  Client::Limits limits_;
  const Clock& clock_;
  const Logger& log_;
  Counters counters_;
  std::map<Id, Pending> queue_;  // by age
  std::unordered_map<Id, Pending> running_;
  std::unordered_map<Id, Pending> sleeping_;  // until their Retry-After has passed
  Id last_id_ = 0;
  int64_t counted_in_flight_ = 0;
  double tokens_ = 0;
  int64_t tokens_at_ = 0;
  bool refill_armed_ = false;
  bool closed_ = false;
  // Last: its destructor ends the thread that uses all of the above.
  std::unique_ptr<Transport> transport_;
};

}  // namespace heddle::kube
