#include "base/quantity.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <utility>

#include "base/text.h"

namespace heddle {
namespace {

constexpr std::string_view kSuffixLetters = "eEinumkKMGTP";
constexpr int32_t kNano = -9;
constexpr int32_t kInt64Digits = 18;  // any number of so many digits fits

// A number as text: sign, digits without leading zeros (none: zero), times 10^scale.
struct Decimal {
  bool negative = false;
  std::string digits;
  int64_t scale = 0;
};

std::optional<int64_t> times_power_of_ten(int64_t value, int64_t power) {
  if (value == 0) return 0;
  if (power > kInt64Digits) return std::nullopt;
  for (; power > 0; --power) {
    if (__builtin_mul_overflow(value, int64_t{10}, &value)) return std::nullopt;
  }
  return value;
}

// value / 10^power, away from zero.
int64_t divided_by_power_of_ten(int64_t value, int64_t power) {
  bool fraction = false;
  const bool negative = value < 0;
  for (; power > 0 && value != 0; --power) {
    fraction = fraction || value % 10 != 0;
    value /= 10;
  }
  if (fraction) value += negative ? -1 : 1;
  return value;
}

std::string magnitude_digits(int64_t value) {
  if (value == 0) return {};
  std::string text = std::to_string(value);
  if (text.front() == '-') text.erase(0, 1);
  return text;
}

void double_digits(std::string& digits) {
  int carry = 0;
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit) {
    const int twice = (*digit - '0') * 2 + carry;
    *digit = static_cast<char>('0' + twice % 10);
    carry = twice / 10;
  }
  if (carry != 0) digits.insert(digits.begin(), static_cast<char>('0' + carry));
}

void increment_digits(std::string& digits) {
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit) {
    if (*digit != '9') {
      ++*digit;
      return;
    }
    *digit = '0';
  }
  digits.insert(digits.begin(), '1');
}

void strip_leading_zeros(std::string& digits) {
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
}

void strip_trailing_zeros(Decimal& number) {
  while (!number.digits.empty() && number.digits.back() == '0') {
    number.digits.pop_back();
    ++number.scale;
  }
  if (number.digits.empty()) number.scale = 0;
}

// Nothing smaller than a nano is kept: what is asked beyond is rounded away from zero.
void round_to_nano(Decimal& number) {
  if (number.scale >= kNano || number.digits.empty()) return;
  const auto cut = static_cast<uint64_t>(kNano - number.scale);
  const size_t keep = cut >= number.digits.size() ? 0 : number.digits.size() - cut;
  const bool fraction = number.digits.find_first_not_of('0', keep) != std::string::npos;
  number.digits.resize(keep);
  number.scale = kNano;
  if (fraction) increment_digits(number.digits);
}

int compare_magnitude(const Decimal& a, const Decimal& b) {
  if (a.digits.empty() || b.digits.empty()) {
    return static_cast<int>(!a.digits.empty()) - static_cast<int>(!b.digits.empty());
  }
  const int64_t a_top = static_cast<int64_t>(a.digits.size()) + a.scale;
  const int64_t b_top = static_cast<int64_t>(b.digits.size()) + b.scale;
  if (a_top != b_top) return a_top < b_top ? -1 : 1;
  const size_t length = std::max(a.digits.size(), b.digits.size());
  for (size_t i = 0; i < length; ++i) {
    const char left = i < a.digits.size() ? a.digits[i] : '0';
    const char right = i < b.digits.size() ? b.digits[i] : '0';
    if (left != right) return left < right ? -1 : 1;
  }
  return 0;
}

