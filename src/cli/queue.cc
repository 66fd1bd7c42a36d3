#include <fmt/format.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/print.h"
#include "cli/queue_text.h"
#include "cli/verbs.h"
#include "kube/client.h"
#include "kube/paths.h"

namespace heddle::cli {
namespace {

Result<std::string> get(kube::Client& client, std::string path) {
  kube::Request request;
  request.path = std::move(path);
  HEDDLE_TRY(auto response, client.call(std::move(request)));
  return std::move(response.body);
}

Result<int> show(const QueueArgs& args, const Context& context) {
  const SystemClock clock;
  const Logger log("heddle", LogLevel::kError, clock);
  HEDDLE_TRY(const auto config, cluster_config(args.access, context));
  HEDDLE_TRY(const auto client, kube::Client::create(config, {}, clock, log));
  HEDDLE_TRY(const std::string queues, get(*client, kube::collection_path(kube::kAcceleratorQueues)));
  HEDDLE_TRY(const std::string pods,
             get(*client, kube::collection_path(kube::kPods) + "?fieldSelector=spec.nodeName%3D"));
  const auto text = queue_text(queues, pods, args.name, args.output);
  if (!text && text.error().code == Code::kNotFound) {
    (void)report(text.error());
    return kNo;
  }
  if (!text) return tl::unexpected<Error>(text.error());
  print_out("{}", *text);
  return 0;
}

}  // namespace

int queue(const QueueArgs& args, const Context& context) {
  const auto code = show(args, context);
  return code ? *code : report_error(code.error());
}

}  // namespace heddle::cli
