#include "cel/functions.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace heddle::cel {

Value Evaluation::list(const std::vector<Value>& items) {
  List* made = new_list(items.size());
  if (made == nullptr) return Value::error("out of memory");
  std::copy(items.begin(), items.end(), made->items);
  return Value::list(made);
}

List* Evaluation::new_list(size_t size) {
  List* made = arena_.make<List>();
  if (made == nullptr) return nullptr;
  made->items = size == 0 ? nullptr : arena_.array<Value>(size);
  if (size > 0 && made->items == nullptr) return nullptr;
  made->size = size;
  return made;
}

Value Evaluation::optional(const Value& inner) {
  Value* kept = arena_.make<Value>(inner);
  return kept == nullptr ? Value::error("out of memory") : Value::optional(kept);
}

int64_t value_size(const Value& value) {
  switch (value.kind()) {
    case Kind::kString:
      return code_points(value.as_text());
    case Kind::kBytes:
      return static_cast<int64_t>(value.as_text().size());
    case Kind::kList:
      return static_cast<int64_t>(value.as_list().size);
    case Kind::kMap:
      return static_cast<int64_t>(value.as_map().size());
    case Kind::kOptional:
      return value.as_optional() == nullptr ? 1 : value_size(*value.as_optional());
    default:
      return 1;
  }
}

namespace {

constexpr double kTraversal = 0.1;
constexpr double kRegexFactor = 0.25;
constexpr double kLongRegex = 60;  // of a named format

double size_of(const Value& value) {
  return static_cast<double>(value_size(value));
}
uint64_t up(double cost) {
  return static_cast<uint64_t>(std::ceil(cost));
}
bool is_text(const Value& value) {
  return value.is(Kind::kString) || value.is(Kind::kBytes);
}

bool is_kubernetes(const Value& value) {
  switch (value.kind()) {
    case Kind::kQuantity:
    case Kind::kSemver:
    case Kind::kIp:
    case Kind::kCidr:
    case Kind::kUrl:
    case Kind::kFormat:
      return true;
    default:
      return false;
  }
}

uint64_t elements_cost(const Value& value) {
  if (is_text(value)) return up(size_of(value) * kTraversal);
  if (!value.is(Kind::kList)) return 1;
  double cost = 0;
  const List& list = value.as_list();
  for (size_t i = 0; i < list.size; ++i)
    cost += is_text(list.items[i]) ? std::ceil(size_of(list.items[i]) * kTraversal) : 1;
  return up(cost);
}

uint64_t network_cost(std::span<const Value> args) {
  // An address counts as its bytes; text has to be parsed first.
  double cidr = args[0].is(Kind::kCidr) ? (args[0].as_cidr().address.v6 ? 16 : 4) : 1;
  uint64_t cost = up(2 * cidr * kTraversal);
  if (args[1].is(Kind::kCidr)) cost += up(cidr * kTraversal) + 1;
  if (args[1].is(Kind::kString)) cost += up(size_of(args[1]) * kTraversal);
  return cost;
}

}  // namespace

uint64_t call_cost(CostRule rule, std::span<const Value> args, const Value& result) {
  switch (rule) {
    case CostRule::kOne:
      return 1;
    case CostRule::kZero:
      return 0;
    case CostRule::kTraverseFirst:
      return up(size_of(args[0]) * kTraversal);
    case CostRule::kTraverseFirstTwice:
      return up(size_of(args[0]) * 2 * kTraversal);
    case CostRule::kTraverseSecond:
      return up(size_of(args[1]) * kTraversal);
    case CostRule::kTraverseResult:
      return up(size_of(result) * 2 * kTraversal);
    case CostRule::kTraverseBoth:
      return is_text(args[0]) ? up((size_of(args[0]) + size_of(args[1])) * kTraversal) : 1;
    case CostRule::kSmaller:
      return is_text(args[0]) ? up(std::min(size_of(args[0]), size_of(args[1])) * kTraversal) : 1;
    case CostRule::kEquality:
      return is_kubernetes(args[0]) ? 1 : up(std::min(size_of(args[0]), size_of(args[1])) * kTraversal);
    case CostRule::kContains:
      return up(size_of(args[0]) * kTraversal) * up(size_of(args[1]) * kTraversal);
    case CostRule::kRegex:
      return up((1 + size_of(args[0])) * kTraversal) * up(size_of(args[1]) * kRegexFactor);
    case CostRule::kInList:
      return args[1].is(Kind::kList) ? static_cast<uint64_t>(value_size(args[1])) : 1;
    case CostRule::kElements:
      return elements_cost(args[0]);
    case CostRule::kFormat:
      return up((1 + size_of(args[1])) * kTraversal) * up(kLongRegex * kRegexFactor);
    case CostRule::kNetwork:
      return network_cost(args);
  }
  return 1;
}

const FunctionEntry* find_implementation(std::string_view name) {
  const std::array<std::span<const FunctionEntry>, 7> libraries = {
      core_functions(), text_functions(),     format_functions(), list_functions(),
      time_functions(), resource_functions(), network_functions()};
  for (std::span<const FunctionEntry> library : libraries)
    for (const FunctionEntry& entry : library)
      if (entry.name == name) return &entry;
  return nullptr;
}

}  // namespace heddle::cel
