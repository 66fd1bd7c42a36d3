#include "standalone/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <map>
#include <optional>
#include <string_view>

#include "base/file.h"

namespace heddle::standalone {
namespace {

struct Stat {
  char state = 'X';
  int64_t parent = 0;
  int64_t start_ticks = 0;
};

std::optional<int64_t> number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<Stat> read_stat(int64_t pid) {
  const auto content = read_file(fmt::format("/proc/{}/stat", pid));
  if (!content) return std::nullopt;
  // The name may hold spaces and brackets: fields count from behind the last ')'.
  const size_t close = content->rfind(')');
  if (close == std::string::npos) return std::nullopt;
  std::vector<std::string_view> fields;
  std::string_view rest(*content);
  rest.remove_prefix(close + 1);
  while (!rest.empty()) {
    const size_t begin = rest.find_first_not_of(" \n");
    if (begin == std::string_view::npos) break;
    rest.remove_prefix(begin);
    const size_t length = std::min(rest.find_first_of(" \n"), rest.size());
    fields.push_back(rest.substr(0, length));
    rest.remove_prefix(length);
  }
  // Field 3 of proc(5) is fields[0]: state; 4 the parent; 22 the start time.
  if (fields.size() < 20 || fields[0].empty()) return std::nullopt;
  const auto parent = number(fields[1]);
  const auto start = number(fields[19]);
  if (!parent || !start) return std::nullopt;
  return Stat{fields[0][0], *parent, *start};
}

std::string boot_id() {
  auto text = read_file("/proc/sys/kernel/random/boot_id");
  if (!text) return "unknown";
  while (!text->empty() && text->back() == '\n') text->pop_back();
  return *text;
}

std::vector<int64_t> all_pids() {
  std::vector<int64_t> pids;
  const auto names = list_directory("/proc");
  if (!names) return pids;
  for (const auto& name : *names) {
    if (const auto pid = number(name)) pids.push_back(*pid);
  }
  return pids;
}

}  // namespace

Result<ProcessId> identify(int64_t pid) {
  const auto stat = read_stat(pid);
  if (!stat || stat->state == 'Z' || stat->state == 'X') {
    return fail(Code::kNotFound, fmt::format("process {} has ended", pid));
  }
  return ProcessId{pid, stat->start_ticks, boot_id()};
}

bool alive(const ProcessId& process) {
  if (process.pid <= 0) return false;
  const auto now = identify(process.pid);
  return now && *now == process;
}

Result<int64_t> user_of(int64_t pid) {
  struct stat info{};
  if (stat(fmt::format("/proc/{}", pid).c_str(), &info) != 0) {
    return fail(Code::kNotFound, fmt::format("process {} has ended", pid));
  }
  return static_cast<int64_t>(info.st_uid);
}

UniqueFd open_process(const ProcessId& process) {
  if (process.pid <= 0) return {};
  UniqueFd fd(static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(process.pid), 0)));
  // Opened first, compared then: from here on the descriptor means this very process.
  if (!fd.valid() || !alive(process)) return {};
  return fd;
}

std::vector<int64_t> descendants(int64_t pid) {
  std::multimap<int64_t, int64_t> children;
  for (const int64_t candidate : all_pids()) {
    const auto stat = read_stat(candidate);
    if (stat && stat->state != 'Z') children.emplace(stat->parent, candidate);
  }
  std::vector<int64_t> found;
  std::vector<int64_t> open = {pid};
  while (!open.empty()) {
    const int64_t parent = open.back();
    open.pop_back();
    const auto [begin, end] = children.equal_range(parent);
    for (auto it = begin; it != end; ++it) {
      found.push_back(it->second);
      open.push_back(it->second);
    }
  }
  return found;
}

std::vector<int64_t> ancestors(int64_t pid) {
  constexpr size_t kDeepest = 1024;  // the tree may change while it is read
  std::vector<int64_t> found;
  while (found.size() < kDeepest) {
    const auto stat = read_stat(pid);
    if (!stat || stat->parent <= 0) break;
    pid = stat->parent;
    found.push_back(pid);
  }
  return found;
}

std::vector<int64_t> processes_of_job(const std::string& uid, const std::string& file) {
  const std::string entry = fmt::format("{}={}", kJobVariable, uid);
  std::vector<int64_t> found;
  for (const int64_t pid : all_pids()) {
    const auto stat = read_stat(pid);
    if (!stat || stat->state == 'Z') continue;
    const auto environment = read_file(fmt::format("/proc/{}/environ", pid));
    bool belongs = false;
    if (environment) {
      const size_t at = environment->find(entry);
      belongs = at != std::string::npos && (at == 0 || (*environment)[at - 1] == '\0') &&
                (at + entry.size() == environment->size() || (*environment)[at + entry.size()] == '\0');
    }
    if (!belongs && !file.empty()) {
      const auto maps = read_file(fmt::format("/proc/{}/maps", pid));
      belongs = maps && maps->find(file) != std::string::npos;
    }
    if (belongs) found.push_back(pid);
  }
  return found;
}

}  // namespace heddle::standalone
