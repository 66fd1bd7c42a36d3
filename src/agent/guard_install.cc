#include "agent/guard_install.h"

#include <fmt/format.h>

#include <cstdint>

#include "agent/names.h"
#include "base/file.h"

namespace heddle::agent {
namespace {

uint64_t fnv1a(uint64_t hash, std::string_view bytes) {
  for (const char c : bytes) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3ULL;
  }
  return hash;
}

GuardVersion paths_of(const std::string& state_dir, const std::string& name) {
  const std::string folder = state_dir + "/guard/" + name;
  return {name, folder + "/lib", folder + "/ld.so.preload", folder + "/heddle-oci-hook"};
}

Result<void> ensure_file(const std::string& path, std::string_view content, mode_t mode) {
  const Result<std::string> before = read_file(path);
  if (before && *before == content) return {};
  return write_file_atomic(path, content, mode);
}

}  // namespace

Result<GuardVersion> install_guard(const std::string& state_dir, const std::string& library, const std::string& hook) {
  HEDDLE_TRY(const std::string library_bytes, read_file(library));
  std::string hook_bytes;
  if (!hook.empty()) {
    HEDDLE_TRY(hook_bytes, read_file(hook));
  }
  const uint64_t hash = fnv1a(fnv1a(0xcbf29ce484222325ULL, library_bytes), hook_bytes);
  GuardVersion version = paths_of(state_dir, fmt::format("{:016x}", hash));
  HEDDLE_CHECK_OK(make_directories(version.library_dir, 0755));
  HEDDLE_CHECK_OK(ensure_file(fmt::format("{}/{}", version.library_dir, kGuardLibraryName), library_bytes, 0555));
  HEDDLE_CHECK_OK(
      ensure_file(version.preload_file, fmt::format("{}/{}\n", kLibraryDirInContainer, kGuardLibraryName), 0444));
  if (hook.empty()) {
    version.hook.clear();
  } else {
    HEDDLE_CHECK_OK(ensure_file(version.hook, hook_bytes, 0555));
  }
  return version;
}

Result<GuardVersion> find_guard(const std::string& state_dir, const std::string& name) {
  GuardVersion version = paths_of(state_dir, name);
  if (name.empty() || !file_exists(fmt::format("{}/{}", version.library_dir, kGuardLibraryName))) {
    return fail(Code::kNotFound, "the guard version " + name + " is not on this node");
  }
  if (!file_exists(version.hook)) version.hook.clear();
  return version;
}

Result<void> remove_unused_guards(const std::string& state_dir, const std::set<std::string>& used) {
  const Result<std::vector<std::string>> names = list_directory(state_dir + "/guard");
  if (!names) return {};
  for (const std::string& name : *names) {
    if (!used.contains(name)) HEDDLE_CHECK_OK(remove_tree(state_dir + "/guard/" + name));
  }
  return {};
}

}  // namespace heddle::agent
