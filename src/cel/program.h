// A selector compiled once and evaluated against many devices.
//
// Thread rule: a Program is immutable and shared; an Evaluator belongs to one thread and reuses its memory.
// Cost: an evaluation of the usual shapes (comparisons of attributes and capacities with constants) allocates nothing.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cel/arena.h"
#include "cel/cost.h"
#include "cel/device.h"
#include "cel/environment.h"
#include "cel/syntax.h"

namespace heddle::cel {

inline constexpr uint64_t kRuntimeCostLimit = 1'000'000;

// What the value of an expression is for: to select a device, or to be compared as an attribute of it (a bool, int,
// string or version, or a list of one of them).
enum class Purpose : uint8_t { kSelector, kDerivedAttribute };

class Program {
 public:
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  // Errors: kInvalidArgument "compilation failed: ..." with what is wrong and where ("at 1:7"), or "must evaluate to
  // bool or the unknown type, not int", "program instantiation failed: error parsing regexp: ...".
  static Result<std::shared_ptr<const Program>> compile(std::string_view expression, const Environment& environment,
                                                        Purpose purpose = Purpose::kSelector);

  // What upstream estimates that the expression costs, at least and at most. Errors: as compile(), of syntax and types.
  static Result<CostEstimate> estimate(std::string_view expression, const Environment& environment,
                                       Purpose purpose = Purpose::kSelector);

  [[nodiscard]] const std::string& expression() const { return expression_; }
  [[nodiscard]] const Node& root() const { return *tree_.root; }
  [[nodiscard]] int slots() const { return slots_; }

 private:
  friend class Planner;
  Program();
  static Result<std::shared_ptr<Program>> checked(std::string_view expression, const Environment& environment,
                                                  Purpose purpose);

  std::string expression_;
  SyntaxTree tree_;
  TypeTable types_;
  Arena folded_;  // values of calls on constants, computed once
  std::vector<std::unique_ptr<const Pattern>> patterns_;
  int slots_ = 0;
};

class Evaluator {
 public:
  explicit Evaluator(uint64_t cost_limit = kRuntimeCostLimit);
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  // Whether the device is selected. Errors: kInvalidArgument with the language's message ("no such key: x", "actual
  // cost limit exceeded", "CEL result of type list could not be converted to bool").
  Result<bool> matches(const Program& program, const DeviceView& device);
  // The value of an expression compiled for kDerivedAttribute. Errors: as matches(), and for values of other types.
  Result<model::AttributeValue> attribute(const Program& program, const DeviceView& device);
  // What the last evaluation was charged.
  [[nodiscard]] uint64_t last_cost() const { return last_cost_; }

 private:
  Result<Value> evaluate(const Program& program, const DeviceView& device);

  Arena arena_;
  std::vector<Value> slots_;
  uint64_t cost_limit_;
  uint64_t last_cost_ = 0;
};

}  // namespace heddle::cel
