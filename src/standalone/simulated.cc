#include "standalone/simulated.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "base/unique_fd.h"
#include "standalone/process.h"

namespace heddle::standalone {
namespace {

constexpr int64_t kMaxSimulated = 16;
constexpr const char* kFlag = "--simulate";

struct Simulator {
  const char* vendor;
  const char* tool;
  const char* build_folder;  // of its libraries, in a build tree
  const char* library;       // that the vendor's worker loads
  const char* variable;      // by which the libraries find the machine
  const char* description;   // the name of its file
};
constexpr std::array<Simulator, 2> kSimulators = {
    {{"nvidia", "nvsim", "/sim/nvidia/lib", "libnvidia-ml.so.1", "NVSIM_ROOT", "cards.yaml"},
     {"ascend", "ascendsim", "/sim/ascend/lib", "libdcmi.so", "ASCENDSIM_ROOT", "npus.yaml"}}};

std::string folder_of(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

struct Installed {
  std::string tool;
  std::string library_dir;
};

// Beside this program in a build tree (bin/nvsim, sim/nvidia/lib) or in an installation (lib/heddle/simulator).
Result<Installed> find_simulator(const std::string& program, const Simulator& simulator) {
  const std::string bin = folder_of(program);
  const std::string installed = folder_of(bin) + "/lib/heddle/simulator";
  for (const auto& [tool, library_dir] :
       {std::pair(fmt::format("{}/{}", bin, simulator.tool), folder_of(bin) + simulator.build_folder),
        std::pair(fmt::format("{}/{}", installed, simulator.tool), installed)}) {
    if (file_exists(tool) && file_exists(fmt::format("{}/{}", library_dir, simulator.library))) {
      return Installed{tool, library_dir};
    }
  }
  return fail(Code::kNotFound,
              fmt::format("the simulator is not installed: there is no {} beside {}", simulator.tool, program));
}

// Runs a tool and returns what it wrote on standard error. Errors: that text, when it fails.
Result<void> run_tool(const std::vector<std::string>& command) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno("pipe", errno);
  const UniqueFd out(ends[0]);
  UniqueFd in(ends[1]);
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const auto& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.get(), STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&actions, in.get(), STDOUT_FILENO);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return fail_errno(fmt::format("cannot start {}", command[0]), error);
  in.reset();
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = read(out.get(), buffer.data(), buffer.size())) != 0;) {
    if (got < 0 && errno != EINTR) break;
    if (got > 0) text.append(buffer.data(), static_cast<size_t>(got));
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return fail(Code::kInvalidArgument, text, "--simulate");
}

bool names_file(const std::string& part) {
  return part.find('/') != std::string::npos || part.ends_with(".yaml") || part.ends_with(".yml");
}

