// The devices of a node that each alternative of each request may take at all: by selectors and by what the devices
// have when they are free.
#pragma once

#include <cstdint>
#include <vector>

#include "allocator/device.h"
#include "allocator/occupancy.h"
#include "allocator/prepare.h"
#include "base/result.h"

namespace heddle::allocator {

struct Candidate {
  const DeviceInfo* device = nullptr;
  const Consumption* take = nullptr;  // null: to look at this device is an error, see Plan::error_of()
  int64_t rank = 0;
};

class Plan {
 public:
  const PreparedClaim* prepared = nullptr;
  Alternative* alternative = nullptr;
  size_t claim = 0;
  size_t request = 0;
  size_t ordinal = 0;    // over all alternatives
  bool listed = false;   // completely
  bool failing = false;  // some candidate listed so far is an error, or may be
  std::vector<Candidate> candidates;

  void begin();
  // Goes on with the list until it holds a candidate of this index; false when it ends before. Devices that others hold
  // are left out, but for mode All and admin access.
  bool reach(size_t index, const NodeView& node, const Occupancy& occupancy, const Options& options);
  // Fills the list to its end.
  void list(const NodeView& node, const Occupancy& occupancy, const Options& options) {
    reach(SIZE_MAX, node, occupancy, options);
  }
  [[nodiscard]] Error error_of(const DeviceInfo& device) const;

 private:
  void add(const DeviceInfo& device, const Options& options);

  size_t next_pool_ = 0;
  size_t next_device_ = 0;
};

class Plans {
 public:
  explicit Plans(std::vector<PreparedClaim>& claims);

  // Forgets what was listed.
  void begin();

  [[nodiscard]] Plan& at(size_t claim, size_t request, size_t alternative) {
    return plans_[first_[claim][request] + alternative];
  }
  [[nodiscard]] std::vector<Plan>& all() { return plans_; }

 private:
  std::vector<Plan> plans_;
  std::vector<std::vector<size_t>> first_;  // by claim and request
};

}  // namespace heddle::allocator
