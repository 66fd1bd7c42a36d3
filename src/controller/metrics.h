// What /metrics of the controller shows, in Prometheus' text format. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "base/prometheus.h"
#include "controller/reconciler.h"

namespace heddle::controller {

class Metrics {
 public:
  void update(ReconcilerStats stats);
  void webhook_answered(const std::string& path, const std::string& verdict, int64_t nanos);

  struct Live {
    bool leading = false;
    bool synced = false;
    size_t queued_events = 0;
    int64_t waiting_writes = 0;
    std::map<std::pair<std::string, std::string>, uint64_t> writes;
    uint64_t requests = 0;
    uint64_t watch_restarts = 0;
  };
  [[nodiscard]] std::string text(const Live& live) const;

 private:
  mutable std::mutex mutex_;
  ReconcilerStats stats_;
  Histogram place_;
  std::map<std::string, Histogram> webhook_;  // by path
  std::map<std::string, Histogram> waits_;    // by queue
  std::map<std::pair<std::string, std::string>, uint64_t> reviews_;
};

}  // namespace heddle::controller
