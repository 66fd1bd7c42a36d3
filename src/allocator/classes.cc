#include "allocator/classes.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <type_traits>

namespace heddle::allocator {
namespace {

template <typename T>
void append(std::string& key, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  key.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

// Of a pointer: which one it is.
template <typename T>
void append(std::string& key, const T* value) {
  append(key, reinterpret_cast<uintptr_t>(value));
}

void append(std::string& key, const std::string& text) {
  append(key, text.size());
  key += text;
}

std::string static_key(const DeviceInfo& device, const Occupancy& occupancy, const Features& features) {
  std::string key;
  append(key, device.shape->id);
  const Held& held = occupancy.held(device);
  append(key, held.whole);
  append(key, held.shares);
  append(key, held.alone);
  for (const Amount& amount : held.used) append(key, amount);
  append(key, device.skip_node_operations);
  if (!device.uses_counters) return key;
  append(key, device.pool);
  append(key, device.counters.size());
  for (const CounterUse& use : device.counters) {
    append(key, use.counter);
    append(key, use.amount);
  }
  if (!features.compatibility_groups) return key;
  for (const model::CounterConsumption& consumption : device.device->consumes_counters) {
    append(key, consumption.counter_set);
    append(key, consumption.compatibility_groups.size());
    for (const std::string& group : consumption.compatibility_groups) append(key, group);
  }
  return key;
}

}  // namespace

Result<Classes> Classes::make(const std::vector<Plan>& plans, const Occupancy& occupancy, Constraints& constraints,
                              const Features& features) {
  std::unordered_map<const DeviceInfo*, std::string> keys;
  for (const Plan& plan : plans) {
    for (const Candidate& candidate : plan.candidates) {
      const DeviceInfo& device = *candidate.device;
      std::string& key = keys[&device];
      if (key.empty()) key = static_key(device, occupancy, features);
      append(key, plan.ordinal);
      append(key, !features.device_taints || plan.alternative->query->taints_allow(device));
      for (const uint32_t index : plan.alternative->constraints) {
        HEDDLE_TRY(const model::AttributeValue* value,
                   constraints.lookup(plan.claim, index, *plan.alternative, device));
        append(key, value == nullptr ? std::string() : value_text(*value));
      }
    }
  }
  Classes classes;
  std::unordered_map<std::string, uint32_t> ids;
  for (const auto& [device, key] : keys) {
    classes.classes_[device] = ids.emplace(key, static_cast<uint32_t>(ids.size())).first->second;
  }
  return classes;
}

std::string Classes::state(const std::vector<Occupancy::Taken>& taken, size_t claim) const {
  std::map<const DeviceInfo*, std::vector<std::string>> takes;
  for (const Occupancy::Taken& one : taken) {
    std::string text;
    const bool own = one.claim == claim;
    append(text, own);
    if (own && !one.alternative->constraints.empty()) append(text, one.alternative);
    if (one.shared) append(text, one.take);
    takes[one.device].push_back(std::move(text));
  }
  std::vector<std::string> devices;
  for (auto& [device, list] : takes) {
    std::sort(list.begin(), list.end());
    std::string text;
    append(text, of(*device));
    for (const std::string& one : list) append(text, one);
    devices.push_back(std::move(text));
  }
  std::sort(devices.begin(), devices.end());
  std::string key;
  for (const std::string& device : devices) append(key, device);
  return key;
}

}  // namespace heddle::allocator
