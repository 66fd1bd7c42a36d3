#include "cli/translation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json.h"
#include "cli/json_at.h"
#include "cli/quota_words.h"
#include "cli/workload.h"
#include "cli/yaml_json.h"
#include "codec/codec.h"
#include "dialects/container.h"
#include "dialects/names.h"
#include "dialects/translate.h"
#include "dialects/wire_names.h"

namespace heddle::cli {
namespace {

using Json = nlohmann::ordered_json;

// There is no review here; names of claims are made from this instead, so that the same manifest gives the same names.
constexpr std::string_view kReviewUid = "00000000-0000-0000-0000-000000000000";

std::string label_of(const Json& object) {
  std::string name = text_at(object, "/metadata/name");
  if (name.empty()) name = text_at(object, "/metadata/generateName");
  return fmt::format("{} {}", text_at(object, "/kind"), name.empty() ? "(unnamed)" : name);
}

struct Builder {
  const catalog::Requests& rules;
  dialects::TranslateOptions options;
  Json items = Json::array();
  std::map<std::string, int> names;  // of claim templates, with their namespace
  std::set<std::string> given;       // claims of the manifest itself: those of its pods, when it is our own output
  TranslatedList out;
};

// path: of the pod template in its workload, "spec.template."; empty for a pod.
void collect(Builder& builder, const std::string& label, const std::string& path,
             const dialects::Translation& translation) {
  for (const auto& text : translation.explanations)
    builder.out.explanations.push_back(fmt::format("{}: {}", label, text));
  for (const auto& text : translation.warnings)
    builder.out.explanations.push_back(fmt::format("{}: warning: {}", label, text));
  for (const auto& refusal : translation.refusals) {
    builder.out.refusals.push_back(fmt::format("{}: {}{}: {}", label, path, refusal.field, refusal.message));
  }
}

// What a pod still asks for by name when it is translated: others' devices, which their own plugins serve.
void note_left(Builder& builder, const std::string& label, const Json& pod) {
  for (const char* list : {"/spec/initContainers", "/spec/containers"}) {
    const Json::json_pointer path(list);
    if (!pod.contains(path) || !pod.at(path).is_array()) continue;
    for (const Json& container : pod.at(path)) {
      std::set<std::string> told;
      for (const char* amounts : {"/resources/limits", "/resources/requests"}) {
        const Json::json_pointer at(amounts);
        if (!container.contains(at) || !container.at(at).is_object()) continue;
        for (const auto& [key, value] : container.at(at).items()) {
          if (key.find('/') == std::string::npos || dialects::asks_for_device(builder.rules, key)) continue;
          if (!told.insert(key).second) continue;
          builder.out.explanations.push_back(fmt::format(
              "{}: container {}: {}={}: no device of Heddle's; left as it is, for its own plugin", label,
              text_at(container, "/name"), key, value.is_string() ? value.get<std::string>() : dump_json(value)));
        }
      }
    }
  }
}

Result<Json> patched(const Json& pod, const dialects::Translation& translation) {
  if (!translation.changed) return pod;
  try {
    return pod.patch(parse_ordered_json(translation.json_patch));
  } catch (const Json::exception& error) {
    return fail(Code::kInternal, fmt::format("the translation's own patch does not apply: {}", error.what()));
  }
}

Result<void> add_pod(Builder& builder, const Json& pod) {
  HEDDLE_TRY(const auto translation,
             dialects::translate_pod(builder.rules, dump_json(pod), kReviewUid, builder.options));
  collect(builder, label_of(pod), "", translation);
  if (!translation.refusals.empty()) return {};
  HEDDLE_TRY(auto mutated, patched(pod, translation));
  note_left(builder, label_of(pod), mutated);
  builder.items.push_back(std::move(mutated));
  std::set<std::string> made;
  for (const auto& request : translation.requests) {
    if (!made.insert(request.claim_name).second) continue;  // of several containers
    if (builder.given.contains(text_at(pod, "/metadata/namespace") + "/" + request.claim_name)) continue;
    model::ResourceClaim claim;
    claim.meta.name = request.claim_name;
    claim.meta.name_space = text_at(pod, "/metadata/namespace");
    claim.meta.labels["heddle.dev/managed"] = "true";
    claim.meta.annotations["resource.kubernetes.io/pod-claim-name"] = request.claim_ref;
    if (!request.roundings.empty())
      claim.meta.annotations[std::string(dialects::kRoundingAnnotation)] =
          fmt::format("{}", fmt::join(request.roundings, "; "));
    claim.spec = request.spec;
    builder.items.push_back(parse_ordered_json(codec::claim_json(claim)));
  }
  return {};
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
      if (text_at(gate, "/name") != dialects::kGate) kept.push_back(gate);
    }
    if (kept.empty()) {
      spec.erase("schedulingGates");
    } else {
      spec["schedulingGates"] = kept;
    }
  }
  if (!pod.contains("metadata") || !pod["metadata"].contains("annotations")) return;
  auto& annotations = pod["metadata"]["annotations"];
  annotations.erase(std::string(dialects::kRequestAnnotation));
  if (annotations.empty()) pod["metadata"].erase("annotations");
}

