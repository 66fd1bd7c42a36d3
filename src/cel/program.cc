#include "cel/program.h"

#include <fmt/format.h>

#include <algorithm>

#include "cel/checker.h"
#include "cel/interpreter.h"

namespace heddle::cel {

namespace {

// Calls whose value on constants never changes. Those that make lists are left out: their lists could be appended to.
bool foldable(std::string_view function) {
  for (std::string_view name : {"quantity", "semver", "duration", "timestamp", "ip", "cidr", "url", "int", "uint",
                                "double", "string", "bool", "bytes", "-_", "!_"})
    if (function == name) return true;
  return false;
}

}  // namespace

// Resolves names to slots and implementations, and computes what is constant.
class Planner {
 public:
  explicit Planner(Program& program) : program_(program) {}

  Result<void> run() {
    HEDDLE_CHECK_OK(plan(*program_.tree_.root));
    return {};
  }

 private:
  struct Scope {
    std::string_view name;
    int slot;
  };

  Result<void> plan(Node& node) {
    if (node.kind == NodeKind::kComprehension) return plan_comprehension(node);
    HEDDLE_CHECK_OK(check_pattern_literal(node));
    for (Node* child : node.children) HEDDLE_CHECK_OK(plan(*child));
    if (node.kind == NodeKind::kList || node.kind == NodeKind::kMap) fold_literal(node);
    if (node.kind == NodeKind::kIdent) plan_ident(node);
    if (node.kind == NodeKind::kCall) return plan_call(node);
    return {};
  }

  // Upstream's validator takes the first argument in parentheses for the pattern, also of matches(text, pattern).
  Result<void> check_pattern_literal(const Node& node) const {
    if (node.kind != NodeKind::kCall || node.text != "matches" || node.children.size() != 2) return {};
    const Node& literal = *node.children[node.member ? 1 : 0];
    if (literal.kind != NodeKind::kConstant || !literal.constant.is(Kind::kString)) return {};
    if (Pattern::compile(literal.constant.as_text())) return {};
    return fail(Code::kInvalidArgument, fmt::format("compilation failed: invalid matches argument at {}",
                                                    location_text(program_.expression_, literal.offset)));
  }

  static bool all_constant(const Node& node) {
    return std::all_of(node.children.begin(), node.children.end(),
                       [](const Node* child) { return child->kind == NodeKind::kConstant; });
  }

  Value evaluate_now(const Node& node) {
    std::vector<Value> no_slots;
    Evaluation evaluation(program_.folded_, kRuntimeCostLimit);
    return Interpreter(evaluation, nullptr, no_slots).evaluate(node);
  }

  // Lists and maps of constants are made once, and cost nothing. An empty map stays: a macro may fill it in place.
  void fold_literal(Node& node) {
    const bool optional = std::find(node.optional.begin(), node.optional.end(), true) != node.optional.end();
    if (optional || !all_constant(node) || (node.kind == NodeKind::kMap && node.children.empty())) return;
    const Value value = evaluate_now(node);
    if (value.is_error()) return;  // such as a repeated key: it may never be reached
    node.kind = NodeKind::kConstant;
    node.constant = value;
  }

  // Upstream looks into a constant list of plain values without counting.
  static bool is_set(const Node& node) {
    if (node.kind != NodeKind::kConstant || !node.constant.is(Kind::kList)) return false;
    const List& list = node.constant.as_list();
    return std::all_of(list.items, list.items + list.size, [](const Value& item) {
      return item.is(Kind::kString) || item.is(Kind::kBool) || item.is_number();
    });
  }

  Result<void> plan_pattern(Node& node) {
    const Node& text = *node.children[1];
    if (text.kind != NodeKind::kConstant || !text.constant.is(Kind::kString)) return {};
    auto pattern = Pattern::compile(text.constant.as_text());
    if (!pattern) return fail(Code::kInvalidArgument, "program instantiation failed: " + pattern.error().message);
    node.pattern = program_.patterns_.emplace_back(*std::move(pattern)).get();
    return {};
  }

