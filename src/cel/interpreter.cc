#include "cel/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace heddle::cel {

namespace {

constexpr uint64_t kListCost = 10;
constexpr uint64_t kMapCost = 30;
constexpr size_t kInlineArguments = 4;

Value out_of_memory() {
  return Value::error("out of memory");
}

// A key that names an element of a list: whole numbers, also when they are written as uint or double.
bool whole_index(const Value& key, int64_t& index) {
  if (key.is(Kind::kInt)) {
    index = key.as_int();
    return true;
  }
  if (key.is(Kind::kUint) && key.as_uint() <= INT64_MAX) {
    index = static_cast<int64_t>(key.as_uint());
    return true;
  }
  if (key.is(Kind::kDouble) && key.as_double() >= -9e15 && key.as_double() <= 9e15) {
    index = static_cast<int64_t>(key.as_double());
    return static_cast<double>(index) == key.as_double();
  }
  return false;
}

// Of opaque and object types only: the others are told apart by their kind.
std::string type_name(Kind kind) {
  TypeKind type = type_kind(kind);
  return type == TypeKind::kOpaque || type == TypeKind::kObject ? std::string(kind_name(kind)) : std::string();
}

}  // namespace

Range range_of(const Value& value) {
  if (value.is(Kind::kList)) return {true, value.as_list().size};
  if (value.is(Kind::kMap)) return {true, value.as_map().size()};
  return {};
}

Value Interpreter::no_such_key(const Value& key) {
  Value text = convert_to_string(evaluation_, key);
  return evaluation_.error(fmt::format("no such key: {}", text.is_error() ? kind_name(key.kind()) : text.as_text()));
}

Value Interpreter::evaluate(const Node& node) {
  if (evaluation_.stopped()) return Value::error("operation cancelled: actual cost limit exceeded");
  switch (node.kind) {
    case NodeKind::kConstant:
      return node.constant;
    case NodeKind::kIdent:
      evaluation_.charge(1);
      return node.slot >= 0 ? slots_[static_cast<size_t>(node.slot)] : Value::device(device_);
    case NodeKind::kSelect: {
      Value operand = evaluate(*node.children[0]);
      evaluation_.charge(1);
      return operand.is_error() ? operand : select(operand, node.text);
    }
    case NodeKind::kHas:
      return has(node);
    case NodeKind::kCall:
      return call(node);
    case NodeKind::kList:
      return list(node);
    case NodeKind::kMap:
      return map(node);
    case NodeKind::kComprehension:
      return comprehension(node);
    case NodeKind::kMessage:
      break;
  }
  return Value::error("unsupported expression");
}

Value Interpreter::select(const Value& operand, std::string_view field) {
  if (operand.is(Kind::kDevice)) return device_->field(field);
  if (operand.is(Kind::kMap)) {
    const Value* found = operand.as_map().find(Value::string(field));
    return found == nullptr ? no_such_key(Value::string(field)) : *found;
  }
  if (operand.is(Kind::kOptional)) return optional_index(operand, Value::string(field));
  return evaluation_.no_overload();
}

Value Interpreter::has(const Node& node) {
  Value operand = evaluate(*node.children[0]);
  if (operand.is_error()) return operand;
  if (operand.is(Kind::kOptional)) {
    if (operand.as_optional() == nullptr) return Value::boolean(false);
    operand = *operand.as_optional();
  }
  if (operand.is(Kind::kDevice)) return Value::boolean(!device_->field(node.text).is_error());
  if (operand.is(Kind::kMap)) return Value::boolean(operand.as_map().find(Value::string(node.text)) != nullptr);
  return operand.is(Kind::kList) ? evaluation_.no_overload() : Value::boolean(false);  // a number has no fields
}

Value Interpreter::index(const Value& operand, const Value& key) {
  if (operand.is(Kind::kMap)) {
    const Value* found = operand.as_map().find(key);
    return found == nullptr ? no_such_key(key) : *found;
  }
  if (operand.is(Kind::kOptional)) return optional_index(operand, key);
  if (!operand.is(Kind::kList)) return evaluation_.no_overload();
  int64_t at = 0;
  if (!whole_index(key, at))
    return evaluation_.error(fmt::format("unsupported index type '{}' in list", kind_name(key.kind())));
  const List& list = operand.as_list();
  if (at < 0 || at >= static_cast<int64_t>(list.size))
    return evaluation_.error(fmt::format("index out of bounds: {}", at));
  return list.items[at];
}

