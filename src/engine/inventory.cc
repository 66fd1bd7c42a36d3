#include "engine/inventory.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "allocator/node_pools.h"

namespace heddle::engine {
namespace {

using allocator::DeviceInfo;
using model::NodeScope;

std::map<std::string, int64_t> amounts_of(const model::ResourceList& list) {
  std::map<std::string, int64_t> amounts;
  for (const auto& [name, quantity] : list) {
    const auto amount = name == "cpu" ? quantity.milli_value() : quantity.value();
    amounts[name] = amount.value_or(quantity.sign() < 0 ? 0 : std::numeric_limits<int64_t>::max());
  }
  return amounts;
}

int64_t find_counter(const allocator::PoolInfo& pool, const std::string& set, const std::string& name) {
  for (size_t i = 0; i < pool.counters.size(); ++i) {
    if (pool.counters[i].set == set && pool.counters[i].name == name) return static_cast<int64_t>(i);
  }
  return -1;
}

auto view_order(const allocator::PoolView& view) {
  return std::tie(view.pool->binding_conditions, view.pool->driver, view.pool->name);
}

}  // namespace

Inventory::Inventory(std::string managed_driver, const Ledger& ledger, allocator::QueryCache& cache)
    : managed_driver_(std::move(managed_driver)), ledger_(ledger), cache_(cache) {}

bool Inventory::upsert_node(model::Node node) {
  NodeEntry& entry = nodes_[node.meta.name];
  const bool is_new = entry.node.meta.name.empty();
  const bool same = !is_new && entry.node.meta.labels == node.meta.labels && entry.node.taints == node.taints &&
                    entry.node.unschedulable == node.unschedulable && entry.node.ready == node.ready &&
                    entry.node.declared_features == node.declared_features &&
                    entry.node.allocatable == node.allocatable;
  if (same) return false;
  const bool relabelled = is_new || entry.node.meta.labels != node.meta.labels;
  entry.allocatable = amounts_of(node.allocatable);
  entry.taints = model::effective_taints(node);
  entry.node = std::move(node);
  entry.view.node = entry.node.meta.name;
  entry.view.declared_features = entry.node.declared_features;
  touch(entry);
  entry.reshaped = true;
  ++reshapes_;
  if (!relabelled) return true;
  for (const PoolKey& key : pools_everywhere_) update_view(pools_.at(key), entry);
  const auto local = pools_by_node_.find(entry.view.node);
  if (is_new && local != pools_by_node_.end()) {
    for (const PoolKey& key : local->second) update_view(pools_.at(key), entry);
  }
  return true;
}

bool Inventory::remove_node(const std::string& name) {
  if (nodes_.erase(name) == 0) return false;
  ++reshapes_;
  touched_.push_back(name);
  return true;
}

void Inventory::touch(NodeEntry& node) {
  node.free_known = false;
  node.empty_known = false;
  ++changes_;
  if (std::exchange(node.touched, true)) return;
  touched_.push_back(node.view.node);
}

std::vector<std::string> Inventory::take_touched() {
  return std::exchange(touched_, {});
}

void Inventory::upsert_slice(model::ResourceSlice slice) {
  const std::string name = slice.meta.name;
  const PoolKey key{slice.driver, slice.pool};
  const auto known = slices_.find(name);
  if (known != slices_.end() && known->second != key) remove_slice(name);
  slices_[name] = key;
  Pool& pool = pools_[key];
  drop_devices(key, pool);  // they point into the slice that is replaced
  Slice& stored = pool.slices[name];
  stored.devices = templates_.take(std::move(slice.devices));
  slice.devices = {};
  stored.object = std::move(slice);
  stored.untainted.clear();
  taint(key, stored);
  rebuild(key);
}

// The taints of rules come after those of the slice, rules by name.
void Inventory::taint(const PoolKey& key, Slice& slice) {
  for (const auto& [index, untainted] : slice.untainted) slice.devices[index].shared = untainted;
  slice.untainted.clear();
  std::vector<const model::DeviceTaintRule*> rules;
  for (const auto& [name, rule] : taint_rules_) {
    if (rule.selects_in(key.first, key.second)) rules.push_back(&rule);
  }
  for (size_t i = 0; i < slice.devices.size() && !rules.empty(); ++i) {
    allocator::PublishedDevice& device = slice.devices[i];
    std::vector<model::Taint> taints;
    for (const model::DeviceTaintRule* rule : rules) {
      if (!rule->device || *rule->device == device.name) taints.push_back(rule->taint);
    }
    if (taints.empty()) continue;
    slice.untainted[i] = device.shared;
    device.shared = templates_.with_taints(*device.shared, taints);
  }
}

void Inventory::taint_again(const model::DeviceTaintRule& rule) {
  std::vector<PoolKey> keys;
  for (const auto& [key, pool] : pools_) {
    if (rule.selects_in(key.first, key.second)) keys.push_back(key);
  }
  for (const PoolKey& key : keys) {
    Pool& pool = pools_.at(key);
    drop_devices(key, pool);
    for (auto& [name, slice] : pool.slices) taint(key, slice);
    rebuild(key);
  }
}

bool Inventory::upsert_taint_rule(model::DeviceTaintRule rule) {
  const std::string name = rule.meta.name;
  const auto known = taint_rules_.find(name);
  if (known != taint_rules_.end()) {
    const model::DeviceTaintRule& old = known->second;
    if (old.has_selector == rule.has_selector && old.driver == rule.driver && old.pool == rule.pool &&
        old.device == rule.device && old.taint == rule.taint) {
      return false;
    }
    remove_taint_rule(name);  // what it selected may not be what it selects
  }
  const auto [place, fresh] = taint_rules_.emplace(name, std::move(rule));
  taint_again(place->second);
  return true;
}

bool Inventory::remove_taint_rule(const std::string& name) {
  const auto known = taint_rules_.find(name);
  if (known == taint_rules_.end()) return false;
  const model::DeviceTaintRule rule = std::move(known->second);
  taint_rules_.erase(known);
  taint_again(rule);
  return true;
}

bool Inventory::remove_slice(const std::string& name) {
  const auto known = slices_.find(name);
  if (known == slices_.end()) return false;
  const PoolKey key = known->second;
  slices_.erase(known);
  Pool& pool = pools_.at(key);
  drop_devices(key, pool);
  pool.slices.erase(name);
  rebuild(key);
  return true;
}

void Inventory::drop_devices(const PoolKey& key, Pool& pool) {
  for (const DeviceInfo& device : pool.devices) {
    const bool held = device.uses_counters && ledger_.find(DeviceKey{key.first, key.second, device.name()}) != nullptr;
    if (held) pool.vanished[device.name()] = device.device->consumes_counters;
    cache_.forget_device(device.index);
    free_indexes_.push_back(device.index);
  }
  pool.by_name.clear();
  pool.devices.clear();
}

void Inventory::rebuild(const PoolKey& key) {
  Pool& pool = pools_.at(key);
  pool.info = {.driver = key.first, .name = key.second, .invalid = {}, .counters = {}};
  int64_t newest = 0;
  for (const auto& [name, slice] : pool.slices) newest = std::max(newest, slice.object.generation);
  std::vector<const Slice*> slices;
  for (const auto& [name, slice] : pool.slices) {
    if (slice.object.generation == newest) slices.push_back(&slice);
  }
  const auto count = static_cast<int64_t>(slices.size());
  pool.info.incomplete = slices.empty() || std::any_of(slices.begin(), slices.end(), [&](const Slice* slice) {
                           return slice->object.pool_slice_count != count;
                         });
  std::set<std::string> touched = pool.local_nodes;
  for (const std::string& node : pool.local_nodes) pools_by_node_[node].erase(key);
  const bool was_everywhere = pool.everywhere;
  pool.local_nodes.clear();
  pool.everywhere = false;
  for (const Slice* slice : slices) {
    if (slice->object.scope.kind == NodeScope::Kind::kNode) {
      pool.local_nodes.insert(slice->object.scope.node);
    } else {
      pool.everywhere = true;
    }
  }
  add_counters(pool, slices);
  add_devices(key, pool, slices);
  charge_counters(key, pool);
  for (const std::string& node : pool.local_nodes) pools_by_node_[node].insert(key);
  touched.insert(pool.local_nodes.begin(), pool.local_nodes.end());
  if (pool.everywhere) pools_everywhere_.insert(key);
  if (!pool.everywhere) pools_everywhere_.erase(key);
  if (pool.everywhere || was_everywhere) {
    for (auto& [name, node] : nodes_) update_view(pool, node);
  } else {
    for (const std::string& name : touched) {
      const auto node = nodes_.find(name);
      if (node != nodes_.end()) update_view(pool, node->second);
    }
  }
  if (pool.slices.empty() && pool.vanished.empty()) pools_.erase(key);
}

void Inventory::add_counters(Pool& pool, const std::vector<const Slice*>& slices) {
  std::set<std::string> sets;
  for (const Slice* slice : slices) {
    for (const model::CounterSet& set : slice->object.shared_counters) {
      if (!sets.insert(set.name).second) pool.info.invalid = "counter set " + set.name + " is there twice";
      for (const auto& [name, quantity] : set.counters) {
        const auto total = allocator::amount_of(quantity);
        if (!total) pool.info.invalid = "counter " + set.name + "/" + name + " is outside 64 bits";
        pool.info.counters.push_back({set.name, name, total.value_or(0), 0});
      }
    }
  }
}

void Inventory::add_devices(const PoolKey& key, Pool& pool, const std::vector<const Slice*>& slices) {
  size_t count = 0;
  for (const Slice* slice : slices) count += slice->devices.size();
  pool.devices.reserve(count);  // views point at them
  std::set<std::string_view> names;
  for (const Slice* slice : slices) {
    for (const allocator::PublishedDevice& published : slice->devices) {
      if (!names.insert(published.name).second) {
        pool.info.invalid = "device " + published.name + " is there twice";
        continue;
      }
      DeviceInfo info = make_device(pool, *slice, published);
      pool.info.binding_conditions = pool.info.binding_conditions || info.has_binding_conditions;
      const auto* holdings = ledger_.find(DeviceKey{key.first, key.second, published.name});
      if (holdings != nullptr) info.held = held_by(*holdings, *info.shape);
      pool.devices.push_back(std::move(info));
      pool.vanished.erase(published.name);
    }
  }
  for (DeviceInfo& device : pool.devices) pool.by_name.push_back(&device);
  std::sort(pool.by_name.begin(), pool.by_name.end(),
            [](const DeviceInfo* a, const DeviceInfo* b) { return a->name() < b->name(); });
}

DeviceInfo Inventory::make_device(Pool& pool, const Slice& slice, const allocator::PublishedDevice& published) {
  const model::ResourceSlice& object = slice.object;
  DeviceInfo info;
  info.index = take_index();
  info.publish(published);
  info.pool = &pool.info;
  info.skip_node_operations = object.skip_node_operations.empty() ? nullptr : &object.skip_node_operations;
  info.scope = object.scope.kind == NodeScope::Kind::kPerDevice ? &info.device->scope : &object.scope;
  auto shape = allocator::make_shape(*info.device);
  if (!shape) {
    pool.info.invalid = "device " + published.name + ": " + shape.error().message;
    shape = allocator::Shape{};
  }
  if (object.driver == managed_driver_) {
    shape->alone = shape->find("cores");
    shape->memory = shape->find("memory");
  }
  info.shape = shapes_.intern(*std::move(shape));
  add_uses(pool, info);
  return info;
}

void Inventory::add_uses(Pool& pool, DeviceInfo& info) {
  for (const model::CounterConsumption& consumption : info.device->consumes_counters) {
    for (const auto& [name, quantity] : consumption.counters) {
      const int64_t index = find_counter(pool.info, consumption.counter_set, name);
      const auto amount = allocator::amount_of(quantity);
      if (index < 0 || !amount) {
        pool.info.invalid = "device " + info.name() + " uses the counter " + consumption.counter_set + "/" + name +
                            (index < 0 ? ", which the pool does not have" : " with a value outside 64 bits");
        continue;
      }
      info.counters.push_back({static_cast<uint32_t>(index), *amount});
    }
  }
}

// Devices that have vanished keep their charge: the hardware behind the counters is still in use.
void Inventory::charge_counters(const PoolKey& key, Pool& pool) {
  for (allocator::CounterInfo& counter : pool.info.counters) counter.used = 0;
  pool.info.groups.clear();
  const auto add_groups = [&](const model::CounterConsumption& consumption) {
    pool.info.groups[consumption.counter_set].add(consumption.compatibility_groups);
  };
  for (const DeviceInfo& device : pool.devices) {
    if (device.held.whole == 0 && device.held.shares == 0) continue;
    for (const allocator::CounterUse& use : device.counters) pool.info.counters[use.counter].used += use.amount;
    for (const model::CounterConsumption& consumption : device.device->consumes_counters) add_groups(consumption);
  }
  std::erase_if(pool.vanished, [&](const auto& entry) {
    return ledger_.find(DeviceKey{key.first, key.second, entry.first}) == nullptr;
  });
  for (const auto& [name, consumptions] : pool.vanished) {
    for (const model::CounterConsumption& consumption : consumptions) {
      add_groups(consumption);
      for (const auto& [counter, quantity] : consumption.counters) {
        const int64_t index = find_counter(pool.info, consumption.counter_set, counter);
        const auto amount = allocator::amount_of(quantity);
        if (index >= 0 && amount) pool.info.counters[static_cast<size_t>(index)].used += *amount;
      }
    }
  }
}

void Inventory::refresh(const DeviceKey& device) {
  const PoolKey key{device.driver, device.pool};
  const auto pool = pools_.find(key);
  if (pool == pools_.end()) return;
  if (DeviceInfo* found = find_in(pool->second, device.device)) {
    const std::vector<Holding>* holdings = ledger_.find(device);
    found->held = holdings == nullptr ? allocator::Held{} : held_by(*holdings, *found->shape);
    const std::string node = node_of(*found);
    if (const auto local = nodes_.find(node); local != nodes_.end()) touch(local->second);
    for (auto& [name, entry] : nodes_) {
      if (!node.empty()) break;
      touch(entry);
    }
  }
  if (!pool->second.info.counters.empty() || !pool->second.vanished.empty()) charge_counters(key, pool->second);
  if (pool->second.slices.empty() && pool->second.vanished.empty()) pools_.erase(pool);
}

void Inventory::update_view(const Pool& pool, NodeEntry& node) {
  std::vector<allocator::PoolView>& views = node.view.pools;
  std::erase_if(views, [&](const allocator::PoolView& view) { return view.pool == &pool.info; });
  touch(node);
  node.reshaped = true;
  ++reshapes_;
  allocator::PoolView view{.pool = &pool.info, .devices = {}};
  bool relevant = false;
  for (const DeviceInfo& device : pool.devices) {
    if (allocator::sees(node.node, *device.scope)) view.devices.push_back(&device);
  }
  for (const auto& [name, slice] : pool.slices) relevant = relevant || allocator::sees(node.node, slice.object.scope);
  if (relevant || !view.devices.empty()) {
    const auto place = std::upper_bound(views.begin(), views.end(), view,
                                        [](const auto& a, const auto& b) { return view_order(a) < view_order(b); });
    views.insert(place, std::move(view));
  }
  node.modules = modules_of(views, managed_driver_);
}

uint32_t Inventory::take_index() {
  if (free_indexes_.empty()) return next_index_++;
  const uint32_t index = free_indexes_.back();
  free_indexes_.pop_back();
  return index;
}

DeviceInfo* Inventory::find_in(const Pool& pool, const std::string& name) {
  const auto place =
      std::lower_bound(pool.by_name.begin(), pool.by_name.end(), name,
                       [](const DeviceInfo* device, const std::string& text) { return device->name() < text; });
  return place != pool.by_name.end() && (*place)->name() == name ? *place : nullptr;
}

const DeviceInfo* Inventory::find(const DeviceKey& device) const {
  const auto pool = pools_.find({device.driver, device.pool});
  return pool == pools_.end() ? nullptr : find_in(pool->second, device.device);
}

std::vector<const DeviceInfo*> Inventory::devices() const {
  std::vector<const DeviceInfo*> devices;
  for (const auto& [key, pool] : pools_) devices.insert(devices.end(), pool.by_name.begin(), pool.by_name.end());
  return devices;
}

std::string Inventory::node_of(const DeviceInfo& device) {
  return device.scope->kind == NodeScope::Kind::kNode ? device.scope->node : std::string();
}

}  // namespace heddle::engine
