#include "controller/uninstall.h"

#include <fmt/format.h>

#include <cstdio>

#include "base/clock.h"
#include "base/log.h"
#include "base/print.h"
#include "cli/layout.h"
#include "cli/verbs.h"

namespace heddle::cli {
namespace {

Result<int> uninstall_from_cluster(const UninstallArgs& args, const Context& context) {
  const SystemClock clock;
  const Logger log("heddle", LogLevel::kError, clock);
  HEDDLE_TRY(const auto config, cluster_config(args.access, context));
  HEDDLE_TRY(const auto client, kube::Client::create(config, {}, clock, log));
  HEDDLE_TRY(const auto objects, controller::read_cluster(*client));
  const auto plan = controller::plan_uninstall(objects);
  if (plan.steps.empty()) print_out("Nothing on {} waits for Heddle.\n", config.server);
  for (const auto& step : plan.steps) print_out("{}: {}\n", printable(step.object), printable(step.action));
  for (const auto& remark : plan.remarks) print_out("note: {}\n", printable(remark));
  if (!args.yes) {
    if (!plan.steps.empty())
      print_out("Nothing was changed. `heddle uninstall --yes` does these {} steps.\n", plan.steps.size());
    return 0;
  }
  const auto failures = controller::carry_out(*client, plan);
  for (const auto& failure : failures) print_to(stderr, "heddle: {}\n", printable(failure));
  print_out("{} of {} steps done.\n", plan.steps.size() - failures.size(), plan.steps.size());
  return failures.empty() ? 0 : kError;
}

}  // namespace

int uninstall(const UninstallArgs& args, const Context& context) {
  const auto code = uninstall_from_cluster(args, context);
  return code ? *code : report_error(code.error());
}

}  // namespace heddle::cli
