// The command line of `heddle` as values. CLI11 is behind parse_args().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "allocator/prepare.h"
#include "cel/environment.h"
#include "placement/policy.h"
#include "standalone/job.h"
#include "standalone/up.h"

namespace heddle::cli {

enum class Output { kTable, kJson };

struct UpArgs {
  standalone::UpOptions options;  // state_dir as given, maybe empty; program and guard_library are filled in later
  bool foreground = false;
  std::string queues_file;  // "none": there are to be no queues; empty: as before
};

struct RunArgs {
  std::string state_dir;
  standalone::JobRequest request;
  std::optional<int64_t> timeout_seconds;  // of waiting
};

struct PsArgs {
  std::string state_dir;
  Output output = Output::kTable;
  bool all = false;  // jobs that have ended, too
  bool watch = false;
};

// Which cluster: the files and the context of kubectl.
struct ClusterFlags {
  std::string kubeconfig;
  std::string context;  // empty: the current one
};

struct ExplainArgs {
  std::string state_dir;
  std::string what;  // a job, or a pod
  std::string name_space;
  ClusterFlags access;
  bool cluster = false;  // one of the cluster's flags was given
  Output output = Output::kTable;
};

struct QueueArgs {
  std::string name;  // empty: all queues
  ClusterFlags access;
  Output output = Output::kTable;
};

struct CancelArgs {
  std::string state_dir;
  std::string job;
};

struct DownArgs {
  std::string state_dir;
  bool kill = false;
};

struct UninstallArgs {
  ClusterFlags access;
  bool plan = false;
  bool yes = false;
};

struct TranslateArgs {
  std::string file;
  std::string catalog;   // an administrator's folder; empty: none
  bool ignored = false;  // pods that HAMi's webhook is told to ignore too
};

struct MigrateArgs {
  std::vector<std::string> files;
  std::string catalog;
  bool json = false;
};

struct AllocateArgs {
  std::string file;
  std::string node;
  std::string feature_gates;
  allocator::Defaults defaults = allocator::Defaults::kApply;
};

struct PlanArgs {
  std::vector<std::string> files;
  Output output = Output::kTable;
};

struct CelArgs {
  std::string expression;
  std::string device_file;
  std::string driver;
  std::string feature_gates;
  cel::Mode environment = cel::Mode::kStored;
};

struct CatalogArgs {
  enum class Action { kList, kShow, kValidate };
  Action action = Action::kList;
  std::string what;                // kShow: VENDOR or VENDOR/MODEL
  std::vector<std::string> files;  // kValidate
  std::string folder;              // of the administrator; empty: the built-in catalogue alone
  Output output = Output::kTable;
};

struct GuardArgs {
  std::string action;     // "status", "trace" or "selftest"
  std::string claim;      // trace: uid, its beginning, or a folder; empty: the only one
  std::string state_dir;  // empty: in a container its own claim, else the usual folder
  std::string libraries;  // selftest: the folder of the driver's libraries; empty: where the loader finds them
  int64_t seconds = 10;   // trace
  Output output = Output::kTable;
};

struct GuardProbeArgs {
  int64_t limit = 0;  // bytes; 0: only look
};

struct SimulateArgs {
  std::string fleet_file;  // with workloads_file; else nodes_file and pods_file
  std::string workloads_file;
  std::string nodes_file;
  std::string pods_file;
  placement::PolicyName policy = placement::PolicyName::kHeddle;
  bool mix_is_known = false;
  uint64_t seed = 42;
  int64_t load_percent = 100;
  Output output = Output::kTable;
};

struct VersionArgs {};

struct VendorWorkerArgs {
  std::string nvml;
  std::string driver_root;
  std::string vendor = "nvidia";
  std::string dcmi = {};
};

using Args = std::variant<UpArgs, RunArgs, PsArgs, ExplainArgs, QueueArgs, CancelArgs, DownArgs, UninstallArgs,
                          TranslateArgs, MigrateArgs, AllocateArgs, PlanArgs, CelArgs, CatalogArgs, SimulateArgs,
                          GuardArgs, GuardProbeArgs, VersionArgs, VendorWorkerArgs>;

// Text to print instead of doing something: help (exit 0), or what is wrong with the command line (exit 1).
struct Message {
  std::string text;
  int exit_code = 0;
};

std::variant<Args, Message> parse_args(const std::vector<std::string>& words);

// "90s", "10m", "2h" -> seconds. Errors: kInvalidArgument with the form to write.
Result<int64_t> parse_duration(const std::string& text);

}  // namespace heddle::cli
