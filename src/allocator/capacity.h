// Consumable capacity: what a request takes of a device, by the device's request policies.
// Source of the rules: k8s.io/dynamic-resource-allocation v0.37.2
// structured/internal/incubating/consumable_capacity.go.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "allocator/amount.h"
#include "allocator/features.h"
#include "base/result.h"
#include "model/device.h"

namespace heddle::allocator {

// One capacity of a device with its policy as numbers.
struct CapacityInfo {
  std::string name;
  model::Capacity published;
  Amount value = 0;
  // Parts of the value are computed without its lowest bits, in 64 bits: so many are left out.
  int32_t shift = 0;

  // The part that `amount` is of the value, in millionths; a value of 0 has no parts.
  [[nodiscard]] int64_t millionths(Amount amount) const {
    constexpr int64_t kMillion = 1'000'000;
    const auto whole = static_cast<int64_t>(value >> shift);
    return whole == 0 ? 0 : static_cast<int64_t>(amount >> shift) * kMillion / whole;
  }
};

// What devices with equal capacities and equal sharing have in common. Interned: equal devices point at one shape.
struct Shape {
  uint32_t id = 0;
  bool shared = false;                   // allowMultipleAllocations
  std::vector<CapacityInfo> capacities;  // by name
  // Heddle's rule beyond the arithmetic: who takes all of this capacity has the device alone. -1: no such rule.
  int32_t alone = -1;
  int32_t memory = -1;  // the capacity that memoryPercent of a ShareConfig is a part of; -1: none

  [[nodiscard]] int32_t find(const std::string& name) const;
};

// Errors: kInvalidArgument for a value beyond 10^28.
Result<Shape> make_shape(const model::Device& device);

struct Consumption {
  bool possible = false;  // false: this device cannot serve the request even when free
  bool alone = false;
  std::vector<Amount> amounts;       // as Shape::capacities; empty when capacity is not counted
  std::vector<Quantity> quantities;  // the same, exact and in the notation for the result
};

// What a request for these capacities takes. memory_percent: in place of a request for memory, whole MiB rounded down.
// Errors: kInvalidArgument when a value is negative or cannot be represented; that ends the allocation, as upstream.
Result<Consumption> consume(const Shape& shape, const std::map<std::string, Quantity>& requests,
                            std::optional<int64_t> memory_percent, const Features& features = {});

// Whether a device with this policy refuses to give exactly this much.
bool violates(const model::RequestPolicy& policy, const Quantity& taken, const Features& features);
// Whether the range counts in thousandths; else in whole units.
bool counts_in_milli(const model::RequestPolicy::Range& range, const Features& features);

}  // namespace heddle::allocator
