#include "cel/checker.h"

#include <fmt/format.h>

#include <optional>

namespace heddle::cel {

namespace {

// Function names as users know them, for messages.
std::string display_name(std::string_view function) {
  if (function == "@in") return "_in_";
  return std::string(function);
}

// "a.b.c" when the node is a chain of names, else nothing.
std::optional<std::string> qualified_name(const Node& node) {
  if (node.kind == NodeKind::kIdent) return node.text;
  if (node.kind != NodeKind::kSelect) return std::nullopt;
  auto prefix = qualified_name(*node.children[0]);
  if (!prefix) return std::nullopt;
  return *prefix + "." + node.text;
}

class Checker {
 public:
  Checker(const Environment& environment, TypeTable& types, std::string_view expression)
      : environment_(environment), types_(types), expression_(expression) {}

  Result<const Type*> run(SyntaxTree& tree) {
    HEDDLE_CHECK_OK(check(*tree.root));
    for (Node& node : tree.nodes)
      if (node.type != nullptr) node.type = substitute(substitution_, node.type, Unbound::kToDyn, types_);
    HEDDLE_CHECK_OK(check_literals(*tree.root));
    return tree.root->type;
  }

 private:
  struct Variable {
    std::string name;
    const Type* type;
  };

  tl::unexpected<Error> error(const Node& node, std::string_view what) const {
    return fail(Code::kInvalidArgument, fmt::format("{} at {}", what, location_text(expression_, node.offset)));
  }
  tl::unexpected<Error> undeclared(const Node& node, std::string_view name) const {
    return error(node, fmt::format("undeclared reference to '{}' (in container '')", name));
  }

  [[nodiscard]] const Type* basic(TypeKind kind) const { return types_.basic(kind); }
  const Type* new_variable() { return types_.parameter(fmt::format("_var{}", next_variable_++)); }
  const Type* resolved(const Type* type) { return substitute(substitution_, type, Unbound::kKeep, types_); }

  Result<void> check(Node& node) {
    switch (node.kind) {
      case NodeKind::kConstant:
        node.type = basic(type_kind(node.constant.kind()));
        return {};
      case NodeKind::kIdent:
        return check_ident(node);
      case NodeKind::kSelect:
        return check_select(node);
      case NodeKind::kHas:
        return check_has(node);
      case NodeKind::kCall:
        return check_call(node);
      case NodeKind::kList:
        return check_list(node);
      case NodeKind::kMap:
        return check_map(node);
      case NodeKind::kMessage:
        return undeclared(node, node.text);
      case NodeKind::kComprehension:
        return check_comprehension(node);
    }
    return {};
  }

  [[nodiscard]] const Type* find_variable(std::string_view name) const {
    for (auto it = scope_.rbegin(); it != scope_.rend(); ++it)
      if (it->name == name) return it->type;
    return find_global(name);
  }

  [[nodiscard]] const Type* find_global(std::string_view name) const {
    if (name == "device") return environment_.device_type();
    return environment_.find_type_name(name);
  }

  Result<void> check_ident(Node& node) {
    node.type = node.absolute ? find_global(node.text) : find_variable(node.text);
    if (node.type == nullptr) return undeclared(node, node.text);
    return {};
  }

  Result<void> check_select(Node& node) {
    // google.protobuf.Timestamp and friends are names with dots.
    if (auto name = qualified_name(node); name && find_variable(name->substr(0, name->find('.'))) == nullptr) {
      if (const Type* type = environment_.find_type_name(*name)) {
        node.kind = NodeKind::kIdent;
        node.text = *name;
        node.children.clear();
        node.type = type;
        return {};
      }
    }
    HEDDLE_TRY(node.type, field_type(node, *node.children[0], node.text));
    return {};
  }

  Result<void> check_has(Node& node) {
    HEDDLE_CHECK_OK(field_type(node, *node.children[0], node.text));
    node.type = basic(TypeKind::kBool);
    return {};
  }

  Result<const Type*> field_type(Node& node, Node& operand, const std::string& field) {
    HEDDLE_CHECK_OK(check(operand));
    const Type* target = resolved(operand.type);
    const Type* inner = optional_inner(*target);
    HEDDLE_TRY(const Type* type, plain_field_type(node, inner == nullptr ? target : inner, field));
    return resolved(inner == nullptr ? type : types_.optional(type));
  }

  Result<const Type*> plain_field_type(Node& node, const Type* target, const std::string& field) {
    if (target->kind == TypeKind::kMap) return target->parameters[1];
    if (target->kind == TypeKind::kObject) {
      const Type* type = same(*target, *environment_.device_type()) ? environment_.find_device_field(field) : nullptr;
      if (type == nullptr) return error(node, fmt::format("undefined field '{}'", field));
      return type;
    }
    if (target->kind == TypeKind::kParameter) {
      assignable(substitution_, basic(TypeKind::kDyn), target);
      return basic(TypeKind::kDyn);
    }
    if (is_dyn_or_error(*target)) return basic(TypeKind::kDyn);
    return error(node, fmt::format("type '{}' does not support field selection", type_text(*target)));
  }

