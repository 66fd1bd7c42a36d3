#include "controller/metrics.h"

#include <gtest/gtest.h>

namespace heddle::controller {
namespace {

TEST(ControllerMetrics, ShowsWhatItWasTold) {
  Metrics metrics;
  ReconcilerStats stats;
  stats.assigned = 3;
  stats.pending_by_reason["Capacity"] = 2;
  stats.place_nanos = {20'000, 2'000'000};
  stats.waits = {{"a", 4'000'000'000}, {"a", 7'200'000'000'000}};
  metrics.update(stats);
  metrics.update({});  // the counts are the reconciler's totals, the times are added up here
  metrics.webhook_answered("/mutate", "changed", 500'000);
  metrics.webhook_answered("/mutate", "changed", 500'000);
  Metrics::Live live;
  live.leading = true;
  live.writes[{"create_claim", "ok"}] = 7;
  const std::string text = metrics.text(live);
  for (const char* line :
       {"\nheddle_controller_decisions_total{outcome=\"assigned\"} 0\n", "\nheddle_controller_place_seconds_count 2\n",
        "\nheddle_controller_place_seconds_bucket{le=\"3e-05\"} 1\n", "\nheddle_controller_leading 1\n",
        "\nheddle_controller_webhook_seconds_bucket{path=\"/mutate\",le=\"0.001\"} 2\n",
        "\nheddle_controller_reviews_total{path=\"/mutate\",verdict=\"changed\"} 2\n",
        "\nheddle_controller_writes_total{kind=\"create_claim\",result=\"ok\"} 7\n",
        "\nheddle_controller_synced 0\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
  stats.evicted = {{{"b", "reclaim"}, 3}, {{"", "priority"}, 1}};
  stats.evictions_refused = {{"b", 2}};
  stats.plans = {{"begun", 4}, {"refused", 2}};
  metrics.update(stats);
  const std::string later = metrics.text(live);
  for (const char* line : {"\nheddle_controller_evictions_total{queue=\"b\",reason=\"reclaim\"} 3\n",
                           "\nheddle_controller_evictions_total{queue=\"\",reason=\"priority\"} 1\n",
                           "\nheddle_controller_evictions_refused_total{queue=\"b\"} 2\n",
                           "\nheddle_controller_preemption_plans_total{result=\"refused\"} 2\n",
                           "\nheddle_controller_admission_wait_seconds_bucket{queue=\"a\",le=\"5\"} 2\n",
                           "\nheddle_controller_admission_wait_seconds_bucket{queue=\"a\",le=\"3600\"} 2\n",
                           "\nheddle_controller_admission_wait_seconds_count{queue=\"a\"} 4\n"}) {
    EXPECT_NE(later.find(line), std::string::npos) << line << later;
  }
  EXPECT_NE(metrics.text(live).find("\nheddle_controller_pending_pods{reason=\"Capacity\"} 2\n"), std::string::npos);
}

}  // namespace
}  // namespace heddle::controller
