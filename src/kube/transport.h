// The one I/O thread of a client: HTTP exchanges over libcurl's multi interface, timers, and tasks from other threads.
// Internal to kube; client.h is what others use.
//
// Thread rule: post(), on_io_thread() and stop() from any thread (stop() not on the I/O thread); all else on the I/O
// thread only, where every callback runs too. Cost: handles and connections are kept and reused.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "kube/client.h"
#include "kube/config.h"

namespace heddle::kube {

// Exchanges of a pool share HTTP/2 connections, those of different pools never do: kube-apiserver ends a watch whose
// events it cannot write at once, and on a connection full of requests it often cannot.
enum class Pool { kRequests, kWatches };

// "GET" and so on.
const char* method_name(Method method);

struct Exchange {
  Method method = Method::kGet;
  std::string path;
  std::string body;
  std::string content_type;
  Duration timeout;  // zero: none
  Pool pool = Pool::kRequests;
};

struct Ending {
  int status = 0;                       // of HTTP; 0 when there was no answer
  std::optional<Error> error;           // the exchange broke: kUnavailable, kDeadlineExceeded, kExhausted
  std::optional<Duration> retry_after;  // header Retry-After in seconds
};

// Lives until on_done() ran or abandon() returned.
class ExchangeHandler {
 public:
  virtual ~ExchangeHandler() = default;
  virtual void on_headers(int /*status*/) {}
  virtual void on_data(std::string_view bytes) = 0;
  virtual void on_done(const Ending& ending) = 0;
};

class Transport {
 public:
  using ExchangeId = uint64_t;
  using TimerId = uint64_t;

  // Starts the thread, after the credential plugin where there is one. Errors: kInvalidArgument for a configuration
  // that cannot be used, and those of run_credential_plugin().
  static Result<std::unique_ptr<Transport>> create(Config config, const Clock& clock);
  virtual ~Transport() = default;

  // Runs the task on the I/O thread, in order of post(). False once stopped: then the task was dropped.
  virtual bool post(std::function<void()> task) = 0;
  [[nodiscard]] virtual bool on_io_thread() const = 0;
  // Runs all tasks posted so far, then `last`, and ends the thread; running exchanges are dropped without a call.
  virtual void stop(std::function<void()> last) = 0;

  virtual ExchangeId start(Exchange exchange, std::shared_ptr<ExchangeHandler> handler) = 0;
  // No call of its handler follows. The connection is cut when nothing came over it for `silence` (zero: left alone).
  virtual void abandon(ExchangeId id, Duration silence) = 0;
  virtual TimerId after(Duration delay, std::function<void()> task) = 0;
  virtual void cancel_timer(TimerId id) = 0;
};

}  // namespace heddle::kube
