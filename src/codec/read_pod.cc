#include <limits>

#include "codec/codec.h"
#include "codec/readers.h"

namespace heddle::codec {
namespace {

model::Container read_container(const JsonValue& in) {
  model::Container container;
  container.name = in["name"].text();
  const JsonValue resources = in["resources"];
  container.requests = resources["requests"].quantity_map();
  container.limits = resources["limits"].quantity_map();
  container.claims = read_list(resources["claims"], [](const JsonValue& claim) { return claim["name"].text(); });
  return container;
}

model::Container read_init_container(const JsonValue& in) {
  model::Container container = read_container(in);
  container.init = true;
  container.sidecar = in["restartPolicy"].text() == "Always";
  return container;
}

std::vector<model::PodResourceClaim> read_pod_claims(const JsonValue& in) {
  std::map<std::string, std::string> actual;
  in["status"]["resourceClaimStatuses"].each(
      [&](const JsonValue& status) { actual[status["name"].text()] = status["resourceClaimName"].text(); });
  return read_list(in["spec"]["resourceClaims"], [&](const JsonValue& claim) {
    const std::string name = claim["name"].text();
    return model::PodResourceClaim{.name = name,
                                   .claim_name = claim["resourceClaimName"].text(),
                                   .template_name = claim["resourceClaimTemplateName"].text(),
                                   .actual_name = actual[name]};
  });
}

model::PodCondition read_condition(const JsonValue& in) {
  return {.type = in["type"].text(),
          .status = in["status"].text(),
          .reason = in["reason"].text(),
          .message = in["message"].text()};
}

int32_t read_priority(const JsonValue& in) {
  const int64_t priority = in.integer().value_or(0);
  if (priority < std::numeric_limits<int32_t>::min() || priority > std::numeric_limits<int32_t>::max()) {
    in.wrong("must be a whole number of 32 bits");
    return 0;
  }
  return static_cast<int32_t>(priority);
}

model::Pod read_pod(const JsonValue& in) {
  const JsonValue spec = in["spec"];
  const JsonValue status = in["status"];
  model::Pod pod;
  pod.meta = read_meta(in["metadata"]);
  pod.node_name = spec["nodeName"].text();
  pod.nominated_node_name = status["nominatedNodeName"].text();
  pod.scheduler_name = spec["schedulerName"].text();
  pod.phase = status["phase"].text();
  pod.priority = read_priority(spec["priority"]);
  pod.priority_class = spec["priorityClassName"].text();
  pod.terminating = spec["activeDeadlineSeconds"].integer().has_value();
  pod.scheduling_gates = read_list(spec["schedulingGates"], [](const JsonValue& gate) { return gate["name"].text(); });
  pod.node_selector = spec["nodeSelector"].text_map();
  const JsonValue required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
  if (required.present()) pod.required_node_affinity = read_node_selector(required);
  pod.tolerations = read_list(spec["tolerations"], read_toleration);
  pod.containers = read_list(spec["initContainers"], read_init_container);
  for (model::Container& container : read_list(spec["containers"], read_container)) {
    pod.containers.push_back(std::move(container));
  }
  pod.pod_level_requests = spec["resources"]["requests"].quantity_map();
  pod.overhead = spec["overhead"].quantity_map();
  pod.resource_claims = read_pod_claims(in);
  pod.conditions = read_list(status["conditions"], read_condition);
  return pod;
}

model::Node read_node(const JsonValue& in) {
  const JsonValue spec = in["spec"];
  const JsonValue status = in["status"];
  model::Node node;
  node.meta = read_meta(in["metadata"]);
  node.taints = read_list(spec["taints"], read_taint);
  node.unschedulable = spec["unschedulable"].flag();
  status["conditions"].each([&](const JsonValue& condition) {
    if (condition["type"].text() == "Ready") node.ready = condition["status"].text() == "True";
  });
  node.allocatable = status["allocatable"].quantity_map();
  node.declared_features = status["declaredFeatures"].texts();
  return node;
}

}  // namespace

Result<model::Pod> parse_pod(std::string_view json) {
  return read_document(json, read_pod);
}
Result<model::Node> parse_node(std::string_view json) {
  return read_document(json, read_node);
}

}  // namespace heddle::codec
