#include <string>

#include "cel/program.h"
#include "engine/engine.h"

namespace heddle::engine {

namespace {
// As the API server has them.
constexpr size_t kMaxExpressionBytes = size_t{10} * 1024;
constexpr uint64_t kMaxCost = 1'000'000;

std::string text_of(uint64_t cost) {
  return cost == UINT64_MAX ? "any amount" : std::to_string(cost);
}
}  // namespace

Result<void> check_selector(std::string_view expression) {
  if (expression.empty()) {
    return fail(Code::kInvalidArgument, "the selector is empty or of a kind that this version does not know");
  }
  if (expression.size() > kMaxExpressionBytes) {
    return fail(Code::kInvalidArgument, "the selector is too long: it has " + std::to_string(expression.size()) +
                                            " bytes, at most " + std::to_string(kMaxExpressionBytes) + " are allowed");
  }
  const cel::Environment environment({.mode = cel::Mode::kNew});
  HEDDLE_TRY([[maybe_unused]] const auto program, cel::Program::compile(expression, environment));
  HEDDLE_TRY(const cel::CostEstimate cost, cel::Program::estimate(expression, environment));
  if (cost.max > kMaxCost) {
    return fail(Code::kInvalidArgument, "the selector is too complex: it may cost " + text_of(cost.max) + ", at most " +
                                            std::to_string(kMaxCost) + " is allowed; loop over less, or compare less");
  }
  return {};
}

}  // namespace heddle::engine
