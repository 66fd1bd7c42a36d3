// How exactly the limiter of the library holds compute shares, in virtual time on the simulated card's schedule: the
// same every time. Prints one flat JSON object; the sets go to standard error. `--quick` measures less.
#include <cstdio>
#include <cstring>

#include "guard/law/sets.h"

namespace heddle::guard::test {
namespace {

struct Alone {
  Errors share;
  // The most of the card's time, in percent, that a limit costs a tenant that is lent the rest; the second where equal
  // launches differ so much that none can be predicted.
  double loss = 0;
  double erratic_loss = 0;
};

Alone alone(bool quick) {
  Alone result;
  for (const Work& work : {k10us, k200us, k2ms, k20ms, k50ms, kGraph, kErratic}) {
    for (const double percent : {10.0, 30.0, 50.0, 70.0, 90.0}) {
      RunOptions options;
      options.measured_s = quick ? 1 : 10;
      result.share.all.push_back(run({{percent, work}}, options).percent[0] - percent);
    }
    RunOptions lending;
    lending.lending = true;
    lending.measured_s = quick ? 1 : 10;
    // What was granted to nobody is lent to nobody, so the rest of the card is a neighbour's that is idle.
    const Work idle{.pause_after_ms = 1, .pause_ms = 1e6};
    const double lent = run({{30, work}, {70, idle}}, lending).percent[0];
    std::fprintf(stderr, "kernels of %g us, the rest of the card lent: %.2f %%\n", work.kernel_us, lent);
    double& loss = work.sigma > 0 ? result.erratic_loss : result.loss;
    loss = std::max(loss, 100 - lent);
  }
  return result;
}

int print_all(bool quick) {
  const Alone one = alone(quick);
  RunOptions options;
  options.measured_s = quick ? 1 : 10;
  const Errors shared = measure(contended_sets(), options, "shared");
  auto strict_sets = contended_sets();
  for (auto& set : strict_sets) {
    for (Tenant& tenant : set) tenant.strict = true;
  }
  const Errors strict = measure(strict_sets, options, "strict");
  std::mt19937_64 random(20);
  std::vector<std::vector<Tenant>> sets;
  for (int i = 0; i < (quick ? 2 : 40); ++i) sets.push_back(random_set(random));
  const Errors fresh = measure(sets, options, "random");
  const double seconds = quick ? 3 : 60;
  const Online calm = measure_online(100, Neighbour::kNone, k20ms, seconds);
  const Online low = measure_online(100, Neighbour::kLow, k20ms, seconds);
  const Online plain = measure_online(100, Neighbour::kPlain, k20ms, seconds);
  std::fprintf(
      stderr,
      "online p50 and p99 in ms: alone %.2f %.2f, beside 20 ms kernels of low priority %.2f %.2f, of none %.2f %.2f\n",
      calm.p50, calm.p99, low.p50, low.p99, plain.p50, plain.p99);
  std::printf(
      "{\"guard.online_p99_ratio\": %.2f, \"guard.online_p99_plain_ratio\": %.2f, "
      "\"guard.share_error_max_points\": %.2f, \"guard.throughput_loss_percent\": %.2f, "
      "\"guard.erratic_loss_percent\": %.2f, "
      "\"guard.shared_error_mean_points\": %.2f, \"guard.shared_error_p90_points\": %.2f, "
      "\"guard.shared_over_max_points\": %.2f, \"guard.random_error_mean_points\": %.2f, "
      "\"guard.random_error_p90_points\": %.2f, \"guard.random_over_max_points\": %.2f, "
      "\"guard.strict_over_max_points\": %.2f}\n",
      low.p99 / calm.p99, plain.p99 / calm.p99, one.share.quantile(1), one.loss, one.erratic_loss, shared.mean(),
      shared.quantile(0.9), shared.over(), fresh.mean(), fresh.quantile(0.9), fresh.over(), strict.over());
  return 0;
}

}  // namespace
}  // namespace heddle::guard::test

int main(int count, char** arguments) {
  return heddle::guard::test::print_all(count > 1 && std::strcmp(arguments[1], "--quick") == 0);
}
