#include <fmt/format.h>

#include "cli/verbs.h"

namespace heddle::cli {

int version() {
  fmt::print("heddle {}\n", HEDDLE_VERSION);
  return 0;
}

}  // namespace heddle::cli