Value Interpreter::optional_index(const Value& operand, const Value& key) {
  Value target = operand;
  if (operand.is(Kind::kOptional)) {
    if (operand.as_optional() == nullptr) return operand;
    target = *operand.as_optional();
  }
  if (target.is(Kind::kDevice) && key.is(Kind::kString)) {
    Value field = device_->field(key.as_text());
    return field.is_error() ? evaluation_.none() : evaluation_.optional(field);
  }
  if (target.is(Kind::kMap)) {
    const Value* found = target.as_map().find(key);
    return found == nullptr ? evaluation_.none() : evaluation_.optional(*found);
  }
  if (!target.is(Kind::kList)) return evaluation_.no_overload();
  int64_t at = 0;
  if (!whole_index(key, at)) return evaluation_.no_overload();
  const List& list = target.as_list();
  return at < 0 || at >= static_cast<int64_t>(list.size) ? evaluation_.none() : evaluation_.optional(list.items[at]);
}

Value Interpreter::type_of(const Value& value) {
  const Type* type = evaluation_.arena().make<Type>(Type{type_kind(value.kind()), type_name(value.kind()), {}});
  return type == nullptr ? out_of_memory() : Value::type(type);
}

// && and ||: the value that decides wins over errors on either side; an error wins over what does not decide.
Value Interpreter::logical(const Node& node, bool decides) {
  Value pending = Value::boolean(!decides);
  for (const Node* child : node.children) {
    Value value = evaluate(*child);
    if (value.is(Kind::kBool)) {
      if (value.as_bool() == decides) return value;
      continue;
    }
    if (!pending.is_error()) pending = value.is_error() ? value : evaluation_.no_overload();
  }
  return pending;
}

Value Interpreter::conditional(const Node& node) {
  Value condition = evaluate(*node.children[0]);
  if (condition.is_error()) return condition;
  if (!condition.is(Kind::kBool)) return evaluation_.no_overload();
  return evaluate(*node.children[condition.as_bool() ? 1 : 2]);
}

Value Interpreter::call(const Node& node) {
  if (node.function->run != nullptr) return node.append_in_place ? append(node) : strict_call(node);
  std::string_view name = node.text;
  if (name == "_&&_") return logical(node, false);
  if (name == "_||_") return logical(node, true);
  if (name == "_?_:_") return conditional(node);
  if (name == "cel.@mapInsert") return insert(node);
  if (name == "@not_strictly_false") {
    Value value = evaluate(*node.children[0]);
    evaluation_.charge(1);
    return Value::boolean(!value.is(Kind::kBool) || value.as_bool());
  }
  Value first = evaluate(*node.children[0]);
  evaluation_.charge(1);
  if (first.is_error()) return first;
  if (name == "type") return type_of(first);
  Value key = evaluate(*node.children[1]);
  if (key.is_error()) return key;
  if (name == "_[_]") return index(first, key);
  return optional_index(first, key);
}

Value Interpreter::strict_call(const Node& node) {
  std::array<Value, kInlineArguments> arguments;
  size_t count = node.children.size();
  for (size_t i = 0; i < count; ++i) {
    arguments[i] = evaluate(*node.children[i]);
    if (arguments[i].is_error()) return arguments[i];
  }
  std::span<const Value> args(arguments.data(), count);
  Value result = node.pattern == nullptr ? node.function->run(evaluation_, args)
                                         : node.function->run_pattern(evaluation_, *node.pattern, args);
  if (!node.uncharged) evaluation_.charge(call_cost(node.function->cost, args, result));
  return result;
}

// accumulator + [element] of a macro: the accumulator grows in place.
Value Interpreter::append(const Node& node) {
  Value accumulator = evaluate(*node.children[0]);
  if (accumulator.is_error()) return accumulator;
  Value element = evaluate(*node.children[1]->children[0]);
  evaluation_.charge(kListCost + 1);
  if (element.is_error()) return element;
  const List& old = accumulator.as_list();
  if (old.size < old.capacity) {
    auto* grown = const_cast<List*>(&old);
    grown->items[grown->size++] = element;
    return accumulator;
  }
  size_t capacity = std::max<size_t>(8, old.size * 2);
  List* grown = evaluation_.new_list(capacity);
  if (grown == nullptr) return out_of_memory();
  std::copy_n(old.items, old.size, grown->items);
  grown->items[old.size] = element;
  grown->size = old.size + 1;
  grown->capacity = capacity;
  return Value::list(grown);
}

