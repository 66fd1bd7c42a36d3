#include "cel/cost_calls.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

namespace heddle::cel {
namespace {

constexpr double kTraversal = 0.1;
constexpr double kRegexFactor = 0.25;
constexpr double kNameRegex = 128;
constexpr uint64_t kFormatSize = 64;
constexpr uint64_t kListCost = 10;

template <size_t kCount>
bool among(std::string_view name, const std::array<std::string_view, kCount>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Span size_of(const CallPart& part) {
  if (part.size) return *part.size;
  return size_of_path(part.path).value_or(Span::unknown());
}

// The value of a literal that is a whole number; negative ones count as none.
uint64_t literal_or(const CallPart& part, uint64_t otherwise) {
  if (part.node->kind != NodeKind::kConstant || !part.node->constant.is(Kind::kInt)) return otherwise;
  return static_cast<uint64_t>(std::max<int64_t>(0, part.node->constant.as_int()));
}

// The elements of a list (or of what else has a type parameter), with the size that one can have.
struct Elements {
  bool text = false;
  Span size;
};
std::optional<Elements> elements_of(const CallPart& part) {
  const Type& type = *part.node->type;
  if (type.parameters.empty()) return std::nullopt;
  const TypeKind kind = type.parameters[0]->kind;
  Elements elements{kind == TypeKind::kString || kind == TypeKind::kBytes, Span::unknown()};
  // A copy: what is looked at here is no path of a node.
  AccessPath path;
  for (size_t i = 0; i < part.path.size(); ++i) path = path.with(part.path.at(i));
  if (path.size() > 0) elements.size = size_of_path(path.with("@items")).value_or(Span::unknown());
  return elements;
}

using Estimate = std::optional<CallCost>;

Estimate only(Span cost) {
  return CallCost{cost, std::nullopt};
}
Estimate sized(Span cost, Span result) {
  return CallCost{cost, result};
}

class CallEstimator {
 public:
  CallEstimator(const Node& node, const Overload* overload, const CallParts& parts)
      : overload_(overload), parts_(parts), name_(node.text) {}

  CallCost run() {
    for (const auto method : {&CallEstimator::lists, &CallEstimator::kubernetes}) {
      Estimate estimate = (this->*method)();
      if (!estimate) continue;
      estimate->cost = estimate->cost.plus(arguments());
      return *estimate;
    }
    return language();
  }

 private:
  [[nodiscard]] Span arguments() const {
    Span sum;
    for (const Span& cost : parts_.costs) sum = sum.plus(cost);
    return sum;
  }
  [[nodiscard]] size_t count() const { return parts_.arguments.size(); }
  [[nodiscard]] Span argument(size_t index) const { return size_of(parts_.arguments[index]); }
  [[nodiscard]] Span target() const { return size_of(*parts_.target); }
  [[nodiscard]] const Type& parameter(size_t index) const { return *overload_->parameters[index]; }

  static Estimate list_made(double factor, Span size) {
    return sized(size.scaled(factor).plus(Span::of(1 + kListCost)), size);
  }

  // The libraries of lists and sets.
  [[nodiscard]] Estimate lists() const {
    if (name_ == "sets.contains" || name_ == "sets.intersects") return sets(1);
    if (name_ == "sets.equivalent") return sets(2);
    if (name_ == "lists.range") return list_made(1, Span::of(literal_or(parts_.arguments[0], kUnbounded)));
    if (!parts_.target) return std::nullopt;
    if (name_ == "slice")
      return list_made(1, Span::of(literal_or(parts_.arguments[1], target().max) - literal_or(parts_.arguments[0], 0)));
    if (name_ == "reverse") return list_made(1, target());
    if (name_ == "flatten")
      return list_made(count() == 1 ? static_cast<double>(literal_or(parts_.arguments[0], kUnbounded)) : 1, target());
    if (name_ == "distinct") return list_made(2, target().times(target()));
    if (name_ == "sort") return sorted(target(), *parameter(0).parameters[0]);
    if (name_ == "@sortByAssociatedKeys") return sorted(argument(0), *parameter(1).parameters[0]);
    return std::nullopt;
  }

  [[nodiscard]] Estimate sets(double factor) const {
    return only(argument(0).times(argument(1)).scaled(factor).plus(Span::of(1)));
  }
  static Estimate sorted(Span size, const Type& keys) {
    const bool text = keys.kind == TypeKind::kString || keys.kind == TypeKind::kBytes;
    return list_made(text ? 2.0 + kTraversal : 2.0, size.times(size));
  }

  // Functions that Kubernetes prices by their names.
  [[nodiscard]] Estimate kubernetes() const {
    static constexpr std::array<std::string_view, 27> kConstant = {"masked",
                                                                   "prefixLength",
                                                                   "family",
                                                                   "isUnspecified",
                                                                   "isLoopback",
                                                                   "isLinkLocalMulticast",
                                                                   "isLinkLocalUnicast",
                                                                   "isGlobalUnicast",
                                                                   "format.named",
                                                                   "sign",
                                                                   "asInteger",
                                                                   "isInteger",
                                                                   "asApproximateFloat",
                                                                   "isGreaterThan",
                                                                   "isLessThan",
                                                                   "compareTo",
                                                                   "add",
                                                                   "sub",
                                                                   "major",
                                                                   "minor",
                                                                   "patch",
                                                                   "getScheme",
                                                                   "getHostname",
                                                                   "getHost",
                                                                   "getPort",
                                                                   "getEscapedPath",
                                                                   "getQuery"};
    static constexpr std::array<std::string_view, 7> kWalks = {"isSorted", "sum",         "max",     "min",
                                                               "indexOf",  "lastIndexOf", "includes"};
    static constexpr std::array<std::string_view, 7> kReads = {"cidr",       "isIP",   "isCIDR",  "quantity",
                                                               "isQuantity", "semver", "isSemver"};
    if (among(name_, kConstant)) return only(Span::of(1));
    if (among(name_, kReads)) return only(argument(0).scaled(kTraversal));
    if (name_ == "ip") return ip();
    if (name_ == "ip.isCanonical") return only(argument(0).scaled(2 * kTraversal));
    if (name_ == "url") return sized(argument(0).scaled(kTraversal), argument(0));
    if (name_ == "_==_") return equality();
    if (!parts_.target) return std::nullopt;
    if (among(name_, kWalks)) return walk();
    if (name_ == "containsIP" || name_ == "containsCIDR") return network();
    if (name_ == "validate") return only(argument(0).scaled(kTraversal).scaled(kNameRegex * kRegexFactor));
    return text();
  }

  [[nodiscard]] Estimate text() const {
    if (name_ == "lowerAscii" || name_ == "upperAscii" || name_ == "substring" || name_ == "trim")
      return sized(target().scaled(kTraversal), target());
    if (name_ == "replace" && count() >= 2) return sized(target().scaled(2 * kTraversal), replaced());
    if (name_ == "split") {
      uint64_t most = target().max;
      if (count() > 1 && parts_.arguments[1].node->kind == NodeKind::kConstant &&
          parts_.arguments[1].node->constant.is(Kind::kInt))
        most = static_cast<uint64_t>(parts_.arguments[1].node->constant.as_int());
      return sized(target().scaled(2 * kTraversal), Span{0, most});
    }
    if (name_ == "join") return join();
    if (name_ == "find" || name_ == "findAll") {
      const Span reading = target().plus(Span::of(1)).scaled(kTraversal);
      return sized(reading.times(argument(0).scaled(kRegexFactor)), Span{0, target().max});
    }
    return std::nullopt;
  }

  [[nodiscard]] Estimate walk() const {
    Span each = Span::of(1);
    if (const auto elements = elements_of(*parts_.target)) {
      if (elements->text) each = each.plus(elements->size.scaled(kTraversal));
      return only(target().times(each));
    }
    if (name_ == "includes") return only(target().times(each));
    return only(target().scaled(kTraversal));  // of a text
  }

  struct Parts {
    uint64_t times = 0;  // that something is put in
    uint64_t kept = 0;
  };
  // Of a text of `whole` in which texts of `from` are replaced. An empty one stands before, between and behind all.
  static Parts parted(uint64_t whole, uint64_t from, bool untouched) {
    if (from == 0) return {add_bounded(whole, 1), whole};
    if (untouched) return {0, whole};
    return {scale_bounded(1, static_cast<double>(whole) / static_cast<double>(from)), 0};
  }

  [[nodiscard]] Span replaced() const {
    const Span whole = target();
    const Span from = argument(0);
    const Span to = argument(1);
    // What is longest keeps the text where nothing grows it, what is shortest where nothing cuts it.
    const Parts most = parted(whole.max, from.min, to.max <= from.min);
    const Parts least = parted(whole.min, from.max, from.max <= to.min);
    const Span times{least.times, most.times};
    const Span kept{least.kept, most.kept};
    return times.times(to).plus(kept);
  }

  [[nodiscard]] Estimate join() const {
    const Span list = target();
    Span size;
    if (const auto elements = elements_of(*parts_.target)) size = list.times(elements->size);
    if (count() > 0) {
      const Span separators{list.min > 0 ? list.min - 1 : 0, list.max > 0 ? list.max - 1 : 0};
      size = size.plus(argument(0).times(separators));
    }
    return sized(size.scaled(kTraversal), size);
  }

  [[nodiscard]] Estimate ip() const {
    if (parts_.target) return only(Span::of(1));
    return only(argument(0).scaled(kTraversal));
  }

  [[nodiscard]] Estimate network() const {
    const Span bytes{4, 16};
    Span cost = bytes.plus(bytes).scaled(kTraversal);
    if (name_ == "containsCIDR") cost = cost.plus(bytes.scaled(kTraversal)).plus(Span::of(1));
    if (parameter(1).kind == TypeKind::kString) cost = cost.plus(argument(0).scaled(kTraversal));
    return only(cost);
  }

  [[nodiscard]] Estimate equality() const {
    const Type& left = *parts_.arguments[0].node->type;
    const Type& right = *parts_.arguments[1].node->type;
    if (left.kind != TypeKind::kObject || right.kind != TypeKind::kObject || left.name != right.name)
      return std::nullopt;
    if (left.name == "kubernetes.NamedFormat") return only(Span{1, kFormatSize}.scaled(kTraversal));
    if (left.name == "kubernetes.URL") {
      const auto& size = parts_.arguments[1].size;
      return only(Span{1, size ? size->max : 1}.scaled(kTraversal));
    }
    static constexpr std::array<std::string_view, 4> kSmall = {"kubernetes.Quantity", "kubernetes.Semver", "net.IP",
                                                               "net.CIDR"};
    return among(left.name, kSmall) ? only(Span::of(1)) : std::nullopt;
  }

  // The rest, as the language has it.
  [[nodiscard]] CallCost language() const {
    if (name_ == "_&&_" || name_ == "_||_") {
      // The first may decide; all are evaluated at worst.
      return {{parts_.costs[0].min, arguments().max}, std::nullopt};
    }
    if (name_ == "_?_:_") {
      const Span either = parts_.costs[1].joined(parts_.costs[2]);
      return {parts_.costs[0].plus(either), known(1).joined(known(2))};
    }
    if (overload_ != nullptr) {
      if (Estimate estimate = by_size()) {
        estimate->cost = estimate->cost.plus(arguments());
        return *estimate;
      }
    }
    return {Span::of(1).plus(arguments()), std::nullopt};
  }

  [[nodiscard]] Span known(size_t index) const { return parts_.arguments[index].size.value_or(Span::unknown()); }
  [[nodiscard]] Span known_target() const { return parts_.target->size.value_or(Span::unknown()); }

  [[nodiscard]] Estimate by_size() const {
    if (name_ == "_+_") return concatenation();
    if (name_ == "_==_" || name_ == "_!=_") return comparison();
    if (name_ == "_<_" || name_ == "_<=_" || name_ == "_>_" || name_ == "_>=_")
      return is_text(parameter(0)) ? comparison() : std::nullopt;
    if (name_ == "@in") return parameter(1).kind == TypeKind::kList ? only(known(1).scaled(1)) : std::nullopt;
    if (name_ == "startsWith" || name_ == "endsWith") return only(known(0).scaled(kTraversal));
    if (name_ == "contains") return only(known_target().scaled(kTraversal).times(known(0).scaled(kTraversal)));
    if (name_ == "matches") {
      const Span text = parts_.target ? known_target() : known(0);
      const Span pattern = known(parts_.target ? 0 : 1);
      return only(text.plus(Span::of(1)).scaled(kTraversal).times(pattern.scaled(kRegexFactor)));
    }
    if (name_ == "format" && parts_.target) return only(known_target().scaled(kTraversal));
    return conversion();
  }

  [[nodiscard]] Estimate conversion() const {
    if (name_ == "bytes" && parameter(0).kind == TypeKind::kString)
      return sized(known(0).scaled(kTraversal), {known(0).min, known(0).max * 4});
    if (name_ == "string" && parameter(0).kind == TypeKind::kBytes)
      return sized(known(0).scaled(kTraversal), {known(0).min / 4, known(0).max});
    if (name_ == "strings.quote") return sized(known(0).scaled(kTraversal), {known(0).min + 2, known(0).max * 2 + 2});
    return std::nullopt;
  }

  static bool is_text(const Type& type) { return type.kind == TypeKind::kString || type.kind == TypeKind::kBytes; }

  [[nodiscard]] Estimate concatenation() const {
    const Span both = known(0).plus(known(1));
    if (parameter(0).kind == TypeKind::kList) return CallCost{Span::of(1), both, true};
    if (is_text(parameter(0))) return CallCost{both.scaled(kTraversal), both, true};
    return std::nullopt;
  }

  [[nodiscard]] Estimate comparison() const {
    const uint64_t smaller = std::min(known(0).max, known(1).max);
    return only(Span{smaller > 0 ? uint64_t{1} : 0, smaller}.scaled(kTraversal));
  }

  const Overload* overload_;
  const CallParts& parts_;
  std::string_view name_;
};

}  // namespace

CallCost call_cost_estimate(const Node& node, const Overload* overload, const CallParts& parts) {
  return CallEstimator(node, overload, parts).run();
}

}  // namespace heddle::cel
