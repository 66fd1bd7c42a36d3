// ResourceQuota of translated resources: requests.nvidia.com/gpu, limits.nvidia.com/gpumem and the like keep their
// meaning, counted from the ledger because the pods no longer name the resources. Scopes that a pod itself decides
// (Terminating, BestEffort, PriorityClass and their opposites) count; quotas with others are left out. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "catalog/requests.h"
#include "dialects/quota_measure.h"
#include "engine/engine.h"
#include "model/claim.h"
#include "model/pod.h"

namespace heddle::controller {

// Units: devices; MiB, percent of compute and asked percent of memory over all of them.
struct Amounts {
  int64_t devices = 0;
  int64_t memory_mib = 0;
  int64_t cores = 0;
  int64_t memory_percent = 0;  // of shares asked for in percent only
  friend bool operator==(const Amounts&, const Amounts&) = default;
};

// What claims hold or ask for, by kind of device (dialects::device_kind); kinds with nothing are left out.
struct DeviceUsage {
  std::map<std::string, Amounts> kinds;

  DeviceUsage& operator+=(const DeviceUsage& other);
  DeviceUsage& operator-=(const DeviceUsage& other);
  friend bool operator==(const DeviceUsage&, const DeviceUsage&) = default;
};

// spec: of the claim, for the kinds of its requests.
DeviceUsage usage_of(const model::ClaimSpec& spec, const model::Allocation& allocation, std::string_view driver);
// What is known before devices are chosen: a whole card and a percentage count no memory yet.
DeviceUsage least_usage(const model::ClaimSpec& spec);

// What the scopes of a quota look at.
struct PodScope {
  bool best_effort = false;
  bool terminating = false;
  std::string priority_class;
};
PodScope scope_of(const model::Pod& pod);

struct QuotaTerm {
  std::string scope;  // Terminating, NotTerminating, BestEffort, NotBestEffort, PriorityClass
  std::string op;     // Exists, DoesNotExist, In, NotIn
  std::vector<std::string> values;
};

struct Quota {
  std::string name_space;
  std::string name;
  std::map<std::string, int64_t> hard;  // of extended resources, "requests.nvidia.com/gpu"; others count nothing here
  std::vector<QuotaTerm> terms;         // all must hold; empty: every pod
  [[nodiscard]] bool covers(const PodScope& pod) const;
};

// The keys of a quota with a scope that is not known here are left out. Errors: kInvalidArgument.
Result<Quota> parse_quota(std::string_view json);

// Counts the keys that translations take away from pods. Not thread-safe; copy it for readers on other threads.
class QuotaTable {
 public:
  explicit QuotaTable(std::shared_ptr<const catalog::Requests> rules) : rules_(std::move(rules)) {}
  void upsert(Quota quota);
  void remove(const std::string& key);
  // Why `ask` more than what the pods that a quota covers use now goes beyond that quota.
  [[nodiscard]] std::optional<engine::Reason> exceeded(const std::string& name_space, const PodScope& pod,
                                                       const std::function<DeviceUsage(const Quota&)>& used,
                                                       const DeviceUsage& ask) const;
  // A quota of 0 for something that `ask` needs: nothing that ends could ever make room.
  [[nodiscard]] std::optional<std::string> forbidden(const std::string& name_space, const PodScope& pod,
                                                     const DeviceUsage& ask) const;
  [[nodiscard]] bool has(const std::string& name_space) const { return by_namespace_.contains(name_space); }
  [[nodiscard]] uint64_t version() const { return version_; }

 private:
  struct Entry {
    Quota quota;
    std::map<std::string, dialects::Measure> measures;  // by key of quota.hard
  };
  std::shared_ptr<const catalog::Requests> rules_;
  std::map<std::string, std::map<std::string, Entry>> by_namespace_;
  uint64_t version_ = 0;
};

}  // namespace heddle::controller
