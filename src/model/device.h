// Devices as resource.k8s.io/v1 publishes them: ResourceSlice and DeviceClass. Field names follow the API
// (k8s.io/api v0.37.2 resource/v1/types.go), values are typed, quantities exact.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/quantity.h"
#include "model/meta.h"

namespace heddle::model {

struct Version {  // a semantic version, kept as text
  std::string text;
  friend bool operator==(const Version&, const Version&) = default;
};

// monostate: the object names an attribute without a value (the API server refuses it, our command line may see it).
using AttributeValue = std::variant<std::monostate, int64_t, bool, std::string, Version, std::vector<int64_t>,
                                    std::vector<bool>, std::vector<std::string>, std::vector<Version>>;

struct RequestPolicy {
  struct Range {
    Quantity min;
    std::optional<Quantity> max;
    std::optional<Quantity> step;
    friend bool operator==(const Range&, const Range&) = default;
  };
  std::optional<Quantity> default_value;
  std::vector<Quantity> valid_values;
  std::optional<Range> valid_range;
  friend bool operator==(const RequestPolicy&, const RequestPolicy&) = default;
};

struct Capacity {
  Quantity value;
  std::optional<RequestPolicy> policy;
  friend bool operator==(const Capacity&, const Capacity&) = default;
};

struct CounterConsumption {
  std::string counter_set;
  std::map<std::string, Quantity> counters;
  std::vector<std::string> compatibility_groups;
  friend bool operator==(const CounterConsumption&, const CounterConsumption&) = default;
};

struct CounterSet {
  std::string name;
  std::map<std::string, Quantity> counters;
  friend bool operator==(const CounterSet&, const CounterSet&) = default;
};

// Where a slice or a device can be used. Exactly one form; kUnknown is a slice this version does not understand.
struct NodeScope {
  enum class Kind { kUnknown, kNode, kSelector, kAllNodes, kPerDevice };
  Kind kind = Kind::kUnknown;
  std::string node;
  NodeSelector selector;
  friend bool operator==(const NodeScope&, const NodeScope&) = default;
};

struct Device {
  std::string name;
  // Keys as published: "vendor" (the driver's domain) or "resource.kubernetes.io/numaNode".
  std::map<std::string, AttributeValue> attributes;
  std::map<std::string, Capacity> capacity;
  std::vector<CounterConsumption> consumes_counters;
  std::vector<Taint> taints;
  std::vector<std::string> binding_conditions;
  std::vector<std::string> binding_failure_conditions;
  NodeScope scope;  // only with a slice of kind kPerDevice
  bool binds_to_node = false;
  bool allow_multiple_allocations = false;
  friend bool operator==(const Device&, const Device&) = default;
};

struct ResourceSlice {
  ObjectMeta meta;
  std::string driver;
  std::string pool;
  int64_t generation = 0;
  int64_t pool_slice_count = 1;
  NodeScope scope;
  std::vector<Device> devices;
  std::vector<CounterSet> shared_counters;
  std::vector<std::string> skip_node_operations = {};  // alpha
};

// A taint that an administrator puts on devices of others. Without a selector it selects none; an empty selector
// selects all.
struct DeviceTaintRule {
  ObjectMeta meta;
  bool has_selector = false;
  // What is named must be equal.
  std::optional<std::string> driver;
  std::optional<std::string> pool;
  std::optional<std::string> device;
  Taint taint;

  [[nodiscard]] bool selects_in(const std::string& of_driver, const std::string& of_pool) const {
    return has_selector && (!driver || *driver == of_driver) && (!pool || *pool == of_pool);
  }
};

struct OpaqueConfig {
  std::vector<std::string> requests;  // empty: all
  std::string driver;
  std::string parameters_json;  // as it came, one JSON value
  friend bool operator==(const OpaqueConfig&, const OpaqueConfig&) = default;
};

struct DeviceClass {
  ObjectMeta meta;
  std::vector<std::string> selectors;  // CEL
  std::vector<OpaqueConfig> config;
  std::string extended_resource_name;
};

// The attribute by name as a claim or a constraint writes it: fully qualified, or bare for the driver's own domain.
const AttributeValue* find_attribute(const Device& device, const std::string& driver, const std::string& name);

}  // namespace heddle::model
