#include "allocator/selector.h"
#include "engine/engine.h"

namespace heddle::engine {

Result<void> check_selector(std::string_view expression) {
  HEDDLE_TRY([[maybe_unused]] const allocator::Selector selector, allocator::Selector::compile(expression));
  return {};
}

}  // namespace heddle::engine
