#include "controller/metrics.h"

namespace heddle::controller {

void Metrics::update(ReconcilerStats stats) {
  const std::lock_guard lock(mutex_);
  for (const int64_t nanos : stats.place_nanos) place_.observe(nanos);
  for (const ReconcilerStats::Wait& wait : stats.waits)
    waits_.try_emplace(wait.queue, Histogram::kWaits).first->second.observe(wait.nanos);
  stats_ = std::move(stats);
  stats_.place_nanos.clear();
  stats_.waits.clear();
}

void Metrics::webhook_answered(const std::string& path, const std::string& verdict, int64_t nanos) {
  const std::lock_guard lock(mutex_);
  webhook_[path].observe(nanos);
  ++reviews_[{path, verdict}];
}

std::string Metrics::text(const Live& live) const {
  const std::lock_guard lock(mutex_);
  PrometheusText text;
  text.family("heddle_controller_decisions_total", "counter", "Placement decisions by outcome.");
  const std::pair<const char*, uint64_t> decisions[] = {{"assigned", stats_.assigned},
                                                        {"waiting", stats_.waiting},
                                                        {"infeasible", stats_.infeasible},
                                                        {"refused", stats_.refused}};
  for (const auto& [outcome, count] : decisions) text.sample({{"outcome", outcome}}, count);
  text.family("heddle_controller_pending_pods", "gauge", "Pods that wait for devices, by the first reason.");
  for (const auto& [reason, count] : stats_.pending_by_reason) text.sample({{"reason", reason}}, count);
  text.family("heddle_controller_writes_total", "counter",
              "Answers of the API server to writes and reads, by kind and result.");
  for (const auto& [what, count] : live.writes) text.sample({{"kind", what.first}, {"result", what.second}}, count);
  text.family("heddle_controller_place_seconds", "histogram", "Time of one placement decision.");
  text.sample({}, place_);
  text.family("heddle_controller_webhook_seconds", "histogram", "Time to answer an admission review.");
  for (const auto& [path, histogram] : webhook_) text.sample({{"path", path}}, histogram);
  text.family("heddle_controller_reviews_total", "counter", "Admission reviews by path and verdict.");
  for (const auto& [what, count] : reviews_) text.sample({{"path", what.first}, {"verdict", what.second}}, count);
  text.single("heddle_controller_over_commits_cleared_total", "counter",
              "Allocations taken back because a device was granted twice.", stats_.over_commits_cleared);
  text.single("heddle_controller_repairs_total", "counter", "Pods placed again after their node or device failed them.",
              stats_.repairs);
  text.family("heddle_controller_evictions_total", "counter",
              "Pods that were evicted, by the queue that they ran in and why: reclaim, priority, gang.");
  for (const auto& [what, count] : stats_.evicted) text.sample({{"queue", what.first}, {"reason", what.second}}, count);
  text.family("heddle_controller_evictions_refused_total", "counter",
              "Evictions that the API server refused, as for a disruption budget, by the queue of the pod.");
  for (const auto& [queue, count] : stats_.evictions_refused) text.sample({{"queue", queue}}, count);
  text.family("heddle_controller_preemption_plans_total", "counter",
              "Plans to make room: begun, and how they went on: made_room, refused, withdrawn, overtaken.");
  for (const auto& [result, count] : stats_.plans) text.sample({{"result", result}}, count);
  text.family("heddle_controller_admission_wait_seconds", "histogram",
              "From the creation of a pod, or of the first one of a gang, until all of it has its devices.");
  for (const auto& [queue, histogram] : waits_) text.sample({{"queue", queue}}, histogram);
  text.single("heddle_controller_tracked_pods", "gauge", "Pods with claims or with Heddle's gate.",
              stats_.tracked_pods);
  text.single("heddle_controller_untranslated_pods", "gauge",
              "Waiting pods that were created before Heddle could translate them.", stats_.unnoticed_pods);
  text.single("heddle_controller_leading", "gauge", "1 while this process writes the ledger.", live.leading ? 1 : 0);
  text.single("heddle_controller_synced", "gauge", "1 when all watches have delivered their first list.",
              live.synced ? 1 : 0);
  text.single("heddle_controller_queued_events", "gauge", "Events that wait for the owner thread.", live.queued_events);
  text.single("heddle_controller_waiting_writes", "gauge", "Writes queued or under way.", live.waiting_writes);
  text.single("heddle_controller_requests_total", "counter", "Requests to the API server.", live.requests);
  text.single("heddle_controller_watch_restarts_total", "counter", "Watches begun anew.", live.watch_restarts);
  return text.take();
}

}  // namespace heddle::controller
