// Lists, sets, map building and optionals (k8s.io/apiserver pkg/cel/library/lists.go; cel-go ext/lists.go, ext/sets.go,
// cel/library.go).
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cel/functions.h"

namespace heddle::cel {

namespace {

using Args = std::span<const Value>;

std::span<const Value> items(const Value& value) {
  return {value.as_list().items, value.as_list().size};
}

Value is_sorted(Evaluation& e, Args args) {
  if (!args[0].is(Kind::kList)) return e.no_overload();
  auto list = items(args[0]);
  for (size_t i = 1; i < list.size(); ++i) {
    Order order = compare(list[i - 1], list[i]);
    if (order == Order::kNone) return e.no_overload();
    if (order == Order::kGreater) return Value::boolean(false);
  }
  return Value::boolean(true);
}

Value sum(Evaluation& e, Args args) {
  if (!args[0].is(Kind::kList)) return e.no_overload();
  auto list = items(args[0]);
  if (list.empty()) return Value::integer(0);
  Value total = list[0];
  for (size_t i = 1; i < list.size() && !total.is_error(); ++i) total = add_values(e, total, list[i]);
  return total;
}

Value extreme(Evaluation& e, Args args, Order replace_when, std::string_view name) {
  if (!args[0].is(Kind::kList)) return e.no_overload();
  auto list = items(args[0]);
  if (list.empty()) return e.error(fmt::format("{} called on empty list", name));
  Value best = list[0];
  for (size_t i = 1; i < list.size(); ++i) {
    Order order = compare(best, list[i]);
    if (order == Order::kNone) return e.no_overload();
    if (order == replace_when) best = list[i];
  }
  return best;
}
Value max(Evaluation& e, Args args) {
  return extreme(e, args, Order::kLess, "max");
}
Value min(Evaluation& e, Args args) {
  return extreme(e, args, Order::kGreater, "min");
}

bool holds(const Value& list, const Value& item) {
  auto all = items(list);
  return std::any_of(all.begin(), all.end(), [&](const Value& other) { return equal(other, item); });
}

Value includes(Evaluation&, Args args) {
  return Value::boolean(args[0].is(Kind::kList) ? holds(args[0], args[1]) : equal(args[0], args[1]));
}

bool contains_all(const Value& list, const Value& wanted) {
  auto all = items(wanted);
  return std::all_of(all.begin(), all.end(), [&](const Value& item) { return holds(list, item); });
}

bool two_lists(Args args) {
  return args[0].is(Kind::kList) && args[1].is(Kind::kList);
}

// Comparing each with each is charged as such.
void charge_pairs(Evaluation& e, Args args) {
  e.charge(args[0].as_list().size * args[1].as_list().size);
}

Value sets_contains(Evaluation& e, Args args) {
  if (!two_lists(args)) return e.no_overload();
  charge_pairs(e, args);
  return e.stopped() ? Value::null() : Value::boolean(contains_all(args[0], args[1]));
}
Value sets_equivalent(Evaluation& e, Args args) {
  if (!two_lists(args)) return e.no_overload();
  charge_pairs(e, args);
  charge_pairs(e, args);
  return e.stopped() ? Value::null() : Value::boolean(contains_all(args[0], args[1]) && contains_all(args[1], args[0]));
}
Value sets_intersects(Evaluation& e, Args args) {
  if (!two_lists(args)) return e.no_overload();
  charge_pairs(e, args);
  if (e.stopped()) return Value::null();
  auto first = items(args[0]);
  return Value::boolean(
      std::any_of(first.begin(), first.end(), [&](const Value& item) { return holds(args[1], item); }));
}

Value slice(Evaluation& e, Args args) {
  if (!args[0].is(Kind::kList) || !args[1].is(Kind::kInt) || !args[2].is(Kind::kInt)) return e.no_overload();
  int64_t start = args[1].as_int();
  int64_t end = args[2].as_int();
  auto list = items(args[0]);
  if (start < 0 || end < 0)
    return e.error(fmt::format("cannot slice({}, {}), negative indexes not supported", start, end));
  if (start > end)
    return e.error(
        fmt::format("cannot slice({}, {}), start index must be less than or equal to end index", start, end));
  if (static_cast<int64_t>(list.size()) < end)
    return e.error(fmt::format("cannot slice({}, {}), list is length {}", start, end, list.size()));
  auto part = list.subspan(static_cast<size_t>(start), static_cast<size_t>(end - start));
  return e.list({part.begin(), part.end()});
}

void flatten_into(std::vector<Value>& out, const Value& list, int64_t depth) {
  for (const Value& item : items(list)) {
    if (item.is(Kind::kList) && depth > 0) {
      flatten_into(out, item, depth - 1);
    } else {
      out.push_back(item);
    }
  }
}

Value flatten(Evaluation& e, Args args) {
  if (!args[0].is(Kind::kList) || (args.size() == 2 && !args[1].is(Kind::kInt))) return e.no_overload();
  int64_t depth = args.size() == 2 ? args[1].as_int() : 1;
  if (depth < 0) return e.error("level must be non-negative");
  std::vector<Value> out;
  flatten_into(out, args[0], depth);
  e.charge(out.size());
  return e.list(out);
}

Value range(Evaluation& e, Args args) {
  if (!args[0].is(Kind::kInt)) return e.no_overload();
  int64_t count = std::max<int64_t>(args[0].as_int(), 0);
  e.charge(static_cast<uint64_t>(count));
  if (e.stopped()) return Value::null();
  std::vector<Value> out;
  out.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) out.push_back(Value::integer(i));
  return e.list(out);
}

Value reverse(Evaluation& e, Args args) {
  if (!args[0].is(Kind::kList)) return e.no_overload();
  auto list = items(args[0]);
  return e.list({list.rbegin(), list.rend()});
}

Value distinct(Evaluation& e, Args args) {
  if (!args[0].is(Kind::kList)) return e.no_overload();
  std::vector<Value> out;
  e.charge(args[0].as_list().size * args[0].as_list().size);
  if (e.stopped()) return Value::null();
  for (const Value& item : items(args[0]))
    if (std::none_of(out.begin(), out.end(), [&](const Value& seen) { return equal(seen, item); })) out.push_back(item);
  return e.list(out);
}

// Sorts list by keys of the same positions, stable.
Value sorted_by(Evaluation& e, const Value& list, const Value& keys) {
  auto values = items(list);
  auto by = items(keys);
  if (values.size() != by.size()) return e.no_overload();
  for (const Value& key : by) {
    if (key.kind() != by[0].kind()) return e.error("list elements must have the same type");
    if (compare(key, key) == Order::kNone) return e.error("list elements must be comparable");
  }
  std::vector<size_t> order(values.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return compare(by[a], by[b]) == Order::kLess; });
  std::vector<Value> out;
  out.reserve(order.size());
  for (size_t index : order) out.push_back(values[index]);
  e.charge(out.size());
  return e.list(out);
}

