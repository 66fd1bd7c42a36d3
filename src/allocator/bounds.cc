#include "allocator/bounds.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

namespace heddle::allocator {
namespace {

using Sums = std::map<std::string, Amount>;

// The least of each name that one of several choices takes; what a choice does not name it takes nothing of.
class Least {
 public:
  void offer(const Sums& sums) {
    if (!any_) least_ = sums;
    any_ = true;
    std::erase_if(least_, [&](const auto& entry) { return !sums.contains(entry.first); });
    for (auto& [name, amount] : least_) amount = std::min(amount, sums.at(name));
  }
  [[nodiscard]] const Sums& get() const { return least_; }

 private:
  bool any_ = false;
  Sums least_;
};

class Bounds {
 public:
  Bounds(const std::vector<PreparedClaim>& claims, Plans& plans, Occupancy& occupancy)
      : claims_(claims), plans_(plans), occupancy_(occupancy) {}

  bool no() { return !each_request_alone() || !different_devices() || !sums_left(); }

 private:
  struct Demand {
    std::vector<const DeviceInfo*> devices;  // that some possible alternative can take
    int64_t count = 0;                       // at least so many of them
    bool exclusive = true;                   // all of them are taken whole
    Least counters;
    Least capacity;
  };

  // False when some request cannot be served alone; else demands_ is filled.
  bool each_request_alone() {
    for (size_t c = 0; c < claims_.size(); ++c) {
      for (size_t r = 0; r < claims_[c].requests.size(); ++r) {
        std::optional<Demand> demand;
        for (size_t a = 0; a < claims_[c].requests[r].alternatives.size(); ++a) add(demand, plans_.at(c, r, a));
        if (!demand) return false;
        if (demand->count > 0) demands_.push_back(*std::move(demand));
      }
    }
    return true;
  }

  void add(std::optional<Demand>& demand, const Plan& plan) {
    const Alternative& alternative = *plan.alternative;
    std::vector<const Candidate*> fitting;
    for (const Candidate& candidate : plan.candidates) {
      const bool admin = alternative.spec->admin_access;
      if (occupancy_.available(*candidate.device, *candidate.take, plan.claim, admin)) fitting.push_back(&candidate);
    }
    const size_t count = alternative.all ? plan.candidates.size() : static_cast<size_t>(alternative.count);
    if (fitting.size() < count || (alternative.all && count == 0)) return;
    if (!demand) demand = Demand{.devices = {}, .count = static_cast<int64_t>(count), .counters = {}, .capacity = {}};
    demand->count = std::min(demand->count, static_cast<int64_t>(count));
    Least counters;
    Least capacity;
    for (const Candidate* candidate : fitting) {
      demand->devices.push_back(candidate->device);
      demand->exclusive =
          demand->exclusive && !occupancy_.shared(*candidate->device) && !alternative.spec->admin_access;
      counters.offer(counters_of(*candidate->device));
      capacity.offer(capacity_of(*candidate));
    }
    demand->counters.offer(times(counters.get(), count));
    demand->capacity.offer(times(capacity.get(), count));
  }

  static Sums times(Sums sums, size_t count) {
    for (auto& [name, amount] : sums) amount *= static_cast<Amount>(count);
    return sums;
  }

  Sums counters_of(const DeviceInfo& device) const {
    Sums sums;
    if (occupancy_.shared(device)) return sums;  // paid once by several
    for (const CounterUse& use : device.counters) sums[device.pool->counters[use.counter].name] += use.amount;
    return sums;
  }

  Sums capacity_of(const Candidate& candidate) const {
    Sums sums;
    if (!occupancy_.shared(*candidate.device)) return sums;
    const std::vector<CapacityInfo>& capacities = candidate.device->shape->capacities;
    for (size_t i = 0; i < capacities.size(); ++i) sums[capacities[i].name] = candidate.take->amounts[i];
    return sums;
  }

  // Whether the requests that take devices whole find different ones: a matching of their slots with devices.
  bool different_devices() {
    std::unordered_map<const DeviceInfo*, size_t> owner;  // device -> slot
    for (size_t d = 0; d < demands_.size(); ++d) {
      if (!demands_[d].exclusive) continue;
      for (int64_t i = 0; i < demands_[d].count; ++i) {
        slots_.push_back(d);
        std::set<const DeviceInfo*> seen;
        if (!place(slots_.size() - 1, owner, seen)) return false;
      }
    }
    return true;
  }

  // Recursion is as deep as there are slots: at most 32 a claim.
  bool place(size_t slot, std::unordered_map<const DeviceInfo*, size_t>& owner, std::set<const DeviceInfo*>& seen) {
    const std::vector<const DeviceInfo*>& devices = demands_[slots_[slot]].devices;
    for (const DeviceInfo* device : devices) {
      if (owner.contains(device) || !seen.insert(device).second) continue;
      owner[device] = slot;
      return true;
    }
    for (const DeviceInfo* device : devices) {
      const auto held = owner.find(device);
      if (held == owner.end() || slots_[held->second] == slots_[slot] || seen.contains(device)) continue;
      seen.insert(device);
      if (!place(held->second, owner, seen)) continue;
      owner[device] = slot;
      return true;
    }
    return false;
  }

  // Counters and shared capacity, each name summed over all that the requests could use.
  bool sums_left() {
    Sums asked_counters;
    Sums asked_capacity;
    std::set<const DeviceInfo*> devices;
    std::set<const PoolInfo*> pools;
    for (const Demand& demand : demands_) {
      for (const auto& [name, amount] : demand.counters.get()) asked_counters[name] += amount;
      for (const auto& [name, amount] : demand.capacity.get()) asked_capacity[name] += amount;
      for (const DeviceInfo* device : demand.devices) {
        devices.insert(device);
        pools.insert(device->pool);
      }
    }
    Sums left_counters;
    for (const PoolInfo* pool : pools) {
      const std::vector<Amount>& left = occupancy_.counters_left(*pool);
      for (size_t i = 0; i < left.size(); ++i) left_counters[pool->counters[i].name] += std::max(left[i], Amount{0});
    }
    Sums left_capacity;
    for (const DeviceInfo* device : devices) {
      const std::vector<Amount> used = occupancy_.used(*device);
      for (size_t i = 0; i < device->shape->capacities.size(); ++i) {
        const CapacityInfo& capacity = device->shape->capacities[i];
        left_capacity[capacity.name] += std::max(capacity.value - (used.empty() ? 0 : used[i]), Amount{0});
      }
    }
    const auto enough = [](const Sums& asked, const Sums& left) {
      return std::all_of(asked.begin(), asked.end(), [&](const auto& entry) {
        const auto found = left.find(entry.first);
        return entry.second <= (found == left.end() ? Amount{0} : found->second);
      });
    };
    return enough(asked_counters, left_counters) && enough(asked_capacity, left_capacity);
  }

  const std::vector<PreparedClaim>& claims_;
  Plans& plans_;
  Occupancy& occupancy_;
  std::vector<Demand> demands_;
  std::vector<size_t> slots_;  // slot -> demand
};

}  // namespace

bool proves_no(const std::vector<PreparedClaim>& claims, Plans& plans, Occupancy& occupancy) {
  return Bounds(claims, plans, occupancy).no();
}

}  // namespace heddle::allocator
