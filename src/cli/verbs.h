// The verbs of `heddle`, one file each. Each returns the exit code: 0 done, 1 usage, 2 a correct "no", 3 an error.
#pragma once

#include <string>

#include "cli/args.h"
#include "kube/config.h"
#include "standalone/state_dir.h"

namespace heddle::cli {

// What a verb may know of its surroundings, read once by main().
struct Context {
  std::string program;  // path of this program
  standalone::Surroundings surroundings;
  std::string kubeconfig;  // KUBECONFIG's value
};

int up(const UpArgs& args, const Context& context);
int run(const RunArgs& args, const Context& context);
int ps(const PsArgs& args, const Context& context);
int explain(const ExplainArgs& args, const Context& context);
int queue(const QueueArgs& args, const Context& context);
int cancel(const CancelArgs& args, const Context& context);
int down(const DownArgs& args, const Context& context);
int uninstall(const UninstallArgs& args, const Context& context);
int translate(const TranslateArgs& args);
int migrate(const MigrateArgs& args);
int allocate(const AllocateArgs& args);
int plan(const PlanArgs& args);
int evaluate_cel(const CelArgs& args);
int simulate(const SimulateArgs& args);
int show_catalog(const CatalogArgs& args);
int guard(const GuardArgs& args, const Context& context);
int guard_probe(const GuardProbeArgs& args);
int version();
int vendor_worker(const VendorWorkerArgs& args);

// The pod's side of `explain`.
int explain_pod(const ExplainArgs& args, const Context& context);

inline constexpr int kUsage = 1;
inline constexpr int kNo = 2;
inline constexpr int kError = 3;

// Prints "heddle: text" on standard error; returns kUsage for kInvalidArgument, else kError.
int report(const Error& error);
// The same for what the Heddle of this machine says: who may not is told a correct "no".
int report_answer(const Error& error);
// The same for verbs that were called rightly: always kError.
int report_error(const Error& error);
// How to reach the cluster: the flag, KUBECONFIG, ~/.kube/config, or from inside a pod.
Result<kube::Config> cluster_config(const ClusterFlags& flags, const Context& context);
// True when one of these is there.
bool knows_cluster(const Context& context);
// The same with every line break made visible, for verbs whose errors are one line and always kError.
int report_one_line(const Error& error);
// The file's text; - is standard input.
Result<std::string> read_input(const std::string& file);
// The guard library of this name beside this program: in a build tree, then in an installation.
std::string find_guard_library(const std::string& program, const std::string& name = "libheddle_guard.so");
// The socket of the Heddle that a verb talks to.
Result<std::string> find_socket(const std::string& state_dir, const Context& context);

}  // namespace heddle::cli
