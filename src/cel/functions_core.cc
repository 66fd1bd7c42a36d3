// Operators and conversions (cel-go v0.29.2 common/types).
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "cel/functions.h"
#include "cel/type.h"

namespace heddle::cel {

namespace {

using Args = std::span<const Value>;

constexpr std::string_view kIntOverflow = "integer overflow";
constexpr std::string_view kUintOverflow = "unsigned integer overflow";
constexpr std::string_view kDurationOverflow = "duration overflow";
constexpr std::string_view kTimestampOverflow = "timestamp overflow";
constexpr int64_t kNanosPerSecond = 1'000'000'000;
constexpr int64_t kMinTimestamp = -62135596800;  // 0001-01-01
constexpr int64_t kMaxTimestamp = 253402300799;  // 9999-12-31

Value shift_timestamp(const Value& timestamp, int64_t nanos) {
  int64_t seconds = 0;
  int64_t fraction = static_cast<int64_t>(timestamp.nanos()) + nanos % kNanosPerSecond;
  int64_t carry = fraction < 0 ? -1 : fraction / kNanosPerSecond;
  fraction -= carry * kNanosPerSecond;
  if (__builtin_add_overflow(timestamp.seconds(), nanos / kNanosPerSecond + carry, &seconds) ||
      seconds < kMinTimestamp || seconds > kMaxTimestamp)
    return Value::error(kTimestampOverflow);
  return Value::timestamp(seconds, static_cast<uint32_t>(fraction));
}

Value concat_text(Evaluation& e, const Value& a, const Value& b) {
  size_t size = a.as_text().size() + b.as_text().size();
  char* memory = e.arena().array<char>(size);
  if (memory == nullptr) return Value::error("out of memory");
  a.as_text().copy(memory, a.as_text().size());
  b.as_text().copy(memory + a.as_text().size(), b.as_text().size());
  std::string_view text(memory, size);
  return a.is(Kind::kString) ? Value::string(text) : Value::bytes(text);
}

Value concat_lists(Evaluation& e, const Value& a, const Value& b) {
  List* made = e.new_list(a.as_list().size + b.as_list().size);
  if (made == nullptr) return Value::error("out of memory");
  std::copy_n(a.as_list().items, a.as_list().size, made->items);
  std::copy_n(b.as_list().items, b.as_list().size, made->items + a.as_list().size);
  return Value::list(made);
}

Value add_same_kind(Evaluation& e, const Value& a, const Value& b) {
  switch (a.kind()) {
    case Kind::kInt: {
      int64_t sum = 0;
      return __builtin_add_overflow(a.as_int(), b.as_int(), &sum) ? Value::error(kIntOverflow) : Value::integer(sum);
    }
    case Kind::kUint: {
      uint64_t sum = 0;
      return __builtin_add_overflow(a.as_uint(), b.as_uint(), &sum) ? Value::error(kUintOverflow)
                                                                    : Value::unsigned_integer(sum);
    }
    case Kind::kDouble:
      return Value::real(a.as_double() + b.as_double());
    case Kind::kString:
    case Kind::kBytes:
      return concat_text(e, a, b);
    case Kind::kList:
      return concat_lists(e, a, b);
    case Kind::kDuration: {
      int64_t sum = 0;
      return __builtin_add_overflow(a.as_int(), b.as_int(), &sum) ? Value::error(kDurationOverflow)
                                                                  : Value::duration(sum);
    }
    default:
      return e.no_overload();
  }
}

Value add(Evaluation& e, Args args) {
  return add_values(e, args[0], args[1]);
}

Value subtract(Evaluation& e, Args args) {
  const Value& a = args[0];
  const Value& b = args[1];
  int64_t result = 0;
  if (a.is(Kind::kTimestamp) && b.is(Kind::kDuration)) {
    if (b.as_int() == INT64_MIN) return Value::error(kTimestampOverflow);
    return shift_timestamp(a, -b.as_int());
  }
  if (a.kind() != b.kind()) return e.no_overload();
  switch (a.kind()) {
    case Kind::kInt:
      return __builtin_sub_overflow(a.as_int(), b.as_int(), &result) ? Value::error(kIntOverflow)
                                                                     : Value::integer(result);
    case Kind::kUint:
      return a.as_uint() < b.as_uint() ? Value::error(kUintOverflow)
                                       : Value::unsigned_integer(a.as_uint() - b.as_uint());
    case Kind::kDouble:
      return Value::real(a.as_double() - b.as_double());
    case Kind::kDuration:
      return __builtin_sub_overflow(a.as_int(), b.as_int(), &result) ? Value::error(kDurationOverflow)
                                                                     : Value::duration(result);
    case Kind::kTimestamp: {
      int64_t nanos = static_cast<int64_t>(a.nanos()) - static_cast<int64_t>(b.nanos());
      if (__builtin_mul_overflow(a.seconds() - b.seconds(), kNanosPerSecond, &result) ||
          __builtin_add_overflow(result, nanos, &result))
        return Value::error(kDurationOverflow);
      return Value::duration(result);
    }
    default:
      return e.no_overload();
  }
}

Value multiply(Evaluation& e, Args args) {
  const Value& a = args[0];
  const Value& b = args[1];
  if (a.is(Kind::kInt) && b.is(Kind::kInt)) {
    int64_t product = 0;
    return __builtin_mul_overflow(a.as_int(), b.as_int(), &product) ? Value::error(kIntOverflow)
                                                                    : Value::integer(product);
  }
  if (a.is(Kind::kUint) && b.is(Kind::kUint)) {
    uint64_t product = 0;
    return __builtin_mul_overflow(a.as_uint(), b.as_uint(), &product) ? Value::error(kUintOverflow)
                                                                      : Value::unsigned_integer(product);
  }
  if (a.is(Kind::kDouble) && b.is(Kind::kDouble)) return Value::real(a.as_double() * b.as_double());
  return e.no_overload();
}

Value divide(Evaluation& e, Args args) {
  const Value& a = args[0];
  const Value& b = args[1];
  if (a.is(Kind::kInt) && b.is(Kind::kInt)) {
    if (b.as_int() == 0) return Value::error("division by zero");
    if (a.as_int() == INT64_MIN && b.as_int() == -1) return Value::error(kIntOverflow);
    return Value::integer(a.as_int() / b.as_int());
  }
  if (a.is(Kind::kUint) && b.is(Kind::kUint))
    return b.as_uint() == 0 ? Value::error("division by zero") : Value::unsigned_integer(a.as_uint() / b.as_uint());
  if (a.is(Kind::kDouble) && b.is(Kind::kDouble)) return Value::real(a.as_double() / b.as_double());
  return e.no_overload();
}

Value modulo(Evaluation& e, Args args) {
  const Value& a = args[0];
  const Value& b = args[1];
  if (a.is(Kind::kInt) && b.is(Kind::kInt)) {
    if (b.as_int() == 0) return Value::error("modulus by zero");
    if (a.as_int() == INT64_MIN && b.as_int() == -1) return Value::error(kIntOverflow);
    return Value::integer(a.as_int() % b.as_int());
  }
  if (a.is(Kind::kUint) && b.is(Kind::kUint))
    return b.as_uint() == 0 ? Value::error("modulus by zero") : Value::unsigned_integer(a.as_uint() % b.as_uint());
  return e.no_overload();
}

Value negate(Evaluation& e, Args args) {
  if (args[0].is(Kind::kDouble)) return Value::real(-args[0].as_double());
  if (!args[0].is(Kind::kInt)) return e.no_overload();
  return args[0].as_int() == INT64_MIN ? Value::error(kIntOverflow) : Value::integer(-args[0].as_int());
}

Value logical_not(Evaluation& e, Args args) {
  return args[0].is(Kind::kBool) ? Value::boolean(!args[0].as_bool()) : e.no_overload();
}

Value equals(Evaluation&, Args args) {
  return Value::boolean(equal(args[0], args[1]));
}
Value not_equals(Evaluation&, Args args) {
  return Value::boolean(!equal(args[0], args[1]));
}

template <bool kLess, bool kEqual, bool kGreater>
Value ordered(Evaluation& e, Args args) {
  // Kubernetes' own types have methods for their order, not operators.
  if (args[0].is(Kind::kQuantity) || args[0].is(Kind::kSemver)) return e.no_overload();
  switch (compare(args[0], args[1])) {
    case Order::kLess:
      return Value::boolean(kLess);
    case Order::kEqual:
      return Value::boolean(kEqual);
    case Order::kGreater:
      return Value::boolean(kGreater);
    case Order::kUnordered:
      return Value::error("NaN values cannot be ordered");
    case Order::kNone:
      break;
  }
  return e.no_overload();
}

Value size(Evaluation& e, Args args) {
  switch (args[0].kind()) {
    case Kind::kString:
    case Kind::kBytes:
    case Kind::kList:
    case Kind::kMap:
      return Value::integer(value_size(args[0]));
    default:
      return e.no_overload();
  }
}

Value in(Evaluation& e, Args args) {
  if (args[1].is(Kind::kMap)) return Value::boolean(args[1].as_map().contains(args[0]));
  if (!args[1].is(Kind::kList)) return e.no_overload();
  const List& list = args[1].as_list();
  for (size_t i = 0; i < list.size; ++i)
    if (equal(list.items[i], args[0])) return Value::boolean(true);
  return Value::boolean(false);
}

Value double_to_int(double value) {
  if (std::isnan(value) || value >= 9223372036854775807.0 || value <= -9223372036854775808.0)
    return Value::error(kIntOverflow);
  return Value::integer(static_cast<int64_t>(value));
}

Value to_int(Evaluation& e, Args args) {
  const Value& v = args[0];
  switch (v.kind()) {
    case Kind::kInt:
      return v;
    case Kind::kUint:
      return v.as_uint() > INT64_MAX ? Value::error(kIntOverflow) : Value::integer(static_cast<int64_t>(v.as_uint()));
    case Kind::kDouble:
      return double_to_int(v.as_double());
    case Kind::kTimestamp:
      return Value::integer(v.seconds());
    case Kind::kDuration:
      return Value::integer(v.as_int() / kNanosPerSecond);
    case Kind::kString: {
      std::string_view text = v.as_text();
      std::string_view digits = !text.empty() && text[0] == '+' ? text.substr(1) : text;
      int64_t number = 0;
      auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
      bool whole = error == std::errc() && end == digits.data() + digits.size() &&
                   !(digits.size() < text.size() && digits[0] == '-');
      return whole ? Value::integer(number)
                   : e.error(fmt::format("strconv.ParseInt: parsing \"{}\": invalid syntax", text));
    }
    default:
      return e.no_overload();
  }
}

Value to_uint(Evaluation& e, Args args) {
  const Value& v = args[0];
  switch (v.kind()) {
    case Kind::kUint:
      return v;
    case Kind::kInt:
      return v.as_int() < 0 ? Value::error(kUintOverflow) : Value::unsigned_integer(static_cast<uint64_t>(v.as_int()));
    case Kind::kDouble:
      if (std::isnan(v.as_double()) || v.as_double() < 0 || v.as_double() >= 18446744073709551615.0)
        return Value::error(kUintOverflow);
      return Value::unsigned_integer(static_cast<uint64_t>(v.as_double()));
    case Kind::kString: {
      uint64_t number = 0;
      std::string_view text = v.as_text();
      auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
      bool whole = error == std::errc() && end == text.data() + text.size();
      return whole ? Value::unsigned_integer(number)
                   : e.error(fmt::format("strconv.ParseUint: parsing \"{}\": invalid syntax", text));
    }
    default:
      return e.no_overload();
  }
}

Value to_double(Evaluation& e, Args args) {
  const Value& v = args[0];
  switch (v.kind()) {
    case Kind::kDouble:
      return v;
    case Kind::kInt:
      return Value::real(static_cast<double>(v.as_int()));
    case Kind::kUint:
      return Value::real(static_cast<double>(v.as_uint()));
    case Kind::kString: {
      std::string text(v.as_text());
      char* end = nullptr;
      double number = std::strtod(text.c_str(), &end);
      bool whole = !text.empty() && end == text.c_str() + text.size() && text[0] != ' ';
      return whole ? Value::real(number)
                   : e.error(fmt::format("strconv.ParseFloat: parsing \"{}\": invalid syntax", text));
    }
    default:
      return e.no_overload();
  }
}

Value to_bool(Evaluation& e, Args args) {
  if (args[0].is(Kind::kBool)) return args[0];
  if (!args[0].is(Kind::kString)) return e.no_overload();
  std::string_view text = args[0].as_text();
  for (std::string_view yes : {"1", "t", "T", "true", "TRUE", "True"})
    if (text == yes) return Value::boolean(true);
  for (std::string_view no : {"0", "f", "F", "false", "FALSE", "False"})
    if (text == no) return Value::boolean(false);
  return e.error(fmt::format("strconv.ParseBool: parsing \"{}\": invalid syntax", text));
}

Value to_bytes(Evaluation& e, Args args) {
  return args[0].is(Kind::kString) || args[0].is(Kind::kBytes) ? Value::bytes(args[0].as_text()) : e.no_overload();
}

Value to_string(Evaluation& e, Args args) {
  return convert_to_string(e, args[0]);
}
Value to_dyn(Evaluation&, Args args) {
  return args[0];
}

bool valid_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    auto byte = static_cast<unsigned char>(text[i]);
    size_t length = byte < 0x80                   ? 1
                    : byte >= 0xC2 && byte < 0xE0 ? 2
                    : byte >= 0xE0 && byte < 0xF0 ? 3
                    : byte >= 0xF0 && byte < 0xF5 ? 4
                                                  : 0;
    if (length == 0 || i + length > text.size()) return false;
    for (size_t j = 1; j < length; ++j)
      if ((static_cast<unsigned char>(text[i + j]) & 0xC0) != 0x80) return false;
    i += length;
  }
  return true;
}

