// Arithmetic of estimates: ranges of costs and of sizes, which never wrap.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace heddle::cel {

inline constexpr uint64_t kUnbounded = UINT64_MAX;

inline uint64_t add_bounded(uint64_t a, uint64_t b) {
  return a > kUnbounded - b ? kUnbounded : a + b;
}
inline uint64_t multiply_bounded(uint64_t a, uint64_t b) {
  return b != 0 && a > kUnbounded / b ? kUnbounded : a * b;
}
// Rounded up.
inline uint64_t scale_bounded(uint64_t a, double factor) {
  constexpr double kTwoTo64 = 18446744073709551616.0;
  const double product = std::ceil(static_cast<double>(a) * factor);
  return product >= kTwoTo64 ? kUnbounded : static_cast<uint64_t>(product);
}

// A cost, or the size of a text, list or map.
struct Span {
  uint64_t min = 0;
  uint64_t max = 0;

  static Span of(uint64_t exact) { return {exact, exact}; }
  static Span unknown() { return {0, kUnbounded}; }

  [[nodiscard]] Span plus(Span other) const { return {add_bounded(min, other.min), add_bounded(max, other.max)}; }
  [[nodiscard]] Span times(Span other) const {
    return {multiply_bounded(min, other.min), multiply_bounded(max, other.max)};
  }
  [[nodiscard]] Span scaled(double factor) const { return {scale_bounded(min, factor), scale_bounded(max, factor)}; }
  [[nodiscard]] Span joined(Span other) const { return {std::min(min, other.min), std::max(max, other.max)}; }
};

}  // namespace heddle::cel