std::optional<int64_t> to_int64(bool negative, std::string_view digits) {
  if (digits.empty()) return 0;
  std::string text(digits);
  if (negative) text.insert(text.begin(), '-');
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

struct Suffix {
  int base = 10;
  int32_t exponent = 0;
  Quantity::Format format = Quantity::Format::kDecimalSi;
};

std::optional<Suffix> interpret_suffix(std::string_view text) {
  using Format = Quantity::Format;
  static constexpr std::array<std::pair<std::string_view, Suffix>, 16> kTable = {{
      {"", {10, 0, Format::kDecimalSi}},
      {"n", {10, -9, Format::kDecimalSi}},
      {"u", {10, -6, Format::kDecimalSi}},
      {"m", {10, -3, Format::kDecimalSi}},
      {"k", {10, 3, Format::kDecimalSi}},
      {"M", {10, 6, Format::kDecimalSi}},
      {"G", {10, 9, Format::kDecimalSi}},
      {"T", {10, 12, Format::kDecimalSi}},
      {"P", {10, 15, Format::kDecimalSi}},
      {"E", {10, 18, Format::kDecimalSi}},
      {"Ki", {2, 10, Format::kBinarySi}},
      {"Mi", {2, 20, Format::kBinarySi}},
      {"Gi", {2, 30, Format::kBinarySi}},
      {"Ti", {2, 40, Format::kBinarySi}},
      {"Pi", {2, 50, Format::kBinarySi}},
      {"Ei", {2, 60, Format::kBinarySi}},
  }};
  for (const auto& [name, suffix] : kTable) {
    if (name == text) return suffix;
  }
  if (text.size() < 2 || (text[0] != 'e' && text[0] != 'E')) return std::nullopt;
  std::string_view number = text.substr(1);
  if (number.front() == '+') number.remove_prefix(1);
  if (number.empty() || number.front() == '+') return std::nullopt;
  int64_t exponent = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), exponent);
  if (error != std::errc{} || end != number.data() + number.size()) return std::nullopt;
  // Upstream keeps the low 32 bits; the same text must mean the same number here.
  return Suffix{10, static_cast<int32_t>(exponent), Format::kDecimalExponent};
}

struct Parts {
  bool negative = false;
  bool any_digit = false;
  std::string_view whole;     // without leading zeros; may be empty
  std::string_view fraction;  // behind the point
  std::string_view suffix;
};

std::string_view take_while_digit(std::string_view& text) {
  const size_t length = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string_view digits = text.substr(0, length);
  text.remove_prefix(length);
  return digits;
}

std::optional<Parts> split(std::string_view text) {
  Parts parts;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    parts.negative = text[0] == '-';
    text.remove_prefix(1);
  }
  const size_t zeros = std::min(text.find_first_not_of('0'), text.size());
  text.remove_prefix(zeros);
  parts.whole = take_while_digit(text);
  if (!text.empty() && text[0] == '.') {
    text.remove_prefix(1);
    parts.fraction = take_while_digit(text);
  }
  parts.any_digit = zeros + parts.whole.size() + parts.fraction.size() > 0;
  const std::string_view suffix = text;
  text.remove_prefix(std::min(text.find_first_not_of(kSuffixLetters), text.size()));
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  take_while_digit(text);
  if (!text.empty()) return std::nullopt;
  parts.suffix = suffix;
  return parts;
}

// What upstream reads with plain int64 arithmetic; the limits are upstream's, because they decide which texts it keeps.
struct Small {
  int64_t mantissa = 0;  // as written, without the sign
  int64_t unscaled = 0;
  int32_t scale = 0;
};

std::optional<Small> read_small(const Parts& parts, const Suffix& suffix) {
  const auto whole = static_cast<int64_t>(std::max<size_t>(parts.whole.size(), 1));
  const auto fraction = static_cast<int64_t>(parts.fraction.size());
  int64_t scale = 0;
  int64_t multiplier = 1;
  if (suffix.base == 10) {
    if (whole + fraction > kInt64Digits) return std::nullopt;
    scale = int64_t{suffix.exponent} - fraction;
  } else {
    if (fraction != 0 || 15 - whole - suffix.exponent * 3 / 10 - 1 < 0) return std::nullopt;
    multiplier = int64_t{1} << suffix.exponent;
  }
  if (scale < kNano || scale > std::numeric_limits<int32_t>::max()) return std::nullopt;
  Small small{.scale = static_cast<int32_t>(scale)};
  for (const char c : parts.whole) small.mantissa = small.mantissa * 10 + (c - '0');
  for (const char c : parts.fraction) small.mantissa = small.mantissa * 10 + (c - '0');
  if (__builtin_mul_overflow(small.mantissa, multiplier, &small.unscaled)) return std::nullopt;
  if (parts.negative) small.unscaled = -small.unscaled;
  return small;
}

// True where upstream gives back the text as it was written instead of the canonical form.
bool keeps_text(const Parts& parts, const Suffix& suffix, const Small& small) {
  if (suffix.base == 2) return (small.mantissa & 0x07) != 0;
  std::string shifted = std::string(parts.whole.empty() ? "0" : parts.whole) + std::string(parts.fraction);
  return small.scale % 3 == 0 && !shifted.ends_with("000") && shifted.front() != '0';
}

