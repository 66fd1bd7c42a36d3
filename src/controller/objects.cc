#include "controller/objects.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text.h"
#include "codec/codec.h"
#include "dialects/wire_names.h"
#include "kube/paths.h"

namespace heddle::controller {
namespace {

using Json = nlohmann::json;

Json parse(const std::string& text) {
  return parse_json(text);
}

std::pair<std::string_view, std::string_view> split(std::string_view key) {
  const size_t slash = key.find('/');
  return {key.substr(0, slash), slash == std::string_view::npos ? std::string_view() : key.substr(slash + 1)};
}

kube::Request request(kube::Method method, std::string path, std::string body, std::string_view type) {
  kube::Request out;
  out.method = method;
  out.path = std::move(path);
  // What we send is checked by our tests; the API server need not look for unknown fields, which it would only warn of.
  if (method != kube::Method::kGet && method != kube::Method::kDelete) out.path += "?fieldValidation=Ignore";
  out.body = std::move(body);
  out.content_type = type;
  out.timeout = Duration::seconds(5);
  return out;
}

kube::Request claim_patch(const model::ResourceClaim& claim, Json operations) {
  const Json test{{"op", "test"}, {"path", "/metadata/resourceVersion"}, {"value", claim.meta.resource_version}};
  operations.insert(operations.begin(), test);
  return request(kube::Method::kPatch, kube::resource_claim_path(claim.meta.name_space, claim.meta.name),
                 dump_json(operations), kube::kJsonPatch);
}

}  // namespace

model::ResourceClaim claim_for(const model::Pod& pod, const dialects::ContainerRequest& request) {
  model::ResourceClaim claim;
  claim.meta.name_space = pod.meta.name_space;
  claim.meta.name = request.claim_name;
  claim.meta.labels.emplace(dialects::kManagedLabel, "true");
  claim.meta.annotations.emplace("resource.kubernetes.io/pod-claim-name", request.claim_ref);
  if (!request.roundings.empty())
    claim.meta.annotations.emplace(dialects::kRoundingAnnotation,
                                   fmt::format("{}", fmt::join(request.roundings, "; ")));
  claim.meta.finalizers.emplace_back(kProtectionFinalizer);
  claim.meta.owners.push_back({"v1", "Pod", pod.meta.name, pod.meta.uid, true});
  claim.spec = request.spec;
  return claim;
}

bool same_spec(const model::ClaimSpec& a, const model::ClaimSpec& b) {
  if (a.requests != b.requests || a.constraints != b.constraints || a.config.size() != b.config.size()) return false;
  for (size_t i = 0; i < a.config.size(); ++i) {
    const model::OpaqueConfig& x = a.config[i];
    const model::OpaqueConfig& y = b.config[i];
    if (x.driver != y.driver || x.requests != y.requests) return false;
    if (x.parameters_json != y.parameters_json && parse(x.parameters_json) != parse(y.parameters_json)) return false;
  }
  return true;
}

// CEL has both kinds of quotes.
bool speaks_of(const model::DeviceClass& device_class, std::string_view driver) {
  return std::any_of(device_class.selectors.begin(), device_class.selectors.end(), [&](const std::string& selector) {
    return selector.find(fmt::format("\"{}\"", driver)) != std::string::npos ||
           selector.find(fmt::format("'{}'", driver)) != std::string::npos;
  });
}

int64_t devices_opened(const model::ClaimSpec& spec) {
  int64_t devices = 0;
  for (const model::DeviceRequest& request : spec.requests) {
    int64_t most = request.exactly ? request.exactly->count.value_or(1) : 1;
    for (const model::DeviceSubRequest& alternative : request.first_available)
      most = std::max(most, alternative.count.value_or(1));
    devices += most;
  }
  return devices;
}

kube::Request create_claim(const model::ResourceClaim& claim) {
  return request(kube::Method::kPost, kube::collection_path(kube::kResourceClaims, claim.meta.name_space),
                 codec::claim_json(claim), "application/json");
}

kube::Request put_claim_status(const model::ResourceClaim& claim) {
  const Json body{{"apiVersion", "resource.k8s.io/v1"},
                  {"kind", "ResourceClaim"},
                  {"metadata",
                   {{"name", claim.meta.name},
                    {"namespace", claim.meta.name_space},
                    {"uid", claim.meta.uid},
                    {"resourceVersion", claim.meta.resource_version}}},
                  {"spec", parse(codec::claim_spec_json(claim.spec))},
                  {"status", parse(codec::claim_status_json(claim))}};
  return request(kube::Method::kPut, kube::resource_claim_path(claim.meta.name_space, claim.meta.name, "status"),
                 dump_json(body), "application/json");
}

kube::Request add_finalizer(const model::ResourceClaim& claim) {
  Json operation{{"op", "add"}, {"path", "/metadata/finalizers/-"}, {"value", kProtectionFinalizer}};
  if (claim.meta.finalizers.empty()) {
    operation["path"] = "/metadata/finalizers";
    operation["value"] = Json::array({kProtectionFinalizer});
  }
  return claim_patch(claim, Json::array({operation}));
}

kube::Request remove_finalizer(const model::ResourceClaim& claim) {
  Json left = Json::array();
  for (const std::string& name : claim.meta.finalizers) {
    if (name != kProtectionFinalizer) left.push_back(name);
  }
  return claim_patch(claim, Json::array({{{"op", "replace"}, {"path", "/metadata/finalizers"}, {"value", left}}}));
}

kube::Request delete_claim(const model::ResourceClaim& claim) {
  const Json body{{"apiVersion", "v1"}, {"kind", "DeleteOptions"}, {"preconditions", {{"uid", claim.meta.uid}}}};
  return request(kube::Method::kDelete, kube::resource_claim_path(claim.meta.name_space, claim.meta.name),
                 dump_json(body), "application/json");
}

kube::Request read_claim(std::string_view key) {
  const auto [name_space, name] = split(key);
  return request(kube::Method::kGet, kube::resource_claim_path(name_space, name), {}, "application/json");
}

kube::Request read_pod(std::string_view key) {
  const auto [name_space, name] = split(key);
  return request(kube::Method::kGet, kube::pod_path(name_space, name), {}, "application/json");
}

kube::Request evict_pod(std::string_view key, const std::string& uid) {
  const auto [name_space, name] = split(key);
  const Json body{{"apiVersion", "policy/v1"},
                  {"kind", "Eviction"},
                  {"metadata", {{"name", name}, {"namespace", name_space}}},
                  {"deleteOptions", {{"preconditions", {{"uid", uid}}}}}};
  return request(kube::Method::kPost, kube::pod_path(name_space, name, "eviction"), dump_json(body),
                 "application/json");
}

kube::Request ungate_pod(const model::Pod& pod) {
  const Json body{{"metadata", {{"uid", pod.meta.uid}}},
                  {"spec", {{"schedulingGates", Json::array({{{"$patch", "delete"}, {"name", dialects::kGate}}})}}}};
  return request(kube::Method::kPatch, kube::pod_path(pod.meta.name_space, pod.meta.name), dump_json(body),
                 kube::kStrategicPatch);
}

kube::Request patch_condition(const model::Pod& pod, const model::PodCondition& condition, Time now,
                              const std::optional<std::string>& nominate) {
  const Json entry{{"type", condition.type},
                   {"status", condition.status},
                   {"reason", condition.reason},
                   {"message", condition.message},
                   {"lastTransitionTime", format_rfc3339(now)}};
  Json body{{"metadata", {{"uid", pod.meta.uid}}}, {"status", {{"conditions", Json::array({entry})}}}};
  if (nominate) body["status"]["nominatedNodeName"] = nominate->empty() ? Json() : Json(*nominate);
  return request(kube::Method::kPatch, kube::pod_path(pod.meta.name_space, pod.meta.name, "status"), dump_json(body),
                 kube::kStrategicPatch);
}

kube::Request patch_heddle_status(std::string_view plural, std::string_view name, std::string body) {
  return request(kube::Method::kPatch, kube::object_path({"heddle.dev/v1alpha1", plural}, {}, name, "status"),
                 std::move(body), kube::kMergePatch);
}

kube::Request create_event(const model::Pod& pod, const EventText& text, std::string_view component, Time now,
                           uint64_t unique) {
  const std::string time = format_rfc3339(now);
  const Json body{
      {"apiVersion", "v1"},
      {"kind", "Event"},
      {"metadata",
       {{"name", fmt::format("{}.{:x}", pod.meta.name.substr(0, 230), unique)}, {"namespace", pod.meta.name_space}}},
      {"involvedObject",
       {{"apiVersion", "v1"},
        {"kind", "Pod"},
        {"namespace", pod.meta.name_space},
        {"name", pod.meta.name},
        {"uid", pod.meta.uid},
        {"resourceVersion", pod.meta.resource_version}}},
      {"reason", text.reason},
      {"message", cut_text(text.message, 1024)},
      {"type", text.type},
      {"source", {{"component", component}}},
      {"reportingComponent", component},
      {"reportingInstance", component},
      {"firstTimestamp", time},
      {"lastTimestamp", time},
      {"count", 1}};
  return request(kube::Method::kPost, kube::collection_path(kube::kEvents, pod.meta.name_space), dump_json(body),
                 "application/json");
}

bool comes_back_at_once(const model::Pod& pod) {
  return std::any_of(pod.meta.owners.begin(), pod.meta.owners.end(), [](const model::OwnerReference& owner) {
    return owner.kind == "DaemonSet" || owner.kind == "Node";
  });
}

}  // namespace heddle::controller