Json claim_template(const std::string& name, const std::string& name_space, const dialects::ContainerRequest& request) {
  Json metadata = Json::object({{"name", name}});
  if (!name_space.empty()) metadata["namespace"] = name_space;
  Json spec = Json::object();
  if (!request.roundings.empty()) {
    spec["metadata"]["annotations"][std::string(dialects::kRoundingAnnotation)] =
        fmt::format("{}", fmt::join(request.roundings, "; "));
  }
  spec["spec"] = parse_ordered_json(codec::claim_spec_json(request.spec));
  return Json::object({{"apiVersion", "resource.k8s.io/v1"},
                       {"kind", "ResourceClaimTemplate"},
                       {"metadata", std::move(metadata)},
                       {"spec", std::move(spec)}});
}

// One pod template in place; its claim templates are appended to `made`.
Result<void> add_template(Builder& builder, Json& workload, const PodTemplate& found, const std::string& owner,
                          const std::string& label, Json& made) {
  const Json::json_pointer at(found.at);
  Json pod = workload.at(at);
  pod["apiVersion"] = "v1";
  pod["kind"] = "Pod";
  HEDDLE_TRY(const auto translation,
             dialects::translate_pod(builder.rules, dump_json(pod), kReviewUid, builder.options));
  collect(builder, label, found.path + ".", translation);
  if (!translation.refusals.empty()) return {};
  HEDDLE_TRY(auto mutated, patched(pod, translation));
  note_left(builder, label, mutated);
  const std::string name_space = text_at(workload, "/metadata/namespace");
  std::map<std::string, std::string> template_of_claim;
  for (const auto& request : translation.requests) {
    if (template_of_claim.contains(request.claim_name)) continue;  // init steps that share a claim
    std::string name = dialects::claim_template_name(owner, request.container);
    const int before = builder.names[fmt::format("{}/{}", name_space, name)]++;
    if (before > 0) name = dialects::claim_template_name(owner, fmt::format("{}-{}", request.container, before + 1));
    template_of_claim[request.claim_name] = name;
    made.push_back(claim_template(name, name_space, request));
  }
  if (translation.changed) use_templates(mutated, template_of_claim);
  mutated.erase("apiVersion");
  mutated.erase("kind");
  workload.at(at) = std::move(mutated);
  return {};
}

