// Types of CEL at compile time: made by a TypeTable, compared by structure, unified by the checker.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace heddle::cel {

enum class Kind : uint8_t;  // of a value: value.h

enum class TypeKind : uint8_t {
  kDyn,  // anything; also google.protobuf.Any
  kAny,
  kError,
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
  kParameter,
  kOpaque,  // optional_type, net.IP, ...
  kObject,  // kubernetes.DRADevice, kubernetes.Quantity, ...
};

struct Type {
  TypeKind kind = TypeKind::kDyn;
  std::string name;  // of parameters, opaque and object types
  std::vector<const Type*> parameters;
};

// The kind of the type that a value of this kind has.
TypeKind type_kind(Kind kind);

bool same(const Type& a, const Type& b);
std::string type_text(const Type& type);  // "list(map(string, dyn))", as upstream's messages write it

// Owns types. Not thread-safe while types are made; the types themselves are immutable.
class TypeTable {
 public:
  TypeTable();
  [[nodiscard]] const Type* basic(TypeKind kind) const { return basic_[static_cast<size_t>(kind)]; }
  const Type* list(const Type* element);
  const Type* map(const Type* key, const Type* value);
  const Type* type_of(const Type* inner);
  const Type* optional(const Type* inner);
  const Type* parameter(std::string name);
  const Type* make(TypeKind kind, std::string name, std::vector<const Type*> parameters);

 private:
  std::vector<std::unique_ptr<Type>> owned_;
  std::vector<const Type*> basic_;
};

// Substitutions of type parameters found so far, with a trail, so that a failed try is undone at the cost of what it
// did.
class Substitution {
 public:
  [[nodiscard]] const Type* find(const Type& parameter) const;
  void set(const Type& parameter, const Type* type);
  [[nodiscard]] size_t mark() const { return trail_.size(); }
  void undo_to(size_t mark);

 private:
  std::unordered_map<std::string, const Type*> bound_;      // looked up by name only, never walked
  std::vector<std::pair<std::string, const Type*>> trail_;  // name and what it was before
};

// The type with all bound parameters replaced; unbound ones become dyn when unbound_to_dyn is kToDyn.
enum class Unbound : uint8_t { kKeep, kToDyn };
const Type* substitute(const Substitution& substitution, const Type* type, Unbound unbound, TypeTable& table);

// True when a value of `from` can be where `to` is wanted; binds parameters. On false the substitution is unchanged.
bool assignable(Substitution& substitution, const Type* from, const Type* to);
bool assignable_all(Substitution& substitution, const std::vector<const Type*>& from,
                    const std::vector<const Type*>& to);

const Type* most_general(const Type* a, const Type* b);
bool is_dyn(const Type& type);
bool is_dyn_or_error(const Type& type);
// The inner type of an optional; null for other types.
const Type* optional_inner(const Type& type);

}  // namespace heddle::cel
