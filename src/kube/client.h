// The API server as Heddle uses it: requests, lists and watches over libcurl's multi interface, one I/O thread for all.
//
// Thread rule: every method may be called from any thread. Callbacks run on the client's I/O thread and must not block:
// hand the work over to a queue. A request has a deadline; after kDeadlineExceeded it is unknown whether it took effect.
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

struct Request {
  Method method = Method::kGet;
  std::string path;  // "/api/v1/namespaces/default/pods?limit=500"
  std::string body;
  std::string content_type = "application/json";  // or a patch type, see below
  Duration timeout = Duration::seconds(15);
};

inline constexpr std::string_view kJsonPatch = "application/json-patch+json";
inline constexpr std::string_view kMergePatch = "application/merge-patch+json";
inline constexpr std::string_view kStrategicPatch = "application/strategic-merge-patch+json";
inline constexpr std::string_view kApplyPatch = "application/apply-patch+yaml";

struct Response {
  int status = 0;
  std::string body;
};

// A response of 2xx is a value. Anything else is an Error: 400/422 kInvalidArgument, 401/403 kPermissionDenied, 404 kNotFound,
// 409 kAlreadyExists or kConflict (by Status.reason), 410 kGone, 429/5xx and no connection kUnavailable, no answer in time
// kDeadlineExceeded. The message is Status.message of the API server where there is one.
using Callback = std::function<void(Result<Response>)>;

// What a watch delivers, on the I/O thread. After replace() the set of objects is exactly `items`; then changes follow in
// order. replace() comes again after a gap (410, expired resume). Objects are raw JSON text, valid for the call only.
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
  int64_t page_size = 500;     // chunked list
};

// Ends its watch when destroyed; after the destructor no callback of it runs.
class Watch {
 public:
  virtual ~Watch() = default;
};

struct ClientStats {
  uint64_t requests = 0;
  uint64_t failures = 0;
  uint64_t watch_restarts = 0;
  uint64_t in_flight = 0;
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
  virtual ~Client() = default;

  // Starts the request and returns. The callback is called exactly once, also at shutdown (kUnavailable).
  virtual void send(Request request, Callback done) = 0;
  // send() and wait. Not on the I/O thread.
  virtual Result<Response> call(Request request) = 0;
  virtual std::unique_ptr<Watch> watch(WatchOptions options, WatchSink& sink) = 0;
  [[nodiscard]] virtual ClientStats stats() const = 0;
};

}  // namespace heddle::kube
