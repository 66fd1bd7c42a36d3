// Devices taken apart into what many have in common and what is their own, so that a fleet of equal cards is kept once.
// Cost: one text of each device when it is published. What no device uses any more is freed.
#pragma once

#include <cstddef>
#include <memory>
#include <unordered_map>
#include <vector>

#include "allocator/published.h"

namespace heddle::engine {

class Templates {
 public:
  // The devices of one slice, in their order. Attributes that differ between them are kept with each.
  std::vector<allocator::PublishedDevice> take(std::vector<model::Device> devices);
  // The same with further taints.
  std::shared_ptr<const allocator::DeviceTemplate> with_taints(const allocator::DeviceTemplate& device,
                                                               const std::vector<model::Taint>& taints);

 private:
  std::shared_ptr<const allocator::DeviceTemplate> intern(allocator::DeviceTemplate made);

  std::unordered_multimap<size_t, std::weak_ptr<const allocator::DeviceTemplate>> known_;  // by hash of their text
  size_t sweep_at_ = 256;
};

}  // namespace heddle::engine
