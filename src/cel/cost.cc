#include "cel/cost.h"

#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "cel/cost_calls.h"
#include "cel/cost_sizes.h"
#include "cel/environment.h"

namespace heddle::cel {
namespace {

constexpr uint64_t kListCost = 10;
constexpr uint64_t kMapCost = 30;

bool is_scalar(const Type& type) {
  switch (type.kind) {
    case TypeKind::kBool:
    case TypeKind::kInt:
    case TypeKind::kUint:
    case TypeKind::kDouble:
    case TypeKind::kTimestamp:
    case TypeKind::kDuration:
      return true;
    default:
      break;
  }
  const Type* inner = optional_inner(type);
  return inner != nullptr && is_scalar(*inner);
}

std::optional<Span> literal_size(const Node& node) {
  if (node.kind == NodeKind::kList) return Span::of(node.children.size());
  if (node.kind == NodeKind::kMap) return Span::of(node.children.size() / 2);
  if (node.kind != NodeKind::kConstant) return std::nullopt;
  if (node.constant.is(Kind::kString)) return Span::of(static_cast<uint64_t>(code_points(node.constant.as_text())));
  if (node.constant.is(Kind::kBytes)) return Span::of(node.constant.as_text().size());
  return Span::of(1);
}

class Estimator {
 public:
  Span cost(const Node& node) {
    switch (node.kind) {
      case NodeKind::kIdent:
        return ident(node);
      case NodeKind::kSelect:
        return select(node);
      case NodeKind::kHas:
        return cost(*node.children[0]);
      case NodeKind::kCall:
        return call(node);
      case NodeKind::kList:
        return list(node);
      case NodeKind::kMap:
        return map(node);
      case NodeKind::kComprehension:
        return is_bind(node) ? bind(node) : comprehension(node);
      case NodeKind::kConstant:
      case NodeKind::kMessage:
        break;
    }
    return {};
  }

 private:
  // Sizes of the keys (or 1) and elements of a map or list.
  struct Entries {
    bool list = false;
    Span key;
    Span value;
  };
  using MaybeEntries = std::optional<Entries>;

  struct Known {
    AccessPath path;
    std::optional<Span> size;
    MaybeEntries entries;
  };
  struct Variable {
    std::string_view name;
    Known known;
  };

  [[nodiscard]] const Variable* variable(const Node& node) const {
    if (node.kind != NodeKind::kIdent) return nullptr;
    for (auto it = variables_.rbegin(); it != variables_.rend(); ++it)
      if (it->name == node.text) return &*it;
    return nullptr;
  }

  AccessPath path_of(const Node& node) {
    const Variable* local = variable(node);
    return local != nullptr ? local->known.path : known_[&node].path;
  }

  MaybeEntries entries_of(const Node& node) {
    if (const auto& entries = known_[&node].entries) return entries;
    const Variable* local = variable(node);
    return local != nullptr ? local->known.entries : MaybeEntries();
  }
  void set_entries(const Node& node, const MaybeEntries& entries) {
    if (entries) known_[&node].entries = entries;
  }
  static MaybeEntries joined(const MaybeEntries& a, const MaybeEntries& b) {
    if (!a || !b) return std::nullopt;
    return Entries{a->list, a->key.joined(b->key), a->value.joined(b->value)};
  }

  std::optional<Span> size_of(const Node& node) {
    if (const auto& size = known_[&node].size) return size;
    if (const auto size = literal_size(node)) return size;
    if (const auto size = size_of_path(path_of(node))) {
      known_[&node].size = size;
      return size;
    }
    if (is_scalar(*node.type)) return Span::of(1);
    const Variable* local = variable(node);
    return local != nullptr ? local->known.size : std::nullopt;
  }
  Span size_or_unknown(const Node& node) { return size_of(node).value_or(Span::unknown()); }
  void set_size(const Node& node, const std::optional<Span>& size) {
    if (size) known_[&node].size = size;
  }
  void copy_sizes(const Node& to, const Node& from) {
    set_size(to, size_of(from));
    set_entries(to, entries_of(from));
  }

  Span ident(const Node& node) {
    const Variable* local = variable(node);
    known_[&node].path = local != nullptr ? local->known.path : AccessPath::of(node.text);
    return Span::of(1);
  }

  Span select(const Node& node) {
    const Node& operand = *node.children[0];
    Span sum = cost(operand);
    const TypeKind kind = operand.type->kind;
    if (kind == TypeKind::kMap || kind == TypeKind::kObject || kind == TypeKind::kParameter)
      sum = sum.plus(Span::of(1));
    known_[&node].path = path_of(operand).with(node.text);
    return sum;
  }

  Span list(const Node& node) {
    Span sum;
    Span item{node.children.empty() ? 0 : kUnbounded, 0};
    for (const Node* child : node.children) {
      sum = sum.plus(cost(*child));
      item = item.joined(size_or_unknown(*child));
    }
    set_entries(node, Entries{true, Span::of(1), item});
    return sum.plus(Span::of(kListCost));
  }

  Span map(const Node& node) {
    Span sum;
    Span key{node.children.empty() ? 0 : kUnbounded, 0};
    Span value = key;
    for (size_t i = 0; i < node.children.size(); i += 2) {
      sum = sum.plus(cost(*node.children[i])).plus(cost(*node.children[i + 1]));
      key = key.joined(size_or_unknown(*node.children[i]));
      value = value.joined(size_or_unknown(*node.children[i + 1]));
    }
    set_entries(node, Entries{false, key, value});
    return sum.plus(Span::of(kMapCost));
  }

