// Versions of the guard on this node: each lies in a folder named by its content, never changed, and goes when no claim
// uses it.
#pragma once

#include <set>
#include <string>

#include "base/result.h"

namespace heddle::agent {

struct GuardVersion {
  std::string name;          // content hash, the folder's name
  std::string library_dir;   // holds libheddle_guard.so and nothing else
  std::string preload_file;  // the text of /etc/ld.so.preload
  std::string hook;          // heddle-oci-hook; empty when the node has none
};

// Copies library and hook (optional, may be empty) into <state_dir>/guard/<hash>/. Errors: kNotFound with the path.
Result<GuardVersion> install_guard(const std::string& state_dir, const std::string& library, const std::string& hook);

// The paths of a version that was installed before. Errors: kNotFound.
Result<GuardVersion> find_guard(const std::string& state_dir, const std::string& name);

// Removes versions that are not in `used`.
Result<void> remove_unused_guards(const std::string& state_dir, const std::set<std::string>& used);

}  // namespace heddle::agent
