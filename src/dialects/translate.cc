#include "dialects/translate.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "dialects/names.h"
#include "dialects/nvidia.h"
#include "dialects/wire_names.h"

namespace heddle::dialects {
namespace {

using Json = nlohmann::json;

// A container of the pod that is being translated, with where it stands.
struct Place {
  Json* container = nullptr;
  std::string path;  // spec.initContainers[0]
  std::string name;
  bool init = false;
  bool sidecar = false;
};

Json* member(Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(name);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

std::string text_of(Json& object, const char* name) {
  const Json* value = member(object, name);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

// Quantities may come as JSON numbers too.
std::map<std::string, std::string> texts_of(Json* object) {
  std::map<std::string, std::string> out;
  if (object == nullptr || !object->is_object()) return out;
  for (const auto& [key, value] : object->items())
    out.emplace(key, value.is_string() ? value.get<std::string>() : value.dump());
  return out;
}

Result<void> collect(Json& spec, const char* list, std::vector<Place>& out) {
  Json* containers = member(spec, list);
  if (containers == nullptr) return {};
  if (!containers->is_array()) return fail(Code::kInvalidArgument, "must be an array", fmt::format("spec.{}", list));
  const bool init = std::string_view(list) == "initContainers";
  for (size_t i = 0; i < containers->size(); ++i) {
    Json& container = (*containers)[i];
    Place place{&container, fmt::format("spec.{}[{}]", list, i), text_of(container, "name"), init, false};
    if (place.name.empty()) return fail(Code::kInvalidArgument, "must have a name", place.path);
    place.sidecar = init && text_of(container, "restartPolicy") == "Always";
    out.push_back(std::move(place));
  }
  return {};
}

NvidiaResources nvidia_resources(const Place& place) {
  NvidiaResources out;
  out.path = place.path + ".resources";
  Json* resources = member(*place.container, "resources");
  if (resources == nullptr) return out;
  for (auto& [key, value] : texts_of(member(*resources, "limits"))) {
    if (is_nvidia_resource(key)) out.limits.emplace(key, value);
  }
  for (auto& [key, value] : texts_of(member(*resources, "requests"))) {
    if (is_nvidia_resource(key)) out.requests.emplace(key, value);
  }
  return out;
}

class Translator {
 public:
  Translator(Json pod, std::string_view request_uid) : original_(std::move(pod)), pod_(original_), uid_(request_uid) {}

  Result<Translation> run();

 private:
  void read_earlier_pass();
  void translate(const Place& place, const NvidiaAsk& ask);
  const ContainerRequest* claim_to_share(const Place& place, const model::ClaimSpec& spec) const;
  std::string fresh_ref(const std::string& container) const;
  void strip(const Place& place, const std::vector<std::string>& keys);
  void attach(const Place& place, const ContainerRequest& request);
  void finish();
  [[nodiscard]] bool uses_claim(const ContainerRequest& request) const;
  Json& metadata() { return pod_["metadata"]; }
  Json& spec() { return pod_["spec"]; }

  Json original_;
  Json pod_;
  std::string uid_;
  Translation out_;
  std::vector<Place> places_;
  std::vector<ContainerRequest> requests_;  // of an earlier pass first, then the new ones
};

// The pod names the claim and the container uses it: an earlier pass of this webhook wrote it, and its names stay.
bool Translator::uses_claim(const ContainerRequest& request) const {
  const Json& spec = pod_.at("spec");
  const Json claims = spec.value("resourceClaims", Json::array());
  const bool named = std::any_of(claims.begin(), claims.end(), [&](const Json& entry) {
    return entry.is_object() && entry.value("name", Json()) == request.claim_ref &&
           entry.value("resourceClaimName", Json()) == request.claim_name;
  });
  if (!named) return false;
  for (const Place& place : places_) {
    if (place.name != request.container || place.init != request.init) continue;
    Json* resources = member(*place.container, "resources");
    Json* used = resources == nullptr ? nullptr : member(*resources, "claims");
    if (used == nullptr || !used->is_array()) return false;
    return std::any_of(used->begin(), used->end(), [&](const Json& entry) {
      return entry.is_object() && entry.value("name", Json()) == request.claim_ref;
    });
  }
  return false;
}

// An annotation that came in counts only when it says exactly what the pod has; anything else is dropped and written
// anew.
void Translator::read_earlier_pass() {
  Json* annotations = member(metadata(), "annotations");
  Json* value = annotations == nullptr ? nullptr : member(*annotations, std::string(kRequestAnnotation).c_str());
  if (value == nullptr) return;
  if (value->is_string()) {
    Result<std::vector<ContainerRequest>> earlier = parse_requests(value->get<std::string>());
    if (earlier &&
        std::all_of(earlier->begin(), earlier->end(), [&](const auto& entry) { return uses_claim(entry); })) {
      requests_ = std::move(*earlier);
      return;
    }
  }
  annotations->erase(std::string(kRequestAnnotation));
  out_.warnings.push_back("annotation heddle.dev/request is written by Heddle alone; what came in was dropped");
}

void Translator::strip(const Place& place, const std::vector<std::string>& keys) {
  Json* resources = member(*place.container, "resources");
  if (resources == nullptr) return;
  for (const char* list : {"limits", "requests"}) {
    Json* amounts = member(*resources, list);
    if (amounts == nullptr) continue;
    for (const std::string& key : keys) amounts->erase(key);
    if (amounts->empty()) resources->erase(list);
  }
}

// An ordinary init container never runs beside another container that is not a sidecar, so it may use the claim of one
// that asks for the same: the pod then needs no more cards than it did under a device plugin.
const ContainerRequest* Translator::claim_to_share(const Place& place, const model::ClaimSpec& spec) const {
  if (!place.init || place.sidecar) return nullptr;
  for (const ContainerRequest& request : requests_) {
    const auto owner = std::find_if(places_.begin(), places_.end(),
                                    [&](const Place& other) { return other.name == request.container; });
    if (owner != places_.end() && !owner->sidecar && request.spec == spec) return &request;
  }
  return nullptr;
}

std::string Translator::fresh_ref(const std::string& container) const {
  const Json claims = pod_.at("spec").value("resourceClaims", Json::array());
  std::string ref = claim_ref_name(container);
  const auto taken = [&](const std::string& name) {
    return std::any_of(claims.begin(), claims.end(),
                       [&](const Json& entry) { return entry.is_object() && entry.value("name", Json()) == name; });
  };
  for (int i = 2; taken(ref); ++i) ref = claim_ref_name(fmt::format("{}-{}", container, i));
  return ref;
}

void Translator::attach(const Place& place, const ContainerRequest& request) {
  Json& claims = spec()["resourceClaims"];
  if (claims.is_null()) claims = Json::array();
  const Json entry{{"name", request.claim_ref}, {"resourceClaimName", request.claim_name}};
  if (std::find(claims.begin(), claims.end(), entry) == claims.end()) claims.push_back(entry);
  Json& used = (*place.container)["resources"]["claims"];
  if (used.is_null()) used = Json::array();
  const Json use = Json::object({{"name", request.claim_ref}});
  if (std::find(used.begin(), used.end(), use) == used.end()) used.push_back(use);
}

void Translator::translate(const Place& place, const NvidiaAsk& ask) {
  strip(place, ask.remove);
  for (const std::string& warning : ask.warnings)
    out_.warnings.push_back(fmt::format("container {}: {}", place.name, warning));
  if (!ask.spec) return;
  out_.explanations.push_back(fmt::format("container {}: {}", place.name, ask.explanation));
  const auto earlier = std::find_if(requests_.begin(), requests_.end(),
                                    [&](const ContainerRequest& request) { return request.container == place.name; });
  if (earlier != requests_.end()) {
    // Another webhook wrote the resources again: the last word is what the container says, the names stay.
    for (ContainerRequest& request : requests_) {
      if (request.claim_name == earlier->claim_name && &request != &*earlier && request.spec != *ask.spec) {
        out_.refusals.push_back(
            {place.path + ".resources", "changed after it was translated, while another container shares its claim"});
        return;
      }
    }
    earlier->spec = *ask.spec;
    return;
  }
  ContainerRequest request{place.name, place.init, "", "", *ask.spec};
  if (const ContainerRequest* shared = claim_to_share(place, *ask.spec); shared != nullptr) {
    request.claim_ref = shared->claim_ref;
    request.claim_name = shared->claim_name;
  } else {
    std::string pod = text_of(metadata(), "name");
    if (pod.empty()) pod = text_of(metadata(), "generateName");
    request.claim_ref = fresh_ref(place.name);
    request.claim_name = claim_object_name(pod, place.name, uid_);
  }
  attach(place, request);
  requests_.push_back(std::move(request));
}

void Translator::finish() {
  if (!requests_.empty()) {
    Json& gates = spec()["schedulingGates"];
    if (gates.is_null()) gates = Json::array();
    const Json gate = Json::object({{"name", kGate}});
    if (std::find(gates.begin(), gates.end(), gate) == gates.end()) gates.push_back(gate);
    // In the pod's own order, so that a second pass writes the same bytes.
    std::vector<ContainerRequest> ordered;
    for (const Place& place : places_) {
      for (const ContainerRequest& request : requests_) {
        if (request.container == place.name) ordered.push_back(request);
      }
    }
    requests_ = std::move(ordered);
    Json& annotations = metadata()["annotations"];
    if (annotations.is_null()) annotations = Json::object();
    annotations[std::string(kRequestAnnotation)] = requests_json(requests_);
  }
  out_.requests = requests_;
  if (pod_ == original_) return;
  out_.changed = true;
  out_.json_patch = Json::diff(original_, pod_).dump();
}

Result<Translation> Translator::run() {
  Json* spec_object = member(pod_, "spec");
  Json* metadata_object = member(pod_, "metadata");
  if (spec_object == nullptr || !spec_object->is_object())
    return fail(Code::kInvalidArgument, "must be an object", "spec");
  if (metadata_object != nullptr && !metadata_object->is_object())
    return fail(Code::kInvalidArgument, "must be an object", "metadata");
  if (metadata_object == nullptr) pod_["metadata"] = original_["metadata"] = Json::object();
  for (const char* list : {"resourceClaims", "schedulingGates"}) {
    Json* value = member(spec(), list);
    if (value != nullptr && !value->is_array())
      return fail(Code::kInvalidArgument, "must be an array", fmt::format("spec.{}", list));
  }
  HEDDLE_CHECK_OK(collect(spec(), "containers", places_));
  HEDDLE_CHECK_OK(collect(spec(), "initContainers", places_));

  const std::map<std::string, std::string> annotations = texts_of(member(metadata(), "annotations"));
  bool any_resource = false;
  for (const Place& place : places_) {
    const NvidiaResources resources = nvidia_resources(place);
    any_resource = any_resource || !resources.limits.empty() || !resources.requests.empty();
  }
  if (annotations.contains("kubernetes.io/config.mirror")) {
    if (any_resource) out_.warnings.push_back("a mirror pod of a node is left alone; Heddle gives it no device");
    return std::move(out_);
  }
  read_earlier_pass();
  bool asks = false;
  for (const Place& place : places_) {
    const NvidiaResources resources = nvidia_resources(place);
    if (resources.limits.empty() && resources.requests.empty()) continue;
    const NvidiaAsk ask = read_nvidia(resources, out_.refusals);
    asks = asks || ask.spec.has_value();
    if (out_.refusals.empty()) translate(place, ask);
  }
  // A pod whose only request is a resource name in an annotation would start without any device.
  if (any_resource || !requests_.empty() || has_misplaced_resource(annotations)) {
    check_nvidia_annotations(annotations, out_.refusals, out_.warnings);
  }
  if (const std::string node = text_of(spec(), "nodeName"); !node.empty() && (asks || !requests_.empty())) {
    out_.refusals.push_back(
        {"spec.nodeName", fmt::format("a pod that names its node passes by the scheduler and gets no device; write "
                                      "nodeSelector: {{kubernetes.io/hostname: {}}}",
                                      node)});
  }
  if (out_.refusals.empty()) finish();
  return std::move(out_);
}

}  // namespace

Result<Translation> translate_pod(std::string_view pod_json, std::string_view request_uid) {
  Json pod = Json::parse(pod_json, nullptr, false);
  if (!pod.is_object()) return fail(Code::kInvalidArgument, "not a JSON object");
  if (const std::string kind = text_of(pod, "kind"); !kind.empty() && kind != "Pod") {
    return fail(Code::kInvalidArgument, fmt::format("\"{}\" is not a Pod", kind), "kind");
  }
  return Translator(std::move(pod), request_uid).run();
}

}  // namespace heddle::dialects
