#include <fmt/format.h>

#include "base/print.h"
#include "cli/table.h"
#include "cli/verbs.h"
#include "standalone/client.h"

namespace heddle::cli {

int explain(const ExplainArgs& args, const Context& context) {
  if (args.cluster || !args.name_space.empty() || !args.access.kubeconfig.empty() || !args.access.context.empty())
    return explain_pod(args, context);
  const auto socket = find_socket(args.state_dir, context);
  if (!socket) return report(socket.error());
  const auto job = standalone::Client(*socket).job_json(args.what);
  if (!job) {
    // No Heddle here, or no such job: on a machine that talks to a cluster, a pod is meant.
    if (job.error().code == Code::kNotFound && knows_cluster(context)) return explain_pod(args, context);
    return report_answer(job.error());
  }
  if (args.output == Output::kJson) {
    print_out("{}\n", *job);
    return 0;
  }
  const auto text = job_text(*job);
  if (!text) return report(text.error());
  print_out("{}", *text);
  return 0;
}

}  // namespace heddle::cli