  void plan_ident(Node& node) {
    for (auto it = scopes_.rbegin(); it != scopes_.rend(); ++it) {
      if (node.absolute || it->name != node.text) continue;
      node.slot = it->slot;
      return;
    }
    if (node.text == "device" || node.type->kind != TypeKind::kType) return;
    node.kind = NodeKind::kConstant;
    node.constant = Value::type(node.type->parameters.empty() ? node.type : node.type->parameters[0]);
  }

  Result<void> plan_call(Node& node) {
    node.function = find_implementation(node.text);
    if (node.function == nullptr)
      return fail(Code::kInternal, fmt::format("function '{}' has no implementation", node.text));
    if (node.function->run_pattern != nullptr) return plan_pattern(node);
    if (node.text == "@in") node.uncharged = is_set(*node.children[1]);
    if (!foldable(node.text) || !all_constant(node)) return {};
    const Value value = evaluate_now(node);
    bool literal = node.text == "duration" || node.text == "timestamp";
    if (value.is_error() && literal)
      return fail(Code::kInvalidArgument, fmt::format("compilation failed: invalid {} argument at {}", node.text,
                                                      location_text(program_.expression_, node.offset)));
    // An error stays a call: it may never be reached.
    if (value.is_error() || value.is(Kind::kList) || value.is(Kind::kMap)) return {};
    node.kind = NodeKind::kConstant;
    node.constant = value;
    return {};
  }

  Result<void> plan_comprehension(Node& node) {
    HEDDLE_CHECK_OK(plan(*node.children[0]));
    HEDDLE_CHECK_OK(plan(*node.children[1]));
    size_t outer = scopes_.size();
    node.accu_slot = declare(node.accu_var);
    size_t block = scopes_.size();
    node.iter_slot = declare(node.iter_var);
    if (!node.iter_var2.empty()) node.iter2_slot = declare(node.iter_var2);
    HEDDLE_CHECK_OK(plan(*node.children[2]));
    HEDDLE_CHECK_OK(plan(*node.children[3]));
    scopes_.resize(block);
    HEDDLE_CHECK_OK(plan(*node.children[4]));
    scopes_.resize(outer);
    return {};
  }

  int declare(std::string_view name) {
    scopes_.push_back({name, program_.slots_});
    return program_.slots_++;
  }

