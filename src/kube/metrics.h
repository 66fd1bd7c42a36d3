// Counters, gauges and histograms in the Prometheus text format. A registry is made in main and passed on; nothing is
// global.
//
// Thread rule: everything from any thread. Cost: with() takes a lock and looks up a label set (keep the reference it
// gives, it lives as long as the registry); add(), set() and observe() are a few atomic operations.
//
// Labels are bounded: beyond max_series label sets of one family, further ones are counted together in a series whose
// label values are all "other", so that names from outside cannot fill the memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::kube {

class Counter {
 public:
  void add(uint64_t amount = 1) { value_.fetch_add(amount, std::memory_order_relaxed); }
  [[nodiscard]] uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

class Gauge {
 public:
  void set(double value) { value_.store(value, std::memory_order_relaxed); }
  void add(double amount);
  [[nodiscard]] double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

class Histogram {
 public:
  // bounds: upper bounds (inclusive), rising.
  explicit Histogram(std::vector<double> bounds);
  void observe(double value);
  [[nodiscard]] const std::vector<double>& bounds() const { return bounds_; }
  // Observations up to each bound and, last, all.
  [[nodiscard]] std::vector<uint64_t> cumulative() const;
  [[nodiscard]] double sum() const { return sum_.value(); }

 private:
  std::vector<double> bounds_;
  std::deque<std::atomic<uint64_t>> counts_;  // one more than bounds_
  Gauge sum_;
};

// Seconds: 1 ms .. 30 s.
std::vector<double> latency_bounds();

class FamilyBase {
 public:
  FamilyBase(std::string name, std::string help, std::vector<std::string> labels, size_t max_series);
  virtual ~FamilyBase() = default;
  virtual void write(std::string& out) const = 0;
  [[nodiscard]] const std::string& name() const { return name_; }

 protected:
  // {a="x",b="y"} with `more` as a further, complete pair; empty when there is no label at all.
  [[nodiscard]] std::string label_text(const std::vector<std::string>& values, std::string_view more = {}) const;
  void write_head(std::string& out, std::string_view type) const;
  // The label values of what does not fit any more.
  [[nodiscard]] std::vector<std::string> other() const;

  std::string name_;
  std::string help_;
  std::vector<std::string> labels_;
  size_t max_series_;
  mutable std::mutex mutex_;
};

template <typename T>
class Family final : public FamilyBase {
 public:
  using Make = std::function<std::unique_ptr<T>()>;
  Family(std::string name, std::string help, std::vector<std::string> labels, size_t max_series, Make make)
      : FamilyBase(std::move(name), std::move(help), std::move(labels), max_series), make_(std::move(make)) {}

  // The series of these label values, in the order of the family's labels.
  T& with(std::vector<std::string> values = {}) {
    const std::lock_guard lock(mutex_);
    values.resize(labels_.size());
    if (series_.size() >= max_series_ && !series_.contains(values)) values = other();
    std::unique_ptr<T>& slot = series_[std::move(values)];
    if (!slot) slot = make_();
    return *slot;
  }
  // Forgets all series, for gauges that are set anew as a whole. References from with() end here.
  void clear() {
    const std::lock_guard lock(mutex_);
    series_.clear();
  }
  void write(std::string& out) const override;

 private:
  Make make_;
  std::map<std::vector<std::string>, std::unique_ptr<T>> series_;
};

template <>
void Family<Counter>::write(std::string& out) const;
template <>
void Family<Gauge>::write(std::string& out) const;
template <>
void Family<Histogram>::write(std::string& out) const;

class Metrics {
 public:
  // Names and labels are of the program, not of input: "heddle_allocations_total", {"queue", "result"}.
  Family<Counter>& counter(const std::string& name, const std::string& help, std::vector<std::string> labels = {},
                           size_t max_series = kMaxSeries);
  Family<Gauge>& gauge(const std::string& name, const std::string& help, std::vector<std::string> labels = {},
                       size_t max_series = kMaxSeries);
  Family<Histogram>& histogram(const std::string& name, const std::string& help, std::vector<double> bounds,
                               std::vector<std::string> labels = {}, size_t max_series = kMaxSeries);
  // Called before each exposition, to set gauges from what is known then.
  void before_exposition(std::function<void()> update);
  // The text format, version 0.0.4 (kMetricsContentType). Families in the order of their names.
  [[nodiscard]] std::string exposition() const;

  static constexpr size_t kMaxSeries = 1000;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::unique_ptr<FamilyBase>> families_;
  std::vector<std::function<void()>> updates_;
};

inline constexpr const char* kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace heddle::kube
