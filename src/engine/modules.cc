#include "engine/modules.h"

#include <algorithm>
#include <map>

#include "engine/boxes.h"
#include "engine/cards.h"

namespace heddle::engine {
namespace {

using allocator::Alternative;
using allocator::Amount;
using allocator::Assumption;
using allocator::DeviceInfo;
using allocator::Held;

constexpr int64_t kFewestDies = 2;

const Held& held_in(const Assumption& assumption, const DeviceInfo& device) {
  static const Held kNothing;
  for (const auto& [other, held] : assumption.instead) {
    if (other == &device) return held;
  }
  return assumption.all_free ? kNothing : device.held;
}

// What is left of the counters of its card: nothing, where a partition of it is held.
bool counters_allow(const DeviceInfo& device, const Assumption& assumption) {
  return std::all_of(device.counters.begin(), device.counters.end(), [&](const allocator::CounterUse& use) {
    const allocator::CounterInfo& counter = device.pool->counters[use.counter];
    Amount used = assumption.all_free ? 0 : counter.used;
    for (const auto& [other, held] : assumption.instead) {
      if (other->pool != device.pool) continue;
      const bool before = !assumption.all_free && !nobody_holds(other->held);
      const int change = int{!nobody_holds(held)} - int{before};
      for (const allocator::CounterUse& its : other->counters) {
        if (its.counter == use.counter) used += its.amount * change;
      }
    }
    return used + use.amount <= counter.total;
  });
}

bool can_be_had(const DeviceInfo& device, const std::vector<const Alternative*>& asked, const Assumption& assumption) {
  return nobody_holds(held_in(assumption, device)) && counters_allow(device, assumption) &&
         std::any_of(asked.begin(), asked.end(), [&](const Alternative* one) {
           return one->query->selects(device) && one->query->taints_allow(device);
         });
}

// As if somebody had it alone. Its counters are not touched: who holds it, or a part of it, has them already.
void close(const DeviceInfo& device, Assumption& assumption) {
  for (auto& [other, held] : assumption.instead) {
    if (other != &device) continue;
    held.alone = std::max(held.alone, 1);
    return;
  }
  Held held = assumption.all_free ? Held{} : device.held;
  held.alone = std::max(held.alone, 1);
  assumption.instead.emplace_back(&device, std::move(held));
}

}  // namespace

Modules modules_of(const std::vector<allocator::PoolView>& pools, const std::string& managed_driver) {
  Modules modules;
  std::map<std::string, size_t> known;
  for (const allocator::PoolView& view : pools) {
    if (view.pool->driver != managed_driver) continue;
    for (const DeviceInfo* device : view.devices) {
      const std::string name = attribute_text(*device, kModuleAttribute);
      if (name.empty() || is_partition(*device)) continue;
      const auto [at, added] = known.emplace(name, modules.parts.size());
      if (added) modules.parts.emplace_back();
      auto& part = modules.parts[at->second];
      part.push_back(device);
      modules.dies = std::max({modules.dies, kFewestDies, static_cast<int64_t>(part.size())});
    }
  }
  return modules;
}

std::vector<const Alternative*> filling(const std::vector<allocator::PreparedClaim>& claims, int64_t dies) {
  std::vector<const Alternative*> asked;
  for (const allocator::PreparedClaim& claim : claims) {
    for (const allocator::PreparedRequest& request : claim.requests) {
      if (request.alternatives.size() != 1) return {};
      const Alternative& one = request.alternatives.front();
      const bool whole = !one.all && !one.spec->admin_access && one.spec->capacity.empty() && !one.memory_percent;
      if (!whole || one.count % dies != 0) return {};
      asked.push_back(&one);
    }
  }
  return asked;
}

Assumption whole_modules_only(const Modules& modules, const std::vector<const Alternative*>& asked,
                              Assumption assumption) {
  std::vector<const DeviceInfo*> none;
  for (const auto& part : modules.parts) {
    const bool whole = static_cast<int64_t>(part.size()) == modules.dies &&
                       std::all_of(part.begin(), part.end(),
                                   [&](const DeviceInfo* device) { return can_be_had(*device, asked, assumption); });
    if (!whole) none.insert(none.end(), part.begin(), part.end());
  }
  for (const DeviceInfo* device : none) close(*device, assumption);
  return assumption;
}

}  // namespace heddle::engine
