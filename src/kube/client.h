// The API server as Heddle uses it: requests, lists and watches over libcurl's multi interface, one I/O thread for all.
//
// Thread rule: every method may be called from any thread. Callbacks run on the client's I/O thread and must not block:
// hand the work over to a queue. A request has a deadline; after kDeadlineExceeded it is unknown whether it took
// effect.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/result.h"
#include "kube/config.h"

namespace heddle::kube {

enum class Method { kGet, kPost, kPut, kPatch, kDelete };

// kUrgent passes the limits of rate and number: for lease renewals, which must not wait behind other writes.
enum class Lane { kNormal, kUrgent };

struct Request {
  Method method = Method::kGet;
  std::string path;  // "/api/v1/namespaces/default/pods?limit=500"
  std::string body;
  std::string content_type = "application/json";  // or a patch type, see below
  Duration timeout = Duration::seconds(15);       // from send(), waiting for the limits and retries included
  Lane lane = Lane::kNormal;
};

inline constexpr std::string_view kJsonPatch = "application/json-patch+json";
inline constexpr std::string_view kMergePatch = "application/merge-patch+json";
inline constexpr std::string_view kStrategicPatch = "application/strategic-merge-patch+json";
inline constexpr std::string_view kApplyPatch = "application/apply-patch+yaml";

struct Response {
  int status = 0;
  std::string body;
};

// A response of 2xx is a value. Anything else is an Error: 400/422 kInvalidArgument, 401/403 kPermissionDenied, 404
// kNotFound, 409 kAlreadyExists or kConflict (by Status.reason), 410 kGone, 429/5xx and no connection kUnavailable, no
// answer in time kDeadlineExceeded (kUnavailable when it certainly was not sent). The message is Status.message of the
// API server where there is one. An answer of 429 or 5xx with a Retry-After header is tried again after that time while
// the deadline allows. A request whose kept connection died before the first byte of an answer may be sent twice: make
// writes safe to repeat.
using Callback = std::function<void(Result<Response>)>;

// What a watch delivers, on the I/O thread. Items of a list lack kind and apiVersion, as the API server sends them.
// After replace() the set of objects is exactly `items`; then changes follow in order. replace() comes again after a
// gap (410, expired resume). Objects are raw JSON text, valid for the call only.
class WatchSink {
 public:
  virtual ~WatchSink() = default;
  virtual void replace(const std::vector<std::string_view>& items) = 0;
  virtual void added_or_modified(std::string_view object) = 0;
  virtual void deleted(std::string_view object) = 0;
  // The watch is failing (why) or works again (empty text). For health and metrics.
  virtual void status(std::string_view trouble) = 0;
};

struct WatchOptions {
  std::string path;            // "/apis/resource.k8s.io/v1/resourceslices"
  std::string field_selector;  // not escaped
  std::string label_selector;
  int64_t page_size = 500;                         // chunked list
  Duration first_backoff = Duration::millis(500);  // doubles with each failure, with jitter, up to max_backoff
  Duration max_backoff = Duration::seconds(30);
  Duration server_timeout = Duration::seconds(300);  // timeoutSeconds, plus up to as much again at random
  // A stream without a byte for so long is dead: the API server sends a bookmark about once a minute.
  Duration idle_limit = Duration::seconds(180);
  uint64_t seed = 0;  // of the jitter
};

// Ends its watch when destroyed; after the destructor no callback of it runs. It may outlive its client. Destroying it
// on the I/O thread, also from inside its own sink, is allowed.
class Watch {
 public:
  virtual ~Watch() = default;
};

struct ClientStats {
  uint64_t requests = 0;
  uint64_t failures = 0;
  uint64_t watch_restarts = 0;
  uint64_t in_flight = 0;
  uint64_t queued = 0;  // waiting for the limits
};

class Client {
 public:
  // Limits the rate of requests (not of watches): queries a second and burst; 0 means no limit.
  struct Limits {
    double qps = 0;
    int64_t burst = 0;
    int64_t max_in_flight = 64;
  };

  // Errors: kInvalidArgument when the configuration cannot be used (a file missing, no server).
  static Result<std::unique_ptr<Client>> create(Config config, Limits limits, const Clock& clock, const Logger& log);
  // Not on the I/O thread. Open requests end with kUnavailable, watches fall silent.
  virtual ~Client() = default;

  // Starts the request and returns. The callback is called exactly once, also at shutdown (kUnavailable).
  virtual void send(Request request, Callback done) = 0;
  // send() and wait. On the I/O thread it would wait for itself: kInternal.
  virtual Result<Response> call(Request request) = 0;
  virtual std::unique_ptr<Watch> watch(WatchOptions options, WatchSink& sink) = 0;
  [[nodiscard]] virtual ClientStats stats() const = 0;
};

}  // namespace heddle::kube
