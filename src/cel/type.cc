// The rules of assignability follow github.com/google/cel-go v0.29.2 checker/types.go, since what upstream accepts and
// refuses at compile time is part of the contract with users.
#include "cel/type.h"

#include "cel/value.h"

namespace heddle::cel {

namespace {

bool is(const Type& type, TypeKind kind) {
  return type.kind == kind;
}

bool equal_or_less_specific(const Type& a, const Type& b) {
  if (is_dyn(a) || is(a, TypeKind::kParameter)) return true;
  if (is_dyn(b) || is(b, TypeKind::kParameter)) return false;
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case TypeKind::kOpaque:
    case TypeKind::kList:
    case TypeKind::kMap:
      if (a.name != b.name || a.parameters.size() != b.parameters.size()) return false;
      for (size_t i = 0; i < a.parameters.size(); ++i)
        if (!equal_or_less_specific(*a.parameters[i], *b.parameters[i])) return false;
      return true;
    case TypeKind::kType:
      return true;
    default:
      return same(a, b);
  }
}

bool not_referenced_in(const Substitution& substitution, const Type& type, const Type& within) {
  if (same(type, within)) return false;
  if (is(within, TypeKind::kParameter)) {
    const Type* bound = substitution.find(within);
    return bound == nullptr || not_referenced_in(substitution, type, *bound);
  }
  for (const Type* parameter : within.parameters)
    if (!not_referenced_in(substitution, type, *parameter)) return false;
  return true;
}

bool nullable(const Type& type) {
  switch (type.kind) {
    case TypeKind::kNull:
    case TypeKind::kOpaque:
    case TypeKind::kObject:
    case TypeKind::kAny:
    case TypeKind::kDuration:
    case TypeKind::kTimestamp:
      return true;
    default:
      return false;
  }
}

bool unify(Substitution& substitution, const Type* from, const Type* to);

struct Attempt {
  bool valid;
  bool has_substitution;
};

// Whether `parameter` can stand for `type`.
Attempt bind(Substitution& substitution, const Type* type, const Type* parameter) {
  if (same(*type, *parameter)) return {true, true};
  if (const Type* bound = substitution.find(*parameter)) {
    if (same(*type, *bound)) return {true, true};
    if (!unify(substitution, type, bound)) return {false, true};
    const Type* general = most_general(type, bound);
    if (not_referenced_in(substitution, *parameter, *general)) substitution.set(*parameter, general);
    return {true, true};
  }
  if (!not_referenced_in(substitution, *parameter, *type)) return {false, false};
  substitution.set(*parameter, type);
  return {true, false};
}

bool unify_structure(Substitution& substitution, const Type* from, const Type* to) {
  switch (from->kind) {
    case TypeKind::kType:
      return to->kind == TypeKind::kType;
    case TypeKind::kOpaque:
    case TypeKind::kList:
    case TypeKind::kMap:
      if (from->kind != to->kind || from->name != to->name || from->parameters.size() != to->parameters.size())
        return false;
      for (size_t i = 0; i < from->parameters.size(); ++i)
        if (!unify(substitution, from->parameters[i], to->parameters[i])) return false;
      return true;
    default:
      return same(*from, *to);
  }
}

bool unify(Substitution& substitution, const Type* from, const Type* to) {
  if (is(*to, TypeKind::kParameter)) {
    Attempt attempt = bind(substitution, from, to);
    if (attempt.valid) return true;
    if (attempt.has_substitution) return false;
  }
  if (is(*from, TypeKind::kParameter)) return bind(substitution, to, from).valid;
  if (is_dyn_or_error(*from) || is_dyn_or_error(*to)) return true;
  if (is(*from, TypeKind::kNull)) return nullable(*to);
  if (is(*to, TypeKind::kNull)) return nullable(*from);
  return unify_structure(substitution, from, to);
}

std::string_view basic_name(TypeKind kind) {
  switch (kind) {
    case TypeKind::kDyn:
      return "dyn";
    case TypeKind::kAny:
      return "any";
    case TypeKind::kError:
      return "!error!";
    case TypeKind::kNull:
      return "null";
    case TypeKind::kBool:
      return "bool";
    case TypeKind::kInt:
      return "int";
    case TypeKind::kUint:
      return "uint";
    case TypeKind::kDouble:
      return "double";
    case TypeKind::kString:
      return "string";
    case TypeKind::kBytes:
      return "bytes";
    case TypeKind::kTimestamp:
      return "timestamp";
    case TypeKind::kDuration:
      return "duration";
    case TypeKind::kList:
      return "list";
    case TypeKind::kMap:
      return "map";
    case TypeKind::kType:
      return "type";
    default:
      return "";
  }
}

}  // namespace

bool same(const Type& a, const Type& b) {
  if (&a == &b) return true;
  if (a.kind != b.kind || a.name != b.name || a.parameters.size() != b.parameters.size()) return false;
  for (size_t i = 0; i < a.parameters.size(); ++i)
    if (!same(*a.parameters[i], *b.parameters[i])) return false;
  return true;
}

