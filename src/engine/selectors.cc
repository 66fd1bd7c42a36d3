#include <string>

#include "cel/program.h"
#include "engine/engine.h"

namespace heddle::engine {

namespace {
constexpr size_t kMaxExpressionBytes = size_t{10} * 1024;  // as the API server has it
}

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
  return {};
}

}  // namespace heddle::engine