  static bool is_bind(const Node& node) {
    const Node& range = *node.children[0];
    const Node& condition = *node.children[2];
    return range.kind == NodeKind::kList && range.children.empty() && condition.kind == NodeKind::kConstant &&
           condition.constant.is(Kind::kBool) && !condition.constant.as_bool();
  }

  void push_accumulator(const Node& node) {
    const Node& init = *node.children[1];
    const MaybeEntries entries = entries_of(init);
    const AccessPath path = path_of(init);
    variables_.push_back({node.accu_var, {path, size_of(init), entries}});
  }

  Span bind(const Node& node) {
    Span sum = cost(*node.children[0]).plus(cost(*node.children[1]));
    push_accumulator(node);
    sum = sum.plus(cost(*node.children[4]));
    variables_.pop_back();
    copy_sizes(node, *node.children[4]);
    return sum;
  }

  enum class Part : uint8_t { kKey, kValue };

  void push_iteration(std::string_view name, const Node& range, Part part) {
    const MaybeEntries entries = entries_of(range);
    const bool over_list = entries ? entries->list : range.type->kind == TypeKind::kList;
    std::optional<Span> size;
    if (entries) size = part == Part::kKey ? entries->key : entries->value;
    const std::string_view step =
        part == Part::kKey ? (over_list ? "@indices" : "@keys") : (over_list ? "@items" : "@values");
    variables_.push_back({name, {path_of(range).with(step), size, std::nullopt}});
  }

  // A single variable stands for the elements of a list, but for the keys of a map.
  void push_single(std::string_view name, const Node& range) {
    const MaybeEntries entries = entries_of(range);
    const bool over_list = entries ? entries->list : range.type->kind == TypeKind::kList;
    push_iteration(name, range, over_list ? Part::kValue : Part::kKey);
  }

  Span comprehension(const Node& node) {
    const Node& range = *node.children[0];
    const Node& init = *node.children[1];
    Span sum = cost(range).plus(cost(init));
    push_accumulator(node);
    const size_t outer = variables_.size();
    if (node.iter_var2.empty()) {
      push_single(node.iter_var, range);
    } else {
      push_iteration(node.iter_var, range, Part::kKey);
      push_iteration(node.iter_var2, range, Part::kValue);
    }
    const Span condition = cost(*node.children[2]);
    const Span step = cost(*node.children[3]);
    variables_.resize(outer);
    sum = sum.plus(cost(*node.children[4]));
    variables_.pop_back();
    const Span count = size_or_unknown(range);
    sum = sum.plus(count.times(step.plus(condition)));
    if (init.kind == NodeKind::kConstant) set_size(node, size_of(init));
    if (init.kind == NodeKind::kList || init.kind == NodeKind::kMap) {
      set_size(node, count);
      set_entries(node, entries_of(*node.children[3]));
    }
    return sum;
  }

  CallPart part_of(const Node& node) {
    AccessPath path = path_of(node);
    if (path.size() > 0 && path.at(0) == kAccumulator) path = {};
    return {&node, path, size_of(node)};
  }

  Span call(const Node& node) {
    const size_t first = node.member ? 1 : 0;
    if (node.text == "dyn" && !node.member) {
      const Span inner = cost(*node.children[0]);
      copy_sizes(node, *node.children[0]);
      return inner.plus(Span::of(1));
    }
    CallParts parts;
    for (size_t i = first; i < node.children.size(); ++i) {
      parts.costs.push_back(cost(*node.children[i]));
      parts.arguments.push_back(part_of(*node.children[i]));
    }
    Span sum;
    if (node.member) {
      sum = cost(*node.children[0]);
      parts.target = part_of(*node.children[0]);
    }
    Span worst{kUnbounded, 0};
    std::optional<Span> result;
    if (node.overloads.empty()) return sum.plus(overload_cost(node, nullptr, parts, result));
    for (const Overload* overload : node.overloads) {
      std::optional<Span> size;
      worst = worst.joined(overload_cost(node, overload, parts, size));
      if (size) result = result ? result->joined(*size) : *size;
      index_size(node, *overload, result);
      if (!result) result = size_of(node);
    }
    set_size(node, result);
    return sum.plus(worst);
  }

  // What an index leads to.
  void index_size(const Node& node, const Overload& overload, std::optional<Span>& result) {
    if (node.text != "_[_]" || optional_inner(*overload.parameters[0]) != nullptr) return;
    const Node& operand = *node.children[0];
    const MaybeEntries entries = entries_of(operand);
    result = entries ? std::optional<Span>(entries->value) : std::nullopt;
    const bool over_list = overload.parameters[0]->kind == TypeKind::kList;
    known_[&node].path = path_of(operand).with(over_list ? "@items" : "@values");
  }

  Span overload_cost(const Node& node, const Overload* overload, const CallParts& parts, std::optional<Span>& size) {
    const CallCost made = call_cost_estimate(node, overload, parts);
    size = made.result_size;
    if (node.text == "_?_:_") {
      set_entries(node, joined(entries_of(*node.children[1]), entries_of(*node.children[2])));
    } else if (made.concatenates) {
      set_entries(node, joined(entries_of(*node.children[0]), entries_of(*node.children[1])));
    }
    return made.cost;
  }

  std::unordered_map<const Node*, Known> known_;  // looked up only
  std::vector<Variable> variables_;
};

}  // namespace

CostEstimate estimate_cost(const SyntaxTree& tree) {
  const Span cost = Estimator().cost(*tree.root);
  return {cost.min, cost.max};
}

}  // namespace heddle::cel
