// Values of CEL at run time: small, trivially copyable, their payloads in an Arena, in the program or in the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/quantity.h"
#include "base/semver.h"
#include "cel/arena.h"

namespace heddle::cel {

struct Type;
class Value;

enum class Kind : uint8_t {
  kError,  // a CEL error: travels as a value, absorbed by && and || as the language says
  kNull,
  kBool,
  kInt,
  kUint,
  kDouble,
  kString,
  kBytes,
  kTimestamp,
  kDuration,
  kList,
  kMap,
  kType,
  kOptional,
  kQuantity,
  kSemver,
  kIp,
  kCidr,
  kUrl,
  kFormat,
  kDevice,
};

struct List {
  Value* items = nullptr;
  size_t size = 0;
  size_t capacity = 0;  // of a list under construction; 0 for all others
};

// Lookups only; the device's maps are views of the published device.
class Map {
 public:
  virtual ~Map() = default;
  // Null when there is no such key.
  [[nodiscard]] virtual const Value* find(const Value& key) const = 0;
  // As the operator `in` sees it: the outer maps of a device answer find() for any domain, but hold only those
  // published.
  [[nodiscard]] virtual bool contains(const Value& key) const { return find(key) != nullptr; }
  [[nodiscard]] virtual size_t size() const = 0;
  [[nodiscard]] virtual Value key_at(size_t index) const = 0;
  [[nodiscard]] virtual Value value_at(size_t index) const = 0;
};

struct Ip {
  uint8_t bytes[16] = {};  // IPv4 in the first four
  bool v6 = false;
};

struct Cidr {
  Ip address;
  int64_t prefix = 0;
};

struct Url {
  std::string_view text, scheme, host, hostname, port, path, query;
};

class Value {
 public:
  Value() : kind_(Kind::kNull) { data_.i = 0; }

  static Value null() { return {}; }
  static Value boolean(bool b) {
    Value v(Kind::kBool);
    v.data_.b = b;
    return v;
  }
  static Value integer(int64_t i) {
    Value v(Kind::kInt);
    v.data_.i = i;
    return v;
  }
  static Value unsigned_integer(uint64_t u) {
    Value v(Kind::kUint);
    v.data_.u = u;
    return v;
  }
  static Value real(double d) {
    Value v(Kind::kDouble);
    v.data_.d = d;
    return v;
  }
  static Value string(std::string_view text) { return view(Kind::kString, text); }
  static Value bytes(std::string_view text) { return view(Kind::kBytes, text); }
  // A message that outlives the evaluation: a literal, or text of the arena.
  static Value error(std::string_view message) { return view(Kind::kError, message); }
  static Value timestamp(int64_t seconds, uint32_t nanos) {
    Value v(Kind::kTimestamp);
    v.data_.i = seconds;
    v.size_ = nanos;
    return v;
  }
  static Value duration(int64_t nanos) {
    Value v(Kind::kDuration);
    v.data_.i = nanos;
    return v;
  }
  static Value list(const List* list) { return object(Kind::kList, list); }
  static Value map(const Map* map) { return object(Kind::kMap, map); }
  static Value type(const Type* type) { return object(Kind::kType, type); }
  static Value optional(const Value* inner) { return object(Kind::kOptional, inner); }  // null: none
  static Value quantity(const Quantity* quantity) { return object(Kind::kQuantity, quantity); }
  static Value semver(const Semver* version) { return object(Kind::kSemver, version); }
  static Value ip(const Ip* ip) { return object(Kind::kIp, ip); }
  static Value cidr(const Cidr* cidr) { return object(Kind::kCidr, cidr); }
  static Value url(const Url* url) { return object(Kind::kUrl, url); }
  static Value format(std::string_view name) { return view(Kind::kFormat, name); }
  static Value device(const void* device) { return object(Kind::kDevice, device); }

  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] bool is(Kind kind) const { return kind_ == kind; }
  [[nodiscard]] bool is_error() const { return kind_ == Kind::kError; }
  [[nodiscard]] bool is_number() const { return kind_ == Kind::kInt || kind_ == Kind::kUint || kind_ == Kind::kDouble; }

  [[nodiscard]] bool as_bool() const { return data_.b; }
  [[nodiscard]] int64_t as_int() const { return data_.i; }
  [[nodiscard]] uint64_t as_uint() const { return data_.u; }
  [[nodiscard]] double as_double() const { return data_.d; }
  // Strings, bytes, formats and error messages.
  [[nodiscard]] std::string_view as_text() const { return {data_.text, size_}; }
  [[nodiscard]] int64_t seconds() const { return data_.i; }
  [[nodiscard]] uint32_t nanos() const { return size_; }
  [[nodiscard]] const List& as_list() const { return *static_cast<const List*>(data_.object); }
  [[nodiscard]] const Map& as_map() const { return *static_cast<const Map*>(data_.object); }
  [[nodiscard]] const Type& as_type() const { return *static_cast<const Type*>(data_.object); }
  [[nodiscard]] const Value* as_optional() const { return static_cast<const Value*>(data_.object); }
  [[nodiscard]] const Quantity& as_quantity() const { return *static_cast<const Quantity*>(data_.object); }
  [[nodiscard]] const Semver& as_semver() const { return *static_cast<const Semver*>(data_.object); }
  [[nodiscard]] const Ip& as_ip() const { return *static_cast<const Ip*>(data_.object); }
  [[nodiscard]] const Cidr& as_cidr() const { return *static_cast<const Cidr*>(data_.object); }
  [[nodiscard]] const Url& as_url() const { return *static_cast<const Url*>(data_.object); }
  [[nodiscard]] const void* as_object() const { return data_.object; }

 private:
  explicit Value(Kind kind) : kind_(kind) { data_.i = 0; }
  static Value view(Kind kind, std::string_view text) {
    Value v(kind);
    v.data_.text = text.data();
    v.size_ = static_cast<uint32_t>(text.size());
    return v;
  }
  static Value object(Kind kind, const void* object) {
    Value v(kind);
    v.data_.object = object;
    return v;
  }

  Kind kind_;
  uint32_t size_ = 0;  // of text; nanoseconds of a timestamp
  union {
    bool b;
    int64_t i;
    uint64_t u;
    double d;
    const char* text;
    const void* object;
  } data_;
};

// Equality of the language: numbers compare across kinds, different kinds are unequal, never an error.
bool equal(const Value& a, const Value& b);

// Ordering of <, <=, >, >=. kUnordered for NaN; kNone when the kinds cannot be compared.
enum class Order : uint8_t { kLess, kEqual, kGreater, kUnordered, kNone };
Order compare(const Value& a, const Value& b);

// The language's name of the value's type: "int", "list", "kubernetes.Quantity".
std::string_view kind_name(Kind kind);
// The name that upstream's messages use for a value of this kind: "types.Int", "cel.Semver".
std::string_view implementation_name(Kind kind);

// Number of code points of UTF-8 text.
int64_t code_points(std::string_view text);

// A map of a few entries in an arena, in insertion order.
class ArrayMap final : public Map {
 public:
  struct Entry;
  [[nodiscard]] const Value* find(const Value& key) const override;
  [[nodiscard]] size_t size() const override { return size_; }
  [[nodiscard]] Value key_at(size_t index) const override;
  [[nodiscard]] Value value_at(size_t index) const override;
  // Adds an entry in place; false when the arena is exhausted. Only while nobody else sees the map.
  bool append(const Value& key, const Value& value, Arena& arena);

 private:
  Entry* entries_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

struct ArrayMap::Entry {
  Value key;
  Value value;
};

}  // namespace heddle::cel
