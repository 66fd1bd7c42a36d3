#include <fmt/format.h>

#include <cstdio>

#include "cli/verbs.h"

namespace heddle::cli {

int report(const Error& error) {
  fmt::print(stderr, "heddle: {}\n", error.text());
  return error.code == Code::kInvalidArgument ? kUsage : kError;
}

Result<std::string> find_socket(const std::string& state_dir, const Context& context) {
  HEDDLE_TRY(const auto folder, standalone::used_state_dir(state_dir, context.surroundings));
  return standalone::state_paths(folder).socket;
}

}  // namespace heddle::cli