Value sort(Evaluation& e, Args args) {
  return args[0].is(Kind::kList) ? sorted_by(e, args[0], args[0]) : e.no_overload();
}
Value sort_by_keys(Evaluation& e, Args args) {
  return two_lists(args) ? sorted_by(e, args[0], args[1]) : e.no_overload();
}

Value first(Evaluation& e, Args args) {
  if (!args[0].is(Kind::kList)) return e.no_overload();
  return items(args[0]).empty() ? e.none() : e.optional(items(args[0]).front());
}
Value last(Evaluation& e, Args args) {
  if (!args[0].is(Kind::kList)) return e.no_overload();
  return items(args[0]).empty() ? e.none() : e.optional(items(args[0]).back());
}

bool is_zero(const Value& value) {
  switch (value.kind()) {
    case Kind::kNull:
      return true;
    case Kind::kBool:
      return !value.as_bool();
    case Kind::kInt:
    case Kind::kDuration:
      return value.as_int() == 0;
    case Kind::kUint:
      return value.as_uint() == 0;
    case Kind::kDouble:
      return value.as_double() == 0;
    case Kind::kString:
    case Kind::kBytes:
    case Kind::kList:
    case Kind::kMap:
      return value_size(value) == 0;
    default:
      return false;
  }
}

Value optional_of(Evaluation& e, Args args) {
  return e.optional(args[0]);
}
Value optional_of_non_zero(Evaluation& e, Args args) {
  return is_zero(args[0]) ? e.none() : e.optional(args[0]);
}
Value optional_none(Evaluation& e, Args) {
  return e.none();
}
Value optional_value(Evaluation& e, Args args) {
  if (!args[0].is(Kind::kOptional)) return e.no_overload();
  return args[0].as_optional() == nullptr ? Value::error("optional.none() dereference") : *args[0].as_optional();
}
Value optional_has_value(Evaluation& e, Args args) {
  return args[0].is(Kind::kOptional) ? Value::boolean(args[0].as_optional() != nullptr) : e.no_overload();
}
Value optional_or(Evaluation& e, Args args) {
  if (!args[0].is(Kind::kOptional)) return e.no_overload();
  return args[0].as_optional() == nullptr ? args[1] : args[0];
}
Value optional_or_value(Evaluation& e, Args args) {
  if (!args[0].is(Kind::kOptional)) return e.no_overload();
  return args[0].as_optional() == nullptr ? args[1] : *args[0].as_optional();
}
Value unwrap(Evaluation& e, Args args) {
  if (!args[0].is(Kind::kList)) return e.no_overload();
  std::vector<Value> out;
  for (const Value& item : items(args[0])) {
    if (!item.is(Kind::kOptional)) return e.error("value is not optional");
    if (item.as_optional() != nullptr) out.push_back(*item.as_optional());
  }
  return e.list(out);
}

constexpr std::array<FunctionEntry, 27> kFunctions = {{
    {"isSorted", is_sorted, CostRule::kElements},
    {"sum", sum, CostRule::kElements},
    {"max", max, CostRule::kElements},
    {"min", min, CostRule::kElements},
    {"includes", includes, CostRule::kElements},
    {"sets.contains", sets_contains, CostRule::kOne},
    {"sets.equivalent", sets_equivalent, CostRule::kOne},
    {"sets.intersects", sets_intersects, CostRule::kOne},
    {"slice", slice, CostRule::kOne},
    {"flatten", flatten, CostRule::kOne},
    {"lists.range", range, CostRule::kOne},
    {"reverse", reverse, CostRule::kOne},
    {"distinct", distinct, CostRule::kOne},
    {"sort", sort, CostRule::kOne},
    {"@sortByAssociatedKeys", sort_by_keys, CostRule::kOne},
    {"first", first, CostRule::kOne},
    {"last", last, CostRule::kOne},
    {"optional.of", optional_of, CostRule::kOne},
    {"optional.ofNonZeroValue", optional_of_non_zero, CostRule::kOne},
    {"optional.none", optional_none, CostRule::kOne},
    {"value", optional_value, CostRule::kOne},
    {"hasValue", optional_has_value, CostRule::kOne},
    {"or", optional_or, CostRule::kOne},
    {"orValue", optional_or_value, CostRule::kOne},
    {"optional.unwrap", unwrap, CostRule::kOne},
    {"unwrapOpt", unwrap, CostRule::kOne},
    {"cel.@mapInsert", nullptr, CostRule::kOne},
}};

}  // namespace

std::span<const FunctionEntry> list_functions() {
  return kFunctions;
}

}  // namespace heddle::cel
