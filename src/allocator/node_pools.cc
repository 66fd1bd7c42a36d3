#include "allocator/node_pools.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <tuple>

#include "allocator/shapes.h"

namespace heddle::allocator {
namespace {

using model::NodeScope;
using model::ResourceSlice;
using PoolKey = std::pair<std::string, std::string>;                   // driver, pool
using DeviceName = std::tuple<std::string, std::string, std::string>;  // driver, pool, device

bool reaches(const model::Node& node, const ResourceSlice& slice) {
  if (slice.scope.kind != NodeScope::Kind::kPerDevice) return sees(node, slice.scope);
  return std::any_of(slice.devices.begin(), slice.devices.end(),
                     [&](const model::Device& device) { return sees(node, device.scope); });
}

bool whole_number(const std::string& text) {
  int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  return parsed.ec == std::errc() && parsed.ptr == end;
}

// Why a requirement on labels cannot be understood; empty: it can.
std::string trouble_of(const model::Requirement& requirement) {
  using Operator = model::Requirement::Operator;
  switch (requirement.op) {
    case Operator::kIn:
    case Operator::kNotIn:
      return requirement.values.empty() ? "In and NotIn need a value" : "";
    case Operator::kExists:
    case Operator::kDoesNotExist:
      return requirement.values.empty() ? "" : "Exists and DoesNotExist take no value";
    case Operator::kGt:
    case Operator::kLt:
      return requirement.values.size() == 1 && whole_number(requirement.values[0])
                 ? ""
                 : "Gt and Lt need one value, a whole number";
  }
  return {};
}

// Errors: kInvalidArgument for a selector that says nothing about any node, which is not the same as one that does not
// match.
Result<void> check_scope(const ResourceSlice& slice) {
  if (slice.scope.kind != NodeScope::Kind::kSelector) return {};
  for (const model::NodeSelectorTerm& term : slice.scope.selector.terms) {
    for (const model::Requirement& requirement : term.match_expressions) {
      const std::string trouble = trouble_of(requirement);
      if (trouble.empty()) continue;
      return fail(Code::kInvalidArgument, "the requirement on " + requirement.key + ": " + trouble,
                  "ResourceSlice " + slice.meta.name + ": spec.nodeSelector");
    }
  }
  return {};
}

bool uses_groups(const ResourceSlice& slice) {
  return std::any_of(slice.devices.begin(), slice.devices.end(), [](const model::Device& device) {
    return std::any_of(device.consumes_counters.begin(), device.consumes_counters.end(),
                       [](const auto& consumption) { return !consumption.compatibility_groups.empty(); });
  });
}

// What a result holds: by device, the shares and their capacity.
struct Holding {
  int32_t whole = 0;
  int32_t shares = 0;
  std::map<std::string, Amount> used;
};

}  // namespace

bool sees(const model::Node& node, const NodeScope& scope) {
  switch (scope.kind) {
    case NodeScope::Kind::kNode:
      return scope.node == node.meta.name;
    case NodeScope::Kind::kAllNodes:
      return true;
    case NodeScope::Kind::kSelector:
      return model::matches(scope.selector, node);
    case NodeScope::Kind::kUnknown:
    case NodeScope::Kind::kPerDevice:
      return false;
  }
  return false;
}

class PoolGatherer {
 public:
  PoolGatherer(const NodeInput& input, NodePools& out) : input_(input), out_(out) {}

  Result<void> run() {
    out_.view_.node = input_.node->meta.name;
    out_.view_.declared_features = input_.node->declared_features;
    HEDDLE_CHECK_OK(read_allocated());
    std::map<PoolKey, std::vector<const ResourceSlice*>> relevant;
    for (const ResourceSlice* slice : input_.slices) {
      if (ignored(*slice)) continue;
      HEDDLE_CHECK_OK(check_scope(*slice));
      if (reaches(*input_.node, *slice)) relevant[{slice->driver, slice->pool}].push_back(slice);
    }
    for (auto& [key, slices] : relevant) HEDDLE_CHECK_OK(add_pool(key, std::move(slices)));
    std::stable_sort(out_.view_.pools.begin(), out_.view_.pools.end(), [](const PoolView& a, const PoolView& b) {
      return std::tie(a.pool->binding_conditions, a.pool->driver, a.pool->name) <
             std::tie(b.pool->binding_conditions, b.pool->driver, b.pool->name);
    });
    return {};
  }

 private:
  [[nodiscard]] bool ignored(const ResourceSlice& slice) const {
    const bool partitioned = slice.scope.kind == NodeScope::Kind::kPerDevice || !slice.shared_counters.empty();
    if (partitioned && !input_.features.partitionable_devices) return true;
    return !input_.features.compatibility_groups && uses_groups(slice);
  }

