#include "allocator/allocator.h"

#include <algorithm>

#include "allocator/search.h"

namespace heddle::allocator {

int64_t FirstFit::rank(const DeviceInfo& /*device*/, const Consumption& /*take*/,
                       const std::vector<Amount>& /*used*/) const {
  return 0;
}

int64_t BestFit::rank(const DeviceInfo& device, const Consumption& take, const std::vector<Amount>& used) const {
  const Shape& shape = *device.shape;
  if (!shape.shared || shape.capacities.empty()) return 0;
  int64_t left = 0;
  for (size_t i = 0; i < shape.capacities.size(); ++i) {
    const CapacityInfo& capacity = shape.capacities[i];
    const Amount taken = take.amounts[i] + (used.empty() ? 0 : used[i]);
    left +=
        capacity.millionths(std::max(capacity.value - taken, Amount{0}));  // a device may be held beyond its capacity
  }
  return left / static_cast<int64_t>(shape.capacities.size());
}

bool fits(const DeviceInfo& device, const Alternative& alternative, const Consumption& take, const Held& held) {
  if (!take.possible || alternative.spec->admin_access) return take.possible;
  if (held.whole > 0 || held.alone > 0) return false;
  if (held.shares > 0 && (!device.shape->shared || take.alone)) return false;
  if (held.used.empty()) return true;
  for (size_t i = 0; i < take.amounts.size(); ++i) {
    if (held.used[i] + take.amounts[i] > device.shape->capacities[i].value) return false;
  }
  return true;
}

Solver::Solver(std::vector<PreparedClaim>& claims, const Policy& policy, const Options& options, const Limits& limits)
    : search_(std::make_unique<Search>(claims, policy, limits, options)) {}
Solver::~Solver() = default;
Solver::Solver(Solver&&) noexcept = default;
Solver& Solver::operator=(Solver&&) noexcept = default;

Result<const Solution*> Solver::solve(const NodeView& node, const Assumption& assumption) {
  return search_->run(node, assumption);
}

Result<std::optional<Solution>> solve(const NodeView& node, std::vector<PreparedClaim>& claims, const Policy& policy,
                                      const Assumption& assumption, const Limits& limits, const Options& options) {
  Search search(claims, policy, limits, options);
  HEDDLE_TRY(const Solution* solution, search.run(node, assumption));
  return solution == nullptr ? std::optional<Solution>() : std::optional<Solution>(*solution);
}

}  // namespace heddle::allocator
