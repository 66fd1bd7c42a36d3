// Leader election over coordination.k8s.io/v1 Lease, made for one writer (design: "One writer").
//
// is_leader() is true only while now < the last confirmed renewal + renew_deadline on the monotonic clock, measured
// from *before* the renewal was sent. A new leader becomes leader lease_duration + write_timeout after it last saw the
// old holder renew.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "kube/client.h"

namespace heddle::kube {

struct LeaseOptions {
  std::string name_space;
  std::string name = "heddle-controller";
  std::string identity;  // unique for this process
  Duration lease_duration = Duration::seconds(15);
  Duration renew_deadline = Duration::seconds(10);  // less than lease_duration (else half of that is taken)
  Duration retry_period = Duration::seconds(2);
  Duration write_timeout = Duration::seconds(5);  // the longest that a write of a leader may be under way
};

class LeaderLease {
 public:
  // on_change(true) when this process becomes the leader, on_change(false) when it stops; on a thread of the lease's
  // own.
  static std::unique_ptr<LeaderLease> start(LeaseOptions options, Client& client, const Clock& clock, const Logger& log,
                                            std::function<void(bool)> on_change);
  // Gives the lease back if held: end all writes before. Not on its own thread.
  virtual ~LeaderLease() = default;
  // Ask before each write. Thread-safe, cheap.
  [[nodiscard]] virtual bool is_leader() const = 0;
};

}  // namespace heddle::kube
