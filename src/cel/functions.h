// The functions of CEL at run time: name -> implementation and cost. Dispatch on the kinds of the arguments is inside.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cel/arena.h"
#include "cel/value.h"

namespace re2 {
class RE2;
}

namespace heddle::cel {

// State of one evaluation: memory, cost, and whether it was stopped. A stopped evaluation yields its stop reason
// whatever the expression would absorb.
class Evaluation {
 public:
  Evaluation(Arena& arena, uint64_t cost_limit) : arena_(arena), limit_(cost_limit) {}

  [[nodiscard]] Arena& arena() { return arena_; }
  [[nodiscard]] uint64_t cost() const { return cost_; }
  [[nodiscard]] bool stopped() const { return stopped_ || arena_.exhausted(); }
  void charge(uint64_t cost) {
    cost_ += cost;
    if (cost_ > limit_) stopped_ = true;
  }

  Value error(std::string_view message) { return Value::error(arena_.copy(message)); }
  Value no_overload() { return Value::error("no such overload"); }
  Value text(std::string_view text) { return Value::string(arena_.copy(text)); }
  Value list(const std::vector<Value>& items);
  Value optional(const Value& inner);
  Value none() { return Value::optional(nullptr); }
  // A list of this many uninitialised items to fill; null when memory is spent.
  List* new_list(size_t size);

 private:
  Arena& arena_;
  uint64_t cost_ = 0;
  uint64_t limit_;
  bool stopped_ = false;
};

// How a call is charged (cel-go interpreter/runtimecost.go, k8s.io/apiserver pkg/cel/library/cost.go). Sizes are those
// of strings, bytes, lists and maps; 1 for everything else.
enum class CostRule : uint8_t {
  kOne,
  kZero,
  kTraverseFirst,       // 0.1 x first
  kTraverseFirstTwice,  // 0.2 x first
  kTraverseSecond,      // 0.1 x second
  kTraverseResult,      // 0.2 x result
  kTraverseBoth,        // 0.1 x (first + second), of strings and bytes
  kSmaller,             // 0.1 x the smaller, of strings and bytes
  kEquality,            // 0.1 x the smaller; 1 for Kubernetes' own types
  kContains,            // 0.1 x first, times 0.1 x second
  kRegex,               // 0.1 x (1 + first), times 0.25 x second
  kInList,              // size of a list; 1 for a map
  kElements,            // traversal of a list with its elements
  kFormat,              // 0.1 x (1 + second), times a long regular expression
  kNetwork,             // containsIP, containsCIDR
};

using Implementation = Value (*)(Evaluation&, std::span<const Value>);

// A regular expression that is compiled with the program because its text is constant. Any number of threads.
class Pattern {
 public:
  // Errors: kInvalidArgument "error parsing regexp: missing closing ]: `[`", as Go has it.
  static Result<std::unique_ptr<const Pattern>> compile(std::string_view text);
  ~Pattern();
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;
  [[nodiscard]] const re2::RE2& expression() const { return *expression_; }

 private:
  explicit Pattern(std::unique_ptr<re2::RE2> expression);
  std::unique_ptr<re2::RE2> expression_;
};

// The same call with its second argument compiled already.
using PatternImplementation = Value (*)(Evaluation&, const Pattern&, std::span<const Value>);

struct FunctionEntry {
  std::string_view name;
  Implementation run = nullptr;  // null for what the evaluator does itself (&&, ||, ?:, [], ...)
  CostRule cost = CostRule::kOne;
  PatternImplementation run_pattern = nullptr;  // of functions whose second argument is a regular expression
};

uint64_t call_cost(CostRule rule, std::span<const Value> args, const Value& result);
int64_t value_size(const Value& value);

std::span<const FunctionEntry> core_functions();
std::span<const FunctionEntry> text_functions();
std::span<const FunctionEntry> format_functions();
std::span<const FunctionEntry> list_functions();
std::span<const FunctionEntry> time_functions();
std::span<const FunctionEntry> resource_functions();
std::span<const FunctionEntry> network_functions();

// Null when there is no implementation of that name.
const FunctionEntry* find_implementation(std::string_view name);

// Shared by files that implement functions.
std::string duration_text(int64_t nanos);
std::string timestamp_text(int64_t seconds, uint32_t nanos);
Value parse_timestamp(Evaluation& evaluation, std::string_view text);
Value parse_duration(Evaluation& evaluation, std::string_view text);
Value convert_to_string(Evaluation& evaluation, const Value& value);
std::string ip_text(const Ip& ip);
Value add_values(Evaluation& evaluation, const Value& a, const Value& b);

}  // namespace heddle::cel
