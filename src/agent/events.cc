#include "agent/events.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/random.h"

namespace heddle::agent {

void EventWriter::on_pod(const PodInfo& pod, const std::string& reason, const std::string& message) {
  write({"Pod", pod.name_space, pod.name, pod.uid}, reason, message);
}

void EventWriter::on_node(const NodeIdentity& node, const std::string& reason, const std::string& message) {
  // The events of cluster-wide objects live in the namespace "default"; kubectl finds those of a node by its name.
  write({"Node", "", node.name, node.name}, reason, message);
}

void EventWriter::write(const Subject& subject, const std::string& reason, const std::string& message) {
  const std::string name_space = subject.name_space.empty() ? "default" : subject.name_space;
  const std::string now = format_rfc3339(clock_.now());
  const Result<uint64_t> random = random_seed();
  nlohmann::json event = {
      {"apiVersion", "v1"},
      {"kind", "Event"},
      {"metadata",
       {{"name", fmt::format("{}.{:016x}", subject.name.substr(0, 230), random ? *random : 0)},
        {"namespace", name_space}}},
      {"involvedObject", {{"apiVersion", "v1"}, {"kind", subject.kind}, {"name", subject.name}, {"uid", subject.uid}}},
      {"reason", reason},
      {"message", message.substr(0, 1024)},
      {"type", "Warning"},
      {"firstTimestamp", now},
      {"lastTimestamp", now},
      {"count", 1},
      {"source", {{"component", "heddle-agent"}, {"host", node_name_}}},
      {"reportingComponent", "heddle-agent"},
      {"reportingInstance", node_name_}};
  if (!subject.name_space.empty()) event["involvedObject"]["namespace"] = subject.name_space;
  kube::Request request;
  request.method = kube::Method::kPost;
  request.path = "/api/v1/namespaces/" + name_space + "/events";
  request.body = event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  client_.send(std::move(request), [this, reason](Result<kube::Response> response) {
    if (!response) log_.warning("event not written", {{"reason", reason}, {"why", response.error().text()}});
  });
}

}  // namespace heddle::agent