  Program& program_;
  std::vector<Scope> scopes_;
};

namespace {

bool attribute_element(const Type& type) {
  const bool scalar = type.kind == TypeKind::kBool || type.kind == TypeKind::kInt || type.kind == TypeKind::kString;
  return scalar || is_dyn(type) || type_text(type) == "kubernetes.Semver";
}

Result<void> check_output(const Type& type, Purpose purpose) {
  if (purpose == Purpose::kSelector) {
    if (type.kind == TypeKind::kBool || is_dyn(type)) return {};
    return fail(Code::kInvalidArgument,
                fmt::format("must evaluate to bool or the unknown type, not {}", type_text(type)));
  }
  const bool list = type.kind == TypeKind::kList && type.parameters.size() == 1;
  if (attribute_element(type) || (list && attribute_element(*type.parameters[0]))) return {};
  return fail(Code::kInvalidArgument,
              fmt::format("must evaluate to a primitive scalar (string, integer, boolean, semver) or a list of these "
                          "scalars, not {}",
                          type_text(type)));
}

}  // namespace

Program::Program() = default;
Program::~Program() = default;

Result<std::shared_ptr<Program>> Program::checked(std::string_view expression, const Environment& environment,
                                                  Purpose purpose) {
  std::shared_ptr<Program> program(new Program());
  program->expression_ = expression;
  auto explain = [](Error error) {
    error.message = "compilation failed: " + error.message;
    return tl::unexpected<Error>(std::move(error));
  };
  if (auto parsed = parse(program->expression_, program->tree_); !parsed) return explain(std::move(parsed).error());
  auto type = check(program->tree_, environment, program->types_, program->expression_);
  if (!type) return explain(std::move(type).error());
  HEDDLE_CHECK_OK(check_output(**type, purpose));
  return program;
}

Result<std::shared_ptr<const Program>> Program::compile(std::string_view expression, const Environment& environment,
                                                        Purpose purpose) {
  HEDDLE_TRY(std::shared_ptr<Program> program, checked(expression, environment, purpose));
  for (Node& node : program->tree_.nodes) node.overloads = {};  // the environment may not live as long
  HEDDLE_CHECK_OK(Planner(*program).run());
  return program;
}

Result<CostEstimate> Program::estimate(std::string_view expression, const Environment& environment, Purpose purpose) {
  HEDDLE_TRY(const auto program, checked(expression, environment, purpose));
  return estimate_cost(program->tree_);
}

Evaluator::Evaluator(uint64_t cost_limit) : cost_limit_(cost_limit) {}
Evaluator::~Evaluator() = default;

Result<Value> Evaluator::evaluate(const Program& program, const DeviceView& device) {
  if (!device.error().empty()) return fail(Code::kInvalidArgument, device.error());
  arena_.reset();
  if (slots_.size() < static_cast<size_t>(program.slots())) slots_.resize(static_cast<size_t>(program.slots()));
  Evaluation evaluation(arena_, cost_limit_);
  const Value value = Interpreter(evaluation, &device, slots_).evaluate(program.root());
  last_cost_ = evaluation.cost();
  if (evaluation.stopped()) return fail(Code::kInvalidArgument, "operation cancelled: actual cost limit exceeded");
  if (value.is_error()) return fail(Code::kInvalidArgument, std::string(value.as_text()));
  return value;
}

Result<bool> Evaluator::matches(const Program& program, const DeviceView& device) {
  HEDDLE_TRY(const Value value, evaluate(program, device));
  if (!value.is(Kind::kBool))
    return fail(Code::kInvalidArgument,
                fmt::format("CEL result of type {} could not be converted to bool", kind_name(value.kind())));
  return value.as_bool();
}

namespace {

template <typename T, typename Convert>
Result<model::AttributeValue> list_attribute(const List& list, Kind kind, Convert convert) {
  std::vector<T> items;
  for (size_t i = 0; i < list.size; ++i) {
    if (!list.items[i].is(kind))
      return fail(Code::kInvalidArgument, fmt::format("expected list element at index {} to be {}, got {}", i,
                                                      kind_name(kind), kind_name(list.items[i].kind())));
    items.push_back(convert(list.items[i]));
  }
  return model::AttributeValue(std::move(items));
}

std::string text_of(const Value& value) {
  return std::string(value.as_text());
}
model::Version version_of(const Value& value) {
  return {value.as_semver().to_string()};
}

}  // namespace

Result<model::AttributeValue> Evaluator::attribute(const Program& program, const DeviceView& device) {
  using model::AttributeValue;
  HEDDLE_TRY(const Value value, evaluate(program, device));
  if (value.is(Kind::kBool)) return AttributeValue(value.as_bool());
  if (value.is(Kind::kInt)) return AttributeValue(value.as_int());
  if (value.is(Kind::kString)) return AttributeValue(text_of(value));
  if (value.is(Kind::kSemver)) return AttributeValue(version_of(value));
  if (!value.is(Kind::kList))
    return fail(Code::kInvalidArgument,
                fmt::format("unsupported type {} of a derived attribute", kind_name(value.kind())));
  const List& list = value.as_list();
  if (list.size == 0) return AttributeValue(std::vector<std::string>());
  const Kind kind = list.items[0].kind();
  if (kind == Kind::kBool) return list_attribute<bool>(list, kind, [](const Value& v) { return v.as_bool(); });
  if (kind == Kind::kInt) return list_attribute<int64_t>(list, kind, [](const Value& v) { return v.as_int(); });
  if (kind == Kind::kString) return list_attribute<std::string>(list, kind, text_of);
  if (kind == Kind::kSemver) return list_attribute<model::Version>(list, kind, version_of);
  return fail(Code::kInvalidArgument,
              fmt::format("unsupported type {} in the list of a derived attribute", kind_name(kind)));
}

}  // namespace heddle::cel