constexpr std::array<FunctionEntry, 30> kFunctions = {{
    {"_&&_", nullptr, CostRule::kZero},
    {"_||_", nullptr, CostRule::kZero},
    {"_?_:_", nullptr, CostRule::kZero},
    {"@not_strictly_false", nullptr, CostRule::kOne},
    {"_[_]", nullptr, CostRule::kOne},
    {"_[?_]", nullptr, CostRule::kOne},
    {"_?._", nullptr, CostRule::kOne},
    {"type", nullptr, CostRule::kOne},
    {"_+_", add, CostRule::kTraverseBoth},
    {"_-_", subtract, CostRule::kOne},
    {"_*_", multiply, CostRule::kOne},
    {"_/_", divide, CostRule::kOne},
    {"_%_", modulo, CostRule::kOne},
    {"-_", negate, CostRule::kOne},
    {"!_", logical_not, CostRule::kOne},
    {"_==_", equals, CostRule::kEquality},
    {"_!=_", not_equals, CostRule::kEquality},
    {"_<_", ordered<true, false, false>, CostRule::kSmaller},
    {"_<=_", ordered<true, true, false>, CostRule::kSmaller},
    {"_>_", ordered<false, false, true>, CostRule::kSmaller},
    {"_>=_", ordered<false, true, true>, CostRule::kSmaller},
    {"size", size, CostRule::kOne},
    {"@in", in, CostRule::kInList},
    {"int", to_int, CostRule::kOne},
    {"uint", to_uint, CostRule::kOne},
    {"double", to_double, CostRule::kOne},
    {"bool", to_bool, CostRule::kOne},
    {"bytes", to_bytes, CostRule::kTraverseFirst},
    {"string", to_string, CostRule::kOne},
    {"dyn", to_dyn, CostRule::kOne},
}};

}  // namespace

