#include "agent/preload_hook.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/unique_fd.h"

namespace heddle::agent {
namespace {

constexpr const char* kPreload = "etc/ld.so.preload";
constexpr size_t kMaxPreload = size_t{64} << 10;

// The loader takes entries apart at spaces, colons and line ends; "#" starts a comment.
std::vector<std::string> entries_of(std::string_view text) {
  std::vector<std::string> entries;
  std::string entry;
  bool comment = false;
  const auto end_entry = [&] {
    if (!entry.empty()) entries.push_back(std::move(entry));
    entry.clear();
  };
  for (const char c : text) {
    if (c == '\n') comment = false;
    if (comment) continue;
    if (c == '#') comment = true;
    const bool separator = c == '#' || c == '\n' || c == ' ' || c == '\t' || c == ':' || c == '\r';
    separator ? end_entry() : entry.push_back(c);
  }
  end_entry();
  return entries;
}

// Opens a path as a process with that root would: no link leads out.
UniqueFd open_in_root(int root, const char* path, uint64_t flags) {
  open_how how{};
  how.flags = flags | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  return UniqueFd(static_cast<int>(::syscall(SYS_openat2, root, path, &how, sizeof(how))));
}

Result<std::string> read_up_to(int fd, size_t limit) {
  std::string text;
  std::array<char, 4096> buffer{};
  while (text.size() <= limit) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0) return fail_errno("read", errno);
    if (got == 0) return text;
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  return fail(Code::kExhausted, "the image's ld.so.preload is too large");
}

bool is_file_name(std::string_view text) {
  return !text.empty() && text.size() <= 200 && text.front() != '.' && text.find('/') == std::string_view::npos;
}

}  // namespace

std::string merge_preload(std::string_view guard, std::string_view image) {
  std::vector<std::string> merged;
  const auto add = [&](std::string_view text) {
    for (std::string& entry : entries_of(text)) {
      if (std::ranges::find(merged, entry) == merged.end()) merged.push_back(std::move(entry));
    }
  };
  add(guard);
  add(image);
  std::string text;
  for (const std::string& entry : merged) text += entry + "\n";
  return text;
}

Result<ContainerState> parse_state(std::string_view json) {
  try {
    const auto state = parse_json(json);
    ContainerState result{state.at("id").get<std::string>(), state.at("bundle").get<std::string>()};
    if (!is_file_name(result.id)) return fail(Code::kInvalidArgument, "the container's id is no file name");
    return result;
  } catch (const nlohmann::json::exception& error) {
    return fail(Code::kInvalidArgument, std::string("not an OCI state: ") + error.what());
  }
}

Result<std::string> rootfs_of_bundle(const std::string& bundle) {
  HEDDLE_TRY(const std::string text, read_file(bundle + "/config.json"));
  try {
    const auto path = parse_json(text).at("root").at("path").get<std::string>();
    return path.starts_with('/') ? path : bundle + "/" + path;
  } catch (const nlohmann::json::exception& error) {
    return fail(Code::kInvalidArgument, bundle + "/config.json: " + error.what());
  }
}

Result<std::string> image_preload(const std::string& rootfs) {
  // A clone of the root's own mount, without those below it, shows what the guard's file hides.
  const UniqueFd clone(static_cast<int>(
      ::syscall(SYS_open_tree, AT_FDCWD, rootfs.c_str(), static_cast<unsigned>(OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC))));
  if (!clone.valid()) return fail_errno("cannot look below the mounts of " + rootfs, errno);
  const UniqueFd file = open_in_root(clone.get(), kPreload, O_RDONLY | O_NONBLOCK);
  if (!file.valid()) {
    if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) return std::string();
    return fail_errno("cannot open the image's ld.so.preload", errno);
  }
  return read_up_to(file.get(), kMaxPreload);
}

Result<void> mount_preload(const std::string& rootfs, const std::string& file) {
  const UniqueFd root(::open(rootfs.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root.valid()) return fail_errno("cannot open " + rootfs, errno);
  const UniqueFd target = open_in_root(root.get(), kPreload, O_PATH);
  if (!target.valid()) return fail_errno("no /etc/ld.so.preload to mount over", errno);
  const std::string path = fmt::format("/proc/self/fd/{}", target.get());
  if (::mount(file.c_str(), path.c_str(), nullptr, MS_BIND, nullptr) != 0)
    return fail_errno("cannot mount over it", errno);
  const UniqueFd mounted = open_in_root(root.get(), kPreload, O_PATH);
  const std::string again = fmt::format("/proc/self/fd/{}", mounted.get());
  if (::mount(nullptr, again.c_str(), nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV, nullptr) != 0) {
    return fail_errno("cannot make it read-only", errno);
  }
  return {};
}

Result<void> run_preload_hook(std::string_view state_json, const std::string& preload_file,
                              const std::string& work_dir) {
  HEDDLE_TRY(const ContainerState state, parse_state(state_json));
  HEDDLE_TRY(const std::string rootfs, rootfs_of_bundle(state.bundle));
  HEDDLE_TRY(const std::string image, image_preload(rootfs));
  HEDDLE_TRY(const std::string guard, read_file(preload_file, kMaxPreload));
  const std::string merged = merge_preload(guard, image);
  if (merged == guard) return {};  // nothing of the image's own: the mount that is there is right
  const std::string file = work_dir + "/preload-" + state.id;
  HEDDLE_CHECK_OK(write_file_atomic(file, merged, 0444));
  return mount_preload(rootfs, file);
}

}  // namespace heddle::agent
