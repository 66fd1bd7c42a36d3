#include "kube/metrics.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace heddle::kube {
namespace {

TEST(Metrics, TheExpositionText) {
  Metrics metrics;
  metrics.counter("b_total", "Things\ndone \\ all.", {"who", "what"}).with({"a\"b", "x\ny"}).add(3);
  metrics.counter("b_total", "ignored", {}).with({"c", "d"}).add();
  metrics.gauge("a_gauge", "A gauge.").with().set(1.5);
  auto& histogram = metrics.histogram("c_seconds", "Times.", {0.1, 1}, {"op"}).with({"read"});
  for (const double value : {0.05, 0.1, 0.5, 7.0}) histogram.observe(value);
  EXPECT_EQ(metrics.exposition(),
            "# HELP a_gauge A gauge.\n"
            "# TYPE a_gauge gauge\n"
            "a_gauge 1.5\n"
            "# HELP b_total Things\\ndone \\\\ all.\n"
            "# TYPE b_total counter\n"
            "b_total{who=\"a\\\"b\",what=\"x\\ny\"} 3\n"
            "b_total{who=\"c\",what=\"d\"} 1\n"
            "# HELP c_seconds Times.\n"
            "# TYPE c_seconds histogram\n"
            "c_seconds_bucket{op=\"read\",le=\"0.1\"} 2\n"
            "c_seconds_bucket{op=\"read\",le=\"1\"} 3\n"
            "c_seconds_bucket{op=\"read\",le=\"+Inf\"} 4\n"
            "c_seconds_sum{op=\"read\"} 7.65\n"
            "c_seconds_count{op=\"read\"} 4\n");
}

TEST(Metrics, LabelSetsAreBounded) {
  Metrics metrics;
  auto& family = metrics.counter("x_total", "X.", {"pod"}, 2);
  for (const char* pod : {"a", "b", "c", "d", "a"}) family.with({pod}).add();
  const std::string text = metrics.exposition();
  EXPECT_NE(text.find("x_total{pod=\"a\"} 2\n"), std::string::npos) << text;
  EXPECT_NE(text.find("x_total{pod=\"b\"} 1\n"), std::string::npos);
  EXPECT_NE(text.find("x_total{pod=\"other\"} 2\n"), std::string::npos);
  EXPECT_EQ(text.find("\"c\""), std::string::npos);
}

TEST(Metrics, GaugesAreUpdatedBeforeTheExposition) {
  Metrics metrics;
  auto& gauge = metrics.gauge("g", "G.", {"node"});
  int round = 0;
  metrics.before_exposition([&] {
    gauge.clear();
    gauge.with({"n" + std::to_string(++round)}).set(round);
  });
  EXPECT_NE(metrics.exposition().find("g{node=\"n1\"} 1\n"), std::string::npos);
  const std::string second = metrics.exposition();
  EXPECT_NE(second.find("g{node=\"n2\"} 2\n"), std::string::npos);
  EXPECT_EQ(second.find("n1"), std::string::npos);
}

TEST(Metrics, ManyThreads) {
  Metrics metrics;
  auto& counter = metrics.counter("n_total", "N.", {"t"});
  auto& gauge = metrics.gauge("sum", "S.").with();
  auto& histogram = metrics.histogram("h", "H.", latency_bounds()).with();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        counter.with({std::to_string(i % 3)}).add();
        gauge.add(1);
        histogram.observe(0.01);
        if (i % 200 == 0) std::ignore = metrics.exposition();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(gauge.value(), 4000);
  EXPECT_EQ(histogram.cumulative().back(), 4000U);
  EXPECT_EQ(counter.with({"0"}).value() + counter.with({"1"}).value() + counter.with({"2"}).value(), 4000U);
}

}  // namespace
}  // namespace heddle::kube