Value add_values(Evaluation& e, const Value& a, const Value& b) {
  if (a.kind() == b.kind()) return add_same_kind(e, a, b);
  if (a.is(Kind::kTimestamp) && b.is(Kind::kDuration)) return shift_timestamp(a, b.as_int());
  if (a.is(Kind::kDuration) && b.is(Kind::kTimestamp)) return shift_timestamp(b, a.as_int());
  return e.no_overload();
}

Value convert_to_string(Evaluation& e, const Value& v) {
  switch (v.kind()) {
    case Kind::kString:
      return v;
    case Kind::kBytes:
      return valid_utf8(v.as_text()) ? Value::string(v.as_text())
                                     : Value::error("invalid UTF-8 in bytes, cannot convert to string");
    case Kind::kBool:
      return Value::string(v.as_bool() ? "true" : "false");
    case Kind::kInt:
      return e.text(fmt::format("{}", v.as_int()));
    case Kind::kUint:
      return e.text(fmt::format("{}", v.as_uint()));
    case Kind::kDouble:
      return e.text(fmt::format("{}", v.as_double()));
    case Kind::kDuration:
      return e.text(duration_text(v.as_int()));
    case Kind::kTimestamp:
      return e.text(timestamp_text(v.seconds(), v.nanos()));
    case Kind::kIp:
      return e.text(ip_text(v.as_ip()));
    case Kind::kCidr:
      return e.text(fmt::format("{}/{}", ip_text(v.as_cidr().address), v.as_cidr().prefix));
    default:
      return e.no_overload();
  }
}

std::span<const FunctionEntry> core_functions() {
  return kFunctions;
}

}  // namespace heddle::cel