// A path may hold commas.
std::vector<std::string> parts_of(const std::string& simulate) {
  if (file_exists(simulate)) return {simulate};
  std::vector<std::string> parts;
  for (size_t start = 0; start <= simulate.size();) {
    const size_t end = std::min(simulate.find(',', start), simulate.size());
    parts.push_back(simulate.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

// "ascend:npus.yaml" -> "ascend", "npus.yaml"; a plain path is of the simulator that was there first.
std::pair<std::string, std::string> vendor_and_path(const std::string& part) {
  for (const Simulator& simulator : kSimulators) {
    const std::string prefix = std::string(simulator.vendor) + ":";
    if (part.starts_with(prefix)) return {simulator.vendor, part.substr(prefix.size())};
  }
  return {"nvidia", part};
}

// "h100x2" -> nvidia, "  - {model: H100, count: 2}".
Result<SimulatedCards> short_form(const std::string& part) {
  constexpr std::string_view kAscend = "ASCEND";
  const size_t x = part.rfind('x');
  int64_t count = 0;
  const char* end = part.data() + part.size();
  if (x == std::string::npos || x == 0 || std::from_chars(part.data() + x + 1, end, count).ptr != end || count < 1 ||
      count > kMaxSimulated) {
    return fail(Code::kInvalidArgument,
                fmt::format("'{}' is not MODELxCOUNT with 1 to {} cards: write h100x2, ascend910B4x2, or the path of a "
                            "YAML file (see sim/nvidia/README.md)",
                            part, kMaxSimulated),
                kFlag);
  }
  std::string model = part.substr(0, x);
  std::transform(model.begin(), model.end(), model.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const bool npu = model.starts_with(kAscend);
  if (npu) model.erase(0, kAscend.size());
  if (model == "A100") model = "A100-80";
  if (npu && model == "910B") model = "910B4";
  return SimulatedCards{npu ? "ascend" : "nvidia", fmt::format("  - {{model: {}, count: {}}}\n", model, count), {}};
}

}  // namespace

Result<std::vector<SimulatedCards>> simulated_cards(const std::string& simulate) {
  std::vector<SimulatedCards> all;
  std::vector<std::string> from_file;  // vendors
  for (const std::string& part : parts_of(simulate)) {
    const bool file = names_file(part);
    SimulatedCards one;
    if (file) {
      const auto [vendor, path] = vendor_and_path(part);
      auto text = read_file(path);
      if (!text) return fail(Code::kInvalidArgument, text.error().message, kFlag);
      one = SimulatedCards{vendor, *std::move(text), path};
    } else {
      HEDDLE_TRY(one, short_form(part));
    }
    const auto same = std::ranges::find(all, one.vendor, &SimulatedCards::vendor);
    if (same == all.end()) {
      if (file) from_file.push_back(one.vendor);
      if (!file) one.yaml.insert(0, "cards:\n");
      all.push_back(std::move(one));
    } else if (file || std::ranges::find(from_file, one.vendor) != from_file.end()) {
      return fail(Code::kInvalidArgument,
                  fmt::format("'{}': a file describes all cards of {}; write them all into it", part, one.vendor),
                  kFlag);
    } else {
      same->yaml += one.yaml;
    }
  }
  return all;
}

Result<std::string> with_full_paths(const std::string& simulate) {
  if (simulate.empty()) return simulate;
  std::string all;
  for (const std::string& part : parts_of(simulate)) {
    std::string full = part;
    if (names_file(part)) {
      const auto [vendor, path] = vendor_and_path(part);
      const std::unique_ptr<char, decltype(&std::free)> found(realpath(path.c_str(), nullptr), &std::free);
      if (found == nullptr) return fail(Code::kInvalidArgument, fmt::format("{} cannot be read", path), kFlag);
      full = vendor == "nvidia" ? std::string(found.get()) : fmt::format("{}:{}", vendor, found.get());
    }
    all += (all.empty() ? "" : ",") + full;
  }
  return all;
}

Result<std::vector<Simulation>> prepare_simulation(const std::string& state_dir, const std::string& program,
                                                   const std::string& simulate, Remake remake) {
  HEDDLE_TRY(const auto wanted, simulated_cards(simulate));
  const std::string root = state_dir + "/simulation";
  const std::string mark = root + "/made";
  HEDDLE_TRY(const ProcessId self, identify(getpid()));
  std::string key = self.boot_id;
  for (const SimulatedCards& cards : wanted) key += "\n" + cards.yaml;
  const auto made = read_file(mark);
  const bool there = made && (*made == key || remake == Remake::kNever);
  if (!there) {
    HEDDLE_CHECK_OK(remove_tree(root));
    HEDDLE_CHECK_OK(make_directories(root, 0755));
  }
  std::vector<Simulation> simulations;
  for (const SimulatedCards& cards : wanted) {
    const Simulator& simulator = *std::ranges::find(kSimulators, cards.vendor, &Simulator::vendor);
    HEDDLE_TRY(const Installed installed, find_simulator(program, simulator));
    if (!there) {
      const std::string description = fmt::format("{}/{}", root, simulator.description);
      HEDDLE_CHECK_OK(write_file_atomic(description, cards.yaml, 0644));
      const auto created = run_tool({installed.tool, "create", "--config", description, "--root", root});
      if (!created) {
        // The tool has read the copy: its user knows the file, or the short form alone.
        std::string text = created.error().message;
        const std::string known = cards.source.empty() ? simulate : cards.source;
        for (size_t at = 0; (at = text.find(description, at)) != std::string::npos; at += known.size())
          text.replace(at, description.size(), known);
        return fail(created.error().code, text, created.error().field);
      }
    }
    simulations.push_back({cards.vendor,
                           fmt::format("{}/{}", installed.library_dir, simulator.library),
                           installed.library_dir,
                           {{simulator.variable, root}}});
  }
  if (!there) HEDDLE_CHECK_OK(write_file_atomic(mark, key, 0644));
  return simulations;
}

}  // namespace heddle::standalone
