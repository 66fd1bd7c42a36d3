#include "controller/metrics.h"

#include <fmt/format.h>

namespace heddle::controller {
namespace {

void head(std::string& out, std::string_view name, std::string_view type, std::string_view help) {
  out += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
}

}  // namespace

std::string label_value(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

void Histogram::observe(int64_t nanos) {
  const double seconds = static_cast<double>(nanos) / 1e9;
  size_t bucket = 0;
  while (bucket < kBounds.size() && seconds > kBounds[bucket]) ++bucket;
  ++buckets_[bucket];
  ++count_;
  sum_ += seconds;
}

void Histogram::write(const std::string& name, const std::string& labels, std::string& out) const {
  const std::string comma = labels.empty() ? "" : labels + ",";
  const std::string braces = labels.empty() ? "" : "{" + labels + "}";
  uint64_t below = 0;
  for (size_t i = 0; i < kBounds.size(); ++i) {
    below += buckets_[i];
    out += fmt::format("{}_bucket{{{}le=\"{}\"}} {}\n", name, comma, kBounds[i], below);
  }
  out += fmt::format("{}_bucket{{{}le=\"+Inf\"}} {}\n", name, comma, count_);
  out += fmt::format("{}_sum{} {}\n{}_count{} {}\n", name, braces, sum_, name, braces, count_);
}

void Metrics::update(ReconcilerStats stats) {
  const std::lock_guard lock(mutex_);
  for (const int64_t nanos : stats.place_nanos) place_.observe(nanos);
  stats_ = std::move(stats);
  stats_.place_nanos.clear();
}

void Metrics::webhook_answered(const std::string& path, const std::string& verdict, int64_t nanos) {
  const std::lock_guard lock(mutex_);
  webhook_[path].observe(nanos);
  ++reviews_[{path, verdict}];
}

std::string Metrics::text(const Live& live) const {
  const std::lock_guard lock(mutex_);
  std::string out;
  head(out, "heddle_controller_decisions_total", "counter", "Placement decisions by outcome.");
  const std::pair<const char*, uint64_t> decisions[] = {{"assigned", stats_.assigned},
                                                        {"waiting", stats_.waiting},
                                                        {"infeasible", stats_.infeasible},
                                                        {"refused", stats_.refused}};
  for (const auto& [outcome, count] : decisions) {
    out += fmt::format("heddle_controller_decisions_total{{outcome=\"{}\"}} {}\n", outcome, count);
  }
  head(out, "heddle_controller_pending_pods", "gauge", "Pods that wait for devices, by the first reason.");
  for (const auto& [reason, count] : stats_.pending_by_reason) {
    out += fmt::format("heddle_controller_pending_pods{{reason=\"{}\"}} {}\n", label_value(reason), count);
  }
  head(out, "heddle_controller_writes_total", "counter",
       "Answers of the API server to writes and reads, by kind and result.");
  for (const auto& [what, count] : live.writes) {
    out +=
        fmt::format("heddle_controller_writes_total{{kind=\"{}\",result=\"{}\"}} {}\n", what.first, what.second, count);
  }
  head(out, "heddle_controller_place_seconds", "histogram", "Time of one placement decision.");
  place_.write("heddle_controller_place_seconds", "", out);
  head(out, "heddle_controller_webhook_seconds", "histogram", "Time to answer an admission review.");
  for (const auto& [path, histogram] : webhook_) {
    histogram.write("heddle_controller_webhook_seconds", fmt::format("path=\"{}\"", label_value(path)), out);
  }
  head(out, "heddle_controller_reviews_total", "counter", "Admission reviews by path and verdict.");
  for (const auto& [what, count] : reviews_) {
    out += fmt::format("heddle_controller_reviews_total{{path=\"{}\",verdict=\"{}\"}} {}\n", label_value(what.first),
                       what.second, count);
  }
  const auto number = [&](const char* name, const char* type, const char* help, auto value) {
    head(out, name, type, help);
    out += fmt::format("{} {}\n", name, value);
  };
  number("heddle_controller_over_commits_cleared_total", "counter",
         "Allocations taken back because a device was granted twice.", stats_.over_commits_cleared);
  number("heddle_controller_repairs_total", "counter", "Pods placed again after their node or device failed them.",
         stats_.repairs);
  number("heddle_controller_tracked_pods", "gauge", "Pods with claims or with Heddle's gate.", stats_.tracked_pods);
  number("heddle_controller_untranslated_pods", "gauge",
         "Waiting pods that were created before Heddle could translate them.", stats_.unnoticed_pods);
  number("heddle_controller_leading", "gauge", "1 while this process writes the ledger.", live.leading ? 1 : 0);
  number("heddle_controller_synced", "gauge", "1 when all watches have delivered their first list.",
         live.synced ? 1 : 0);
  number("heddle_controller_queued_events", "gauge", "Events that wait for the owner thread.", live.queued_events);
  number("heddle_controller_waiting_writes", "gauge", "Writes queued or under way.", live.waiting_writes);
  number("heddle_controller_requests_total", "counter", "Requests to the API server.", live.requests);
  number("heddle_controller_watch_restarts_total", "counter", "Watches begun anew.", live.watch_restarts);
  return out;
}

}  // namespace heddle::controller
