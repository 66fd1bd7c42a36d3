// Macros: has, all, exists, exists_one, map, filter, their two-variable forms, transformList/Map/MapEntry, cel.bind,
// optMap, optFlatMap and sortBy, expanded as cel-go v0.29.2 does (parser/macro.go, ext/comprehensions.go,
// ext/bindings.go, ext/lists.go).
#include <fmt/format.h>

#include "cel/syntax.h"

namespace heddle::cel {

namespace {

class Expander {
 public:
  Expander(SyntaxTree& tree, Node* call) : tree_(tree), call_(call) {
    target_ = call->member ? call->children[0] : nullptr;
    args_.assign(call->children.begin() + (call->member ? 1 : 0), call->children.end());
  }

  Result<Node*> run() {
    const std::string& name = call_->text;
    if (target_ == nullptr) return name == "has" && args_.size() == 1 ? has() : Result<Node*>(nullptr);
    if (name == "bind" && args_.size() == 3 && is_cel_namespace()) return bind();
    if (args_.size() == 2) return one_variable(name);
    if (args_.size() == 3) return three_arguments(name);
    if (args_.size() == 4) return transform(name, args_[2], args_[3]);
    return nullptr;
  }

 private:
  tl::unexpected<Error> error(std::string_view what) const { return fail(Code::kInvalidArgument, std::string(what)); }
  [[nodiscard]] bool is_cel_namespace() const { return target_->kind == NodeKind::kIdent && target_->text == "cel"; }

  Result<Node*> one_variable(const std::string& name) {
    if (name == "all" || name == "exists" || name == "exists_one" || name == "existsOne")
      return quantifier(name, {args_[0]}, args_[1]);
    if (name == "map") return map_list({args_[0]}, nullptr, args_[1]);
    if (name == "filter") return map_list({args_[0]}, args_[1], args_[0]);
    if (name == "optMap" || name == "optFlatMap") return optional_map(name);
    if (name == "sortBy") return sort_by();
    return nullptr;
  }

  Result<Node*> three_arguments(const std::string& name) {
    if (name == "map") return map_list({args_[0]}, args_[1], args_[2]);
    if (name == "all" || name == "exists" || name == "exists_one" || name == "existsOne")
      return quantifier(name, {args_[0], args_[1]}, args_[2]);
    return transform(name, nullptr, args_[2]);
  }

  Result<Node*> transform(const std::string& name, Node* filter, Node* body) {
    if (name == "transformList") return map_list({args_[0], args_[1]}, filter, body);
    if (name == "transformMap") return map_insert(filter, {ident(args_[0]->text), body});
    if (name == "transformMapEntry") return map_insert(filter, {body});
    return nullptr;
  }

  Node* node(NodeKind kind, std::vector<Node*> children = {}) {
    Node* made = tree_.make(kind, call_->offset);
    made->children = std::move(children);
    made->optional.assign(kind == NodeKind::kList ? made->children.size() : 0, false);
    return made;
  }
  Node* ident(std::string_view name) {
    Node* made = node(NodeKind::kIdent);
    made->text = name;
    return made;
  }
  Node* accumulator() { return ident(kAccumulator); }
  Node* constant(Value value) {
    Node* made = node(NodeKind::kConstant);
    made->constant = value;
    return made;
  }
  Node* call(std::string_view function, std::vector<Node*> args) {
    Node* made = node(NodeKind::kCall, std::move(args));
    made->text = function;
    return made;
  }
  Node* member_call(std::string_view function, std::vector<Node*> args) {
    Node* made = call(function, std::move(args));
    made->member = true;
    return made;
  }

  Node* comprehension(std::vector<std::string> vars, std::string_view accu, Node* range, Node* init, Node* condition,
                      Node* step, Node* result) {
    Node* made = node(NodeKind::kComprehension, {range, init, condition, step, result});
    made->iter_var = vars[0];
    if (vars.size() > 1) made->iter_var2 = vars[1];
    made->accu_var = accu;
    return made;
  }

  Result<std::vector<std::string>> variables(const std::vector<Node*>& nodes) {
    std::vector<std::string> names;
    for (const Node* variable : nodes) {
      if (variable->kind != NodeKind::kIdent) return error("argument must be a simple name");
      if (variable->text == "__result__") return error("iteration variable overwrites accumulator variable");
      names.push_back(variable->text);
    }
    if (names.size() == 2 && names[0] == names[1]) return error(fmt::format("duplicate variable name: {}", names[0]));
    return names;
  }

