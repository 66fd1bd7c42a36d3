#include "allocator/capacity.h"

#include <algorithm>
#include <limits>

namespace heddle::allocator {
namespace {

using Range = model::RequestPolicy::Range;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr Amount kMilli = kUnit / 1000;
constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

tl::unexpected<Error> wrong(const std::string& name, const std::string& what) {
  return fail(Code::kInvalidArgument, "capacity \"" + name + "\": " + what);
}

tl::unexpected<Error> not_representable(const std::string& name, const std::string& what) {
  return wrong(name, "capacity request cannot be represented in the device's range arithmetic: " + what);
}

// The value in thousandths, when it has no finer part.
std::optional<int64_t> exact_milli(const Quantity& quantity) {
  const auto milli = quantity.milli_value();
  if (!milli || quantity.nano_value() != Amount{*milli} * kMilli) return std::nullopt;
  return milli;
}

struct RangeNumbers {
  int64_t asked = 0;
  int64_t min = 0;
  int64_t step = 0;
};

// Nothing when a number is outside int64 in the units of the range.
std::optional<RangeNumbers> numbers_of(const Quantity& asked, const Range& range, const Features& features) {
  const bool milli = counts_in_milli(range, features);
  const auto number = [&](const Quantity& quantity) { return milli ? quantity.milli_value() : quantity.value(); };
  const auto value = milli ? exact_milli(asked) : asked.value();
  const auto min = number(range.min);
  const auto step = number(*range.step);
  if (!value || !min || !step) return std::nullopt;
  return RangeNumbers{*value, *min, *step};
}

// Up to the next step of the range, counted from its minimum.
Result<Quantity> round_up(const std::string& name, const Quantity& asked, const Range& range,
                          const Features& features) {
  if (asked < range.min) return range.min;
  if (!range.step) return asked;
  const auto numbers = numbers_of(asked, range, features);
  if (!numbers) return not_representable(name, "request " + asked.to_string());
  const auto& [value, min, step] = *numbers;
  if (step <= 0) return not_representable(name, "step " + range.step->to_string());
  const Amount added = Amount{value} - min;
  const Amount rounded = min + (added + step - 1) / step * step;
  if (rounded > kLargest) return not_representable(name, "rounding request " + asked.to_string() + " up to a step");
  return quantity_of(rounded * (counts_in_milli(range, features) ? kMilli : kUnit), range.step->format());
}

Result<Quantity> consumed(const CapacityInfo& capacity, const Quantity* asked, const Features& features) {
  const auto& policy = capacity.published.policy;
  if (asked == nullptr) {
    return policy && policy->default_value ? *policy->default_value : capacity.published.value;
  }
  if (!policy) return *asked;
  if (policy->valid_range) return round_up(capacity.name, *asked, *policy->valid_range, features);
  for (const Quantity& valid : policy->valid_values) {
    if (!(valid < *asked)) return valid;
  }
  return *asked;
}

// The wanted part of the card's memory in whole MiB, at least one.
std::optional<Quantity> part_of_memory(const Shape& shape, int64_t percent) {
  if (shape.memory < 0) return std::nullopt;
  const Amount all = shape.capacities[static_cast<size_t>(shape.memory)].value / kUnit;
  const auto bytes = static_cast<int64_t>(all * percent / 100);
  return Quantity::bytes(std::max(bytes / kMiB, int64_t{1}) * kMiB);
}

// What leaves so much of the value that a million times as much still fits in 64 bits.
int32_t shift_of(Amount value) {
  constexpr int32_t kBits = 42;
  int32_t shift = 0;
  while ((value >> shift) >= (Amount{1} << kBits)) ++shift;
  return shift;
}

}  // namespace

bool counts_in_milli(const Range& range, const Features& features) {
  if (!features.fractional_capacity_range || !exact_milli(range.min)) return false;
  if (range.max && !exact_milli(*range.max)) return false;
  if (!range.step) return true;
  const auto step = exact_milli(*range.step);
  return step && *step >= 1;
}

bool violates(const model::RequestPolicy& policy, const Quantity& taken, const Features& features) {
  if (policy.default_value && *policy.default_value == taken) return false;
  if (policy.valid_range) {
    const Range& range = *policy.valid_range;
    if (range.max && *range.max < taken) return true;
    if (!range.step) return false;
    const auto numbers = numbers_of(taken, range, features);
    return !numbers || numbers->step <= 0 || (Amount{numbers->asked} - numbers->min) % numbers->step != 0;
  }
  const auto& values = policy.valid_values;
  return !values.empty() && std::find(values.begin(), values.end(), taken) == values.end();
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
    const auto value = amount_of(capacity.value);
    if (!value) return wrong(name, capacity.value.to_string() + " is too large: it cannot be represented");
    shape.capacities.push_back({.name = name, .published = capacity, .value = *value, .shift = shift_of(*value)});
  }
  return shape;
}

Result<Consumption> consume(const Shape& shape, const std::map<std::string, Quantity>& requests,
                            std::optional<int64_t> memory_percent, const Features& features) {
  Consumption result;
  result.possible = !features.consumable_capacity;
  if (result.possible) return result;
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
    HEDDLE_TRY(Quantity taken, consumed(capacity, asked, features));
    if (taken.sign() < 0) return wrong(capacity.name, "capacity value is negative: " + taken.to_string());
    const auto amount = amount_of(taken);
    if (!amount) return not_representable(capacity.name, taken.to_string());
    fits = fits && *amount <= capacity.value &&
           !(capacity.published.policy && violates(*capacity.published.policy, taken, features));
    if (static_cast<int32_t>(i) == shape.alone && *amount >= capacity.value) result.alone = true;
    result.amounts.push_back(*amount);
    result.quantities.push_back(std::move(taken));
  }
  result.possible = fits;
  return result;
}

}  // namespace heddle::allocator
