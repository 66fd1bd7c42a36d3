// What is asked of an autoscaler, as requests to the API server.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "codec/codec.h"
#include "controller/provisioning.h"
#include "dialects/wire_names.h"
#include "kube/paths.h"

namespace heddle::controller {
namespace {

using Json = nlohmann::json;

constexpr const char* kMark = "heddle.dev/provisioning";  // on the pods of the template
constexpr kube::ResourceType kPodTemplates{"v1", "podtemplates"};
constexpr const char* kPause = "pause";  // a template has an image; this one never runs

kube::ResourceType requests_of(std::string_view version) {
  return {version, "provisioningrequests"};
}

std::string name_for(const model::Pod& pod) {
  return "heddle-" + pod.meta.uid;
}

Json meta_for(const model::Pod& pod) {
  return {{"name", name_for(pod)},
          {"namespace", pod.meta.name_space},
          {"labels", {{dialects::kManagedLabel, "true"}}},
          {"ownerReferences",
           Json::array({{{"apiVersion", "v1"}, {"kind", "Pod"}, {"name", pod.meta.name}, {"uid", pod.meta.uid}}})}};
}

Json expressions(const std::vector<model::Requirement>& requirements) {
  Json out = Json::array();
  for (const model::Requirement& one : requirements) {
    Json entry{{"key", one.key}, {"operator", codec::operator_name(one.op)}};
    if (!one.values.empty()) entry["values"] = one.values;
    out.push_back(std::move(entry));
  }
  return out;
}

// Where the pod may be, but on none of the nodes that are there, and beside none of its kind.
Json affinity_of(const model::Pod& pod, const NodesAsked& asked) {
  Json terms = Json::array();
  std::vector<model::NodeSelectorTerm> own{{}};
  if (pod.required_node_affinity) own = pod.required_node_affinity->terms;
  for (const model::NodeSelectorTerm& term : own) {
    Json entry{{"matchExpressions", expressions(term.match_expressions)}};
    if (!asked.without.empty())
      entry["matchExpressions"].push_back(
          {{"key", "kubernetes.io/hostname"}, {"operator", "NotIn"}, {"values", asked.without}});
    if (!entry["matchExpressions"].empty()) terms.push_back(std::move(entry));
  }
  const Json apart{{"labelSelector", {{"matchLabels", {{kMark, name_for(pod)}}}}},
                   {"topologyKey", "kubernetes.io/hostname"}};
  Json affinity{{"podAntiAffinity", {{"requiredDuringSchedulingIgnoredDuringExecution", Json::array({apart})}}}};
  if (!terms.empty())
    affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] = terms;
  return affinity;
}

Json tolerations_of(const model::Pod& pod) {
  Json out = Json::array();
  for (const model::Toleration& one : pod.tolerations) {
    Json entry = Json::object();
    if (!one.key.empty()) entry["key"] = one.key;
    if (!one.op.empty()) entry["operator"] = one.op;
    if (!one.value.empty()) entry["value"] = one.value;
    if (!one.effect.empty()) entry["effect"] = one.effect;
    if (one.seconds) entry["tolerationSeconds"] = *one.seconds;
    out.push_back(std::move(entry));
  }
  return out;
}

kube::Request create(const std::string& path, const Json& body) {
  kube::Request out;
  out.method = kube::Method::kPost;
  out.path = path + "?fieldValidation=Ignore";
  out.body = dump_json(body);
  out.content_type = "application/json";
  out.timeout = Duration::seconds(5);
  return out;
}

kube::Request remove(std::string path) {
  kube::Request out;
  out.method = kube::Method::kDelete;
  out.path = std::move(path);
  out.content_type = "application/json";
  out.timeout = Duration::seconds(5);
  return out;
}

}  // namespace

kube::Request create_provisioning(const model::Pod& pod, std::string_view version, const NodesAsked& asked) {
  const Json set{{"podTemplateRef", {{"name", name_for(pod)}}}, {"count", asked.count}};
  return create(kube::collection_path(requests_of(version), pod.meta.name_space),
                {{"apiVersion", version},
                 {"kind", "ProvisioningRequest"},
                 {"metadata", meta_for(pod)},
                 {"spec", {{"provisioningClassName", asked.name_of_class}, {"podSets", Json::array({set})}}}});
}

kube::Request create_pod_template(const model::Pod& pod, const NodesAsked& asked) {
  Json requests = Json::object();
  for (const auto& [resource, amount] : model::effective_requests(pod)) {
    if (resource == "cpu") requests["cpu"] = fmt::format("{}m", amount);
    if (resource == "memory" || resource == "ephemeral-storage") requests[resource] = std::to_string(amount);
  }
  std::map<std::string, std::string> selector = pod.node_selector;
  selector.insert(asked.kind.begin(), asked.kind.end());
  Json container{{"name", "main"}, {"image", kPause}};
  container["resources"]["requests"] = std::move(requests);
  const Json spec{{"containers", Json::array({std::move(container)})},
                  {"nodeSelector", selector},
                  {"tolerations", tolerations_of(pod)},
                  {"affinity", affinity_of(pod, asked)}};
  return create(kube::collection_path(kPodTemplates, pod.meta.name_space),
                {{"apiVersion", "v1"},
                 {"kind", "PodTemplate"},
                 {"metadata", meta_for(pod)},
                 {"template", {{"metadata", {{"labels", {{kMark, name_for(pod)}}}}}, {"spec", spec}}}});
}

kube::Request delete_provisioning(const model::Pod& pod, std::string_view version) {
  return remove(kube::object_path(requests_of(version), pod.meta.name_space, name_for(pod)));
}

kube::Request delete_pod_template(const model::Pod& pod) {
  return remove(kube::object_path(kPodTemplates, pod.meta.name_space, name_for(pod)));
}

}  // namespace heddle::controller
