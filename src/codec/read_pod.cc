#include <limits>

#include "codec/codec.h"
#include "codec/readers.h"

namespace heddle::codec {
namespace {

model::HostPort read_port(const JsonValue& in) {
  return {.ip = in["hostIP"].text(), .protocol = in["protocol"].text(), .port = in["hostPort"].integer().value_or(0)};
}

model::Container read_container(const JsonValue& in) {
  model::Container container;
  container.name = in["name"].text();
  const JsonValue resources = in["resources"];
  container.requests = resources["requests"].quantity_map();
  container.limits = resources["limits"].quantity_map();
  container.host_ports = read_list(in["ports"], read_port);
  container.claims = read_list(resources["claims"], [](const JsonValue& claim) { return claim["name"].text(); });
  return container;
}

model::Container read_init_container(const JsonValue& in) {
  model::Container container = read_container(in);
  container.init = true;
  container.sidecar = in["restartPolicy"].text() == "Always";
  return container;
}

// On the node's own network each port is a port of the node, as the API server fills in.
void use_host_network(const JsonValue& containers, std::vector<model::Container>& into) {
  size_t i = 0;
  containers.each([&](const JsonValue& container) {
    size_t j = 0;
    model::Container& known = into[i++];
    container["ports"].each([&](const JsonValue& port) {
      model::HostPort& entry = known.host_ports[j++];
      if (entry.port == 0) entry.port = port["containerPort"].integer().value_or(0);
    });
  });
}

std::vector<model::Container> read_containers(const JsonValue& spec) {
  const JsonValue init = spec["initContainers"];
  const JsonValue main = spec["containers"];
  std::vector<model::Container> containers = read_list(init, read_init_container);
  std::vector<model::Container> others = read_list(main, read_container);
  if (spec["hostNetwork"].flag()) {
    use_host_network(init, containers);
    use_host_network(main, others);
  }
  containers.insert(containers.end(), std::make_move_iterator(others.begin()), std::make_move_iterator(others.end()));
  return containers;
}

std::optional<model::ResourceList> read_resources(const JsonValue& in) {
  if (!in.present()) return std::nullopt;
  return in.quantity_map();
}

void read_container_status(const JsonValue& status, bool init, model::Pod& pod) {
  const std::string name = status["name"].text();
  for (model::Container& container : pod.containers) {
    if (container.init != init || container.name != name) continue;
    container.allocated = read_resources(status["allocatedResources"]);
    container.actuated = read_resources(status["resources"]["requests"]);
  }
}

// The PersistentVolumeClaims of the pod: by name, and those that Kubernetes makes for it.
std::vector<std::string> read_volume_claims(const JsonValue& in) {
  std::vector<std::string> claims;
  in["spec"]["volumes"].each([&](const JsonValue& volume) {
    if (const JsonValue claim = volume["persistentVolumeClaim"]; claim.present()) {
      claims.push_back(claim["claimName"].text());
    } else if (volume["ephemeral"].present()) {
      claims.push_back(in["metadata"]["name"].text() + "-" + volume["name"].text());
    }
  });
  return claims;
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
  pod.scheduling_group = spec["schedulingGroup"]["podGroupName"].text();
  pod.phase = status["phase"].text();
  pod.priority = read_priority(spec["priority"]);
  pod.priority_class = spec["priorityClassName"].text();
  pod.active_deadline = spec["activeDeadlineSeconds"].integer();
  pod.terminating = pod.active_deadline.has_value();
  pod.scheduling_gates = read_list(spec["schedulingGates"], [](const JsonValue& gate) { return gate["name"].text(); });
  pod.node_selector = spec["nodeSelector"].text_map();
  const JsonValue required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
  if (required.present()) pod.required_node_affinity = read_node_selector(required);
  pod.tolerations = read_list(spec["tolerations"], read_toleration);
  pod.containers = read_containers(spec);
  status["initContainerStatuses"].each([&](const JsonValue& entry) { read_container_status(entry, true, pod); });
  status["containerStatuses"].each([&](const JsonValue& entry) { read_container_status(entry, false, pod); });
  pod.pod_level_requests = spec["resources"]["requests"].quantity_map();
  pod.pod_level_limits = spec["resources"]["limits"].quantity_map();
  pod.allocated = read_resources(status["allocatedResources"]);
  pod.actuated = read_resources(status["resources"]["requests"]);
  pod.volume_claims = read_volume_claims(in);
  pod.overhead = spec["overhead"].quantity_map();
  pod.resource_claims = read_pod_claims(in);
  pod.conditions = read_list(status["conditions"], read_condition);
  pod.never_preempts = spec["preemptionPolicy"].text() == "Never";
  return pod;
}

model::Node::Ready read_ready(const std::string& status) {
  if (status == "True") return model::Node::Ready::kTrue;
  return status == "False" ? model::Node::Ready::kFalse : model::Node::Ready::kUnknown;
}

model::Node read_node(const JsonValue& in) {
  const JsonValue spec = in["spec"];
  const JsonValue status = in["status"];
  model::Node node;
  node.meta = read_meta(in["metadata"]);
  node.taints = read_list(spec["taints"], read_taint);
  node.unschedulable = spec["unschedulable"].flag();
  status["conditions"].each([&](const JsonValue& condition) {
    if (condition["type"].text() == "Ready") node.ready = read_ready(condition["status"].text());
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