  Result<void> read_allocated() {
    for (const model::Allocation* allocation : input_.allocated) {
      for (const model::DeviceResult& result : allocation->results) {
        if (result.admin_access) continue;  // looks on, holds nothing
        Holding& holding = held_[{result.driver, result.pool, result.device}];
        if (result.share_id.empty() || !input_.features.consumable_capacity) {
          ++holding.whole;
          continue;
        }
        ++holding.shares;
        for (const auto& [name, quantity] : result.consumed_capacity) {
          const auto amount = amount_of(quantity);
          if (!amount) {
            return fail(Code::kInvalidArgument, "consumedCapacity " + quantity.to_string() + " of device " +
                                                    result.device + " cannot be represented");
          }
          holding.used[name] += *amount;
        }
      }
    }
    return {};
  }

  [[nodiscard]] const Holding* holding_of(const PoolInfo& pool, const model::Device& device) const {
    const auto found = held_.find({pool.driver, pool.name, device.name});
    return found == held_.end() ? nullptr : &found->second;
  }

  Result<void> add_pool(const PoolKey& key, std::vector<const ResourceSlice*> slices) {
    int64_t newest = slices.front()->generation;
    for (const ResourceSlice* slice : slices) newest = std::max(newest, slice->generation);
    std::erase_if(slices, [&](const ResourceSlice* slice) { return slice->generation != newest; });
    // What this node sees may be old while another node has newer slices: complete in itself, it is still good.
    const bool complete_here = static_cast<int64_t>(slices.size()) == slices.front()->pool_slice_count;
    std::vector<const ResourceSlice*> everywhere;
    for (const ResourceSlice* slice : input_.slices) {
      if (slice->driver != key.first || slice->pool != key.second) continue;
      if (slice->generation > newest && !complete_here) return {};  // being replaced
      const bool unknown = !input_.features.compatibility_groups && uses_groups(*slice);
      if (slice->generation == newest && !unknown) everywhere.push_back(slice);
    }
    PoolInfo& pool = out_.pools_.emplace_back();
    pool.driver = key.first;
    pool.name = key.second;
    PoolView& view = out_.view_.pools.emplace_back();
    view.pool = &pool;
    pool.incomplete = std::any_of(everywhere.begin(), everywhere.end(), [&](const ResourceSlice* slice) {
      return slice->pool_slice_count != static_cast<int64_t>(everywhere.size());
    });
    if (pool.incomplete) return {};
    for (auto* list : {&slices, &everywhere}) {
      std::stable_sort(list->begin(), list->end(),
                       [](const auto* a, const auto* b) { return a->meta.name < b->meta.name; });
    }
    find_duplicates(pool, slices);
    if (input_.features.partitionable_devices) HEDDLE_CHECK_OK(add_counters(pool, everywhere));
    if (!pool.invalid.empty()) return {};
    return add_devices(view, pool, slices);
  }

  static void find_duplicates(PoolInfo& pool, const std::vector<const ResourceSlice*>& slices) {
    std::set<std::string> names;
    for (const ResourceSlice* slice : slices) {
      for (const model::Device& device : slice->devices) {
        if (!names.insert(device.name).second) pool.invalid = "duplicate device name " + device.name;
      }
    }
  }

  Result<void> add_counters(PoolInfo& pool, const std::vector<const ResourceSlice*>& everywhere) {
    std::set<std::string> sets;
    for (const ResourceSlice* slice : everywhere) {
      for (const model::CounterSet& set : slice->shared_counters) {
        if (!sets.insert(set.name).second) pool.invalid = "duplicate counter set name " + set.name;
        for (const auto& [name, quantity] : set.counters) {
          HEDDLE_TRY(const Amount total, counter_amount(pool, set.name, name, quantity));
          pool.counters.push_back({set.name, name, total, 0});
        }
      }
    }
    for (const ResourceSlice* slice : everywhere) {
      if (!slice->shared_counters.empty()) continue;
      for (const model::Device& device : slice->devices) HEDDLE_CHECK_OK(check_counters(pool, sets, device));
    }
    return {};
  }

  static Result<Amount> counter_amount(const PoolInfo& pool, const std::string& set, const std::string& name,
                                       const Quantity& quantity) {
    const auto amount = amount_of(quantity);
    if (amount) return *amount;
    return fail(Code::kInvalidArgument, "pool " + pool.driver + "/" + pool.name + ": counter " + set + "/" + name +
                                            ": " + quantity.to_string() + " cannot be represented");
  }

