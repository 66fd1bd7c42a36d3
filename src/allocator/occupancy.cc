#include "allocator/occupancy.h"

#include <algorithm>

namespace heddle::allocator {
namespace {

bool share(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return std::any_of(a.begin(), a.end(),
                     [&](const std::string& group) { return std::find(b.begin(), b.end(), group) != b.end(); });
}

}  // namespace

bool GroupsInUse::admits(const std::vector<std::string>& other) const {
  if (!any) return true;
  if (other.empty() || without) return without && other.empty();
  return share(groups, other);
}

void GroupsInUse::add(const std::vector<std::string>& other) {
  if (!any) {
    any = true;
    without = other.empty();
    groups = other;
  } else if (!without && !other.empty()) {
    std::erase_if(
        groups, [&](const std::string& group) { return std::find(other.begin(), other.end(), group) == other.end(); });
  }
}

const Held Occupancy::kNothing;

void Occupancy::begin(const Assumption& assumption) {
  assumption_ = &assumption;
  taken_.clear();
  counters_.clear();
}

Occupancy Occupancy::emptied() const {
  Occupancy empty(features_);
  empty.begin(*assumption_);
  return empty;
}

const Held& Occupancy::assumed(const DeviceInfo& device) const {
  for (const auto& [other, held] : assumption_->instead) {
    if (other == &device) return held;
  }
  return assumption_->all_free ? kNothing : device.held;
}

bool Occupancy::is_taken(const DeviceInfo& device) const {
  return std::any_of(taken_.begin(), taken_.end(), [&](const Taken& taken) { return taken.device == &device; });
}

bool Occupancy::room_for(const DeviceInfo& device, const Consumption& take, const Held& held) const {
  for (size_t i = 0; i < take.amounts.size(); ++i) {
    Amount sum = take.amounts[i] + (held.used.empty() ? 0 : held.used[i]);
    for (const Taken& taken : taken_) {
      if (taken.device == &device && taken.shared) sum += taken.take->amounts[i];
    }
    if (sum > device.shape->capacities[i].value) return false;
  }
  return true;
}

bool Occupancy::available(const DeviceInfo& device, const Consumption& take, size_t claim, bool admin) const {
  const Held& before = held(device);
  const bool multiple = shared(device);
  if (!admin) {
    if (before.whole > 0 || before.alone > 0) return false;
    if (before.shares > 0 && (!multiple || take.alone)) return false;
  }
  bool any = false;
  for (const Taken& taken : taken_) {
    if (taken.device != &device) continue;
    any = true;
    if (!multiple && (!admin || taken.claim == claim)) return false;
    if (multiple && !admin && (take.alone || taken.take->alone)) return false;
  }
  // A device that is free has room for whatever is possible on it.
  if (before.used.empty() && !any) return true;
  return room_for(device, take, before);
}

std::vector<Amount> Occupancy::used(const DeviceInfo& device) const {
  std::vector<Amount> used = held(device).used;
  for (const Taken& taken : taken_) {
    if (taken.device != &device || !taken.shared) continue;
    used.resize(taken.take->amounts.size());
    for (size_t i = 0; i < used.size(); ++i) used[i] += taken.take->amounts[i];
  }
  return used;
}

// A shared device pays its counters once.
bool Occupancy::charged_already(const DeviceInfo& device) const {
  return shared(device) && (held(device).shares > 0 || is_taken(device));
}

Occupancy::Counters& Occupancy::counters_of(const PoolInfo& pool) {
  for (Counters& known : counters_) {
    if (known.pool == &pool) return known;
  }
  Counters made{.pool = &pool, .left = {}, .taken = std::vector<Amount>(pool.counters.size())};
  for (const CounterInfo& counter : pool.counters) {
    made.left.push_back(counter.total - (assumption_->all_free ? 0 : counter.used));
  }
  for (const auto& [other, assumed] : assumption_->instead) {
    const bool before = !assumption_->all_free && (other->held.whole > 0 || other->held.shares > 0);
    const bool now = assumed.whole > 0 || assumed.shares > 0;
    if (other->pool != &pool || before == now) continue;
    for (const CounterUse& use : other->counters) made.left[use.counter] += now ? -use.amount : use.amount;
  }
  made.over = std::any_of(made.left.begin(), made.left.end(), [](const Amount& left) { return left < 0; });
  counters_.push_back(std::move(made));
  return counters_.back();
}

const std::vector<Amount>& Occupancy::counters_left(const PoolInfo& pool) {
  return counters_of(pool).left;
}

bool Occupancy::groups_allow(const DeviceInfo& device) const {
  for (const model::CounterConsumption& consumption : device.device->consumes_counters) {
    const auto before = device.pool->groups.find(consumption.counter_set);
    const bool known = before != device.pool->groups.end() && !assumption_->all_free;
    GroupsInUse groups = known ? before->second : GroupsInUse{};
    for (const auto& [other, held] : assumption_->instead) {
      const bool joined = other->pool == device.pool && (held.whole > 0 || held.shares > 0) && other->held.whole == 0 &&
                          other->held.shares == 0;
      if (!joined) continue;
      for (const model::CounterConsumption& theirs : other->device->consumes_counters) {
        if (theirs.counter_set == consumption.counter_set) groups.add(theirs.compatibility_groups);
      }
    }
    for (const Taken& taken : taken_) {
      if (!taken.charged || taken.device->pool != device.pool) continue;
      for (const model::CounterConsumption& other : taken.device->device->consumes_counters) {
        if (other.counter_set == consumption.counter_set) groups.add(other.compatibility_groups);
      }
    }
    if (!groups.admits(consumption.compatibility_groups)) return false;
  }
  return true;
}

bool Occupancy::pool_allows(const DeviceInfo& device) {
  if (!device.uses_counters) return true;
  if (!features_.partitionable_devices) return false;
  if (charged_already(device)) return true;
  if (features_.compatibility_groups && !groups_allow(device)) return false;
  const Counters& counters = counters_of(*device.pool);
  if (counters.over) return false;
  return std::all_of(device.counters.begin(), device.counters.end(), [&](const CounterUse& use) {
    return counters.taken[use.counter] + use.amount <= counters.left[use.counter];
  });
}

void Occupancy::take(const DeviceInfo& device, const Consumption& take, const Alternative& alternative, size_t claim) {
  const bool charged = device.uses_counters && !charged_already(device);
  if (charged) {
    Counters& counters = counters_of(*device.pool);
    for (const CounterUse& use : device.counters) counters.taken[use.counter] += use.amount;
  }
  taken_.push_back({&device, &take, &alternative, claim, shared(device), charged});
}

void Occupancy::give_back() {
  const Taken& last = taken_.back();
  if (last.charged) {
    Counters& counters = counters_of(*last.device->pool);
    for (const CounterUse& use : last.device->counters) counters.taken[use.counter] -= use.amount;
  }
  taken_.pop_back();
}

}  // namespace heddle::allocator
