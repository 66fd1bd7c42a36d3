// Kubernetes' resource.Quantity: an exact decimal number with the notation that it was written in.
// Source of the grammar and of the canonical form: k8s.io/apimachinery v0.37.2 pkg/api/resource/quantity.go.
//
// Any value that Kubernetes accepts is held exactly, also beyond int64; arithmetic of the allocator uses value() in
// int64 and treats "does not fit" as an error, never as a wrap. Cost: no allocation while the value fits in int64.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace heddle {

__extension__ typedef __int128 Int128;

class Quantity {
 public:
  enum class Format : uint8_t { kDecimalExponent, kBinarySi, kDecimalSi };

  Quantity() = default;  // 0, decimal SI
  static Quantity from_int(int64_t value, Format format = Format::kDecimalSi);
  // Of nano_value(), in the given notation.
  static Quantity from_nano(Int128 nano, Format format);
  static Quantity bytes(int64_t value) { return from_int(value, Format::kBinarySi); }

  // Errors: kInvalidArgument, with what is wrong in the text.
  static Result<Quantity> parse(std::string_view text);

  // The value rounded up to a whole number, as Quantity.Value() of Kubernetes; nothing when it is outside int64.
  [[nodiscard]] std::optional<int64_t> value() const;
  // The value in thousandths rounded up, as MilliValue(); nothing when it is outside int64.
  [[nodiscard]] std::optional<int64_t> milli_value() const;
  // The value in billionths, exact: nothing finer is ever kept. Nothing when it is outside +-10^28 units.
  [[nodiscard]] std::optional<Int128> nano_value() const;
  // True when the value is a whole number.
  [[nodiscard]] bool is_integer() const;
  [[nodiscard]] int sign() const;  // -1, 0, 1
  [[nodiscard]] Format format() const { return format_; }

  // The text that Kubernetes' String() gives: "3000Mi", "1500m", "12M", "1e3". One difference: a decimal value that
  // needs a suffix beyond E is written with zeros ("1000E"), where upstream drops the exponent and so the value.
  [[nodiscard]] std::string to_string() const;

  // Exact; the notation is this one's, or the other's when this is 0, as Quantity.Add() has it. Nothing when the sum
  // would need more than some thousand digits.
  [[nodiscard]] std::optional<Quantity> plus(const Quantity& other) const;
  [[nodiscard]] Quantity negated() const;
  // The nearest double, as AsApproximateFloat64().
  [[nodiscard]] double approximate() const;

  // By value, exactly; the notation does not matter.
  [[nodiscard]] int compare(const Quantity& other) const;
  friend bool operator==(const Quantity& a, const Quantity& b) { return a.compare(b) == 0; }
  friend bool operator<(const Quantity& a, const Quantity& b) { return a.compare(b) < 0; }

 private:
  [[nodiscard]] std::string_view big() const;

  // value = unscaled_ * 10^scale_ while big() is empty, else sign and decimal digits in big() times 10^scale_; then
  // unscaled_ has the sign only. literal_: big_ is not a number but the text that Kubernetes gives back as it came
  // ("1.500", "+5"), and the value is in unscaled_.
  int64_t unscaled_ = 0;
  int32_t scale_ = 0;
  Format format_ = Format::kDecimalSi;
  bool literal_ = false;
  std::string big_;
};

}  // namespace heddle
