// In which order a policy goes through nodes and cards, beside packing.
#pragma once

#include <cstdint>
#include <vector>

#include "allocator/allocator.h"
#include "model/placement_policy.h"

namespace heddle::engine {

struct NodeEntry;

// Cards for the exact search: first those that were chosen for it, in their order, then by the policy. kPacking ranks
// the others as kBestFit.
class CardOrder final : public allocator::Policy {
 public:
  explicit CardOrder(model::PlacementPolicy policy) : policy_(policy) {}

  // Until the next call; the devices are borrowed.
  void choose(std::vector<const allocator::DeviceInfo*> devices) { chosen_ = std::move(devices); }

  [[nodiscard]] int64_t rank(const allocator::DeviceInfo& device, const allocator::Consumption& take,
                             const std::vector<allocator::Amount>& used) const override;

  // Smaller first, before the rank of any card.
  [[nodiscard]] int64_t node_rank(const NodeEntry& node) const;
  // Between nodes of equal ranks: of two that have this much free, in millionths of a device.
  [[nodiscard]] int64_t free_rank(int64_t free_millionths) const;

 private:
  model::PlacementPolicy policy_;
  allocator::BestFit best_fit_;
  std::vector<const allocator::DeviceInfo*> chosen_;
};

}  // namespace heddle::engine
