// For tests: a FakeCluster in which nothing that must never be has come about when the test ends.
#pragma once

#include <gtest/gtest.h>

#include "controller/fake_cluster.h"

namespace heddle::controller::testing {

class ClusterTest : public ::testing::Test {
 protected:
  void TearDown() override {
    const auto violations = cluster.violations();
    EXPECT_TRUE(violations.empty()) << violations.front();
  }
  // With what the API server has by now, until nothing is left to do.
  void start() {
    cluster.start_controller();
    cluster.run();
  }
  FakeCluster cluster;
};

}  // namespace heddle::controller::testing
