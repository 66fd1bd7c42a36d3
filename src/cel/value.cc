#include "cel/value.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cel/type.h"

namespace heddle::cel {

namespace {

Order order_of(int comparison) {
  if (comparison < 0) return Order::kLess;
  return comparison > 0 ? Order::kGreater : Order::kEqual;
}

template <typename T>
Order order_of(T a, T b) {
  if (a < b) return Order::kLess;
  return b < a ? Order::kGreater : Order::kEqual;
}

Order reverse(Order order) {
  if (order == Order::kLess) return Order::kGreater;
  return order == Order::kGreater ? Order::kLess : order;
}

Order compare_doubles(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return Order::kUnordered;
  return order_of(a, b);
}

// 2^63 and 2^64 are doubles; beyond them the integer is smaller (or larger) for sure, below them a cast is exact enough
// once the fraction is looked at.
Order compare_int_double(int64_t a, double b) {
  if (std::isnan(b)) return Order::kUnordered;
  if (b >= 9223372036854775808.0) return Order::kLess;
  if (b < -9223372036854775808.0) return Order::kGreater;
  auto whole = static_cast<int64_t>(b);
  if (a != whole) return order_of(a, whole);
  return order_of(0.0, b - static_cast<double>(whole));
}

Order compare_uint_double(uint64_t a, double b) {
  if (std::isnan(b)) return Order::kUnordered;
  if (b >= 18446744073709551616.0) return Order::kLess;
  if (b < 0) return Order::kGreater;
  auto whole = static_cast<uint64_t>(b);
  if (a != whole) return order_of(a, whole);
  return order_of(0.0, b - static_cast<double>(whole));
}

Order compare_int_uint(int64_t a, uint64_t b) {
  if (a < 0) return Order::kLess;
  return order_of(static_cast<uint64_t>(a), b);
}

Order compare_numbers(const Value& a, const Value& b) {
  switch (a.kind()) {
    case Kind::kInt:
      if (b.is(Kind::kInt)) return order_of(a.as_int(), b.as_int());
      if (b.is(Kind::kUint)) return compare_int_uint(a.as_int(), b.as_uint());
      return compare_int_double(a.as_int(), b.as_double());
    case Kind::kUint:
      if (b.is(Kind::kInt)) return reverse(compare_int_uint(b.as_int(), a.as_uint()));
      if (b.is(Kind::kUint)) return order_of(a.as_uint(), b.as_uint());
      return compare_uint_double(a.as_uint(), b.as_double());
    default:
      if (b.is(Kind::kInt)) return reverse(compare_int_double(b.as_int(), a.as_double()));
      if (b.is(Kind::kUint)) return reverse(compare_uint_double(b.as_uint(), a.as_double()));
      return compare_doubles(a.as_double(), b.as_double());
  }
}

bool equal_lists(const List& a, const List& b) {
  if (a.size != b.size) return false;
  for (size_t i = 0; i < a.size; ++i)
    if (!equal(a.items[i], b.items[i])) return false;
  return true;
}

bool equal_maps(const Map& a, const Map& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    const Value* other = b.find(a.key_at(i));
    if (other == nullptr || !equal(a.value_at(i), *other)) return false;
  }
  return true;
}

bool equal_ips(const Ip& a, const Ip& b) {
  return a.v6 == b.v6 && std::memcmp(a.bytes, b.bytes, a.v6 ? 16 : 4) == 0;
}

bool equal_optionals(const Value* a, const Value* b) {
  if (a == nullptr || b == nullptr) return a == b;
  return equal(*a, *b);
}

bool equal_same_kind(const Value& a, const Value& b) {
  switch (a.kind()) {
    case Kind::kNull:
      return true;
    case Kind::kBool:
      return a.as_bool() == b.as_bool();
    case Kind::kString:
    case Kind::kBytes:
    case Kind::kFormat:
      return a.as_text() == b.as_text();
    case Kind::kTimestamp:
      return a.seconds() == b.seconds() && a.nanos() == b.nanos();
    case Kind::kDuration:
      return a.as_int() == b.as_int();
    case Kind::kList:
      return equal_lists(a.as_list(), b.as_list());
    case Kind::kMap:
      return equal_maps(a.as_map(), b.as_map());
    case Kind::kOptional:
      return equal_optionals(a.as_optional(), b.as_optional());
    case Kind::kQuantity:
      return a.as_quantity() == b.as_quantity();
    case Kind::kSemver:
      return a.as_semver().compare(b.as_semver()) == 0;
    case Kind::kIp:
      return equal_ips(a.as_ip(), b.as_ip());
    case Kind::kCidr:
      return a.as_cidr().prefix == b.as_cidr().prefix && equal_ips(a.as_cidr().address, b.as_cidr().address);
    case Kind::kUrl:
      return a.as_url().text == b.as_url().text;
    case Kind::kType:
      return a.as_type().kind == b.as_type().kind && a.as_type().name == b.as_type().name;
    default:
      return a.as_object() == b.as_object();
  }
}

}  // namespace

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == Order::kEqual;
  return a.kind() == b.kind() && equal_same_kind(a, b);
}

