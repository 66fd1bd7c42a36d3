#include "allocator/capacity.h"

#include <algorithm>
#include <limits>

namespace heddle::allocator {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr Amount kLargest = Amount{std::numeric_limits<int64_t>::max()} * kUnit;

tl::unexpected<Error> not_representable(const std::string& name, const Quantity& quantity) {
  return fail(Code::kInvalidArgument,
              "capacity " + name + ": " + quantity.to_string() + " is negative or cannot be represented in 64 bits");
}

Result<Amount> checked_amount(const std::string& name, const Quantity& quantity) {
  const auto amount = amount_of(quantity);
  if (!amount || *amount < 0) return not_representable(name, quantity);
  return *amount;
}

// Up to the next step of the range, counted from its minimum.
Result<Quantity> round_up(const CapacityInfo& capacity, const Quantity& asked,
                          const model::RequestPolicy::Range& range) {
  if (asked < range.min) return range.min;
  if (!range.step) return asked;
  HEDDLE_TRY(const Amount amount, checked_amount(capacity.name, asked));
  HEDDLE_TRY(const Amount min, checked_amount(capacity.name, range.min));
  HEDDLE_TRY(const Amount step, checked_amount(capacity.name, *range.step));
  if (step == 0) return asked;
  const Amount steps = (amount - min + step - 1) / step;
  const Amount rounded = min + steps * step;
  const Amount limit = rounded % kUnit == 0 ? kLargest : kLargest / kUnit;
  if (rounded > limit) return not_representable(capacity.name, asked);
  return quantity_of(rounded, range.step->format());
}

Result<Quantity> consumed(const CapacityInfo& capacity, const Quantity* asked) {
  const auto& policy = capacity.published.policy;
  if (asked == nullptr) {
    return policy && policy->default_value ? *policy->default_value : capacity.published.value;
  }
  if (!policy) return *asked;
  if (policy->valid_range) return round_up(capacity, *asked, *policy->valid_range);
  for (const Quantity& valid : policy->valid_values) {
    if (!(valid < *asked)) return valid;
  }
  return *asked;
}

bool violates(const model::RequestPolicy& policy, const Quantity& taken) {
  if (policy.default_value && *policy.default_value == taken) return false;
  if (policy.valid_range) {
    const model::RequestPolicy::Range& range = *policy.valid_range;
    if (range.max && *range.max < taken) return true;
    if (!range.step) return false;
    const auto amount = amount_of(taken);
    const auto min = amount_of(range.min);
    const auto step = amount_of(*range.step);
    return amount && min && step && *step != 0 && (*amount - *min) % *step != 0;
  }
  const auto& values = policy.valid_values;
  return !values.empty() && std::find(values.begin(), values.end(), taken) == values.end();
}

// The wanted part of the card's memory in whole MiB, at least one.
std::optional<Quantity> part_of_memory(const Shape& shape, int64_t percent) {
  if (shape.memory < 0) return std::nullopt;
  const Amount all = shape.capacities[static_cast<size_t>(shape.memory)].value / kUnit;
  const auto bytes = static_cast<int64_t>(all * percent / 100);
  return Quantity::bytes(std::max(bytes / kMiB, int64_t{1}) * kMiB);
}

}  // namespace

Quantity quantity_of(Amount amount, Quantity::Format format) {
  if (amount % kUnit == 0) return Quantity::from_int(static_cast<int64_t>(amount / kUnit), format);
  return Quantity::parse(std::to_string(static_cast<int64_t>(amount)) + "m").value_or(Quantity());
}

int32_t Shape::find(const std::string& name) const {
  for (size_t i = 0; i < capacities.size(); ++i) {
    if (capacities[i].name == name) return static_cast<int32_t>(i);
  }
  return -1;
}

Result<Shape> make_shape(const model::Device& device) {
  Shape shape;
  shape.shared = device.allow_multiple_allocations;
  for (const auto& [name, capacity] : device.capacity) {
    HEDDLE_TRY(const Amount value, checked_amount(name, capacity.value));
    shape.capacities.push_back({.name = name, .published = capacity, .value = value});
  }
  return shape;
}

Result<Consumption> consume(const Shape& shape, const std::map<std::string, Quantity>& requests,
                            std::optional<int64_t> memory_percent) {
  Consumption result;
  for (const auto& [name, quantity] : requests) {
    if (shape.find(name) < 0) return result;  // this device does not have what is asked; another may
  }
  std::optional<Quantity> memory;
  if (memory_percent) {
    memory = part_of_memory(shape, *memory_percent);
    if (!memory) return result;
  }
  bool fits = true;
  for (size_t i = 0; i < shape.capacities.size(); ++i) {
    const CapacityInfo& capacity = shape.capacities[i];
    const auto found = requests.find(capacity.name);
    const Quantity* asked = found == requests.end() ? nullptr : &found->second;
    if (memory && static_cast<int32_t>(i) == shape.memory) asked = &*memory;
    HEDDLE_TRY(Quantity taken, consumed(capacity, asked));
    HEDDLE_TRY(const Amount amount, checked_amount(capacity.name, taken));
    fits =
        fits && amount <= capacity.value && !(capacity.published.policy && violates(*capacity.published.policy, taken));
    if (static_cast<int32_t>(i) == shape.alone && amount >= capacity.value) result.alone = true;
    result.amounts.push_back(amount);
    result.quantities.push_back(std::move(taken));
  }
  result.possible = fits;
  return result;
}

}  // namespace heddle::allocator
