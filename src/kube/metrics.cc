#include "kube/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

namespace heddle::kube {
namespace {

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

enum class Quotes { kPlain, kEscaped };

std::string escape(std::string_view text, Quotes quotes) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '"' && quotes == Quotes::kEscaped) {
      out += "\\\"";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

void Gauge::add(double amount) {
  double old = value_.load(std::memory_order_relaxed);
  while (!value_.compare_exchange_weak(old, old + amount, std::memory_order_relaxed)) continue;
}

Histogram::Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}

void Histogram::observe(double value) {
  const auto bound = std::lower_bound(bounds_.begin(), bounds_.end(), value);
  counts_[static_cast<size_t>(bound - bounds_.begin())].fetch_add(1, std::memory_order_relaxed);
  sum_.add(value);
}

std::vector<uint64_t> Histogram::cumulative() const {
  std::vector<uint64_t> out;
  uint64_t total = 0;
  for (const auto& count : counts_) out.push_back(total += count.load(std::memory_order_relaxed));
  return out;
}

std::vector<double> latency_bounds() {
  return {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30};
}

FamilyBase::FamilyBase(std::string name, std::string help, std::vector<std::string> labels, size_t max_series)
    : name_(std::move(name)), help_(std::move(help)), labels_(std::move(labels)), max_series_(max_series) {}

std::string FamilyBase::label_text(const std::vector<std::string>& values, std::string_view more) const {
  std::string out;
  for (size_t i = 0; i < labels_.size(); ++i) {
    out += fmt::format("{}{}=\"{}\"", out.empty() ? "" : ",", labels_[i], escape(values[i], Quotes::kEscaped));
  }
  if (!more.empty()) out += (out.empty() ? "" : ",") + std::string(more);
  return out.empty() ? out : "{" + out + "}";
}

void FamilyBase::write_head(std::string& out, std::string_view type) const {
  out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name_, escape(help_, Quotes::kPlain), name_, type);
}

std::vector<std::string> FamilyBase::other() const {
  return std::vector<std::string>(labels_.size(), "other");
}

template <>
void Family<Counter>::write(std::string& out) const {
  const std::lock_guard lock(mutex_);
  write_head(out, "counter");
  for (const auto& [values, counter] : series_) {
    out += fmt::format("{}{} {}\n", name_, label_text(values), counter->value());
  }
}

template <>
void Family<Gauge>::write(std::string& out) const {
  const std::lock_guard lock(mutex_);
  write_head(out, "gauge");
  for (const auto& [values, gauge] : series_) {
    out += fmt::format("{}{} {}\n", name_, label_text(values), number(gauge->value()));
  }
}

template <>
void Family<Histogram>::write(std::string& out) const {
  const std::lock_guard lock(mutex_);
  write_head(out, "histogram");
  for (const auto& [values, histogram] : series_) {
    const auto counts = histogram->cumulative();
    for (size_t i = 0; i < counts.size(); ++i) {
      const std::string bound = i < histogram->bounds().size() ? number(histogram->bounds()[i]) : "+Inf";
      out += fmt::format("{}_bucket{} {}\n", name_, label_text(values, "le=\"" + bound + "\""), counts[i]);
    }
    out += fmt::format("{}_sum{} {}\n", name_, label_text(values), number(histogram->sum()));
    out += fmt::format("{}_count{} {}\n", name_, label_text(values), counts.back());
  }
}

namespace {

// One family a name. A name that is used for two kinds is a mistake of the program, found by its first test.
template <typename T>
Family<T>& find_or_add(std::map<std::string, std::unique_ptr<FamilyBase>>& families, const std::string& name,
                       std::unique_ptr<Family<T>> fresh) {
  auto& slot = families[name];
  if (!slot) slot = std::move(fresh);
  auto* family = dynamic_cast<Family<T>*>(slot.get());
  if (family == nullptr) std::abort();
  return *family;
}

}  // namespace

Family<Counter>& Metrics::counter(const std::string& name, const std::string& help, std::vector<std::string> labels,
                                  size_t max_series) {
  const std::lock_guard lock(mutex_);
  return find_or_add(families_, name, std::make_unique<Family<Counter>>(name, help, std::move(labels), max_series, [] {
                       return std::make_unique<Counter>();
                     }));
}

Family<Gauge>& Metrics::gauge(const std::string& name, const std::string& help, std::vector<std::string> labels,
                              size_t max_series) {
  const std::lock_guard lock(mutex_);
  return find_or_add(families_, name, std::make_unique<Family<Gauge>>(name, help, std::move(labels), max_series, [] {
                       return std::make_unique<Gauge>();
                     }));
}

Family<Histogram>& Metrics::histogram(const std::string& name, const std::string& help, std::vector<double> bounds,
                                      std::vector<std::string> labels, size_t max_series) {
  const std::lock_guard lock(mutex_);
  return find_or_add(families_, name,
                     std::make_unique<Family<Histogram>>(name, help, std::move(labels), max_series,
                                                         [bounds] { return std::make_unique<Histogram>(bounds); }));
}

void Metrics::before_exposition(std::function<void()> update) {
  const std::lock_guard lock(mutex_);
  updates_.push_back(std::move(update));
}

std::string Metrics::exposition() const {
  std::vector<std::function<void()>> updates;
  {
    const std::lock_guard lock(mutex_);
    updates = updates_;
  }
  for (const auto& update : updates) update();
  std::string out;
  const std::lock_guard lock(mutex_);
  for (const auto& [name, family] : families_) family->write(out);
  return out;
}

}  // namespace heddle::kube
