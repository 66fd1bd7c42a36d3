// Hard partitions that are made for claims, whatever the vendor: where each shall lie, making them, taking them away.
//
// The record of a claim says what it has, and is written before anything is made: an agent that is killed in between
// finds the partition by its place when it is asked again, and what no record names was made by somebody else and is
// never touched.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "agent/record.h"
#include "base/result.h"
#include "vendors/vendor.h"

namespace heddle::agent {

// What the vendors do (vendors/partition.h).
struct PartitionPorts {
  std::function<Result<int64_t>(const std::string& vendor, const vendors::PartitionOrder& order,
                                const std::vector<int64_t>& taken)>
      place;
  std::function<Result<vendors::Card>(const std::string& vendor, const vendors::PartitionOrder& order)> make;
  std::function<Result<void>(const std::string& vendor, const vendors::PartitionOrder& order)> drop;
};

// Since the start.
struct PartitionCounts {
  int64_t made = 0;
  int64_t removed = 0;
  int64_t failed = 0;
};

bool has_made(const ClaimRecord& record);

// Thread rule: any thread. Every call blocks as long as the vendor's library takes, seconds at most.
class PartitionMaker {
 public:
  explicit PartitionMaker(PartitionPorts ports) : ports_(std::move(ports)) {}

  // The grant with a place for each of its partitions. What the claim's own record of this boot of the machine says
  // stays. Errors: kConflict (somebody else's partition lies there), kExhausted (no room), as the vendor.
  Result<ClaimRecord> with_places(ClaimRecord grant, const std::vector<ClaimRecord>& granted,
                                  const std::string& boot_id);
  // The device with what the driver says of the partition; made, if it is not there. Errors: as the vendor.
  Result<GrantedDevice> make(GrantedDevice device);
  // Takes away what was made for a device of a record. One that a start of the machine has ended is not looked for:
  // what lies in its place now is somebody else's. Errors: as the vendor.
  enum class Boot { kSame, kEarlier };  // of the machine, when the device was prepared
  Result<void> drop(const GrantedDevice& device, Boot boot);

  [[nodiscard]] std::map<std::string, PartitionCounts> counts() const;  // by vendor

 private:
  void count_failure(const std::string& vendor);

  const PartitionPorts ports_;
  mutable std::mutex mutex_;
  std::map<std::string, PartitionCounts> counts_;
};

}  // namespace heddle::agent
