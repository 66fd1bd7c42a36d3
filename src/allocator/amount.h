// Quantities as numbers that the search adds and compares: whole thousandths in 128 bits, so that every quantity whose
// value is within int64 is exact down to a thousandth and no sum of a search can wrap.
#pragma once

#include <cstdint>
#include <optional>

#include "base/quantity.h"

namespace heddle::allocator {

__extension__ typedef __int128 Amount;

inline constexpr Amount kUnit = 1000;

// Rounded up to a thousandth. Nothing when the value is outside int64.
inline std::optional<Amount> amount_of(const Quantity& quantity) {
  if (const auto milli = quantity.milli_value()) return Amount{*milli};
  if (const auto value = quantity.value()) return Amount{*value} * kUnit;
  return std::nullopt;
}

// The inverse, in the given notation. `amount` must come from sums of amounts within int64 units.
Quantity quantity_of(Amount amount, Quantity::Format format);

}  // namespace heddle::allocator