Order compare(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return compare_numbers(a, b);
  if (a.kind() != b.kind()) return Order::kNone;
  switch (a.kind()) {
    case Kind::kBool:
      return order_of(a.as_bool() ? 1 : 0, b.as_bool() ? 1 : 0);
    case Kind::kString:
    case Kind::kBytes:
      return order_of(a.as_text().compare(b.as_text()));
    case Kind::kTimestamp:
      return a.seconds() == b.seconds() ? order_of(a.nanos(), b.nanos()) : order_of(a.seconds(), b.seconds());
    case Kind::kDuration:
      return order_of(a.as_int(), b.as_int());
    case Kind::kQuantity:
      return order_of(a.as_quantity().compare(b.as_quantity()));
    case Kind::kSemver:
      return order_of(a.as_semver().compare(b.as_semver()));
    default:
      return Order::kNone;
  }
}

std::string_view kind_name(Kind kind) {
  switch (kind) {
    case Kind::kError:
      return "error";
    case Kind::kNull:
      return "null_type";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kUint:
      return "uint";
    case Kind::kDouble:
      return "double";
    case Kind::kString:
      return "string";
    case Kind::kBytes:
      return "bytes";
    case Kind::kTimestamp:
      return "google.protobuf.Timestamp";
    case Kind::kDuration:
      return "google.protobuf.Duration";
    case Kind::kList:
      return "list";
    case Kind::kMap:
      return "map";
    case Kind::kType:
      return "type";
    case Kind::kOptional:
      return "optional_type";
    case Kind::kQuantity:
      return "kubernetes.Quantity";
    case Kind::kSemver:
      return "kubernetes.Semver";
    case Kind::kIp:
      return "net.IP";
    case Kind::kCidr:
      return "net.CIDR";
    case Kind::kUrl:
      return "kubernetes.URL";
    case Kind::kFormat:
      return "kubernetes.NamedFormat";
    case Kind::kDevice:
      return "kubernetes.DRADevice";
  }
  return "error";
}

std::string_view implementation_name(Kind kind) {
  switch (kind) {
    case Kind::kNull:
      return "types.Null";
    case Kind::kBool:
      return "types.Bool";
    case Kind::kInt:
      return "types.Int";
    case Kind::kUint:
      return "types.Uint";
    case Kind::kDouble:
      return "types.Double";
    case Kind::kString:
      return "types.String";
    case Kind::kBytes:
      return "types.Bytes";
    case Kind::kTimestamp:
      return "types.Timestamp";
    case Kind::kDuration:
      return "types.Duration";
    case Kind::kQuantity:
      return "cel.Quantity";
    case Kind::kSemver:
      return "cel.Semver";
    case Kind::kIp:
      return "cel.IP";
    case Kind::kCidr:
      return "cel.CIDR";
    case Kind::kUrl:
      return "cel.URL";
    case Kind::kOptional:
      return "*types.Optional";
    default:
      return kind_name(kind);
  }
}

int64_t code_points(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

const Value* ArrayMap::find(const Value& key) const {
  for (size_t i = 0; i < size_; ++i)
    if (equal(entries_[i].key, key)) return &entries_[i].value;
  return nullptr;
}

Value ArrayMap::key_at(size_t index) const {
  return entries_[index].key;
}
Value ArrayMap::value_at(size_t index) const {
  return entries_[index].value;
}

bool ArrayMap::append(const Value& key, const Value& value, Arena& arena) {
  if (size_ == capacity_) {
    size_t capacity = std::max<size_t>(8, capacity_ * 2);
    auto* grown = arena.array<Entry>(capacity);
    if (grown == nullptr) return false;
    std::copy(entries_, entries_ + size_, grown);
    entries_ = grown;
    capacity_ = capacity;
  }
  entries_[size_++] = {key, value};
  return true;
}

}  // namespace heddle::cel
