#include "standalone/machine.h"

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
#include <utility>

#include "agent/mps.h"
#include "agent/slices.h"
#include "base/file.h"
#include "base/unique_fd.h"
#include "standalone/process.h"
#include "vendors/paths.h"
#include "vendors/wire.h"
#include "vendors/worker.h"

namespace heddle::standalone {
namespace {

constexpr int64_t kMaxSimulated = 16;

std::string folder_of(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

struct Simulator {
  std::string tool;
  std::string library_dir;
};

// Beside this program in a build tree (bin/nvsim, sim/nvidia/lib) or in an installation (lib/heddle/simulator).
Result<Simulator> find_simulator(const std::string& program) {
  const std::string bin = folder_of(program);
  for (const auto& [tool, library_dir] :
       {std::pair(bin + "/nvsim", folder_of(bin) + "/sim/nvidia/lib"),
        std::pair(folder_of(bin) + "/lib/heddle/simulator/nvsim", folder_of(bin) + "/lib/heddle/simulator")}) {
    if (file_exists(tool) && file_exists(library_dir + "/libnvidia-ml.so.1")) return Simulator{tool, library_dir};
  }
  return fail(Code::kNotFound, fmt::format("the simulator is not installed: there is no nvsim beside {}", program));
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

Result<std::string> wanted_yaml(const std::string& simulate) {
  if (!names_file(simulate)) return simulation_yaml(simulate);
  auto text = read_file(simulate);
  if (!text) return fail(Code::kInvalidArgument, text.error().message, "--simulate");
  return text;
}

// The simulated machine's files; made when they are missing, or wanted otherwise, or of an earlier start of this
// machine.
Result<std::string> prepare_simulation(const MachineOptions& options, const Simulator& simulator, Remake remake) {
  HEDDLE_TRY(const std::string yaml, wanted_yaml(options.simulate));
  std::string root = options.state_dir + "/simulation";
  const std::string description = root + "/cards.yaml";
  const std::string mark = root + "/made";
  HEDDLE_TRY(const ProcessId self, identify(getpid()));
  const std::string key = self.boot_id + "\n" + yaml;
  const auto made = read_file(mark);
  if (made && (*made == key || remake == Remake::kNever)) return root;
  HEDDLE_CHECK_OK(remove_tree(root));
  HEDDLE_CHECK_OK(make_directories(root, 0755));
  HEDDLE_CHECK_OK(write_file_atomic(description, yaml, 0644));
  HEDDLE_CHECK_OK(run_tool({simulator.tool, "create", "--config", description, "--root", root}));
  HEDDLE_CHECK_OK(write_file_atomic(mark, key, 0644));
  return root;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  return name.data();
}

std::shared_ptr<vendors::CardSource> start_source(const std::vector<std::string>& worker_command, const Clock& clock) {
  vendors::WorkerOptions worker_options;
  worker_options.command = worker_command;
  const auto worker = std::make_shared<vendors::Worker>(worker_options, clock);
  const auto ask = [worker](std::string_view operation, Duration deadline) {
    return worker->call(operation, deadline);
  };
  return std::make_shared<vendors::CardSource>(vendors::SourceOptions(), ask, clock);
}

Result<void> check_found(const vendors::Snapshot& found, const MachineOptions& options) {
  if (!found.current)
    return fail(Code::kUnavailable, fmt::format("NVIDIA's library does not answer: {}", found.trouble));
  const auto offered =
      std::count_if(found.inventory.cards.begin(), found.inventory.cards.end(),
                    [](const vendors::Card& card) { return !card.partitioned && !card.is_partition(); });
  if (offered > 0) return {};
  std::string why = "there are no NVIDIA cards";
  if (found.inventory.state == vendors::LibraryState::kMissing)
    why = "there is no NVIDIA driver (no libnvidia-ml.so.1)";
  if (found.inventory.state != vendors::LibraryState::kOk && found.inventory.state != vendors::LibraryState::kMissing) {
    why = fmt::format("NVIDIA's driver cannot be used: {}", found.inventory.detail);
  }
  if (!found.inventory.cards.empty()) why = "all NVIDIA cards are partitioned (MIG), which this version does not offer";
  if (!options.simulate.empty()) return fail(Code::kInternal, why);
  return fail(Code::kNotFound, why + " on this machine; to try Heddle without one: heddle up --simulate h100x2");
}

}  // namespace

std::string machine_name(const MachineOptions& options) {
  return options.simulate.empty() ? std::string("real") : options.simulate;
}

bool names_file(const std::string& simulate) {
  return simulate.find('/') != std::string::npos || simulate.ends_with(".yaml") || simulate.ends_with(".yml");
}

Result<std::string> simulation_yaml(const std::string& short_form) {
  const size_t x = short_form.rfind('x');
  int64_t count = 0;
  const char* end = short_form.data() + short_form.size();
  if (x == std::string::npos || x == 0 || std::from_chars(short_form.data() + x + 1, end, count).ptr != end ||
      count < 1 || count > kMaxSimulated) {
    return fail(Code::kInvalidArgument,
                fmt::format("'{}' is not MODELxCOUNT with 1 to {} cards: write h100x2, or the path of a YAML file (see "
                            "sim/nvidia/README.md)",
                            short_form, kMaxSimulated),
                "--simulate");
  }
  std::string model = short_form.substr(0, x);
  std::transform(model.begin(), model.end(), model.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  if (model == "A100") model = "A100-80";
  return fmt::format("cards:\n  - {{model: {}, count: {}}}\n", model, count);
}

std::vector<model::ResourceSlice> machine_slices(const std::string& node, const std::vector<vendors::Card>& cards,
                                                 const std::string& mps_pipe) {
  // MIG instances are not offered here: a command runs with the variables of a card, under the guard.
  std::vector<vendors::Card> whole = cards;
  std::erase_if(whole, [](const vendors::Card& card) { return card.is_partition(); });
  return agent::desired_slices({node, ""}, agent::with_mps(std::move(whole), mps_pipe), {});
}

Result<Machine> find_machine(const MachineOptions& options, Remake remake, const Clock& clock) {
  Machine machine;
  machine.what = machine_name(options);
  machine.node = host_name();
  std::string nvml = options.nvml;
  const std::string driver_root = options.driver_root.empty() ? "/" : options.driver_root;
  if (!options.simulate.empty()) {
    machine.origin = Origin::kSimulated;
    HEDDLE_TRY(const auto simulator, find_simulator(options.program));
    HEDDLE_TRY(const auto root, prepare_simulation(options, simulator, remake));
    nvml = simulator.library_dir + "/libnvidia-ml.so.1";
    machine.environment = {{"NVSIM_ROOT", root}, {"LD_LIBRARY_PATH", simulator.library_dir}};
  } else if (driver_root != "/") {
    machine.environment["LD_LIBRARY_PATH"] = fmt::format("{}", fmt::join(vendors::library_folders(driver_root), ":"));
  }
  std::vector<std::string> worker;
  if (machine.environment.contains("NVSIM_ROOT"))
    worker = {"/usr/bin/env", "NVSIM_ROOT=" + machine.environment["NVSIM_ROOT"]};
  worker.insert(worker.end(), {options.program, "vendor-worker", "--nvml=" + nvml, "--driver-root=" + driver_root});
  machine.source = start_source(worker, clock);
  machine.source->refresh();
  const auto found = machine.source->snapshot();
  HEDDLE_CHECK_OK(check_found(found, options));
  machine.cards = found.inventory.cards;
  machine.mps_pipe = options.mps_pipe;
  machine.slices = machine_slices(machine.node, machine.cards, machine.mps_pipe);
  return machine;
}

}  // namespace heddle::standalone