Value Interpreter::insert(const Node& node) {
  Value accumulator = evaluate(*node.children[0]);
  if (accumulator.is_error()) return accumulator;
  auto* map = const_cast<ArrayMap*>(static_cast<const ArrayMap*>(&accumulator.as_map()));
  Value first = evaluate(*node.children[1]);
  if (first.is_error()) return first;
  auto add = [&](const Value& key, const Value& value) -> Value {
    evaluation_.charge(1 + map->size() / 16);  // looking for the key walks the map
    if (map->find(key) != nullptr)
      return evaluation_.error(fmt::format("insert failed: key {} already exists", kind_name(key.kind())));
    return map->append(key, value, evaluation_.arena()) ? accumulator : out_of_memory();
  };
  if (node.children.size() == 3) {
    Value value = evaluate(*node.children[2]);
    return value.is_error() ? value : add(first, value);
  }
  if (!first.is(Kind::kMap)) return evaluation_.no_overload();
  const Map& entries = first.as_map();
  for (size_t i = 0; i < entries.size(); ++i)
    if (Value added = add(entries.key_at(i), entries.value_at(i)); added.is_error()) return added;
  return accumulator;
}

Value Interpreter::list(const Node& node) {
  List* made = evaluation_.new_list(node.children.size());
  if (made == nullptr) return out_of_memory();
  size_t used = 0;
  for (size_t i = 0; i < node.children.size(); ++i) {
    Value value = evaluate(*node.children[i]);
    if (value.is_error()) return value;
    if (node.optional[i]) {
      if (!value.is(Kind::kOptional)) return evaluation_.no_overload();
      if (value.as_optional() == nullptr) continue;
      value = *value.as_optional();
    }
    made->items[used++] = value;
  }
  made->size = used;
  evaluation_.charge(kListCost);
  return Value::list(made);
}

Value Interpreter::map(const Node& node) {
  auto* made = evaluation_.arena().make<ArrayMap>();
  if (made == nullptr) return out_of_memory();
  for (size_t i = 0; i < node.children.size(); i += 2) {
    Value key = evaluate(*node.children[i]);
    if (key.is_error()) return key;
    if (!key.is(Kind::kString) && !key.is_number() && !key.is(Kind::kBool))
      return evaluation_.error("unsupported key type");
    Value value = evaluate(*node.children[i + 1]);
    if (value.is_error()) return value;
    if (node.optional[i / 2]) {
      if (!value.is(Kind::kOptional)) return evaluation_.no_overload();
      if (value.as_optional() == nullptr) continue;
      value = *value.as_optional();
    }
    if (made->find(key) != nullptr) return evaluation_.error("Failed with repeated key");
    if (!made->append(key, value, evaluation_.arena())) return out_of_memory();
  }
  if (!node.children.empty()) evaluation_.charge(kMapCost);
  return Value::map(made);
}

bool Interpreter::iterate(const Node& node, const Value& range, size_t at) {
  auto set = [this](int slot, const Value& value) { slots_[static_cast<size_t>(slot)] = value; };
  bool two = node.iter2_slot >= 0;
  if (range.is(Kind::kList)) {
    const Value& item = range.as_list().items[at];
    set(node.iter_slot, two ? Value::integer(static_cast<int64_t>(at)) : item);
    if (two) set(node.iter2_slot, item);
  } else {
    set(node.iter_slot, range.as_map().key_at(at));
    if (two) set(node.iter2_slot, range.as_map().value_at(at));
  }
  Value condition = evaluate(*node.children[2]);
  if (!condition.is(Kind::kBool) || !condition.as_bool()) return false;
  set(node.accu_slot, evaluate(*node.children[3]));
  return !evaluation_.stopped();
}

Value Interpreter::comprehension(const Node& node) {
  Value range = evaluate(*node.children[0]);
  if (range.is_error()) return range;
  Range shape = range_of(range);
  if (!shape.iterable)
    return evaluation_.error(fmt::format("got '{}', expected iterable type", implementation_name(range.kind())));
  slots_[static_cast<size_t>(node.accu_slot)] = evaluate(*node.children[1]);
  for (size_t at = 0; at < shape.size; ++at)
    if (!iterate(node, range, at)) break;
  return evaluate(*node.children[4]);
}

}  // namespace heddle::cel
