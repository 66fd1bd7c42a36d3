#include "agent/compute_audit.h"

#include <gtest/gtest.h>

namespace heddle::agent {
namespace {

constexpr int64_t kStep = 500000000;

// Looks twice a second, as the agent does.
struct Tenant {
  ComputeAudit audit;
  int64_t now = 1000000000;
  int64_t busy = 0;
  std::vector<Overuse> last;

  // Seconds until the first finding; -1: none.
  double go(double seconds, double used, double allowed) {
    double first = -1;
    for (int i = 1; i <= static_cast<int>(seconds * 2); ++i) {
      now += kStep;
      busy += static_cast<int64_t>(used * static_cast<double>(kStep));
      last = audit.look({{"claim", "GPU-1", allowed, busy, now}});
      if (!last.empty() && first < 0) first = static_cast<double>(i) / 2;
    }
    return first;
  }
};

TEST(ComputeAudit, FindsUseBeyondTheShareWithinSeconds) {
  Tenant tenant;
  tenant.go(10, 0.3, 0.3);
  const double found = tenant.go(30, 1, 0.3);
  EXPECT_GT(found, 0);
  EXPECT_LE(found, 4);
  ASSERT_EQ(tenant.last.size(), 1U);
  EXPECT_NEAR(tenant.last[0].used, 1, 1e-6);
  EXPECT_NEAR(tenant.last[0].allowed, 0.3, 1e-6);
  EXPECT_TRUE(tenant.last[0].lasting);
  tenant.go(4, 0.3, 0.3);
  EXPECT_TRUE(tenant.last.empty()) << "it keeps to its share again";
}

TEST(ComputeAudit, NothingIsFoundWhereThereIsNothing) {
  struct Case {
    const char* name;
    double used;
    double allowed;
  };
  const Case cases[] = {
      {"its share", 0.3, 0.3}, {"a little more", 0.42, 0.3}, {"what it was lent", 1, 1}, {"none", 0, 0.1}};
  for (const Case& c : cases) {
    Tenant tenant;
    EXPECT_EQ(tenant.go(60, c.used, c.allowed), -1) << c.name;
  }
}

TEST(ComputeAudit, ALongKernelIsSeenAndDoesNotLast) {
  Tenant tenant;
  tenant.go(25, 0.3, 0.3);
  EXPECT_GT(tenant.go(4, 1, 0.3), 0);
  EXPECT_FALSE(tenant.last.at(0).lasting) << "within 20 s it is repaid";
  tenant.go(10, 0, 0.3);
  EXPECT_TRUE(tenant.last.empty());
}

// What was lent is taken back in the middle: the moment after that is not held against the tenant.
TEST(ComputeAudit, WhatWasJustTakenBackCountsOn) {
  Tenant tenant;
  tenant.go(10, 1, 1);
  EXPECT_EQ(tenant.go(0.5, 1, 0.3), -1);
  EXPECT_EQ(tenant.go(20, 0.3, 0.3), -1);
}

TEST(ComputeAudit, WhatTheVendorDoesNotSayIsNotJudged) {
  ComputeAudit audit;
  for (int i = 1; i < 40; ++i) {
    const int64_t now = i * kStep;
    EXPECT_TRUE(audit.look({{"a", "GPU-1", 0.3, -1, now}, {"b", "GPU-1", 0.3, 0, now}}).empty());
  }
  // A claim with the time of one that was there before starts anew.
  EXPECT_TRUE(audit.look({}).empty());
  EXPECT_TRUE(audit.look({{"b", "GPU-1", 0.3, int64_t{100} * kStep, 41 * kStep}}).empty());
}

}  // namespace
}  // namespace heddle::agent
