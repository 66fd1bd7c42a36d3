// The devices of a node that each alternative of each request may take at all: by selectors and by what the devices
// have when they are free.
#pragma once

#include <cstdint>
#include <vector>

#include "allocator/device.h"
#include "allocator/prepare.h"
#include "base/result.h"

namespace heddle::allocator {

struct Candidate {
  const DeviceInfo* device = nullptr;
  const Consumption* take = nullptr;  // null: to look at this device is an error, see Plan::error_of()
  int64_t rank = 0;
};

struct Plan {
  const PreparedClaim* prepared = nullptr;
  Alternative* alternative = nullptr;
  size_t claim = 0;
  size_t request = 0;
  size_t ordinal = 0;  // over all alternatives
  bool listed = false;
  bool failing = false;  // some candidate is an error, or may be
  std::vector<Candidate> candidates;

  // Fills the list, once.
  void list(const NodeView& node, const Options& options);
  [[nodiscard]] Error error_of(const DeviceInfo& device) const;
};

class Plans {
 public:
  explicit Plans(std::vector<PreparedClaim>& claims);

  [[nodiscard]] Plan& at(size_t claim, size_t request, size_t alternative) {
    return plans_[first_[claim][request] + alternative];
  }
  [[nodiscard]] std::vector<Plan>& all() { return plans_; }

 private:
  std::vector<Plan> plans_;
  std::vector<std::vector<size_t>> first_;  // by claim and request
};

}  // namespace heddle::allocator
