#include "standalone/state_dir.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <thread>
#include <vector>

#include "base/file.h"
#include "standalone/process.h"

namespace heddle::standalone {
namespace {

constexpr size_t kMaxSocketPath = 107;
// The ledger with its journal, a copy of the guard, and the folders of some jobs.
constexpr int64_t kRoom = int64_t{8} << 20;

Result<std::string> checked(std::string folder) {
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  if (folder.empty() || folder.front() != '/') {
    return fail(Code::kInvalidArgument, fmt::format("'{}' is not an absolute path", folder), "--state-dir");
  }
  const size_t length = state_paths(folder).socket.size();
  if (length > kMaxSocketPath) {
    return fail(Code::kInvalidArgument,
                fmt::format("{} bytes too long for the socket in it: choose a shorter folder", length - kMaxSocketPath),
                "--state-dir");
  }
  return folder;
}

std::string user_folder(const Surroundings& surroundings) {
  if (!surroundings.xdg_state_home.empty()) return surroundings.xdg_state_home + "/heddle";
  return surroundings.home + "/.local/state/heddle";
}

// Of a folder's files: one of those that a daemon makes first, or nothing yet.
bool is_free_or_ours(const std::vector<std::string>& names) {
  const auto is_ours = [](const std::string& name) {
    return name == "lock" || name == "heddle.log" || name == "ledger.db";
  };
  return std::ranges::any_of(names, is_ours) ||
         std::ranges::all_of(names, [](const std::string& name) { return name == "lost+found"; });
}

tl::unexpected<Error> refused(const std::string& folder, const char* why) {
  return fail(Code::kInvalidArgument, fmt::format("{} {}: name a new or an empty folder of your own", folder, why),
              "--state-dir");
}

constexpr int kLooksAtLock = 500;
constexpr std::chrono::milliseconds kBetweenLooks(20);

// The pid that a daemon wrote into its lock; empty while it is being written.
std::string holder_of(const std::string& lock) {
  auto pid = read_file(lock, 64).value_or("");
  while (!pid.empty() && pid.back() == '\n') pid.pop_back();
  return pid;
}

bool is_alive(const std::string& pid) {
  int64_t value = 0;
  const auto* end = pid.data() + pid.size();
  const auto parsed = std::from_chars(pid.data(), end, value);
  return parsed.ec == std::errc() && parsed.ptr == end && identify(value);
}

}  // namespace

StatePaths state_paths(const std::string& folder) {
  return {folder, folder + "/heddle.sock", folder + "/ledger.db", folder + "/heddle.log", folder + "/lock"};
}

Result<std::string> own_state_dir(const std::string& given, const Surroundings& surroundings) {
  if (!given.empty()) return checked(given);
  if (!surroundings.heddle_state_dir.empty()) return checked(surroundings.heddle_state_dir);
  if (surroundings.uid == 0) return checked(kSystemStateDir);
  if (surroundings.xdg_state_home.empty() && surroundings.home.empty()) {
    return fail(Code::kInvalidArgument, "HOME is not set: write where to keep the state", "--state-dir");
  }
  return checked(user_folder(surroundings));
}

Result<std::string> used_state_dir(const std::string& given, const Surroundings& surroundings) {
  auto own = own_state_dir(given, surroundings);
  const bool chosen = !given.empty() || !surroundings.heddle_state_dir.empty();
  if (chosen || (own && presence_of(state_paths(*own).socket) != Presence::kNone)) return own;
  if (presence_of(state_paths(kSystemStateDir).socket) != Presence::kNone) return std::string(kSystemStateDir);
  return own;
}

Presence presence_of(const std::string& socket) {
  if (access(socket.c_str(), F_OK) == 0) return Presence::kThere;
  return errno == EACCES ? Presence::kHidden : Presence::kNone;
}

std::string serving_process(const StatePaths& paths) {
  const UniqueFd lock(open(paths.lock.c_str(), O_RDONLY | O_CLOEXEC));
  if (!lock.valid() || flock(lock.get(), LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK) return {};
  std::string holder = holder_of(paths.lock);
  return holder.empty() ? "unknown" : holder;
}

Result<void> take_state_dir(const std::string& folder, mode_t mode) {
  struct stat info{};
  if (stat(folder.c_str(), &info) != 0) {
    if (errno != ENOENT) return fail_errno(fmt::format("cannot look at {}", folder), errno);
    return make_directories(folder, mode);
  }
  if (!S_ISDIR(info.st_mode)) return refused(folder, "is no folder");
  if (info.st_uid != geteuid()) return refused(folder, "belongs to another user");
  HEDDLE_TRY(const auto names, list_directory(folder));
  if (!is_free_or_ours(names)) return refused(folder, "holds other things than Heddle's");
  if ((info.st_mode & 07777U) == mode || chmod(folder.c_str(), mode) == 0) return {};
  return fail_errno(fmt::format("cannot set the mode of {}", folder), errno);
}

Result<void> check_room(const std::string& folder, int64_t free_bytes) {
  if (free_bytes >= kRoom) return {};
  return fail(
      Code::kExhausted,
      fmt::format("only {} KiB are free in {}, and Heddle needs {}: make room there, or name another folder with "
                  "--state-dir",
                  free_bytes >> 10, folder, kRoom >> 10));
}

Result<void> check_room(const std::string& folder) {
  struct statvfs found{};
  if (statvfs(folder.c_str(), &found) != 0) return fail_errno(fmt::format("cannot look at {}", folder), errno);
  if (found.f_blocks == 0) return {};  // a file system that does not count
  return check_room(folder, static_cast<int64_t>(found.f_bavail) * static_cast<int64_t>(found.f_frsize));
}

Result<UniqueFd> lock_state_dir(const StatePaths& paths) {
  UniqueFd lock(open(paths.lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.valid()) return fail_errno(fmt::format("cannot open {}", paths.lock), errno);
  // Until a killed process's last thread has gone the kernel holds its locks, though the process counts as ended.
  for (int look = 0; flock(lock.get(), LOCK_EX | LOCK_NB) != 0; ++look) {
    if (errno != EWOULDBLOCK) return fail_errno(fmt::format("cannot lock {}", paths.lock), errno);
    const std::string holder = holder_of(paths.lock);
    if (look == kLooksAtLock || is_alive(holder)) {
      return fail(Code::kAlreadyExists,
                  fmt::format("Heddle runs here already (process {}, state in {}); `heddle down` stops it",
                              holder.empty() ? "unknown" : holder, paths.folder));
    }
    std::this_thread::sleep_for(kBetweenLooks);
  }
  const std::string pid = fmt::format("{}\n", getpid());
  if (ftruncate(lock.get(), 0) != 0 || pwrite(lock.get(), pid.data(), pid.size(), 0) < 0) {
    return fail_errno(fmt::format("cannot write {}", paths.lock), errno);
  }
  return lock;
}

}  // namespace heddle::standalone
