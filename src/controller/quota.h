// ResourceQuota of translated resources: requests.nvidia.com/gpu, limits.nvidia.com/gpumem and the like keep their
// meaning, counted from the ledger because the pods no longer name the resources. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/engine.h"
#include "model/claim.h"

namespace heddle::controller {

// What claims hold or ask for. Units: devices, MiB over all of them, percent over all of them.
struct DeviceUsage {
  int64_t devices = 0;
  int64_t memory_mib = 0;
  int64_t cores = 0;

  DeviceUsage& operator+=(const DeviceUsage& other);
  DeviceUsage& operator-=(const DeviceUsage& other);
  friend bool operator==(const DeviceUsage&, const DeviceUsage&) = default;
};

DeviceUsage usage_of(const model::Allocation& allocation, std::string_view driver);
// What is known before devices are chosen: a whole card and a percentage count no memory yet.
DeviceUsage least_usage(const model::ClaimSpec& spec);

struct Quota {
  std::string name_space;
  std::string name;
  std::map<std::string, int64_t> hard;  // only keys of translated resources, "requests.nvidia.com/gpu"
};

// Quotas with scopes are not counted here: their keys are left out. Errors: kInvalidArgument.
Result<Quota> parse_quota(std::string_view json);

// Not thread-safe; copy it for readers on other threads.
class QuotaTable {
 public:
  void upsert(Quota quota);
  void remove(const std::string& key);
  // Why `ask` more than `used` goes beyond a quota of the namespace.
  [[nodiscard]] std::optional<engine::Reason> exceeded(const std::string& name_space, const DeviceUsage& used,
                                                       const DeviceUsage& ask) const;
  // A quota of 0 for something that `ask` needs: nothing that ends could ever make room.
  [[nodiscard]] std::optional<std::string> forbidden(const std::string& name_space, const DeviceUsage& ask) const;
  [[nodiscard]] uint64_t version() const { return version_; }

 private:
  std::map<std::string, std::map<std::string, Quota>> by_namespace_;
  uint64_t version_ = 0;
};

}  // namespace heddle::controller
