// What a key of a ResourceQuota counts in claims, now that pods no longer name the resource themselves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "catalog/requests.h"
#include "model/claim.h"

namespace heddle::dialects {

// The kind of device that a request asks for: "nvidia", "ascend/910B4,Ascend910B4", "nvidia#1g.5gb"; empty: any device
// of ours. Kinds are equal when the same resource names count them.
std::string device_kind(const model::DeviceSubRequest& request);

struct Measure {
  // kSlices: of hard partitions, whose size in slices of a card is their profile's number ("3g"); kind is the vendor,
  // and all its profiles count.
  enum class Of { kDevices, kMemory, kCores, kPercent, kSlices };
  std::string kind;
  Of of = Of::kDevices;
  // The key's number for an amount (devices, MiB, percent): amount x times / per, rounded up.
  int64_t times = 1;
  int64_t per = 1;
  friend bool operator==(const Measure&, const Measure&) = default;
};
[[nodiscard]] int64_t measured(const Measure& measure, int64_t amount);
// Of one partition of that kind, for a measure of slices; 0: it does not count them.
[[nodiscard]] int64_t slices_of(const Measure& measure, std::string_view kind);

// key: as in spec.hard, "requests.nvidia.com/gpu". Nothing for keys that no translation takes away.
std::optional<Measure> measure_of(const catalog::Requests& rules, std::string_view key);

}  // namespace heddle::dialects