std::string with_decimal_suffix(Decimal number, Quantity::Format format) {
  strip_trailing_zeros(number);
  while (number.scale % 3 != 0) {
    number.digits.push_back('0');
    --number.scale;
  }
  std::string text = number.negative ? "-" : "";
  if (format == Quantity::Format::kDecimalExponent) {
    text += number.digits;
    return number.scale == 0 ? text : text + "e" + std::to_string(number.scale);
  }
  // There is no suffix beyond E; zeros keep the value.
  while (number.scale > kInt64Digits) {
    number.digits.append("000");
    number.scale -= 3;
  }
  static constexpr std::array<std::string_view, 10> kSuffixes = {"n", "u", "m", "", "k", "M", "G", "T", "P", "E"};
  text += number.digits;
  text += kSuffixes[static_cast<size_t>((number.scale - kNano) / 3)];
  return text;
}

std::string with_binary_suffix(int64_t value) {
  static constexpr std::array<std::string_view, 7> kSuffixes = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
  size_t power = 0;
  while (value % 1024 == 0) {
    value /= 1024;
    ++power;
  }
  return std::to_string(value) + std::string(kSuffixes[power]);
}

}  // namespace

Quantity Quantity::from_int(int64_t value, Format format) {
  Quantity quantity;
  quantity.unscaled_ = value;
  quantity.format_ = format;
  return quantity;
}

Result<Quantity> Quantity::parse(std::string_view text) {
  const auto wrong = [&](std::string_view what) {
    return fail(Code::kInvalidArgument, "quantity \"" + cut_text(text, 64) + "\": " + std::string(what));
  };
  if (text.empty()) return wrong("is empty; write a number such as 500m, 2 or 16Gi");
  const auto parts = split(text);
  if (!parts) return wrong("is not a number with a suffix; write a number such as 500m, 2 or 16Gi");
  const auto suffix = interpret_suffix(parts->suffix);
  if (!suffix) {
    return wrong("has the unknown suffix \"" + std::string(parts->suffix) +
                 "\"; suffixes are n u m k M G T P E, Ki Mi Gi Ti Pi Ei and e<exponent>");
  }
  Quantity quantity;
  quantity.format_ = suffix->format;
  if (const auto small = read_small(*parts, *suffix)) {
    quantity.unscaled_ = small->unscaled;
    quantity.scale_ = small->unscaled == 0 ? 0 : small->scale;
    if (keeps_text(*parts, *suffix, *small)) {
      std::string kept(text);
      quantity.literal_ = quantity.to_string() != kept;
      if (quantity.literal_) quantity.big_ = std::move(kept);
    }
    return quantity;
  }

  // Upstream takes "Ki" as 0 on its fast path, and refuses "Ei" here.
  if (!parts->any_digit) return wrong("has no digits; write a number such as 500m, 2 or 16Gi");
  Decimal number{.negative = parts->negative, .digits = std::string(parts->whole) + std::string(parts->fraction)};
  number.scale = -static_cast<int64_t>(parts->fraction.size());
  strip_leading_zeros(number.digits);
  if (suffix->base == 10) number.scale += suffix->exponent;
  for (int32_t i = 0; suffix->base == 2 && i < suffix->exponent; ++i) double_digits(number.digits);
  round_to_nano(number);
  if (suffix->base == 2) {
    const Decimal largest{.digits = std::to_string(std::numeric_limits<int64_t>::max())};
    if (compare_magnitude(number, largest) > 0) {
      number.digits = largest.digits;
      number.scale = 0;
    }
    // A fraction of one is shown in decimal, as upstream decides here for positive numbers only.
    if (!number.negative && compare_magnitude(number, Decimal{.digits = "1"}) < 0) {
      quantity.format_ = Format::kDecimalSi;
    }
  }
  strip_trailing_zeros(number);
  if (number.scale > std::numeric_limits<int32_t>::max()) return wrong("has an exponent that is too large");
  quantity.scale_ = static_cast<int32_t>(number.scale);
  if (const auto unscaled = to_int64(number.negative, number.digits)) {
    quantity.unscaled_ = *unscaled;
  } else {
    quantity.unscaled_ = number.negative ? -1 : 1;
    quantity.big_ = (number.negative ? "-" : "") + number.digits;
  }
  return quantity;
}

