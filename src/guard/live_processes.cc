// Who is alive, as /proc of the host shows it.
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
#include <tuple>

#include "base/file.h"
#include "guard/files.h"

namespace heddle::guard {
namespace {

auto key_of(const SlotOwner& owner) {
  return std::tuple(owner.pid_namespace, owner.pid, owner.start_time);
}

template <typename T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The value of a field counted from 1 as in proc(5); the command's name may hold spaces and brackets.
std::string_view stat_field(std::string_view stat, int field) {
  const size_t close = stat.rfind(')');
  if (close == std::string_view::npos) return {};
  std::string_view rest = stat.substr(close + 1);
  for (int i = 3;; ++i) {
    rest.remove_prefix(std::min(rest.find_first_not_of(" \n"), rest.size()));
    if (rest.empty()) return {};
    const std::string_view word = rest.substr(0, rest.find_first_of(" \n"));
    if (i == field) return word;
    rest.remove_prefix(word.size());
  }
}

// The last word of the line "NSpid:\t<pid> <pid in the next namespace> ...".
std::string_view innermost_pid(std::string_view status) {
  const size_t at = status.find("\nNSpid:");
  if (at == std::string_view::npos) return {};
  std::string_view line = status.substr(at + 7);
  line = line.substr(0, line.find('\n'));
  return line.substr(line.find_last_of(" \t") + 1);
}

std::optional<SlotOwner> owner_of(const std::string& folder) {
  const auto stat = read_file(folder + "/stat", 1 << 16);
  const auto status = read_file(folder + "/status", 1 << 16);
  struct stat ns{};
  if (!stat || !status || ::stat((folder + "/ns/pid").c_str(), &ns) != 0) return std::nullopt;
  const std::string_view state = stat_field(*stat, 3);
  const auto threads = number<int>(stat_field(*stat, 20));
  // A leader that ended before its other threads shows as a zombie with more than one thread: that process lives.
  if ((state == "Z" || state == "X") && threads.value_or(0) <= 1) return std::nullopt;
  const auto pid = number<uint32_t>(innermost_pid(*status));
  const auto started = number<uint64_t>(stat_field(*stat, 22));
  if (!pid || !started) return std::nullopt;
  return SlotOwner{*pid, static_cast<uint32_t>(ns.st_ino), *started};
}

}  // namespace

std::optional<SlotOwner> slot_owner_of(const std::string& proc, int64_t pid) {
  return owner_of(std::filesystem::path(proc) / std::to_string(pid));
}

Result<LiveProcesses> LiveProcesses::scan(const std::string& proc) {
  HEDDLE_TRY(const std::vector<std::string> names, list_directory(proc));
  LiveProcesses live;
  for (const std::string& name : names) {
    const auto pid = number<uint32_t>(name);
    if (!pid) continue;
    if (auto owner = owner_of(std::filesystem::path(proc) / name)) live.sorted_.push_back({*owner, *pid});
  }
  std::sort(live.sorted_.begin(), live.sorted_.end(),
            [](const Process& a, const Process& b) { return key_of(a.owner) < key_of(b.owner); });
  return live;
}

uint32_t LiveProcesses::pid_of(const SlotOwner& owner) const {
  const auto found = std::lower_bound(sorted_.begin(), sorted_.end(), owner,
                                      [](const Process& a, const SlotOwner& b) { return key_of(a.owner) < key_of(b); });
  if (found == sorted_.end() || found->owner.pid_namespace != owner.pid_namespace || found->owner.pid != owner.pid) {
    return 0;
  }
  return owner.start_time == 0 || found->owner.start_time == owner.start_time ? found->pid : 0;
}

}  // namespace heddle::guard
