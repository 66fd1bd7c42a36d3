#include <fmt/format.h>

#include "cli/table.h"
#include "cli/verbs.h"
#include "standalone/client.h"

namespace heddle::cli {

int explain(const ExplainArgs& args, const Context& context) {
  if (args.cluster || !args.name_space.empty() || !args.kubeconfig.empty()) return explain_pod(args, context);
  const auto socket = find_socket(args.state_dir, context);
  if (!socket) return report(socket.error());
  const auto job = standalone::Client(*socket).job_json(args.what);
  if (!job) {
    const int code = report(job.error());
    if (job.error().code == Code::kNotFound) {
      fmt::print(stderr, "heddle: for a pod of a cluster, add its namespace: heddle explain -n NAMESPACE {}\n",
                 args.what);
    }
    return code;
  }
  if (args.output == Output::kJson) {
    fmt::print("{}\n", *job);
    return 0;
  }
  const auto text = job_text(*job);
  if (!text) return report(text.error());
  fmt::print("{}", *text);
  return 0;
}

}  // namespace heddle::cli