Result<void> add_workload(Builder& builder, Json workload, const std::vector<PodTemplate>& templates) {
  std::string name = text_at(workload, "/metadata/name");
  if (name.empty()) name = text_at(workload, "/metadata/generateName");
  Json made = Json::array();
  for (const PodTemplate& found : templates) {
    std::string role = found.role;  // "Master"; names have small letters only
    std::transform(role.begin(), role.end(), role.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const std::string owner = templates.size() > 1 && !role.empty() ? fmt::format("{}-{}", name, role) : name;
    const std::string label =
        templates.size() > 1 ? fmt::format("{}, {}", label_of(workload), found.path) : label_of(workload);
    HEDDLE_CHECK_OK(add_template(builder, workload, found, owner, label, made));
  }
  builder.items.push_back(std::move(workload));
  for (auto& item : made) builder.items.push_back(std::move(item));
  return {};
}

// Kinds that are nothing without a pod template.
bool must_have_template(const std::string& kind) {
  constexpr std::string_view kKinds[] = {"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet",
                                         "Job",        "CronJob",    "PodTemplate", "ReplicationController"};
  return std::find(std::begin(kKinds), std::end(kKinds), kind) != std::end(kKinds);
}

// The first resource of ours that stands in some `resources` of an object without pod templates (a KServe
// InferenceService, a TrainJob): its controller makes the pods of it.
std::string asked_below(const catalog::Requests& rules, const Json& value, int depth = 0) {
  constexpr int kDeepest = 32;
  if (depth > kDeepest || !value.is_structured()) return {};
  for (const auto& [name, child] : value.items()) {
    if (name == "resources" || name == "resourcesPerNode") {
      for (const char* list : {"limits", "requests"}) {
        if (!child.is_object() || !child.contains(list) || !child[list].is_object()) continue;
        for (const auto& entry : child[list].items()) {
          if (dialects::asks_for_device(rules, entry.key())) return entry.key();
        }
      }
    }
    if (std::string found = asked_below(rules, child, depth + 1); !found.empty()) return found;
  }
  return {};
}

// A manifest that was translated before has the claims of its pods in it.
void find_given(Builder& builder, const Json& object) {
  if (!object.is_object()) return;
  const std::string kind = text_at(object, "/kind");
  if (kind.ends_with("List") && object.contains("items") && object["items"].is_array()) {
    for (const Json& item : object["items"]) find_given(builder, item);
  } else if (kind == "ResourceClaim") {
    builder.given.insert(text_at(object, "/metadata/namespace") + "/" + text_at(object, "/metadata/name"));
  }
}

Result<void> add_object(Builder& builder, const Json& object) {
  if (!object.is_object()) return fail(Code::kInvalidArgument, "a document is not an object");
  const std::string kind = text_at(object, "/kind");
  if (kind.empty()) return fail(Code::kInvalidArgument, "a document has no kind", "kind");
  if (kind.ends_with("List") && object.contains("items")) {
    if (!object["items"].is_array()) return fail(Code::kInvalidArgument, "must be a list", "items");
    for (const auto& item : object["items"]) HEDDLE_CHECK_OK(add_object(builder, item));
    return {};
  }
  if (kind == "Pod") return add_pod(builder, object);
  if (const auto templates = find_pod_templates(object); !templates.empty())
    return add_workload(builder, object, templates);
  if (must_have_template(kind))
    return fail(Code::kInvalidArgument, "it has no pod template with containers", label_of(object));
  const std::vector<std::string> quotas = quota_words(builder.rules, object);
  if (!quotas.empty()) {
    for (const std::string& line : quotas) builder.out.explanations.push_back(label_of(object) + ": " + line);
    builder.items.push_back(object);
    return {};
  }
  std::string told = label_of(object) + ": not a pod and no known workload; passed unchanged";
  if (const std::string key = asked_below(builder.rules, object); !key.empty())
    told += fmt::format("; it names {}: the pods that its controller makes are translated when they are created", key);
  builder.out.explanations.push_back(std::move(told));
  builder.items.push_back(object);
  return {};
}

}  // namespace

Result<TranslatedList> translate_manifest(const catalog::Requests& rules, const std::string& manifest,
                                          const dialects::TranslateOptions& options) {
  HEDDLE_TRY(const auto documents, yaml_to_json(manifest));
  if (documents.empty()) return fail(Code::kInvalidArgument, "there is no object in it");
  Builder builder{rules, options, Json::array(), {}, {}, {}};
  std::vector<Json> objects;
  for (const auto& text : documents) {
    objects.push_back(parse_ordered_json(text));
    find_given(builder, objects.back());
  }
  for (const Json& object : objects) HEDDLE_CHECK_OK(add_object(builder, object));
  if (!builder.out.refusals.empty()) builder.items = Json::array();
  const Json list = {{"apiVersion", "v1"}, {"kind", "List"}, {"items", std::move(builder.items)}};
  builder.out.list_json = dump_json(list, 2);
  return std::move(builder.out);
}

}  // namespace heddle::cli
