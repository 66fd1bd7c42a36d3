// Metrics in the text format of Prometheus, written at the moment they are asked for from what is known then.
//
// Thread rule: PrometheusText belongs to one thread; a Histogram is guarded by whoever owns it. Cost: observe() looks
// through a dozen bounds; a sample is one append.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heddle {

inline constexpr const char* kPrometheusContentType = "text/plain; version=0.0.4; charset=utf-8";

// Durations, with bounds in seconds, from 10 us to 10 s or as they are given.
class Histogram {
 public:
  static constexpr std::array<double, 13> kBounds = {1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2,
                                                     3e-2, 1e-1, 3e-1, 1,    3,    10};
  // From 100 ms to a week, for what waits in a queue.
  static constexpr std::array<double, 13> kWaits = {0.1,  1,    5,     15,    60,     300,   900,
                                                    3600, 7200, 21600, 86400, 259200, 604800};
  // bounds: rising; borrowed for good.
  explicit Histogram(std::span<const double> bounds = kBounds) : bounds_(bounds), up_to_(bounds.size()) {}
  void observe(int64_t nanos);
  [[nodiscard]] std::span<const double> bounds() const { return bounds_; }
  // Observations up to each bound (inclusive).
  [[nodiscard]] const std::vector<uint64_t>& up_to() const { return up_to_; }
  [[nodiscard]] uint64_t count() const { return count_; }
  [[nodiscard]] double sum_seconds() const { return sum_; }

 private:
  std::span<const double> bounds_;
  std::vector<uint64_t> up_to_;
  uint64_t count_ = 0;
  double sum_ = 0;
};

class PrometheusText {
 public:
  using Labels = std::vector<std::pair<const char*, std::string>>;  // values of any text

  // The samples that follow are of this family. type: counter, gauge or histogram. Each name once.
  void family(std::string_view name, std::string_view type, std::string_view help);
  template <typename Number>
  void sample(const Labels& labels, Number value) {
    fmt::format_to(std::back_inserter(out_), "{}{} {}\n", name_, braces(labels), value);
  }
  void sample(const Labels& labels, const Histogram& histogram);
  // A family with one sample that has no labels.
  template <typename Number>
  void single(std::string_view name, std::string_view type, std::string_view help, Number value) {
    family(name, type, help);
    sample({}, value);
  }
  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  // {a="x",b="y"}, with `more` as a further, complete pair; empty when there is no label at all.
  static std::string braces(const Labels& labels, std::string_view more = {});

  std::string out_;
  std::string name_;
};

}  // namespace heddle