std::string type_text(const Type& type) {
  std::string text = type.name.empty() ? std::string(basic_name(type.kind)) : type.name;
  if (type.parameters.empty()) return text;
  text += "(";
  for (size_t i = 0; i < type.parameters.size(); ++i) {
    if (i > 0) text += ", ";
    text += type_text(*type.parameters[i]);
  }
  return text + ")";
}

TypeTable::TypeTable() {
  for (size_t kind = 0; kind <= static_cast<size_t>(TypeKind::kObject); ++kind)
    basic_.push_back(make(static_cast<TypeKind>(kind), "", {}));
}

const Type* TypeTable::make(TypeKind kind, std::string name, std::vector<const Type*> parameters) {
  owned_.push_back(std::make_unique<Type>(Type{kind, std::move(name), std::move(parameters)}));
  return owned_.back().get();
}

const Type* TypeTable::list(const Type* element) {
  return make(TypeKind::kList, "", {element});
}
const Type* TypeTable::map(const Type* key, const Type* value) {
  return make(TypeKind::kMap, "", {key, value});
}
const Type* TypeTable::type_of(const Type* inner) {
  return make(TypeKind::kType, "", {inner});
}
const Type* TypeTable::optional(const Type* inner) {
  return make(TypeKind::kOpaque, "optional_type", {inner});
}
const Type* TypeTable::parameter(std::string name) {
  return make(TypeKind::kParameter, std::move(name), {});
}

const Type* Substitution::find(const Type& parameter) const {
  if (parameter.kind != TypeKind::kParameter) return nullptr;
  auto it = bound_.find(parameter.name);
  return it == bound_.end() ? nullptr : it->second;
}

const Type* substitute(const Substitution& substitution, const Type* type, Unbound unbound, TypeTable& table) {
  if (const Type* bound = substitution.find(*type)) return substitute(substitution, bound, unbound, table);
  if (type->kind == TypeKind::kParameter) return unbound == Unbound::kToDyn ? table.basic(TypeKind::kDyn) : type;
  if (type->parameters.empty()) return type;
  std::vector<const Type*> parameters;
  bool changed = false;
  for (const Type* parameter : type->parameters) {
    parameters.push_back(substitute(substitution, parameter, unbound, table));
    changed |= parameters.back() != parameter;
  }
  return changed ? table.make(type->kind, type->name, std::move(parameters)) : type;
}

void Substitution::set(const Type& parameter, const Type* type) {
  const Type*& slot = bound_[parameter.name];
  trail_.emplace_back(parameter.name, slot);
  slot = type;
}

void Substitution::undo_to(size_t mark) {
  for (; trail_.size() > mark; trail_.pop_back()) bound_[trail_.back().first] = trail_.back().second;
}

bool assignable(Substitution& substitution, const Type* from, const Type* to) {
  size_t mark = substitution.mark();
  if (unify(substitution, from, to)) return true;
  substitution.undo_to(mark);
  return false;
}

bool assignable_all(Substitution& substitution, const std::vector<const Type*>& from,
                    const std::vector<const Type*>& to) {
  if (from.size() != to.size()) return false;
  size_t mark = substitution.mark();
  for (size_t i = 0; i < from.size(); ++i) {
    if (unify(substitution, from[i], to[i])) continue;
    substitution.undo_to(mark);
    return false;
  }
  return true;
}

const Type* most_general(const Type* a, const Type* b) {
  return equal_or_less_specific(*a, *b) ? a : b;
}
TypeKind type_kind(Kind kind) {
  switch (kind) {
    case Kind::kError:
      return TypeKind::kError;
    case Kind::kNull:
      return TypeKind::kNull;
    case Kind::kBool:
      return TypeKind::kBool;
    case Kind::kInt:
      return TypeKind::kInt;
    case Kind::kUint:
      return TypeKind::kUint;
    case Kind::kDouble:
      return TypeKind::kDouble;
    case Kind::kString:
      return TypeKind::kString;
    case Kind::kBytes:
      return TypeKind::kBytes;
    case Kind::kTimestamp:
      return TypeKind::kTimestamp;
    case Kind::kDuration:
      return TypeKind::kDuration;
    case Kind::kList:
      return TypeKind::kList;
    case Kind::kMap:
      return TypeKind::kMap;
    case Kind::kType:
      return TypeKind::kType;
    case Kind::kOptional:
      return TypeKind::kOpaque;
    default:
      return TypeKind::kObject;
  }
}

bool is_dyn(const Type& type) {
  return type.kind == TypeKind::kDyn || type.kind == TypeKind::kAny;
}
bool is_dyn_or_error(const Type& type) {
  return is_dyn(type) || type.kind == TypeKind::kError;
}

const Type* optional_inner(const Type& type) {
  return type.kind == TypeKind::kOpaque && type.name == "optional_type" ? type.parameters[0] : nullptr;
}

}  // namespace heddle::cel
