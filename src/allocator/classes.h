// Devices that are equal for all that a search can ask: capacity, what is held, counters, the answers of every selector
// and toleration, and the attributes that constraints compare.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "allocator/constraints.h"
#include "allocator/occupancy.h"
#include "allocator/plan.h"

namespace heddle::allocator {

class Classes {
 public:
  // The plans must be listed. Errors: those of derived attributes.
  static Result<Classes> make(const std::vector<Plan>& plans, const Occupancy& occupancy, Constraints& constraints,
                              const Features& features);

  // Only for candidates of the plans.
  [[nodiscard]] uint32_t of(const DeviceInfo& device) const { return classes_.at(&device); }

  // What was taken, the same text for states that differ in equal devices only. Takes of claims before `claim` differ
  // from its own in what they mean for its constraints and its limit.
  [[nodiscard]] std::string state(const std::vector<Occupancy::Taken>& taken, size_t claim) const;

 private:
  std::unordered_map<const DeviceInfo*, uint32_t> classes_;
};

}  // namespace heddle::allocator
