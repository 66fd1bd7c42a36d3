// In which order a policy goes through nodes and cards, beside packing.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "allocator/allocator.h"
#include "engine/interference.h"
#include "model/placement_policy.h"

namespace heddle::engine {

struct NodeEntry;

// Cards for the exact search: first those that were chosen for it, in their order, then by the policy. kPacking ranks
// the others as kBestFit.
// Among cards that the policy values alike a share goes to the one where tenants disturb each other least
// (interference.h). Alike: for a single share those that are left in the same sixteenth of a card, or with `spread`
// have as many tenants; for several shares at once only equal ones. Where the policy keeps cards whole none that nobody
// is on is taken in place of one in use.
class CardOrder final : public allocator::Policy {
 public:
  // newcomer: nothing where who is on a card makes no difference.
  explicit CardOrder(model::PlacementPolicy policy, std::optional<Newcomer> newcomer = {})
      : policy_(policy), newcomer_(newcomer) {}
  [[nodiscard]] const std::optional<Newcomer>& newcomer() const { return newcomer_; }

  // Until the next call; the devices are borrowed.
  void choose(std::vector<const allocator::DeviceInfo*> devices) { chosen_ = std::move(devices); }

  [[nodiscard]] int64_t rank(const allocator::DeviceInfo& device, const allocator::Consumption& take,
                             const std::vector<allocator::Amount>& used) const override;

  // Smaller first, before the rank of any card.
  [[nodiscard]] int64_t node_rank(const NodeEntry& node) const;
  // Between nodes of equal ranks: of two that have this much free, in millionths of a device.
  [[nodiscard]] int64_t free_rank(int64_t free_millionths) const;

 private:
  [[nodiscard]] int64_t plain_rank(const allocator::DeviceInfo& device, int64_t left) const;

  model::PlacementPolicy policy_;
  std::optional<Newcomer> newcomer_;
  allocator::BestFit best_fit_;
  std::vector<const allocator::DeviceInfo*> chosen_;
};

}  // namespace heddle::engine
