// The agent's metrics in the text format of Prometheus. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "agent/account.h"
#include "agent/partition_maker.h"
#include "agent/record.h"
#include "agent/supervise.h"
#include "vendors/sources.h"

namespace heddle::agent {

struct MetricsInput {
  std::string node;
  std::vector<vendors::VendorSnapshot> vendors;
  std::vector<ClaimRecord> claims;
  std::vector<std::vector<ChargedDevice>> charged;  // by claim
  std::vector<Finding> findings;                    // present ones
  int64_t findings_total = 0;                       // since the start
  int64_t ended_total = 0;
  int64_t slice_writes = 0;
  uint64_t api_requests = 0;
  uint64_t api_failures = 0;
  std::map<std::string, PartitionCounts> partitions = {};  // by vendor
};

std::string metrics_text(const MetricsInput& input);

}  // namespace heddle::agent
