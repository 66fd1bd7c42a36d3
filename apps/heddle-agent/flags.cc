#include "flags.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <climits>
#include <cstdlib>
#include <map>

#include "base/file.h"

namespace heddle::agent {
namespace {

std::string executable_path() {
  std::array<char, PATH_MAX> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  return length > 0 ? std::string(path.data(), static_cast<size_t>(length)) : "/proc/self/exe";
}

// The first that exists, else the first, so that the message names where it should be.
std::string first_existing(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    if (file_exists(path)) return path;
  }
  return paths.front();
}

std::string existing_or_empty(const std::string& path) {
  return ::access(path.c_str(), R_OK) == 0 ? path : std::string();
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : std::string();
}

struct Raw {
  std::string kubelet_root = "/var/lib/kubelet";
  std::string policy = "report";
  std::string unguarded = "report";
  std::string hook;
  std::string pod_uid;
  double interval_seconds = 2;
  int64_t slack_mib = 256;
  int64_t context_mib = 0;
  bool plain_usage = false;
  std::vector<std::string> make_partitions;
};

void add_driver_options(CLI::App& app, Flags& flags) {
  app.add_option("--driver-root", flags.agent.preparer.injection.driver_root,
                 "Root folder of the driver installation as the agent sees it: libraries below lib*/ and usr/lib*/, "
                 "device nodes below dev/")
      ->capture_default_str();
  app.add_option("--nvml", flags.nvml, "Path of libnvidia-ml.so.1; default: searched below --driver-root");
  app.add_option("--dcmi", flags.dcmi, "Path of libdcmi.so (Ascend); default: searched below --driver-root");
}

void add_options(CLI::App& app, Flags& flags, Raw& raw) {
  AgentOptions& agent = flags.agent;
  app.add_option("--node-name", agent.node_name, "Name of this Node object; default: the host's name")
      ->envname("NODE_NAME");
  app.add_option("--pod-uid", raw.pod_uid, "Tells instances apart during a rolling update; default: the process id")
      ->envname("POD_UID");
  app.add_option("--kubeconfig", flags.kubeconfig,
                 "Path of a kubeconfig; default: $KUBECONFIG, else the pod's account");
  app.add_option("--host-driver-root", agent.preparer.injection.driver_root_on_host,
                 "The same folder as the container runtime sees it; default: --driver-root");
  app.add_option("--library-dir", agent.preparer.injection.library_dir,
                 "Where driver libraries appear in containers; must be on the default path of their loader")
      ->capture_default_str();
  app.add_option("--cdi-root", agent.preparer.cdi_root, "Folder for CDI files, as the container runtime reads it")
      ->capture_default_str();
  app.add_option("--kubelet-root", raw.kubelet_root, "Root folder of the kubelet")->capture_default_str();
  app.add_option("--plugin-root", agent.dra.plugin_root, "Folder for plugin sockets; default: <kubelet-root>/plugins");
  app.add_option("--registry-root", agent.dra.registry_root,
                 "Folder for registration sockets; default: <kubelet-root>/plugins_registry");
  app.add_option(
         "--state-dir", agent.preparer.state_dir,
         "Folder for what is prepared; in a pod: a host path at the same place, mounted Bidirectional, not noexec")
      ->capture_default_str();
  app.add_flag("--plain-usage", raw.plain_usage, "Keep usage files in plain folders instead of a small tmpfs each");
  app.add_option("--policy", raw.policy,
                 "What happens to a process outside its grant: report, or enforce (it is ended)")
      ->check(CLI::IsMember({"report", "enforce"}))
      ->capture_default_str();
  app.add_option("--unguarded", raw.unguarded,
                 "What happens to a process inside its grant that the guard is not in, so that nothing holds it there: "
                 "report, or enforce (it is ended)")
      ->check(CLI::IsMember({"report", "enforce"}))
      ->capture_default_str();
  app.add_option("--guard-library", agent.preparer.guard_library,
                 "Path of libheddle_guard.so; default: beside the program");
  app.add_option("--ascend-guard-library", agent.preparer.ascend_guard_library,
                 "Path of libheddle_guard_ascend.so; default: beside --guard-library");
  app.add_option("--oci-hook", raw.hook, "Path of heddle-oci-hook, or none; default: beside the program");
  app.add_option("--metrics-address", agent.metrics_address, "Address for /metrics, /healthz, /readyz; empty: none")
      ->capture_default_str();
  app.add_option("--metrics-port", agent.metrics_port, "Port for the same; 0: any free one")->capture_default_str();
  app.add_option("--supervise-interval", raw.interval_seconds, "Seconds between looks at the processes on the cards")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  app.add_option("--memory-slack-mib", raw.slack_mib,
                 "MiB that the processes of a pod may hold of a card beyond its grant, all together, before they count "
                 "as outside (what drivers count differently); nothing where none of them has the guard")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 20))
      ->capture_default_str();
  app.add_option("--context-mib", raw.context_mib,
                 "MiB that the driver takes for one context: charged before it is made, so that the first one of a "
                 "claim cannot pass its limit; 0: the guard measures the first and charges it afterwards")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 14))
      ->capture_default_str();
  app.add_option("--mps-pipe", agent.preparer.mps_pipe,
                 "CUDA_MPS_PIPE_DIRECTORY of the MPS control daemon that serves this node's cards, as the node has it; "
                 "with it claims may have isolation mps; empty: none");
  app.add_option(
      "--mps-shm", agent.preparer.mps_shm,
      "Folder of that daemon's shared memory, mounted to /dev/shm of such containers; empty: they are in the "
      "node's IPC namespace");
  app.add_option(
         "--make-partitions", raw.make_partitions,
         "Vendors whose cards are cut for claims: ascend (vNPUs), nvidia (MIG instances of cards whose MIG mode "
         "is on); separated by commas. Each partition is made when its claim is prepared and removed after it")
      ->delimiter(',')
      ->check(CLI::IsMember({"ascend", "nvidia"}));
  app.add_flag("--strict-shares", agent.strict_shares,
               "Lend nothing of a card's time: no share is exceeded, even while the others are idle");
  app.add_option("--log-level", flags.log_level, "debug, info, warning or error")->capture_default_str();
}

