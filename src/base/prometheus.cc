#include "base/prometheus.h"

namespace heddle {
namespace {

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\' || c == '"') result.push_back('\\');
    if (c == '\n') {
      result += "\\n";
    } else {
      result.push_back(c);
    }
  }
  return result;
}

}  // namespace

void Histogram::observe(int64_t nanos) {
  const double seconds = static_cast<double>(nanos) / 1e9;
  for (size_t i = bounds_.size(); i > 0 && seconds <= bounds_[i - 1]; --i) ++up_to_[i - 1];
  ++count_;
  sum_ += seconds;
}

void PrometheusText::family(std::string_view name, std::string_view type, std::string_view help) {
  name_ = name;
  fmt::format_to(std::back_inserter(out_), "# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

std::string PrometheusText::braces(const Labels& labels, std::string_view more) {
  std::string result;
  for (const auto& [name, value] : labels) {
    result += fmt::format("{}{}=\"{}\"", result.empty() ? "" : ",", name, escaped(value));
  }
  if (!more.empty()) result += (result.empty() ? "" : ",") + std::string(more);
  return result.empty() ? result : "{" + result + "}";
}

void PrometheusText::sample(const Labels& labels, const Histogram& histogram) {
  for (size_t i = 0; i < histogram.bounds().size(); ++i) {
    out_ += fmt::format("{}_bucket{} {}\n", name_, braces(labels, fmt::format("le=\"{}\"", histogram.bounds()[i])),
                        histogram.up_to()[i]);
  }
  out_ += fmt::format("{0}_bucket{1} {2}\n{0}_sum{3} {4}\n{0}_count{3} {2}\n", name_, braces(labels, "le=\"+Inf\""),
                      histogram.count(), braces(labels), histogram.sum_seconds());
}

}  // namespace heddle
