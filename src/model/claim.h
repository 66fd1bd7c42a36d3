// ResourceClaim of resource.k8s.io/v1: what is asked, and in status what is granted. The status is the one ledger.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/device.h"
#include "model/meta.h"

namespace heddle::model {

// One alternative: `exactly` of a request, or one entry of firstAvailable (then `name` is set).
struct DeviceSubRequest {
  std::string name;
  std::string device_class;
  std::vector<std::string> selectors;  // CEL
  std::string allocation_mode;         // "ExactCount" (or empty), "All"
  std::optional<int64_t> count;        // default 1
  bool admin_access = false;
  std::vector<Toleration> tolerations;
  std::map<std::string, Quantity> capacity;               // capacity.requests
  std::map<std::string, std::string> derived_attributes;  // alpha
  friend bool operator==(const DeviceSubRequest&, const DeviceSubRequest&) = default;
};

struct DeviceRequest {
  std::string name;
  std::optional<DeviceSubRequest> exactly;
  std::vector<DeviceSubRequest> first_available;
  friend bool operator==(const DeviceRequest&, const DeviceRequest&) = default;
};

struct DeviceConstraint {
  std::vector<std::string> requests;  // empty: all
  std::string match_attribute;
  std::string distinct_attribute;
  friend bool operator==(const DeviceConstraint&, const DeviceConstraint&) = default;
};

struct ClaimSpec {
  std::vector<DeviceRequest> requests;
  std::vector<DeviceConstraint> constraints;
  std::vector<OpaqueConfig> config;
  friend bool operator==(const ClaimSpec&, const ClaimSpec&) = default;
};

// Opaque configuration of Heddle's own driver: kind ShareConfig of heddle.dev/v1alpha1.
inline constexpr const char* kIsolationSoft = "soft";  // the guard paces launches
inline constexpr const char* kIsolationMps = "mps";    // NVIDIA's MPS keeps the processes to a part of the SMs
struct ShareConfig {
  std::optional<int64_t> memory_percent;  // of the card's memory, 1..100; then the request names no memory
  // Among the tenants of a card: 0 (what nobody states) comes first, 1 gives way to those of 0.
  std::optional<int64_t> priority = std::nullopt;
  // Bytes that may be addressed on each card, managed memory beyond the granted memory included; whole MiB, more than
  // the memory. Without it: the granted memory and no more.
  std::optional<int64_t> virtual_memory = std::nullopt;
  // How the share of the compute is held: kSoft or kMps; nothing: kSoft.
  std::optional<std::string> isolation = std::nullopt;
  friend bool operator==(const ShareConfig&, const ShareConfig&) = default;
};

struct DeviceResult {
  std::string request;  // "req" or "req/sub"
  std::string driver;
  std::string pool;
  std::string device;
  bool admin_access = false;
  std::vector<Toleration> tolerations;
  std::vector<std::string> binding_conditions;
  std::vector<std::string> binding_failure_conditions;
  std::string share_id;  // empty: the whole device
  std::map<std::string, Quantity> consumed_capacity;
  std::vector<std::string> skip_node_operations = {};  // alpha
  friend bool operator==(const DeviceResult&, const DeviceResult&) = default;
};

struct AllocatedConfig {
  bool from_class = false;  // source FromClass, else FromClaim
  OpaqueConfig config;
  friend bool operator==(const AllocatedConfig&, const AllocatedConfig&) = default;
};

struct Allocation {
  std::vector<DeviceResult> results;
  std::vector<AllocatedConfig> config;
  std::optional<NodeSelector> node_selector;  // absent: usable everywhere
  std::optional<Time> timestamp;              // without it a pod can never bind (facts: dra.md, E1)
  friend bool operator==(const Allocation&, const Allocation&) = default;
};

struct ConsumerReference {
  std::string api_group;
  std::string resource;  // "pods"
  std::string name;
  std::string uid;
  friend bool operator==(const ConsumerReference&, const ConsumerReference&) = default;
};

struct ResourceClaim {
  ObjectMeta meta;
  ClaimSpec spec;
  std::optional<Allocation> allocation;
  std::vector<ConsumerReference> reserved_for;
};

// The node that the allocation is bound to, when its selector is the one term "metadata.name In [node]".
std::optional<std::string> allocated_node(const Allocation& allocation);

}  // namespace heddle::model