  Result<void> check_call(Node& node) {
    if (node.text == "_?._") return check_optional_select(node);
    size_t first = node.member ? 1 : 0;
    for (size_t i = first; i < node.children.size(); ++i) HEDDLE_CHECK_OK(check(*node.children[i]));
    if (node.member) {
      auto prefix = qualified_name(*node.children[0]);
      std::string name = prefix ? *prefix + "." + node.text : "";
      if (prefix && environment_.find_function(name) != nullptr) {
        node.text = name;
        node.member = false;
        node.children.erase(node.children.begin());
      } else {
        HEDDLE_CHECK_OK(check(*node.children[0]));
      }
    }
    const auto* overloads = environment_.find_function(node.text);
    if (overloads == nullptr) return undeclared(node, node.text);
    return resolve(node, *overloads);
  }

  Result<void> check_optional_select(Node& node) {
    HEDDLE_TRY(const Type* type,
               field_type(node, *node.children[0], std::string(node.children[1]->constant.as_text())));
    node.children[1]->type = basic(TypeKind::kString);
    node.type = optional_inner(*type) != nullptr ? type : types_.optional(type);
    return {};
  }

  Result<void> resolve(Node& node, const std::vector<Overload>& overloads) {
    std::vector<const Type*> arguments;
    arguments.reserve(node.children.size());
    for (const Node* child : node.children) arguments.push_back(child->type);
    if (node.text == "_&&_" || node.text == "_||_") return resolve_logical(node, arguments);
    const Type* result = nullptr;
    for (const Overload& overload : overloads) {
      if (overload.member != node.member) continue;
      Overload fresh = instantiate(overload);
      if (!assignable_all(substitution_, arguments, fresh.parameters)) continue;
      node.overloads.push_back(&overload);
      const Type* type = resolved(fresh.result);
      if (result == nullptr) {
        result = type;
      } else if (!is_dyn(*result) && !same(*type, *result)) {
        result = basic(TypeKind::kDyn);
      }
    }
    if (result == nullptr) return no_overload(node, arguments);
    node.type = result;
    return {};
  }

  Result<void> resolve_logical(Node& node, const std::vector<const Type*>& arguments) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (assignable(substitution_, arguments[i], basic(TypeKind::kBool))) continue;
      return error(*node.children[i],
                   fmt::format("expected type 'bool' but found '{}'", type_text(*resolved(arguments[i]))));
    }
    node.type = basic(TypeKind::kBool);
    return {};
  }

  // The overload with fresh type parameters, so that two calls do not bind each other's.
  Overload instantiate(const Overload& overload) {
    Substitution fresh;
    Overload made = overload;
    for (const Type*& parameter : made.parameters) parameter = rename(parameter, fresh);
    made.result = rename(made.result, fresh);
    return made;
  }

  const Type* rename(const Type* type, Substitution& fresh) {
    if (type->kind == TypeKind::kParameter) {
      if (const Type* bound = fresh.find(*type)) return bound;
      const Type* variable = new_variable();
      fresh.set(*type, variable);
      return variable;
    }
    if (type->parameters.empty()) return type;
    std::vector<const Type*> parameters;
    parameters.reserve(type->parameters.size());
    for (const Type* parameter : type->parameters) parameters.push_back(rename(parameter, fresh));
    return types_.make(type->kind, type->name, std::move(parameters));
  }

  tl::unexpected<Error> no_overload(const Node& node, const std::vector<const Type*>& arguments) {
    std::vector<std::string> texts;
    texts.reserve(arguments.size());
    for (const Type* argument : arguments)
      texts.push_back(type_text(*substitute(substitution_, argument, Unbound::kToDyn, types_)));
    std::string applied = node.member && !texts.empty()
                              ? fmt::format("'{}.({})'", texts[0], fmt::join(texts.begin() + 1, texts.end(), ", "))
                              : fmt::format("'({})'", fmt::join(texts, ", "));
    return error(node,
                 fmt::format("found no matching overload for '{}' applied to {}", display_name(node.text), applied));
  }

  const Type* join(const Type* previous, const Type* current) {
    if (previous == nullptr) return current;
    return assignable(substitution_, previous, current) ? most_general(previous, current) : basic(TypeKind::kDyn);
  }

  // What stands in one list or map literal must be of one type, but for the arguments of format().
  Result<void> check_literals(const Node& node) {
    const bool format = node.kind == NodeKind::kCall && node.text == "format";
    if (format) ++within_format_;
    for (const Node* child : node.children) HEDDLE_CHECK_OK(check_literals(*child));
    if (format) --within_format_;
    if (within_format_ > 0) return {};
    if (node.kind == NodeKind::kList) return check_one_type(node, 0, 1);
    if (node.kind != NodeKind::kMap) return {};
    HEDDLE_CHECK_OK(check_one_type(node, 0, 2));
    return check_one_type(node, 1, 2);
  }

