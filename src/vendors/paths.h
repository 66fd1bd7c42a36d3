// Where a driver installation keeps its libraries.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace heddle::vendors {

// The library folders under a driver root, in the order of search.
std::vector<std::string> library_folders(const std::string& driver_root);

// root joined with an absolute path: "/" and "/dev" give "/dev".
std::string under(const std::string& root, const std::string& path);

// Follows the symbolic links of a path under `root` as a process whose root folder is `root` would, so that an absolute
// link stays inside. Errors: kNotFound, kInvalidArgument (a loop).
Result<std::string> resolve_under(const std::string& root, const std::string& path);

}  // namespace heddle::vendors
