// Shapes kept once for all devices that have them. What no device has any more is freed, and its id is used again: ids
// stay dense, so that what is remembered by id (Alternative) may not outlive a change of the devices.
//
// Thread rule: one thread. Cost: one hash of the capacities for each device.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "allocator/capacity.h"

namespace heddle::allocator {

class Shapes {
 public:
  // The shape equal to this one but for its id; the caller keeps it alive.
  std::shared_ptr<const Shape> intern(Shape shape);
  // Those in use and those that were not swept yet.
  [[nodiscard]] size_t size() const { return known_.size(); }

 private:
  struct Known {
    std::weak_ptr<const Shape> shape;
    uint32_t id = 0;
  };
  uint32_t take_id();
  void sweep();

  std::unordered_multimap<size_t, Known> known_;  // by hash; looked up only, never walked but to sweep
  std::vector<uint32_t> free_ids_;
  uint32_t next_id_ = 0;
  size_t sweep_at_ = 64;
};

}  // namespace heddle::allocator