namespace {

Decimal to_decimal(int64_t unscaled, int32_t scale, std::string_view big) {
  if (big.empty()) return {.negative = unscaled < 0, .digits = magnitude_digits(unscaled), .scale = scale};
  const bool negative = big.front() == '-';
  return {.negative = negative, .digits = std::string(big.substr(negative ? 1 : 0)), .scale = scale};
}

std::optional<int64_t> scaled(const Decimal& number, int64_t target) {
  if (number.scale >= target) return std::nullopt;  // more than 18 digits already: only division can make it fit
  const auto cut = static_cast<uint64_t>(target - number.scale);
  const size_t keep = cut >= number.digits.size() ? 0 : number.digits.size() - cut;
  std::string digits = number.digits.substr(0, keep);
  if (number.digits.find_first_not_of('0', keep) != std::string::npos) increment_digits(digits);
  strip_leading_zeros(digits);
  return to_int64(number.negative, digits);
}

std::optional<int64_t> scaled(int64_t unscaled, int32_t scale, int64_t target) {
  if (scale >= target) return times_power_of_ten(unscaled, scale - target);
  return divided_by_power_of_ten(unscaled, target - scale);
}

}  // namespace

std::string_view Quantity::big() const {
  return literal_ ? std::string_view() : std::string_view(big_);
}

std::optional<int64_t> Quantity::value() const {
  if (big().empty()) return scaled(unscaled_, scale_, 0);
  return scaled(to_decimal(unscaled_, scale_, big()), 0);
}

std::optional<int64_t> Quantity::milli_value() const {
  if (big().empty()) return scaled(unscaled_, scale_, -3);
  return scaled(to_decimal(unscaled_, scale_, big()), -3);
}

std::optional<Int128> Quantity::nano_value() const {
  constexpr size_t kMostDigits = 37;  // 10^28 units in billionths
  const std::string digits(big().empty() ? std::string_view() : big().substr(big().front() == '-' ? 1 : 0));
  const int64_t zeros = int64_t{scale_} - kNano;
  if (sign() == 0) return Int128{0};
  const size_t length = digits.empty() ? magnitude_digits(unscaled_).size() : digits.size();
  if (zeros < 0 || length + static_cast<uint64_t>(zeros) > kMostDigits) return std::nullopt;
  Int128 value = digits.empty() ? Int128{unscaled_} : 0;
  for (const char digit : digits) value = value * 10 + (digit - '0');
  for (int64_t i = 0; i < zeros; ++i) value *= 10;
  return !digits.empty() && sign() < 0 ? -value : value;
}

Quantity Quantity::from_nano(Int128 nano, Format format) {
  constexpr Int128 kUnit = 1'000'000'000;
  const Int128 whole = nano / kUnit;
  const bool small = whole >= std::numeric_limits<int64_t>::min() && whole <= std::numeric_limits<int64_t>::max();
  if (nano % kUnit == 0 && small) return from_int(static_cast<int64_t>(whole), format);
  Decimal number{.negative = nano < 0, .digits = {}, .scale = kNano};
  for (Int128 rest = nano < 0 ? -nano : nano; rest != 0; rest /= 10) {
    number.digits.push_back(static_cast<char>('0' + static_cast<int>(rest % 10)));
  }
  std::reverse(number.digits.begin(), number.digits.end());
  strip_trailing_zeros(number);
  Quantity quantity;
  quantity.format_ = format;
  quantity.scale_ = static_cast<int32_t>(number.scale);
  if (const auto unscaled = to_int64(number.negative, number.digits)) {
    quantity.unscaled_ = *unscaled;
  } else {
    quantity.unscaled_ = number.negative ? -1 : 1;
    quantity.big_ = (number.negative ? "-" : "") + number.digits;
  }
  return quantity;
}

bool Quantity::is_integer() const {
  if (scale_ >= 0) return true;
  if (!big().empty()) return false;  // trailing zeros were taken off
  return compare(from_int(divided_by_power_of_ten(unscaled_, -int64_t{scale_}))) == 0;
}

int Quantity::sign() const {
  return unscaled_ < 0 ? -1 : static_cast<int>(unscaled_ > 0);
}

std::string Quantity::to_string() const {
  if (literal_) return big_;
  if (sign() == 0) return "0";
  if (format_ == Format::kBinarySi) {
    const bool small = compare(from_int(-1024)) > 0 && compare(from_int(1024)) < 0;
    const auto whole = value();
    if (!small && whole && is_integer()) return with_binary_suffix(*whole);
    return with_decimal_suffix(to_decimal(unscaled_, scale_, big()), Format::kDecimalSi);
  }
  return with_decimal_suffix(to_decimal(unscaled_, scale_, big()), format_);
}

