#include "base/prometheus.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

TEST(Prometheus, TheText) {
  PrometheusText text;
  text.family("a_total", "counter", "Things done.");
  text.sample({{"who", "a\"b\\"}, {"what", "x\ny"}}, 3);
  text.sample({{"who", "c"}, {"what", ""}}, uint64_t{18446744073709551615U});
  text.single("b", "gauge", "A number.", 1.5);
  EXPECT_EQ(text.take(),
            "# HELP a_total Things done.\n"
            "# TYPE a_total counter\n"
            "a_total{who=\"a\\\"b\\\\\",what=\"x\\ny\"} 3\n"
            "a_total{who=\"c\",what=\"\"} 18446744073709551615\n"
            "# HELP b A number.\n"
            "# TYPE b gauge\n"
            "b 1.5\n");
}

TEST(Prometheus, HistogramsAreCumulativeAndTheirBoundsInclusive) {
  Histogram histogram;
  for (const int64_t nanos : {int64_t{10'000}, int64_t{10'001}, int64_t{500'000'000}, int64_t{20'000'000'000}}) {
    histogram.observe(nanos);
  }
  PrometheusText text;
  text.family("t_seconds", "histogram", "Times.");
  text.sample({{"path", "/x"}}, histogram);
  text.sample({}, histogram);
  const std::string out = text.take();
  for (const char* line :
       {"\nt_seconds_bucket{path=\"/x\",le=\"1e-05\"} 1\n", "\nt_seconds_bucket{path=\"/x\",le=\"3e-05\"} 2\n",
        "\nt_seconds_bucket{path=\"/x\",le=\"0.3\"} 2\n", "\nt_seconds_bucket{path=\"/x\",le=\"1\"} 3\n",
        "\nt_seconds_bucket{path=\"/x\",le=\"10\"} 3\n", "\nt_seconds_bucket{path=\"/x\",le=\"+Inf\"} 4\n",
        "\nt_seconds_count{path=\"/x\"} 4\n", "\nt_seconds_bucket{le=\"10\"} 3\n", "\nt_seconds_count 4\n"}) {
    EXPECT_NE(out.find(line), std::string::npos) << line << out;
  }
  EXPECT_DOUBLE_EQ(histogram.sum_seconds(), 20.500020001);
}

}  // namespace
}  // namespace heddle
