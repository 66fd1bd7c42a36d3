#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/print.h"
#include "cli/json_at.h"
#include "cli/layout.h"
#include "cli/verbs.h"
#include "kube/client.h"

namespace heddle::cli {
namespace {

using Json = nlohmann::json;

constexpr const char* kCondition = "heddle.dev/Allocated";
constexpr const char* kGate = "heddle.dev/placement";

// Fit for a terminal: what a tenant wrote may be in it. Names stay as they are.
std::string shown_at(const Json& object, const char* pointer) {
  return printable(text_at(object, pointer));
}

const Json& list_at(const Json& object, const char* pointer) {
  static const Json none = Json::array();
  const Json::json_pointer path(pointer);
  return object.contains(path) && object.at(path).is_array() ? object.at(path) : none;
}

Result<Json> get(kube::Client& client, const std::string& path) {
  kube::Request request;
  request.path = path;
  HEDDLE_TRY(const auto response, client.call(std::move(request)));
  auto json = parse_json(response.body);
  if (!json.is_object()) return fail(Code::kInternal, "the API server's answer is not JSON");
  return json;
}

bool is_gated(const Json& pod) {
  const auto& gates = list_at(pod, "/spec/schedulingGates");
  return std::any_of(gates.begin(), gates.end(), [](const Json& gate) { return shown_at(gate, "/name") == kGate; });
}

std::string condition_text(const Json& pod) {
  for (const auto& condition : list_at(pod, "/status/conditions")) {
    if (shown_at(condition, "/type") != kCondition) continue;
    const auto reason = shown_at(condition, "/reason");
    const auto message = shown_at(condition, "/message");
    const bool allocated = shown_at(condition, "/status") == "True";
    return fmt::format("  accelerators  {} ({}){}{}\n", allocated ? "allocated" : "waiting", reason,
                       message.empty() ? "" : ": ", message);
  }
  if (is_gated(pod)) return "  accelerators  waiting: the controller has not looked at this pod yet\n";
  if (list_at(pod, "/spec/resourceClaims").empty()) return "  accelerators  none asked for\n";
  return "  accelerators  not decided by Heddle so far\n";
}

std::string claim_text(const Json& claim) {
  std::string out;
  for (const auto& result : list_at(claim, "/status/allocation/devices/results")) {
    std::string what = fmt::format("{}/{}", shown_at(result, "/pool"), shown_at(result, "/device"));
    if (result.contains("consumedCapacity") && result["consumedCapacity"].is_object()) {
      for (const auto& [name, amount] : result["consumedCapacity"].items()) {
        const std::string text = amount.is_string() ? amount.get<std::string>() : dump_json(amount);
        what += fmt::format(", {} {}", printable(name), printable(text));
      }
    }
    out += fmt::format("  claim         {}: {}\n", shown_at(claim, "/metadata/name"), what);
  }
  if (out.empty()) out = fmt::format("  claim         {}: not allocated\n", shown_at(claim, "/metadata/name"));
  return out;
}

std::string claims_text(kube::Client& client, const Json& pod, const std::string& name_space) {
  std::string out;
  for (const auto& reference : list_at(pod, "/spec/resourceClaims")) {
    std::string name = shown_at(reference, "/resourceClaimName");
    for (const auto& status : list_at(pod, "/status/resourceClaimStatuses")) {
      if (name.empty() && shown_at(status, "/name") == shown_at(reference, "/name"))
        name = shown_at(status, "/resourceClaimName");
    }
    if (name.empty()) continue;
    const auto claim =
        get(client, fmt::format("/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims/{}", name_space, name));
    out += claim ? claim_text(*claim) : fmt::format("  claim         {}: {}\n", name, printable(claim.error().message));
  }
  return out;
}

// Events about Heddle's work on this pod, oldest first.
Result<std::string> events_text(kube::Client& client, const Json& pod, const std::string& name_space) {
  HEDDLE_TRY(const auto events,
             get(client, fmt::format("/api/v1/namespaces/{}/events?limit=500&fieldSelector=involvedObject.uid%3D{}",
                                     name_space, shown_at(pod, "/metadata/uid"))));
  std::vector<std::pair<std::string, std::string>> lines;
  for (const auto& event : list_at(events, "/items")) {
    std::string when = shown_at(event, "/lastTimestamp");
    if (when.empty()) when = shown_at(event, "/eventTime");
    lines.emplace_back(when, fmt::format("  {}  {:<24} {}\n", when.empty() ? "-" : when, shown_at(event, "/reason"),
                                         shown_at(event, "/message")));
  }
  std::stable_sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string out;
  for (const auto& [when, line] : lines) out += line;
  return out;
}

Result<int> explain_in_cluster(const ExplainArgs& args, const Context& context) {
  const SystemClock clock;
  const Logger log("heddle", LogLevel::kError, clock);
  HEDDLE_TRY(const auto config, cluster_config(args.access, context));
  const std::string name_space = args.name_space.empty() ? config.name_space : args.name_space;
  HEDDLE_TRY(const auto client, kube::Client::create(config, {}, clock, log));
  auto found = get(*client, fmt::format("/api/v1/namespaces/{}/pods/{}", name_space, args.what));
  if (!found && found.error().code == Code::kNotFound) {
    return fail(Code::kNotFound, fmt::format("there is no pod {} in namespace {}", args.what, name_space));
  }
  HEDDLE_TRY(const auto pod, std::move(found));
  if (args.output == Output::kJson) {
    print_out("{}\n", dump_json(pod));
    return 0;
  }
  const std::string node = shown_at(pod, "/spec/nodeName");
  std::string out = fmt::format("pod {}/{}: {}{}\n", name_space, args.what, shown_at(pod, "/status/phase"),
                                node.empty() ? "" : " on " + node);
  out += condition_text(pod) + claims_text(*client, pod, name_space);
  HEDDLE_TRY(const auto events, events_text(*client, pod, name_space));
  if (!events.empty()) out += "events\n" + events;
  print_out("{}", out);
  return 0;
}

}  // namespace

int explain_pod(const ExplainArgs& args, const Context& context) {
  const auto code = explain_in_cluster(args, context);
  return code ? *code : report_error(code.error());
}

}  // namespace heddle::cli
