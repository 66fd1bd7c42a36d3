// Workloads and sets of tenants for the law's tests and its benchmark, and how far shares are from what was given.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "guard/law/virtual_card.h"

namespace heddle::guard::test {

inline const Work k10us{.kernel_us = 10};
inline const Work k200us{.kernel_us = 200};
inline const Work k2ms{.kernel_us = 2100};
inline const Work k20ms{.kernel_us = 20000};
inline const Work k50ms{.kernel_us = 50000};
inline const Work kGraph{.kernel_us = 4300};
inline const Work kMix{.kernel_us = 60, .rare_ms = 48};
inline const Work kSync{.kernel_us = 300, .synchronise_after = 4, .think_us = 200};
inline const Work kErratic{.kernel_us = 500, .sigma = 1.2};

// Online work: 100 requests a second at random, each of 20 kernels of 50 us.
inline const Work kOnline{.kernel_us = 50, .synchronise_after = 20, .requests_per_s = 100};

// How online work fares on a card with a neighbour that launches as far ahead as it goes.
struct Online {
  double p50 = 0;  // ms
  double p99 = 0;
  double neighbour = 0;  // percent of the card that the neighbour has
};

enum class Neighbour { kNone, kPlain, kLow };

// The online tenant has no limit, or `percent`; a neighbour of low priority has no share of its own and gives way.
inline Online measure_online(double percent, Neighbour neighbour, const Work& work, double seconds) {
  std::vector<Tenant> tenants = {{percent, kOnline}};
  if (neighbour != Neighbour::kNone) tenants.push_back({100, work});
  if (neighbour == Neighbour::kLow) {
    tenants[1].priority = 1;
    tenants[1].gives_way = true;
  }
  RunOptions options;
  options.lending = true;
  options.measured_s = seconds;
  const Outcome got = run(tenants, options);
  const std::vector<double>& answers = got.answers.at(0);
  if (answers.empty()) return {};
  return {answers[answers.size() / 2], answers[answers.size() * 99 / 100],
          neighbour == Neighbour::kNone ? 0 : got.percent[1]};
}

struct Errors {
  std::vector<double> all;
  [[nodiscard]] double mean() const {
    double sum = 0;
    for (const double e : all) sum += std::abs(e);
    return all.empty() ? 0 : sum / static_cast<double>(all.size());
  }
  // Of the absolute errors.
  [[nodiscard]] double quantile(double q) const {
    std::vector<double> sorted;
    for (const double e : all) sorted.push_back(std::abs(e));
    std::sort(sorted.begin(), sorted.end());
    return sorted.empty()
               ? 0
               : sorted[std::min(sorted.size() - 1, static_cast<size_t>(q * static_cast<double>(sorted.size())))];
  }
  [[nodiscard]] double over() const { return all.empty() ? 0 : *std::max_element(all.begin(), all.end()); }
  [[nodiscard]] double under() const { return all.empty() ? 0 : *std::min_element(all.begin(), all.end()); }
};

inline std::vector<std::vector<Tenant>> contended_sets() {
  return {{{30, k200us}, {70, k200us}},
          {{30, k10us}, {70, k20ms}},
          {{30, k20ms}, {70, k10us}},
          {{10, k2ms}, {90, k2ms}},
          {{50, kGraph}, {50, kMix}},
          {{20, k200us, 3}, {30, {.kernel_us = 2100, .streams = 2}}},
          {{25, k10us}, {25, k200us}, {25, k2ms}, {25, k20ms}},
          {{12, k10us}, {12, k200us}, {12, k2ms}, {12, k20ms}, {12, kGraph}, {12, kMix}, {12, kErratic}, {12, k200us}},
          {{30, k20ms}, {70, k20ms}},
          {{10, k200us}, {10, k2ms}, {10, kGraph}, {10, k20ms}}};
}

inline Errors measure(const std::vector<std::vector<Tenant>>& sets, const RunOptions& options, const char* name) {
  Errors errors;
  double used = 0;
  double least = 100;
  for (size_t i = 0; i < sets.size(); ++i) {
    RunOptions each = options;
    each.seed = options.seed + i;
    const Outcome got = run(sets[i], each);
    std::fprintf(stderr, "  set %zu:", i + 1);
    double sum = 0;
    for (size_t t = 0; t < sets[i].size(); ++t) {
      errors.all.push_back(got.percent[t] - sets[i][t].percent);
      sum += sets[i][t].percent;
      std::fprintf(stderr, " %.0f>%.1f", sets[i][t].percent, got.percent[t]);
    }
    std::fprintf(stderr, "  used %.1f\n", got.used_percent);
    used += got.used_percent / sum;
    least = std::min(least, 100 * got.used_percent / sum);
  }
  std::fprintf(
      stderr,
      "%s: mean %.2f, p90 %.2f, worst over %.2f, under %.2f points; %.1f %% of what was given was used, least %.1f\n",
      name, errors.mean(), errors.quantile(0.9), errors.over(), errors.under(),
      100 * used / static_cast<double>(sets.size()), least);
  return errors;
}

// New sets, of which nothing was looked at while the law was made.
inline std::vector<Tenant> random_set(std::mt19937_64& random) {
  const auto below = [&](uint64_t n) { return random() % n; };
  std::vector<Tenant> set;
  const size_t count = 2 + below(4);
  double left = 60 + static_cast<double>(below(41));
  for (size_t i = 0; i < count; ++i) {
    const double part = i + 1 == count ? left : std::floor(left * (0.2 + 0.01 * static_cast<double>(below(50))));
    left -= part;
    Tenant tenant{std::max(2.0, part), {}};
    tenant.work.kernel_us = 10 * std::pow(3000.0, static_cast<double>(below(1000)) / 1000);
    tenant.work.sigma = 0.05 + 0.01 * static_cast<double>(below(75));
    tenant.processes = 1 + static_cast<int>(below(2));
    tenant.work.streams = 1 + static_cast<int>(below(2));
    if (below(3) == 0) tenant.work.synchronise_after = 8;
    set.push_back(tenant);
  }
  return set;
}

}  // namespace heddle::guard::test
