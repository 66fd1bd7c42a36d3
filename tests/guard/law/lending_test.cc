// How soon what was lent comes back, among two and four tenants and for kernels of any length: nothing interrupts a
// kernel, so a returning owner waits for one of each that has the card.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "guard/law/sets.h"

namespace heddle::guard::test {
namespace {

constexpr double kStepMs = 10;  // of a timeline

struct Returns {
  int count = 0;
  double behind_ms = 0;  // so far behind its share is the owner at most after a return: on average, and ever
  double worst_ms = 0;
  double lent = 0;  // percent of the card that the others have while the owner rests
};

// The owner is the first tenant; it works for 400 ms and rests for 600.
Returns returns_of(double percent, const Outcome& got) {
  const std::vector<double>& mine = got.timeline[0];
  Returns returns;
  int idle = 0;
  for (size_t i = 12; i + 40 < mine.size(); ++i) {
    const bool rested = std::all_of(mine.begin() + static_cast<ptrdiff_t>(i) - 12,
                                    mine.begin() + static_cast<ptrdiff_t>(i), [](double x) { return x == 0; });
    if (!rested) continue;
    if (mine[i] == 0) {
      ++idle;
      for (size_t tenant = 1; tenant < got.timeline.size(); ++tenant) returns.lent += got.timeline[tenant][i];
      continue;
    }
    ++returns.count;
    double owed = 0;  // percent x steps
    double most = 0;
    for (size_t k = 0; k < 35; ++k) {
      owed += percent - mine[i + k];
      most = std::max(most, owed / percent * kStepMs);
    }
    returns.behind_ms += most;
    returns.worst_ms = std::max(returns.worst_ms, most);
  }
  returns.lent /= std::max(idle, 1);
  returns.behind_ms /= std::max(returns.count, 1);
  return returns;
}

TEST(Lending, WhatWasLentComesBackWithinAKernelOfEach) {
  for (const std::vector<double>& shares :
       {std::vector<double>{70, 30}, {50, 50}, {40, 30, 20, 10}, {25, 25, 25, 25}}) {
    for (const double kernel_ms : {0.2, 2.0, 5.0, 10.0, 15.0, 20.0, 40.0, 80.0}) {
      std::vector<Tenant> tenants;
      for (const double share : shares) tenants.push_back({share, {.kernel_us = kernel_ms * 1000}});
      tenants[0].work = k200us;
      tenants[0].work.pause_after_ms = 400;
      tenants[0].work.pause_ms = 600;
      RunOptions options;
      options.lending = true;
      const Returns returns = returns_of(shares[0], run(tenants, options));
      std::printf(
          "%zu tenants, kernels of %.1f ms: %.1f %% lent; the owner of %.0f is %.0f ms behind after a return, %.0f at "
          "most\n",
          shares.size(), kernel_ms, returns.lent, shares[0], returns.behind_ms, returns.worst_ms);
      EXPECT_GE(returns.count, 8);
      const double bound = kernel_ms <= 10 ? 100 : static_cast<double>(shares.size()) * kernel_ms + 10;
      EXPECT_LE(returns.behind_ms, bound) << shares.size() << " tenants, " << kernel_ms;
      EXPECT_LE(returns.worst_ms, 1.5 * bound) << shares.size() << " tenants, " << kernel_ms;
      // Who has long kernels first pays what they took beyond its share.
      EXPECT_GE(returns.lent, kernel_ms <= 20 ? 94 : 70) << shares.size() << " tenants, " << kernel_ms;
    }
  }
}

}  // namespace
}  // namespace heddle::guard::test
