#include "engine/card_order.h"

#include <algorithm>

#include "allocator/prepare.h"
#include "engine/state_impl.h"

namespace heddle::engine {
namespace {

using allocator::DeviceInfo;
using model::PlacementPolicy;

constexpr int64_t kMillion = 1'000'000;

struct Load {
  int64_t tenants = 0;
  int64_t devices = 0;  // partitions are parts of their cards
};

Load load_of(const NodeEntry& node) {
  Load load;
  for (const allocator::PoolView& view : node.view.pools) {
    for (const DeviceInfo* device : view.devices) {
      load.tenants += device->held.whole + device->held.shares;
      load.devices += device->uses_counters && is_partition(*device) ? 0 : 1;
    }
  }
  return load;
}

}  // namespace

// left: millionths of the device that stay free.
int64_t CardOrder::plain_rank(const DeviceInfo& device, int64_t left) const {
  switch (policy_) {
    case PlacementPolicy::kPacking:
    case PlacementPolicy::kBestFit:
      return left;
    case PlacementPolicy::kSpread:
      return (int64_t{device.held.whole} + device.held.shares) * (kMillion + 1) + kMillion - left;
    case PlacementPolicy::kLeastLoaded:
      return kMillion - left;
  }
  return left;
}

int64_t CardOrder::rank(const DeviceInfo& device, const allocator::Consumption& take,
                        const std::vector<allocator::Amount>& used) const {
  for (size_t i = 0; i < chosen_.size(); ++i) {
    if (chosen_[i] == &device) return static_cast<int64_t>(i) - static_cast<int64_t>(chosen_.size());
  }
  const int64_t plain = plain_rank(device, best_fit_.rank(device, take, used));
  if (!newcomer_) return plain;
  const bool keeps_whole = policy_ == PlacementPolicy::kPacking || policy_ == PlacementPolicy::kBestFit;
  const bool unused = device.held.shares == 0;
  const int64_t disturbed = unused && keeps_whole ? kUnusedCard : disturbance(*newcomer_, device.held.sharers);
  constexpr int64_t kOfDisturbance = kMostDisturbed + 1;
  // Sums of such ranks are in the order of the plain sums first: a rank is far below 2^40, and a claim has 32 devices.
  if (!newcomer_->single) return plain * kOfDisturbance * static_cast<int64_t>(allocator::kMaxResults) + disturbed;
  const int64_t part = policy_ == PlacementPolicy::kSpread ? plain / (kMillion + 1) : alike_part(plain);
  return (part * kOfDisturbance + disturbed) * (kMillion + 1) + plain % (kMillion + 1);
}

int64_t CardOrder::node_rank(const NodeEntry& node) const {
  if (policy_ != PlacementPolicy::kSpread && policy_ != PlacementPolicy::kLeastLoaded) return 0;
  const Load load = load_of(node);
  if (load.devices == 0) return 0;
  if (policy_ == PlacementPolicy::kSpread) return load.tenants * kMillion / load.devices;
  return kMillion - free_millionths(node) / load.devices;
}

int64_t CardOrder::free_rank(int64_t free_millionths) const {
  const bool fullest = policy_ == PlacementPolicy::kPacking || policy_ == PlacementPolicy::kBestFit;
  return fullest ? free_millionths : -free_millionths;
}

}  // namespace heddle::engine
