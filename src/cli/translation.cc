#include "cli/translation.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/yaml_json.h"
#include "codec/codec.h"
#include "dialects/translate.h"

namespace heddle::cli {
namespace {

using Json = nlohmann::ordered_json;

// There is no review here; names of claims are made from this instead, so that the same manifest gives the same names.
constexpr std::string_view kReviewUid = "00000000-0000-0000-0000-000000000000";
constexpr const char* kGate = "heddle.dev/placement";
constexpr const char* kRequestAnnotation = "heddle.dev/request";

// Where the pod is in a workload.
const std::map<std::string, std::string>& template_paths() {
  static const std::map<std::string, std::string> paths = {
      {"Deployment", "/spec/template"},  {"ReplicaSet", "/spec/template"},
      {"StatefulSet", "/spec/template"}, {"DaemonSet", "/spec/template"},
      {"Job", "/spec/template"},         {"ReplicationController", "/spec/template"},
      {"PodTemplate", "/template"},      {"CronJob", "/spec/jobTemplate/spec/template"}};
  return paths;
}

std::string text_at(const Json& object, const char* pointer) {
  const Json::json_pointer path(pointer);
  return object.contains(path) && object.at(path).is_string() ? object.at(path).get<std::string>() : std::string();
}

std::string label_of(const Json& object) {
  std::string name = text_at(object, "/metadata/name");
  if (name.empty()) name = text_at(object, "/metadata/generateName");
  return fmt::format("{} {}", text_at(object, "/kind"), name.empty() ? "(unnamed)" : name);
}

struct Builder {
  Json items = Json::array();
  TranslatedList out;
};

void collect(Builder& builder, const std::string& label, const dialects::Translation& translation) {
  for (const auto& text : translation.explanations)
    builder.out.explanations.push_back(fmt::format("{}: {}", label, text));
  for (const auto& text : translation.warnings)
    builder.out.explanations.push_back(fmt::format("{}: warning: {}", label, text));
  for (const auto& refusal : translation.refusals) {
    builder.out.refusals.push_back(fmt::format("{}: {}: {}", label, refusal.field, refusal.message));
  }
}

Result<Json> patched(const Json& pod, const dialects::Translation& translation) {
  if (!translation.changed) return pod;
  try {
    return pod.patch(Json::parse(translation.json_patch));
  } catch (const Json::exception& error) {
    return fail(Code::kInternal, fmt::format("the translation's own patch does not apply: {}", error.what()));
  }
}

Result<void> add_pod(Builder& builder, const Json& pod) {
  HEDDLE_TRY(const auto translation, dialects::translate_pod(pod.dump(), kReviewUid));
  collect(builder, label_of(pod), translation);
  if (!translation.refusals.empty()) return {};
  HEDDLE_TRY(auto mutated, patched(pod, translation));
  builder.items.push_back(std::move(mutated));
  for (const auto& request : translation.requests) {
    model::ResourceClaim claim;
    claim.meta.name = request.claim_name;
    claim.meta.name_space = text_at(pod, "/metadata/namespace");
    claim.meta.labels["heddle.dev/managed"] = "true";
    claim.meta.annotations["resource.kubernetes.io/pod-claim-name"] = request.claim_ref;
    claim.spec = request.spec;
    builder.items.push_back(Json::parse(codec::claim_json(claim)));
  }
  return {};
}

// At most 63 characters, the limit for what names a pod's claim.
std::string template_name(const std::string& workload, const std::string& container) {
  std::string name =
      (workload.empty() ? std::string("workload") : workload).substr(0, 62 - std::min<size_t>(31, container.size()));
  name += "-" + container.substr(0, 31);
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name;
}

// A template's pods get claims of their own from the claim templates; nobody has to gate them.
void use_templates(Json& pod, const std::map<std::string, std::string>& template_of_claim) {
  auto& spec = pod["spec"];
  if (spec.contains("resourceClaims")) {
    for (auto& reference : spec["resourceClaims"]) {
      const auto found = template_of_claim.find(text_at(reference, "/resourceClaimName"));
      if (found == template_of_claim.end()) continue;
      reference.erase("resourceClaimName");
      reference["resourceClaimTemplateName"] = found->second;
    }
  }
  if (spec.contains("schedulingGates")) {
    Json kept = Json::array();
    for (const auto& gate : spec["schedulingGates"]) {
      if (text_at(gate, "/name") != kGate) kept.push_back(gate);
    }
    if (kept.empty()) {
      spec.erase("schedulingGates");
    } else {
      spec["schedulingGates"] = kept;
    }
  }
  if (!pod.contains("metadata") || !pod["metadata"].contains("annotations")) return;
  auto& annotations = pod["metadata"]["annotations"];
  annotations.erase(kRequestAnnotation);
  if (annotations.empty()) pod["metadata"].erase("annotations");
}

Result<void> add_workload(Builder& builder, Json workload, const std::string& path) {
  const Json::json_pointer pointer(path);
  const std::string label = label_of(workload);
  if (!workload.contains(pointer) || !workload.at(pointer).is_object()) {
    return fail(Code::kInvalidArgument, "it has no pod template", fmt::format("{}: {}", label, path));
  }
  Json pod = workload.at(pointer);
  pod["apiVersion"] = "v1";
  pod["kind"] = "Pod";
  HEDDLE_TRY(const auto translation, dialects::translate_pod(pod.dump(), kReviewUid));
  collect(builder, label, translation);
  if (!translation.refusals.empty()) return {};
  HEDDLE_TRY(auto mutated, patched(pod, translation));
  std::map<std::string, std::string> template_of_claim;
  Json templates = Json::array();
  for (const auto& request : translation.requests) {
    const std::string name = template_name(text_at(workload, "/metadata/name"), request.container);
    template_of_claim[request.claim_name] = name;
    Json metadata = {{"name", name}};
    if (const auto name_space = text_at(workload, "/metadata/namespace"); !name_space.empty())
      metadata["namespace"] = name_space;
    templates.push_back({{"apiVersion", "resource.k8s.io/v1"},
                         {"kind", "ResourceClaimTemplate"},
                         {"metadata", std::move(metadata)},
                         {"spec", {{"spec", Json::parse(codec::claim_spec_json(request.spec))}}}});
  }
  if (translation.changed) use_templates(mutated, template_of_claim);
  mutated.erase("apiVersion");
  mutated.erase("kind");
  workload.at(pointer) = std::move(mutated);
  builder.items.push_back(std::move(workload));
  for (auto& item : templates) builder.items.push_back(std::move(item));
  return {};
}

Result<void> add_object(Builder& builder, const Json& object) {
  if (!object.is_object()) return fail(Code::kInvalidArgument, "a document is not an object");
  const std::string kind = text_at(object, "/kind");
  if (kind.empty()) return fail(Code::kInvalidArgument, "a document has no kind", "kind");
  if (kind == "List") {
    if (!object.contains("items") || !object["items"].is_array())
      return fail(Code::kInvalidArgument, "must be a list", "items");
    for (const auto& item : object["items"]) HEDDLE_CHECK_OK(add_object(builder, item));
    return {};
  }
  if (kind == "Pod") return add_pod(builder, object);
  if (const auto found = template_paths().find(kind); found != template_paths().end()) {
    return add_workload(builder, object, found->second);
  }
  builder.out.explanations.push_back(label_of(object) + ": not a pod and no known workload; passed unchanged");
  builder.items.push_back(object);
  return {};
}

}  // namespace

Result<TranslatedList> translate_manifest(const std::string& manifest) {
  HEDDLE_TRY(const auto documents, yaml_to_json(manifest));
  if (documents.empty()) return fail(Code::kInvalidArgument, "there is no object in it");
  Builder builder;
  for (const auto& text : documents) HEDDLE_CHECK_OK(add_object(builder, Json::parse(text)));
  if (!builder.out.refusals.empty()) builder.items = Json::array();
  const Json list = {{"apiVersion", "v1"}, {"kind", "List"}, {"items", std::move(builder.items)}};
  builder.out.list_json = list.dump(2);
  return std::move(builder.out);
}

}  // namespace heddle::cli
