#include <fmt/format.h>

#include "base/print.h"
#include "cli/verbs.h"

namespace heddle::cli {

int version() {
  print_out("heddle {}\n", HEDDLE_VERSION);
  return 0;
}

}  // namespace heddle::cli