  // Notes what is unknown, and charges the device's counters when it is held.
  Result<void> check_counters(PoolInfo& pool, const std::set<std::string>& sets, const model::Device& device) {
    const bool held = holding_of(pool, device) != nullptr;
    for (const model::CounterConsumption& consumption : device.consumes_counters) {
      if (!sets.contains(consumption.counter_set)) {
        pool.invalid = "counter set " + consumption.counter_set + " not found";
        continue;
      }
      for (const auto& [name, quantity] : consumption.counters) {
        const int64_t index = find_counter(pool, consumption.counter_set, name);
        if (index < 0) {
          pool.invalid = "counter " + name + " not found in counter set " + consumption.counter_set;
          continue;
        }
        HEDDLE_TRY(const Amount amount, counter_amount(pool, consumption.counter_set, name, quantity));
        if (held) pool.counters[static_cast<size_t>(index)].used += amount;
      }
      if (held) pool.groups[consumption.counter_set].add(consumption.compatibility_groups);
    }
    return {};
  }

  static int64_t find_counter(const PoolInfo& pool, const std::string& set, const std::string& name) {
    for (size_t i = 0; i < pool.counters.size(); ++i) {
      if (pool.counters[i].set == set && pool.counters[i].name == name) return static_cast<int64_t>(i);
    }
    return -1;
  }

  Result<void> add_devices(PoolView& view, PoolInfo& pool, const std::vector<const ResourceSlice*>& slices) {
    for (const ResourceSlice* slice : slices) {
      if (input_.features.partitionable_devices && !slice->shared_counters.empty()) continue;
      for (const model::Device& device : slice->devices) {
        pool.binding_conditions = pool.binding_conditions || !device.binding_conditions.empty();
        const bool own_scope = slice->scope.kind == NodeScope::Kind::kPerDevice;
        if (own_scope && !sees(*input_.node, device.scope)) continue;
        HEDDLE_TRY(DeviceInfo info, make_device(pool, *slice, device));
        info.scope = own_scope ? &device.scope : &slice->scope;
        out_.devices_.push_back(std::move(info));
        view.devices.push_back(&out_.devices_.back());
      }
    }
    return {};
  }

  Result<DeviceInfo> make_device(PoolInfo& pool, const ResourceSlice& slice, const model::Device& device) {
    DeviceInfo info;
    info.index = static_cast<uint32_t>(out_.devices_.size());
    // A copy: asked once, nothing is kept.
    auto whole = std::make_shared<DeviceTemplate>(DeviceTemplate{.common = device, .own_names = {}});
    out_.published_.push_back({.name = device.name, .shared = std::move(whole)});
    info.publish(out_.published_.back());
    info.pool = &pool;
    info.skip_node_operations = slice.skip_node_operations.empty() ? nullptr : &slice.skip_node_operations;
    auto shape = make_shape(device);
    if (!shape) return fail(shape.error().code, "device " + device.name + ": " + shape.error().message);
    info.shape = shapes_.intern(*std::move(shape));
    for (const model::CounterConsumption& consumption : device.consumes_counters) {
      for (const auto& [name, quantity] : consumption.counters) {
        const int64_t index = find_counter(pool, consumption.counter_set, name);
        if (index >= 0) add_use(info.counters, static_cast<uint32_t>(index), *amount_of(quantity));
      }
    }
    if (const Holding* holding = holding_of(pool, device)) set_held(info, *holding);
    return info;
  }

  static void add_use(std::vector<CounterUse>& uses, uint32_t counter, Amount amount) {
    for (CounterUse& use : uses) {
      if (use.counter != counter) continue;
      use.amount += amount;
      return;
    }
    uses.push_back({counter, amount});
  }

  static void set_held(DeviceInfo& info, const Holding& holding) {
    info.held.whole = holding.whole;
    info.held.shares = holding.shares;
    if (holding.shares == 0) return;
    for (const CapacityInfo& capacity : info.shape->capacities) {
      const auto used = holding.used.find(capacity.name);
      info.held.used.push_back(used == holding.used.end() ? 0 : used->second);
    }
  }

  const NodeInput& input_;
  NodePools& out_;
  std::map<DeviceName, Holding> held_;
  Shapes shapes_;
};

Result<std::unique_ptr<NodePools>> NodePools::make(const NodeInput& input) {
  std::unique_ptr<NodePools> pools(new NodePools());
  HEDDLE_CHECK_OK(PoolGatherer(input, *pools).run());
  return pools;
}

bool NodePools::any_invalid() const {
  return std::any_of(pools_.begin(), pools_.end(), [](const PoolInfo& pool) { return !pool.invalid.empty(); });
}

}  // namespace heddle::allocator
