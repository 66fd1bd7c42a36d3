// Devices as the search sees them: what is published with what is held, and the pools that one node can use.
//
// Owned and kept up to date by the caller (the engine's inventory); the search only reads.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "allocator/amount.h"
#include "allocator/capacity.h"
#include "allocator/published.h"
#include "model/device.h"

namespace heddle::allocator {

// The shares of a device, as far as their tenants disturb each other. The search does not read it.
struct Sharers {
  int32_t unlimited = 0;  // of the first priority, without a cap of compute
  int32_t limited = 0;    // of the first priority, with one
  int64_t promised = 0;   // compute granted to all of them, in percent of the device
};

// What claims hold of a device.
struct Held {
  int32_t whole = 0;         // results without a share id
  int32_t shares = 0;        // results with one
  int32_t alone = 0;         // shares that must be alone
  std::vector<Amount> used;  // by the shares, as Shape::capacities; empty: nothing
  Sharers sharers = {};
};

struct PoolInfo;

struct CounterUse {
  uint32_t counter = 0;  // index in PoolInfo::counters
  Amount amount = 0;
};

// What every search reads of each device comes first.
struct DeviceInfo {
  uint32_t index = 0;  // dense, of this device until it is replaced
  bool uses_counters = false;
  bool has_binding_conditions = false;
  bool has_taints = false;
  Held held;
  std::shared_ptr<const Shape> shape;
  const model::Device* device = nullptr;  // of `published`: without name and own attributes
  const PublishedDevice* published = nullptr;
  const PoolInfo* pool = nullptr;
  const model::NodeScope* scope = nullptr;  // its own with kPerDevice, else the slice's
  std::vector<CounterUse> counters;
  const std::vector<std::string>* skip_node_operations = nullptr;  // of the slice; null: none

  // Sets the device, which is borrowed, with what is read off it.
  void publish(const PublishedDevice& of) {
    published = &of;
    device = &of.shared->common;
    uses_counters = !device->consumes_counters.empty();
    has_binding_conditions = !device->binding_conditions.empty();
    has_taints = !device->taints.empty();
  }
  [[nodiscard]] const std::string& name() const { return published->name; }
};

struct CounterInfo {
  std::string set;
  std::string name;
  Amount total = 0;
  Amount used = 0;  // by held devices
};

// What the held devices of a pool say about one of its counter sets: only devices that share a group may join.
struct GroupsInUse {
  bool any = false;      // some device uses the set
  bool without = false;  // the first one named no group
  std::vector<std::string> groups;

  [[nodiscard]] bool admits(const std::vector<std::string>& other) const;
  void add(const std::vector<std::string>& other);
};

// A pool over all nodes, at its newest generation.
struct PoolInfo {
  std::string driver;
  std::string name;
  bool incomplete = false;
  std::string invalid;  // why the pool cannot be used; empty: valid
  bool binding_conditions = false;
  std::vector<CounterInfo> counters;
  std::map<std::string, GroupsInUse> groups = {};  // by counter set, of the held devices
};

// The devices of a pool that a node can use, slices by name, devices in slice order.
struct PoolView {
  const PoolInfo* pool = nullptr;
  std::vector<const DeviceInfo*> devices;
};

// Pools by (binding conditions last, driver, name).
struct NodeView {
  std::string node;
  std::vector<PoolView> pools;
  std::vector<std::string> declared_features = {};  // of the node
};

}  // namespace heddle::allocator