  Result<Node*> has() {
    if (args_[0]->kind != NodeKind::kSelect) return error("invalid argument to has() macro");
    Node* made = node(NodeKind::kHas, args_[0]->children);
    made->text = args_[0]->text;
    return made;
  }

  Result<Node*> quantifier(const std::string& name, const std::vector<Node*>& variable_nodes, Node* predicate) {
    HEDDLE_TRY(auto vars, variables(variable_nodes));
    if (name == "all")
      return comprehension(vars, kAccumulator, target_, constant(Value::boolean(true)),
                           call("@not_strictly_false", {accumulator()}), call("_&&_", {accumulator(), predicate}),
                           accumulator());
    if (name == "exists")
      return comprehension(vars, kAccumulator, target_, constant(Value::boolean(false)),
                           call("@not_strictly_false", {call("!_", {accumulator()})}),
                           call("_||_", {accumulator(), predicate}), accumulator());
    Node* count = call("_+_", {accumulator(), constant(Value::integer(1))});
    return comprehension(vars, kAccumulator, target_, constant(Value::integer(0)), constant(Value::boolean(true)),
                         call("_?_:_", {predicate, count, accumulator()}),
                         call("_==_", {accumulator(), constant(Value::integer(1))}));
  }

  Node* guarded(Node* filter, Node* step) {
    return filter == nullptr ? step : call("_?_:_", {filter, step, accumulator()});
  }

  Result<Node*> map_list(const std::vector<Node*>& variable_nodes, Node* filter, Node* body) {
    HEDDLE_TRY(auto vars, variables(variable_nodes));
    Node* append = call("_+_", {accumulator(), node(NodeKind::kList, {body})});
    append->append_in_place = true;
    return comprehension(vars, kAccumulator, target_, node(NodeKind::kList), constant(Value::boolean(true)),
                         guarded(filter, append), accumulator());
  }

  Result<Node*> map_insert(Node* filter, std::vector<Node*> entry) {
    HEDDLE_TRY(auto vars, variables({args_[0], args_[1]}));
    entry.insert(entry.begin(), accumulator());
    Node* insert = call("cel.@mapInsert", std::move(entry));
    insert->append_in_place = true;
    return comprehension(vars, kAccumulator, target_, node(NodeKind::kMap), constant(Value::boolean(true)),
                         guarded(filter, insert), accumulator());
  }

  // A comprehension over nothing: its accumulator is the variable, its result the body.
  Node* let(std::string_view name, Node* value, Node* body) {
    return comprehension({"#unused"}, name, node(NodeKind::kList), value, constant(Value::boolean(false)), ident(name),
                         body);
  }

  Result<Node*> bind() {
    if (args_[0]->kind != NodeKind::kIdent) return error("cel.bind() variable names must be simple identifiers");
    return let(args_[0]->text, args_[1], args_[2]);
  }

  Result<Node*> optional_map(const std::string& name) {
    if (args_[0]->kind != NodeKind::kIdent) return error(name + "() variable name must be a simple identifier");
    Node* body = let(args_[0]->text, member_call("value", {copy(target_)}), args_[1]);
    if (name == "optMap") body = call("optional.of", {body});
    return call("_?_:_", {member_call("hasValue", {target_}), body, call("optional.none", {})});
  }

  Result<Node*> sort_by() {
    constexpr std::string_view kInput = "@__sortBy_input__";
    NodeKind kind = target_->kind;
    if (kind == NodeKind::kConstant || kind == NodeKind::kMap || kind == NodeKind::kMessage)
      return error("sortBy can only be applied to a list, identifier, comprehension, call or select expression");
    Node* list = target_;
    target_ = ident(kInput);
    HEDDLE_TRY(Node * keys, map_list({args_[0]}, nullptr, args_[1]));
    return let(kInput, list, member_call("@sortByAssociatedKeys", {ident(kInput), keys}));
  }

  // Nodes carry what the checker and the planner find out, so one node must not stand in two places.
  Node* copy(const Node* original) {
    Node* made = tree_.make(original->kind, original->offset);
    *made = *original;
    for (Node*& child : made->children) child = copy(child);
    return made;
  }

  SyntaxTree& tree_;
  Node* call_;
  Node* target_;
  std::vector<Node*> args_;
};

}  // namespace

Result<Node*> expand_macro(SyntaxTree& tree, Node* call) {
  return Expander(tree, call).run();
}

}  // namespace heddle::cel