void complete(Flags& flags, const Raw& raw) {
  AgentOptions& agent = flags.agent;
  const std::string program = executable_path();
  const std::string folder = program.substr(0, program.find_last_of('/'));
  if (agent.node_name.empty()) agent.node_name = host_name();
  agent.in_pod = std::getenv("KUBERNETES_SERVICE_HOST") != nullptr;
  agent.dra.instance = raw.pod_uid.empty() ? std::to_string(::getpid()) : raw.pod_uid;
  if (agent.dra.plugin_root.empty()) agent.dra.plugin_root = raw.kubelet_root + "/plugins";
  if (agent.dra.registry_root.empty()) agent.dra.registry_root = raw.kubelet_root + "/plugins_registry";
  agent.supervisor.policy = raw.policy == "enforce" ? Policy::kEnforce : Policy::kReport;
  agent.supervisor.unguarded = raw.unguarded == "enforce" ? Policy::kEnforce : Policy::kReport;
  agent.supervisor.slack_bytes = raw.slack_mib << 20;
  agent.preparer.context_bytes = raw.context_mib << 20;
  agent.make_partitions.insert(raw.make_partitions.begin(), raw.make_partitions.end());
  agent.supervise_interval = Duration{static_cast<int64_t>(raw.interval_seconds * 1e9)};
  agent.preparer.usage = raw.plain_usage ? UsageKind::kPlain : UsageKind::kTmpfs;
  if (agent.preparer.guard_library.empty()) {
    agent.preparer.guard_library =
        first_existing({folder + "/../lib/libheddle_guard.so", folder + "/libheddle_guard.so",
                        folder + "/../lib/heddle/libheddle_guard.so"});
  }
  if (agent.preparer.ascend_guard_library.empty()) {
    const std::string& beside = agent.preparer.guard_library;
    agent.preparer.ascend_guard_library =
        existing_or_empty(beside.substr(0, beside.find_last_of('/') + 1) + "libheddle_guard_ascend.so");
  }
  agent.preparer.guard_hook = raw.hook.empty() ? folder + "/heddle-oci-hook" : raw.hook == "none" ? "" : raw.hook;
  // An empty path means "not given"; the library searches under the driver root itself.
  for (const char* vendor : {"nvidia", "ascend"}) {
    std::vector<std::string> command = {program, "vendor-worker", "--vendor",
                                        vendor,  "--driver-root", agent.preparer.injection.driver_root};
    if (!flags.nvml.empty()) command.insert(command.end(), {"--nvml", flags.nvml});
    if (!flags.dcmi.empty()) command.insert(command.end(), {"--dcmi", flags.dcmi});
    agent.workers.push_back({vendor, std::move(command)});
  }
}

}  // namespace

ParsedFlags parse_flags(int argc, char** argv) {
  ParsedFlags parsed;
  Flags& flags = parsed.flags;
  Raw raw;
  flags.agent.preparer.state_dir = "/var/lib/heddle";
  flags.agent.metrics_address = "127.0.0.1";
  flags.agent.dra.plugin_root.clear();
  flags.agent.dra.registry_root.clear();
  CLI::App app(
      "heddle-agent: offers this node's accelerators to Kubernetes, prepares them for pods, and supervises them.");
  app.set_version_flag("--version", HEDDLE_VERSION);
  add_driver_options(app, flags);
  add_options(app, flags, raw);
  CLI::App* worker = app.add_subcommand("vendor-worker")->group("");
  add_driver_options(*worker, flags);
  worker->add_option("--vendor", flags.vendor, "Whose library")->check(CLI::IsMember({"nvidia", "ascend"}));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int status = app.exit(error);
    parsed.exit_status = status == 0 ? 0 : 1;
    return parsed;
  }
  flags.vendor_worker = worker->parsed();
  complete(flags, raw);
  parsed.run = true;
  return parsed;
}

}  // namespace heddle::agent