  Result<void> check_one_type(const Node& literal, size_t first, size_t stride) const {
    const Type* expected = nullptr;
    for (size_t i = first; i < literal.children.size(); i += stride) {
      const Node& child = *literal.children[i];
      const bool value = stride == 1 || i % 2 == 1;
      const Type* inner = value && literal.optional[i / stride] ? optional_inner(*child.type) : nullptr;
      const Type* type = inner == nullptr ? child.type : inner;
      if (expected == nullptr) expected = type;
      if (same(*expected, *type)) continue;
      return error(child, fmt::format("expected type '{}' but found '{}'", type_text(*expected), type_text(*type)));
    }
    return {};
  }

  Result<const Type*> element_type(Node& node, bool optional) {
    if (!optional) return node.type;
    const Type* type = resolved(node.type);
    if (const Type* inner = optional_inner(*type)) return inner;
    if (is_dyn(*type)) return type;
    return error(node, fmt::format("expected type 'optional_type({0})' but found '{0}'", type_text(*type)));
  }

  Result<void> check_list(Node& node) {
    const Type* element = nullptr;
    for (size_t i = 0; i < node.children.size(); ++i) {
      HEDDLE_CHECK_OK(check(*node.children[i]));
      HEDDLE_TRY(const Type* type, element_type(*node.children[i], node.optional[i]));
      element = join(element, type);
    }
    node.type = types_.list(element == nullptr ? new_variable() : element);
    return {};
  }

  Result<void> check_map(Node& node) {
    const Type* key = nullptr;
    const Type* value = nullptr;
    for (size_t i = 0; i < node.children.size(); i += 2) {
      HEDDLE_CHECK_OK(check(*node.children[i]));
      key = join(key, node.children[i]->type);
      HEDDLE_CHECK_OK(check(*node.children[i + 1]));
      HEDDLE_TRY(const Type* type, element_type(*node.children[i + 1], node.optional[i / 2]));
      value = join(value, type);
    }
    node.type = types_.map(key == nullptr ? new_variable() : key, value == nullptr ? new_variable() : value);
    return {};
  }

  // Types of the iteration variables over the range: element (list) or key (map), or index and element, key and value.
  Result<std::pair<const Type*, const Type*>> iteration_types(const Node& node) {
    const Type* range = resolved(node.children[0]->type);
    bool two = !node.iter_var2.empty();
    const Type* dyn = basic(TypeKind::kDyn);
    switch (range->kind) {
      case TypeKind::kList:
        if (two) return std::pair{basic(TypeKind::kInt), range->parameters[0]};
        return std::pair{range->parameters[0], dyn};
      case TypeKind::kMap:
        return std::pair{range->parameters[0], range->parameters[1]};
      case TypeKind::kDyn:
      case TypeKind::kError:
      case TypeKind::kParameter:
        assignable(substitution_, dyn, range);
        return std::pair{dyn, dyn};
      default:
        return error(
            *node.children[0],
            fmt::format("expression of type '{}' cannot be range of a comprehension (must be list, map, or dynamic)",
                        type_text(*range)));
    }
  }

  Result<void> check_comprehension(Node& node) {
    HEDDLE_CHECK_OK(check(*node.children[0]));
    HEDDLE_CHECK_OK(check(*node.children[1]));
    const Type* accumulator = node.children[1]->type;
    HEDDLE_TRY(auto variables, iteration_types(node));
    size_t outer = scope_.size();
    scope_.push_back({node.accu_var, accumulator});
    size_t block = scope_.size();
    scope_.push_back({node.iter_var, variables.first});
    if (!node.iter_var2.empty()) scope_.push_back({node.iter_var2, variables.second});
    HEDDLE_CHECK_OK(check(*node.children[2]));
    HEDDLE_CHECK_OK(expect_type(*node.children[2], basic(TypeKind::kBool)));
    HEDDLE_CHECK_OK(check(*node.children[3]));
    HEDDLE_CHECK_OK(expect_type(*node.children[3], accumulator));
    scope_.resize(block);
    HEDDLE_CHECK_OK(check(*node.children[4]));
    scope_.resize(outer);
    node.type = resolved(node.children[4]->type);
    return {};
  }

  Result<void> expect_type(const Node& node, const Type* type) {
    if (assignable(substitution_, type, node.type)) return {};
    return error(node, fmt::format("expected type '{}' but found '{}'", type_text(*resolved(type)),
                                   type_text(*resolved(node.type))));
  }

  const Environment& environment_;
  TypeTable& types_;
  std::string_view expression_;
  Substitution substitution_;
  std::vector<Variable> scope_;
  int next_variable_ = 0;
  int within_format_ = 0;
};

}  // namespace

Result<const Type*> check(SyntaxTree& tree, const Environment& environment, TypeTable& types,
                          std::string_view expression) {
  return Checker(environment, types, expression).run(tree);
}

}  // namespace heddle::cel
