// Quantities as numbers that the search adds and compares: whole billionths in 128 bits. Nothing finer is ever kept by
// a quantity, so every amount is exact, and no sum of a search can wrap: an amount is within 10^28 units.
#pragma once

#include <cstdint>
#include <optional>

#include "base/quantity.h"

namespace heddle::allocator {

using Amount = Int128;

inline constexpr Amount kUnit = 1'000'000'000;

// Nothing when the value is outside +-10^28.
inline std::optional<Amount> amount_of(const Quantity& quantity) {
  return quantity.nano_value();
}

// The inverse, in the given notation.
inline Quantity quantity_of(Amount amount, Quantity::Format format) {
  return Quantity::from_nano(amount, format);
}

}  // namespace heddle::allocator