int Quantity::compare(const Quantity& other) const {
  if (big().empty() && other.big().empty()) {
    if (scale_ == other.scale_) return unscaled_ < other.unscaled_ ? -1 : static_cast<int>(unscaled_ > other.unscaled_);
    const int32_t low = std::min(scale_, other.scale_);
    const auto left = times_power_of_ten(unscaled_, int64_t{scale_} - low);
    const auto right = times_power_of_ten(other.unscaled_, int64_t{other.scale_} - low);
    if (left && right) return *left < *right ? -1 : static_cast<int>(*left > *right);
  }
  if (sign() != other.sign()) return sign() < other.sign() ? -1 : 1;
  const int magnitude =
      compare_magnitude(to_decimal(unscaled_, scale_, big()), to_decimal(other.unscaled_, other.scale_, other.big()));
  return sign() < 0 ? -magnitude : magnitude;
}

namespace {

constexpr int64_t kLongestSum = 4096;

// The larger minus the smaller magnitude, or their sum; both with the same scale and the same number of digits.
std::string add_digits(const std::string& a, const std::string& b) {
  std::string sum(a.size(), '0');
  int carry = 0;
  for (size_t i = a.size(); i-- > 0;) {
    const int digit = (a[i] - '0') + (b[i] - '0') + carry;
    sum[i] = static_cast<char>('0' + digit % 10);
    carry = digit / 10;
  }
  if (carry != 0) sum.insert(sum.begin(), '1');
  return sum;
}

std::string subtract_digits(const std::string& larger, const std::string& smaller) {
  std::string difference(larger.size(), '0');
  int borrow = 0;
  for (size_t i = larger.size(); i-- > 0;) {
    int digit = larger[i] - smaller[i] - borrow;
    borrow = digit < 0 ? 1 : 0;
    digit += borrow * 10;
    difference[i] = static_cast<char>('0' + digit);
  }
  return difference;
}

std::optional<Decimal> sum_of(Decimal a, Decimal b) {
  if (a.digits.empty()) return b;
  if (b.digits.empty()) return a;
  const int64_t scale = std::min(a.scale, b.scale);
  for (Decimal* number : {&a, &b}) {
    const int64_t zeros = number->scale - scale;
    if (zeros > kLongestSum) return std::nullopt;
    number->digits.append(static_cast<size_t>(zeros), '0');
    number->scale = scale;
  }
  const bool a_larger = compare_magnitude(a, b) >= 0;
  const size_t length = std::max(a.digits.size(), b.digits.size());
  for (Decimal* number : {&a, &b}) number->digits.insert(0, length - number->digits.size(), '0');
  Decimal sum{.negative = a_larger ? a.negative : b.negative, .digits = {}, .scale = scale};
  if (a.negative == b.negative) {
    sum.digits = add_digits(a.digits, b.digits);
  } else {
    sum.digits = a_larger ? subtract_digits(a.digits, b.digits) : subtract_digits(b.digits, a.digits);
  }
  strip_leading_zeros(sum.digits);
  strip_trailing_zeros(sum);
  return sum;
}

}  // namespace

std::optional<Quantity> Quantity::plus(const Quantity& other) const {
  const auto sum = sum_of(to_decimal(unscaled_, scale_, big()), to_decimal(other.unscaled_, other.scale_, other.big()));
  if (!sum) return std::nullopt;
  Quantity result;
  result.format_ = sign() == 0 ? other.format_ : format_;
  if (sum->digits.empty()) return result;
  result.scale_ = static_cast<int32_t>(sum->scale);
  if (const auto unscaled = to_int64(sum->negative, sum->digits)) {
    result.unscaled_ = *unscaled;
  } else {
    result.unscaled_ = sum->negative ? -1 : 1;
    result.big_ = (sum->negative ? "-" : "") + sum->digits;
  }
  return result;
}

Quantity Quantity::negated() const {
  Quantity result;
  result.format_ = format_;
  if (sign() == 0) return result;
  result.scale_ = scale_;
  Decimal number = to_decimal(unscaled_, scale_, big());
  if (const auto unscaled = to_int64(!number.negative, number.digits)) {
    result.unscaled_ = *unscaled;
  } else {
    result.unscaled_ = number.negative ? 1 : -1;
    result.big_ = (number.negative ? "" : "-") + number.digits;
  }
  return result;
}

double Quantity::approximate() const {
  const Decimal number = to_decimal(unscaled_, scale_, big());
  const std::string text =
      (number.negative ? "-" : "") + (number.digits.empty() ? "0" : number.digits) + "e" + std::to_string(number.scale);
  return std::strtod(text.c_str(), nullptr);
}

}  // namespace heddle
