// Metrics in the text format of Prometheus, written at the moment they are asked for from what is known then.
//
// Thread rule: PrometheusText belongs to one thread; a Histogram is guarded by whoever owns it. Cost: observe() looks
// through a dozen bounds; a sample is one append.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heddle {

inline constexpr const char* kPrometheusContentType = "text/plain; version=0.0.4; charset=utf-8";

// Durations, with bounds from 10 us to 10 s.
class Histogram {
 public:
  static constexpr std::array<double, 13> kBounds = {1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2,
                                                     3e-2, 1e-1, 3e-1, 1,    3,    10};
  void observe(int64_t nanos);
  // Observations up to each bound (inclusive).
  [[nodiscard]] const std::array<uint64_t, kBounds.size()>& up_to() const { return up_to_; }
  [[nodiscard]] uint64_t count() const { return count_; }
  [[nodiscard]] double sum_seconds() const { return sum_; }

 private:
  std::array<uint64_t, kBounds.size()> up_to_{};
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
