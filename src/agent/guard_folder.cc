#include "agent/guard_folder.h"

#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <cerrno>
#include <cstring>

#include "base/file.h"

namespace heddle::agent {
namespace {

// Two times the usage file, so that a tenant can neither fill memory nor be short of it.
constexpr const char* kTmpfsOptions = "size=6m,nr_inodes=64,mode=0755";

bool is_mount_point(const std::string& folder) {
  struct stat own{};
  struct stat parent{};
  if (::stat(folder.c_str(), &own) != 0 || ::stat((folder + "/..").c_str(), &parent) != 0) return false;
  return own.st_dev != parent.st_dev;
}

// In a pod, the container runtime must see the mount too; that needs a volume with Bidirectional propagation. Where the
// host's view can be looked at, look; where it cannot (no host pid namespace, or not in a container), believe.
bool visible_on_host(const std::string& folder) {
  struct stat ours{};
  struct stat hosts{};
  if (::stat(folder.c_str(), &ours) != 0) return false;
  if (::stat(("/proc/1/root" + folder).c_str(), &hosts) != 0) return errno != ENOENT;
  return ours.st_dev == hosts.st_dev && ours.st_ino == hosts.st_ino;
}

// Empty when the folder is a tmpfs of its own now, else why not.
std::string ensure_tmpfs(const std::string& folder) {
  if (is_mount_point(folder)) return {};
  if (::mount("heddle", folder.c_str(), "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, kTmpfsOptions) != 0) {
    return std::string("cannot mount a tmpfs: ") + std::strerror(errno);
  }
  if (visible_on_host(folder)) return {};
  ::umount2(folder.c_str(), MNT_DETACH);
  return "the host does not see mounts made here: give the state folder mountPropagation Bidirectional";
}

}  // namespace

Result<GuardFolder> write_guard_folder(const std::string& folder, const guard::ClaimLimits& limits, UsageKind wanted) {
  GuardFolder result{folder + "/limits", folder + "/usage", UsageKind::kPlain, {}};
  HEDDLE_TRY(const std::string content, guard::encode_limits(limits));
  HEDDLE_CHECK_OK(make_directories(folder, 0755));
  if (wanted == UsageKind::kTmpfs) {
    result.note = ensure_tmpfs(folder);
    if (result.note.empty()) result.kind = UsageKind::kTmpfs;
  }
  const Result<std::string> before = read_file(result.limits);
  if (!before || !guard::same_limits(*before, content))
    HEDDLE_CHECK_OK(write_file_atomic(result.limits, content, 0444));
  HEDDLE_CHECK_OK(guard::create_usage(result.usage, limits));
  return result;
}

Result<void> remove_guard_folder(const std::string& folder) {
  while (is_mount_point(folder)) {
    if (::umount2(folder.c_str(), MNT_DETACH) != 0) return fail_errno("cannot unmount " + folder, errno);
  }
  return remove_tree(folder);
}

}  // namespace heddle::agent
