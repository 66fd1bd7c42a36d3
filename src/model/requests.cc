// What a pod takes of a node's plain resources.
#include <algorithm>
#include <limits>
#include <string_view>

#include "model/pod.h"

namespace heddle::model {
namespace {

// In thousandths of a unit: the API server rounds what users write up to that.
using Amounts = std::map<std::string, Int128>;

constexpr Int128 kMost = Int128{1} << 120;  // larger than any node, and sums of it still fit
constexpr Int128 kNanoPerMilli = 1'000'000;

Int128 rounded_up(Int128 value, Int128 unit) {
  return value <= 0 ? 0 : (value + unit - 1) / unit;
}

Int128 amount_of(const Quantity& quantity) {
  if (quantity.sign() <= 0) return 0;
  const std::optional<Int128> nano = quantity.nano_value();
  return nano ? rounded_up(*nano, kNanoPerMilli) : kMost;
}

void add_to(Amounts& sum, const Amounts& more) {
  for (const auto& [resource, amount] : more) {
    Int128& total = sum[resource];
    total = std::min(total + amount, kMost);
  }
}

void raise_to(Amounts& most, const Amounts& other) {
  for (const auto& [resource, amount] : other) {
    Int128& known = most[resource];
    known = std::max(known, amount);
  }
}

Amounts amounts_of(const ResourceList& list) {
  Amounts amounts;
  for (const auto& [resource, quantity] : list) amounts[resource] = amount_of(quantity);
  return amounts;
}

// The API server fills a missing request from the limit; a pod that has not been there yet means the same.
Amounts asked(const Container& container) {
  Amounts amounts = amounts_of(container.limits);
  for (const auto& [resource, quantity] : container.requests) amounts[resource] = amount_of(quantity);
  return amounts;
}

bool is_pod_level_resource(std::string_view resource) {
  return resource == "cpu" || resource == "memory" || resource.starts_with("hugepages-");
}

// Which of its amounts is counted for each container.
enum class Side { kAsked, kAllocated, kActuated };

Amounts amounts_on(const Container& container, Side side, bool infeasible) {
  if (side == Side::kActuated && container.actuated) return amounts_of(*container.actuated);
  if (side != Side::kAsked && container.allocated) return amounts_of(*container.allocated);
  if (side != Side::kAsked && infeasible) return {};
  return asked(container);
}

Amounts sum_of_containers(const Pod& pod, Side side, bool infeasible) {
  Amounts result;
  Amounts sidecars;
  Amounts init;
  for (const Container& container : pod.containers) {
    Amounts amounts = amounts_on(container, side, infeasible);
    if (!container.init) {
      add_to(result, amounts);
    } else if (container.sidecar) {
      // A sidecar runs beside everything that starts after it, and beside the containers.
      add_to(result, amounts);
      add_to(sidecars, amounts);
      raise_to(init, sidecars);
    } else {
      add_to(amounts, sidecars);
      raise_to(init, amounts);
    }
  }
  raise_to(result, init);
  return result;
}

// A resize that the node can never grant leaves the pod with what it has.
bool resize_is_infeasible(const Pod& pod) {
  const auto pending = std::find_if(pod.conditions.begin(), pod.conditions.end(),
                                    [](const PodCondition& condition) { return condition.type == "PodResizePending"; });
  return pending != pod.conditions.end() && pending->reason == "Infeasible";
}

Amounts aggregate(const Pod& pod) {
  const auto resized = [](const Container& container) { return container.allocated || container.actuated; };
  const bool whole = pod.allocated && pod.actuated;
  const Amounts spec = sum_of_containers(pod, Side::kAsked, false);
  if (!whole && std::none_of(pod.containers.begin(), pod.containers.end(), resized)) return spec;
  const bool infeasible = resize_is_infeasible(pod);
  Amounts result = whole ? amounts_of(*pod.allocated) : sum_of_containers(pod, Side::kAllocated, infeasible);
  raise_to(result, whole ? amounts_of(*pod.actuated) : sum_of_containers(pod, Side::kActuated, infeasible));
  if (!infeasible) raise_to(result, spec);
  return result;
}

// What the pod as a whole asks for replaces the sum of its containers.
void apply_pod_level(const Pod& pod, Amounts& result) {
  const Amounts containers = result;
  for (const auto& [resource, quantity] : pod.pod_level_limits) {
    // Defaulted by the API server: from the containers where they say something, else from the limit.
    const bool hugepages = resource.starts_with("hugepages-");
    if (!is_pod_level_resource(resource) || (containers.contains(resource) && !hugepages)) continue;
    result[resource] = amount_of(quantity);
  }
  Amounts level;
  if (!resize_is_infeasible(pod) || !pod.actuated) level = amounts_of(pod.pod_level_requests);
  if (pod.actuated && !pod.pod_level_requests.empty()) {
    raise_to(level, amounts_of(*pod.actuated));
    if (pod.allocated) raise_to(level, amounts_of(*pod.allocated));
  }
  for (const auto& [resource, amount] : level) {
    if (is_pod_level_resource(resource)) result[resource] = amount;
  }
}

}  // namespace

std::map<std::string, int64_t> effective_requests(const Pod& pod) {
  Amounts sums = aggregate(pod);
  apply_pod_level(pod, sums);
  add_to(sums, amounts_of(pod.overhead));
  std::map<std::string, int64_t> result;
  for (const auto& [resource, milli] : sums) {
    const Int128 amount = resource == "cpu" ? milli : rounded_up(milli, 1000);
    result[resource] = static_cast<int64_t>(std::min<Int128>(amount, std::numeric_limits<int64_t>::max()));
  }
  return result;
}

}  // namespace heddle::model
