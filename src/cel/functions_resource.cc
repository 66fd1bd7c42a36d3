// Quantity and Semver (k8s.io/apiserver v0.37.2 pkg/cel/library/quantity.go, semverlib.go).
#include <array>

#include "cel/functions.h"

namespace heddle::cel {

namespace {

using Args = std::span<const Value>;

Value make_quantity(Evaluation& e, Quantity quantity) {
  const Quantity* kept = e.arena().make<Quantity>(std::move(quantity));
  return kept == nullptr ? Value::error("out of memory") : Value::quantity(kept);
}

Value quantity(Evaluation& e, Args args) {
  if (!args[0].is(Kind::kString)) return e.no_overload();
  auto parsed = Quantity::parse(args[0].as_text());
  return parsed ? make_quantity(e, std::move(*parsed)) : e.error(parsed.error().message);
}

Value is_quantity(Evaluation& e, Args args) {
  return args[0].is(Kind::kString) ? Value::boolean(Quantity::parse(args[0].as_text()).has_value()) : e.no_overload();
}

Value sign(Evaluation& e, Args args) {
  return args[0].is(Kind::kQuantity) ? Value::integer(args[0].as_quantity().sign()) : e.no_overload();
}

// Both of the same kind, quantity or version.
bool comparable(Args args) {
  return args[0].kind() == args[1].kind() && (args[0].is(Kind::kQuantity) || args[0].is(Kind::kSemver));
}
Value is_greater_than(Evaluation& e, Args args) {
  return comparable(args) ? Value::boolean(compare(args[0], args[1]) == Order::kGreater) : e.no_overload();
}
Value is_less_than(Evaluation& e, Args args) {
  return comparable(args) ? Value::boolean(compare(args[0], args[1]) == Order::kLess) : e.no_overload();
}
Value compare_to(Evaluation& e, Args args) {
  if (!comparable(args)) return e.no_overload();
  Order order = compare(args[0], args[1]);
  if (order == Order::kEqual) return Value::integer(0);
  return Value::integer(order == Order::kLess ? -1 : 1);
}

Value as_approximate_float(Evaluation& e, Args args) {
  return args[0].is(Kind::kQuantity) ? Value::real(args[0].as_quantity().approximate()) : e.no_overload();
}

// As AsInt64(): a whole number inside int64.
std::optional<int64_t> as_int64(const Quantity& quantity) {
  return quantity.is_integer() ? quantity.value() : std::nullopt;
}
Value is_integer(Evaluation& e, Args args) {
  return args[0].is(Kind::kQuantity) ? Value::boolean(as_int64(args[0].as_quantity()).has_value()) : e.no_overload();
}
Value as_integer(Evaluation& e, Args args) {
  if (!args[0].is(Kind::kQuantity)) return e.no_overload();
  auto value = as_int64(args[0].as_quantity());
  return value ? Value::integer(*value) : Value::error("cannot convert value to integer");
}

enum class Direction { kAdd, kSubtract };

Value combine(Evaluation& e, Args args, Direction direction) {
  if (!args[0].is(Kind::kQuantity) || (!args[1].is(Kind::kQuantity) && !args[1].is(Kind::kInt))) return e.no_overload();
  Quantity other = args[1].is(Kind::kInt) ? Quantity::from_int(args[1].as_int(), Quantity::Format::kDecimalExponent)
                                          : args[1].as_quantity();
  auto sum = args[0].as_quantity().plus(direction == Direction::kAdd ? other : other.negated());
  return sum ? make_quantity(e, std::move(*sum)) : Value::error("quantity is out of range");
}
Value add(Evaluation& e, Args args) {
  return combine(e, args, Direction::kAdd);
}
Value sub(Evaluation& e, Args args) {
  return combine(e, args, Direction::kSubtract);
}

Result<Semver> read_semver(Args args) {
  bool normalize = args.size() == 2 && args[1].as_bool();
  return normalize ? Semver::parse_normalized(args[0].as_text()) : Semver::parse(args[0].as_text());
}
bool semver_arguments(Args args) {
  return args[0].is(Kind::kString) && (args.size() == 1 || args[1].is(Kind::kBool));
}

Value semver(Evaluation& e, Args args) {
  if (!semver_arguments(args)) return e.no_overload();
  auto parsed = read_semver(args);
  if (!parsed) return e.error(parsed.error().message);
  const Semver* kept = e.arena().make<Semver>(std::move(*parsed));
  return kept == nullptr ? Value::error("out of memory") : Value::semver(kept);
}
Value is_semver(Evaluation& e, Args args) {
  return semver_arguments(args) ? Value::boolean(read_semver(args).has_value()) : e.no_overload();
}

Value major_of(Evaluation& e, Args args) {
  return args[0].is(Kind::kSemver) ? Value::integer(static_cast<int64_t>(args[0].as_semver().major_number()))
                                   : e.no_overload();
}
Value minor_of(Evaluation& e, Args args) {
  return args[0].is(Kind::kSemver) ? Value::integer(static_cast<int64_t>(args[0].as_semver().minor_number()))
                                   : e.no_overload();
}
Value patch_of(Evaluation& e, Args args) {
  return args[0].is(Kind::kSemver) ? Value::integer(static_cast<int64_t>(args[0].as_semver().patch_number()))
                                   : e.no_overload();
}

constexpr std::array<FunctionEntry, 16> kFunctions = {{
    {"quantity", quantity, CostRule::kTraverseFirst},
    {"isQuantity", is_quantity, CostRule::kTraverseFirst},
    {"sign", sign, CostRule::kOne},
    {"isGreaterThan", is_greater_than, CostRule::kOne},
    {"isLessThan", is_less_than, CostRule::kOne},
    {"compareTo", compare_to, CostRule::kOne},
    {"asApproximateFloat", as_approximate_float, CostRule::kOne},
    {"isInteger", is_integer, CostRule::kOne},
    {"asInteger", as_integer, CostRule::kOne},
    {"add", add, CostRule::kOne},
    {"sub", sub, CostRule::kOne},
    {"semver", semver, CostRule::kTraverseFirst},
    {"isSemver", is_semver, CostRule::kTraverseFirst},
    {"major", major_of, CostRule::kOne},
    {"minor", minor_of, CostRule::kOne},
    {"patch", patch_of, CostRule::kOne},
}};

}  // namespace

std::span<const FunctionEntry> resource_functions() {
  return kFunctions;
}

}  // namespace heddle::cel
