// What /metrics of the controller shows, in Prometheus' text format. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "controller/reconciler.h"

namespace heddle::controller {

// Seconds, with fixed bounds from 10 us to 10 s.
class Histogram {
 public:
  void observe(int64_t nanos);
  // Lines of one metric; labels: `path="/mutate"` or empty.
  void write(const std::string& name, const std::string& labels, std::string& out) const;

 private:
  static constexpr std::array<double, 13> kBounds = {1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2,
                                                     3e-2, 1e-1, 3e-1, 1,    3,    10};
  std::array<uint64_t, kBounds.size() + 1> buckets_{};
  uint64_t count_ = 0;
  double sum_ = 0;
};

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
  std::map<std::pair<std::string, std::string>, uint64_t> reviews_;
};

// A label's value with quotes, backslashes and newlines escaped.
std::string label_value(const std::string& text);

}  // namespace heddle::controller
