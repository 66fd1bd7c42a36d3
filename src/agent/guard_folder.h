// The folder through which a tenant's processes learn their limits and share their account: `limits` and `usage`. Used
// by the agent and by the standalone form.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "guard/files.h"

namespace heddle::agent {

enum class UsageKind {
  kTmpfs,  // the folder is a small tmpfs of its own: a tenant cannot fill the node's disk through it. Needs
           // CAP_SYS_ADMIN
  kPlain,  // a plain folder
};

struct GuardFolder {
  std::string limits;  // paths of the two files
  std::string usage;
  UsageKind kind = UsageKind::kPlain;
  std::string note;  // why it is plain although a tmpfs was asked for
};

// Makes what is missing and leaves what is right: running containers hold the files open. Safe to repeat at any time.
Result<GuardFolder> write_guard_folder(const std::string& folder, const guard::ClaimLimits& limits, UsageKind wanted);

// Unmounts and removes. A missing folder is fine.
Result<void> remove_guard_folder(const std::string& folder);

}  // namespace heddle::agent
