// Sends the reconciler's writes: ledger and pods before conditions and events, a bounded number under way, each only
// while this process leads. Thread rule: any thread; answers go to the queue.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "base/log.h"
#include "controller/event_queue.h"
#include "controller/reconciler.h"
#include "kube/client.h"

namespace heddle::controller {

// A test aid: the process kills itself (SIGKILL) at its Nth write, so that tests can look at every place where a
// controller can die. Counted are writes to claims and pods, not conditions, events and reads.
struct DieAt {
  enum class When { kBeforeSending, kAfterAnswer };
  uint64_t write = 0;  // 0: never
  When when = When::kAfterAnswer;
};
// "3", "3:after" or "3:before"; empty: never. Errors: kInvalidArgument.
Result<DieAt> parse_die_at(std::string_view text);

class Sender {
 public:
  struct Limits {
    int64_t in_flight = 64;
    int64_t telling_in_flight = 8;   // only while nothing else waits
    size_t telling_waiting = 20000;  // the oldest are dropped beyond
  };
  Sender(kube::Client& client, EventQueue& queue, Limits limits, DieAt die_at, std::function<bool()> may_write);
  // Waits for nothing: the client ends its requests first.
  ~Sender();

  void send(std::vector<Write> writes);
  // Drops what waits; answers of what is under way still come.
  void drop_waiting();

  // By write name and "ok" or the code's name. Copied.
  [[nodiscard]] std::map<std::pair<std::string, std::string>, uint64_t> counts() const;
  [[nodiscard]] int64_t waiting() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace heddle::controller
