// What one search has taken so far, on top of what claims hold already: exclusive devices, capacity of shared ones,
// counters of pools, and compatibility groups. Taken and given back like a stack.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "allocator/allocator.h"
#include "allocator/device.h"
#include "allocator/prepare.h"

namespace heddle::allocator {

class Occupancy {
 public:
  struct Taken {
    const DeviceInfo* device = nullptr;
    const Consumption* take = nullptr;
    const Alternative* alternative = nullptr;
    size_t claim = 0;
    bool shared = false;
    bool charged = false;  // its counters
  };

  explicit Occupancy(const Features& features) : features_(features) {}

  // Starts again with nothing taken. The assumption must outlive what follows.
  void begin(const Assumption& assumption);

  // As the assumption has it: what it says of one device goes before that all are free.
  [[nodiscard]] const Held& held(const DeviceInfo& device) const {
    if (assumption_->instead.empty()) return assumption_->all_free ? kNothing : device.held;
    return assumed(device);
  }
  [[nodiscard]] bool shared(const DeviceInfo& device) const {
    return features_.consumable_capacity && device.shape->shared;
  }
  // Held by others, so that nothing can be taken of the device, whatever is asked.
  [[nodiscard]] bool closed(const DeviceInfo& device) const {
    const Held& before = held(device);
    return before.whole > 0 || before.alone > 0 || (before.shares > 0 && !shared(device));
  }
  // Whether a request may have the device: not held or taken whole, with room for `take`. Admin access minds only what
  // the same claim has taken whole, and the room.
  [[nodiscard]] bool available(const DeviceInfo& device, const Consumption& take, size_t claim, bool admin) const;
  // Counters and groups of the pool.
  [[nodiscard]] bool pool_allows(const DeviceInfo& device);
  // What of the device is used of each capacity; may be empty for nothing.
  [[nodiscard]] std::vector<Amount> used(const DeviceInfo& device) const;
  [[nodiscard]] bool is_taken(const DeviceInfo& device) const;

  void take(const DeviceInfo& device, const Consumption& take, const Alternative& alternative, size_t claim);
  void give_back();
  // The same with nothing taken.
  [[nodiscard]] Occupancy emptied() const;

  [[nodiscard]] const std::vector<Taken>& taken() const { return taken_; }
  // What is left of each counter of the pool, before this search took anything. May be negative.
  [[nodiscard]] const std::vector<Amount>& counters_left(const PoolInfo& pool);

 private:
  struct Counters {
    const PoolInfo* pool = nullptr;
    std::vector<Amount> left;
    std::vector<Amount> taken;
    bool over = false;  // some counter has less than nothing left
  };
  [[nodiscard]] const Held& assumed(const DeviceInfo& device) const;
  Counters& counters_of(const PoolInfo& pool);
  [[nodiscard]] bool charged_already(const DeviceInfo& device) const;
  [[nodiscard]] bool groups_allow(const DeviceInfo& device) const;
  [[nodiscard]] bool room_for(const DeviceInfo& device, const Consumption& take, const Held& held) const;

  static const Held kNothing;

  const Assumption* assumption_ = nullptr;
  const Features& features_;
  std::vector<Taken> taken_;
  std::vector<Counters> counters_;
};

}  // namespace heddle::allocator
