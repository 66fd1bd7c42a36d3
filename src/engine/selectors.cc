#include "cel/program.h"
#include "engine/engine.h"

namespace heddle::engine {

Result<void> check_selector(std::string_view expression) {
  if (expression.empty()) {
    return fail(Code::kInvalidArgument, "the selector is empty or of a kind that this version does not know");
  }
  const cel::Environment environment({.mode = cel::Mode::kNew});
  HEDDLE_TRY([[maybe_unused]] const auto program, cel::Program::compile(expression, environment));
  return {};
}

}  // namespace heddle::engine
