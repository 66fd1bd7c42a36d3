#include "dialects/translate.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/json.h"
#include "catalog/requests.h"
#include "dialects/annotations.h"
#include "dialects/container.h"
#include "dialects/kai.h"
#include "dialects/names.h"
#include "dialects/wire_names.h"
#include "model/placement_policy.h"

namespace heddle::dialects {
namespace {

using Json = nlohmann::json;

// A container of the pod that is being translated, with where it stands.
struct Place {
  Json* container = nullptr;
  std::string path;     // spec.initContainers[0]
  std::string pointer;  // /spec/initContainers/0
  std::string name;
  bool init = false;
  bool sidecar = false;
  Resources resources;  // ours, as they came
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
    out.emplace(key, value.is_string() ? value.get<std::string>() : dump_json(value));
  return out;
}

Resources our_resources(const catalog::Requests& rules, const Place& place) {
  Resources out;
  out.path = place.path + ".resources";
  out.container = place.name;
  Json* resources = member(*place.container, "resources");
  if (resources == nullptr) return out;
  const auto take = [&](const char* list, std::map<std::string, std::string>& into) {
    Json* amounts = member(*resources, list);
    if (amounts == nullptr) return;
    for (const auto& [key, value] : amounts->items()) {
      if (asks_for_device(rules, key))
        into.emplace(key, value.is_string() ? value.get<std::string>() : dump_json(value));
    }
  };
  take("limits", out.limits);
  take("requests", out.requests);
  return out;
}

Result<void> check_container(Json& container, const std::string& path) {
  const Json* env = member(container, "env");
  if (env != nullptr && !env->is_array()) return fail(Code::kInvalidArgument, "must be an array", path + ".env");
  Json* resources = member(container, "resources");
  if (resources == nullptr) return {};
  if (!resources->is_object()) return fail(Code::kInvalidArgument, "must be an object", path + ".resources");
  for (const char* list : {"limits", "requests"}) {
    const Json* amounts = member(*resources, list);
    if (amounts != nullptr && !amounts->is_object())
      return fail(Code::kInvalidArgument, "must be an object", fmt::format("{}.resources.{}", path, list));
  }
  const Json* claims = member(*resources, "claims");
  if (claims != nullptr && !claims->is_array())
    return fail(Code::kInvalidArgument, "must be an array", path + ".resources.claims");
  return {};
}

Result<void> collect(const catalog::Requests& rules, Json& spec, const char* list, std::vector<Place>& out) {
  Json* containers = member(spec, list);
  if (containers == nullptr) return {};
  if (!containers->is_array()) return fail(Code::kInvalidArgument, "must be an array", fmt::format("spec.{}", list));
  const bool init = std::string_view(list) == "initContainers";
  for (size_t i = 0; i < containers->size(); ++i) {
    Json& container = (*containers)[i];
    Place place{&container,
                fmt::format("spec.{}[{}]", list, i),
                fmt::format("/spec/{}/{}", list, i),
                text_of(container, "name"),
                init,
                false,
                {}};
    if (place.name.empty()) return fail(Code::kInvalidArgument, "must have a name", place.path);
    HEDDLE_CHECK_OK(check_container(container, place.path));
    place.sidecar = init && text_of(container, "restartPolicy") == "Always";
    place.resources = our_resources(rules, place);
    out.push_back(std::move(place));
  }
  return {};
}

// Asks that came in this pass take the place of earlier ones for the same vendor; the rest of the claim stays.
ClaimForm merged(const ClaimForm& earlier, const ClaimForm& now) {
  ClaimForm out;
  out.one_numa_node = earlier.one_numa_node || now.one_numa_node;
  for (const Ask& ask : earlier.asks) {
    const bool again =
        std::any_of(now.asks.begin(), now.asks.end(), [&](const Ask& other) { return other.vendor == ask.vendor; });
    if (!again) out.asks.push_back(ask);
  }
  for (Ask ask : now.asks) {
    const auto taken = [&](const std::string& name) {
      return std::any_of(out.asks.begin(), out.asks.end(), [&](const Ask& other) { return other.name == name; });
    };
    const std::string base = ask.name;
    for (int i = 2; taken(ask.name); ++i) ask.name = fmt::format("{}-{}", base, i);
    out.asks.push_back(std::move(ask));
  }
  return out;
}

class Translator {
 public:
  Translator(const catalog::Requests& rules, Json pod, std::string_view request_uid, const TranslateOptions& options)
      : rules_(rules), pod_(std::move(pod)), uid_(request_uid), options_(options) {}

  Result<Translation> run();

 private:
  void read_earlier_pass();
  Result<void> check_shape();
  [[nodiscard]] bool leave_alone(bool any_resource);
  void translate_containers();
  void refuse_pod_resources();
  void translate_kai(const Wishes& wishes, std::vector<ContainerAsk>& asks);
  void translate(const Place& place, const ContainerAsk& ask);
  [[nodiscard]] ClaimForm form_of(const Place& place, const ContainerAsk& ask) const;
  const ContainerRequest* claim_to_share(const Place& place, const model::ClaimSpec& spec) const;
  std::string fresh_ref(const std::string& container) const;
  void strip(const Place& place, const std::vector<std::string>& keys);
  void add_environment(const Place& place, const std::map<std::string, std::string>& variables);
  void warn_of_variables(const Place& place, const ClaimForm& form);
  void remember(const std::string& pointer);
  [[nodiscard]] Json patch() const;
  void attach(const Place& place, const ContainerRequest& request);
  void finish();
  [[nodiscard]] bool uses_claim(const ContainerRequest& request) const;
  Json* metadata() { return member(pod_, "metadata"); }
  std::map<std::string, std::string> metadata_texts(const char* name) {
    return metadata() == nullptr ? std::map<std::string, std::string>() : texts_of(member(*metadata(), name));
  }
  Json& spec() { return pod_["spec"]; }

  const catalog::Requests& rules_;
  Json pod_;
  std::map<std::string, std::optional<Json>> before_;  // what is about to be written to, by pointer; nothing: absent
  std::string uid_;
  TranslateOptions options_;
  Translation out_;
  std::map<std::string, std::string> annotations_;
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
  Json* annotations = metadata() == nullptr ? nullptr : member(*metadata(), "annotations");
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
  remember("/metadata/annotations");
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

// A copy of the whole pod and a comparison with it would cost more than the translation. No remembered pointer is
// below another one.
void Translator::remember(const std::string& pointer) {
  const auto [place, fresh] = before_.try_emplace(pointer);
  if (!fresh) return;
  const Json::json_pointer path(pointer);
  if (pod_.contains(path)) place->second = pod_.at(path);
}

Json Translator::patch() const {
  Json out = Json::array();
  for (const auto& [pointer, before] : before_) {
    const Json::json_pointer path(pointer);
    const bool there = pod_.contains(path);
    if (before && there) {
      for (Json& step : Json::diff(*before, pod_.at(path), pointer)) out.push_back(std::move(step));
    } else if (before) {
      out.push_back(Json::object({{"op", "remove"}, {"path", pointer}}));
    } else if (there) {
      out.push_back(Json::object({{"op", "add"}, {"path", pointer}, {"value", pod_.at(path)}}));
    }
  }
  return out;
}

void Translator::add_environment(const Place& place, const std::map<std::string, std::string>& variables) {
  if (variables.empty()) return;
  remember(place.pointer + "/env");
  Json& list = (*place.container)["env"];
  if (list.is_null()) list = Json::array();
  for (const auto& [name, value] : variables) {
    const bool there = std::any_of(list.begin(), list.end(), [&](const Json& entry) {
      return entry.is_object() && entry.value("name", Json()) == name;
    });
    if (!there) list.push_back(Json::object({{"name", name}, {"value", value}}));
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
  const Json& spec = pod_.at("spec");
  const auto found = spec.find("resourceClaims");
  static const Json none = Json::array();
  const Json& claims = found == spec.end() ? none : *found;
  std::string ref = claim_ref_name(container);
  const auto taken = [&](const std::string& name) {
    return std::any_of(claims.begin(), claims.end(),
                       [&](const Json& entry) { return entry.is_object() && entry.value("name", Json()) == name; });
  };
  for (int i = 2; taken(ref); ++i) ref = claim_ref_name(fmt::format("{}-{}", container, i));
  return ref;
}

void Translator::attach(const Place& place, const ContainerRequest& request) {
  remember("/spec/resourceClaims");
  Json& claims = spec()["resourceClaims"];
  if (claims.is_null()) claims = Json::array();
  const Json entry{{"name", request.claim_ref}, {"resourceClaimName", request.claim_name}};
  if (std::find(claims.begin(), claims.end(), entry) == claims.end()) claims.push_back(entry);
  Json& used = (*place.container)["resources"]["claims"];
  if (used.is_null()) used = Json::array();
  const Json use = Json::object({{"name", request.claim_ref}});
  if (std::find(used.begin(), used.end(), use) == used.end()) used.push_back(use);
}

// Variables of a dialect that are set in the belief that they change the grant.
void Translator::warn_of_variables(const Place& place, const ClaimForm& form) {
  std::map<std::string, std::string> unread;
  for (const Ask& ask : form.asks) {
    const catalog::RequestVendor* vendor = rules_.find_vendor(ask.vendor);
    if (vendor != nullptr) unread.insert(vendor->unread_variables.begin(), vendor->unread_variables.end());
  }
  Json list = place.container->value("env", Json::array());
  for (Json& entry : list) {
    const auto found = entry.is_object() ? unread.find(text_of(entry, "name")) : unread.end();
    if (found == unread.end() || text_of(entry, "value") == "false") continue;
    out_.warnings.push_back(
        fmt::format("container {}: variable {} is not read: {}", place.name, found->first, found->second));
  }
}

// With what an earlier pass left in the container's claim.
ClaimForm Translator::form_of(const Place& place, const ContainerAsk& ask) const {
  for (const ContainerRequest& request : requests_) {
    if (request.container != place.name) continue;
    const Result<ClaimForm> earlier = read_claim_form(request.spec);
    return earlier ? merged(*earlier, ask.form) : ask.form;
  }
  return ask.form;
}

void Translator::translate(const Place& place, const ContainerAsk& ask) {
  if (!ask.remove.empty() || !ask.form.asks.empty()) remember(place.pointer + "/resources");
  strip(place, ask.remove);
  for (const std::string& warning : ask.warnings)
    out_.warnings.push_back(fmt::format("container {}: {}", place.name, warning));
  if (ask.form.asks.empty()) return;
  warn_of_variables(place, ask.form);
  add_environment(place, ask.environment);
  for (const std::string& line : ask.explanations)
    out_.explanations.push_back(fmt::format("container {}: {}", place.name, line));
  const model::ClaimSpec spec = claim_spec(form_of(place, ask));
  const auto earlier = std::find_if(requests_.begin(), requests_.end(),
                                    [&](const ContainerRequest& request) { return request.container == place.name; });
  if (earlier != requests_.end()) {
    // Another webhook wrote the resources again: the last word is what the container says, the names stay.
    for (ContainerRequest& request : requests_) {
      if (request.claim_name == earlier->claim_name && &request != &*earlier && request.spec != spec) {
        out_.refusals.push_back(
            {place.path + ".resources", "changed after it was translated, while another container shares its claim"});
        return;
      }
    }
    earlier->spec = spec;
    if (!ask.roundings.empty()) earlier->roundings = ask.roundings;
    return;
  }
  ContainerRequest request{place.name, place.init, "", "", spec, ask.roundings};
  if (const ContainerRequest* shared = claim_to_share(place, spec); shared != nullptr) {
    request.claim_ref = shared->claim_ref;
    request.claim_name = shared->claim_name;
  } else {
    std::string pod = metadata() == nullptr ? "" : text_of(*metadata(), "name");
    if (pod.empty() && metadata() != nullptr) pod = text_of(*metadata(), "generateName");
    request.claim_ref = fresh_ref(place.name);
    request.claim_name = claim_object_name(pod, place.name, uid_);
  }
  attach(place, request);
  requests_.push_back(std::move(request));
}

void Translator::finish() {
  if (!requests_.empty()) {
    remember("/spec/schedulingGates");
    remember(metadata() == nullptr ? "/metadata" : "/metadata/annotations");
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
    Json& annotations = pod_["metadata"]["annotations"];
    if (annotations.is_null()) annotations = Json::object();
    annotations[std::string(kRequestAnnotation)] = requests_json(requests_);
  }
  out_.requests = requests_;
  const Json steps = patch();
  if (steps.empty()) return;
  out_.changed = true;
  out_.json_patch = dump_json(steps);
}

Result<void> Translator::check_shape() {
  Json* spec_object = member(pod_, "spec");
  if (spec_object == nullptr || !spec_object->is_object())
    return fail(Code::kInvalidArgument, "must be an object", "spec");
  if (metadata() != nullptr && !metadata()->is_object())
    return fail(Code::kInvalidArgument, "must be an object", "metadata");
  for (const char* list : {"annotations", "labels"}) {
    Json* value = metadata() == nullptr ? nullptr : member(*metadata(), list);
    if (value != nullptr && !value->is_object())
      return fail(Code::kInvalidArgument, "must be an object", fmt::format("metadata.{}", list));
  }
  for (const char* list : {"resourceClaims", "schedulingGates"}) {
    Json* value = member(spec(), list);
    if (value != nullptr && !value->is_array())
      return fail(Code::kInvalidArgument, "must be an array", fmt::format("spec.{}", list));
  }
  HEDDLE_CHECK_OK(collect(rules_, spec(), "containers", places_));
  HEDDLE_CHECK_OK(collect(rules_, spec(), "initContainers", places_));
  std::set<std::string> names;
  for (const Place& place : places_) {
    if (!names.insert(place.name).second)
      return fail(Code::kInvalidArgument, fmt::format("a second container is named {}", place.name), place.path);
  }
  return {};
}

// Kubernetes knows cpu, memory and hugepages there; a device would be lost.
void Translator::refuse_pod_resources() {
  Json* resources = member(spec(), "resources");
  if (resources == nullptr) return;
  for (const char* list : {"limits", "requests"}) {
    for (const auto& [key, value] : texts_of(member(*resources, list))) {
      if (!asks_for_device(rules_, key) || value == "0") continue;
      out_.refusals.push_back({fmt::format("spec.resources.{}[{}]", list, key),
                               fmt::format("\"{}\": resources of the pod hold no devices; write it in the "
                                           "resources.limits of the container that uses them",
                                           value)});
    }
  }
}

// A mirror pod runs already, and an ignored one belongs to another scheduler.
bool Translator::leave_alone(bool any_resource) {
  const bool mirror = annotations_.contains("kubernetes.io/config.mirror");
  const bool ignored = !options_.translate_ignored && is_ignored(metadata_texts("labels"));
  if (!mirror && !ignored) return false;
  if (any_resource) {
    out_.warnings.push_back(mirror ? "a mirror pod of a node is left alone; Heddle gives it no device"
                                   : "label hami.io/webhook: ignore: the pod is left alone; Heddle gives it no device");
  }
  return true;
}

void Translator::translate_kai(const Wishes& wishes, std::vector<ContainerAsk>& asks) {
  KaiPod pod;
  for (const Place& place : places_) {
    (place.init ? pod.init_containers : pod.containers).push_back(place.name);
    for (const auto* list : {&place.resources.limits, &place.resources.requests}) {
      for (const auto& [key, value] : *list) {
        const bool nvidia = vendors_of(rules_, {"", "", {{key, value}}, {}}).contains("nvidia");
        if (nvidia && value != "0") pod.gpu_key = key;
      }
    }
  }
  std::optional<KaiAsk> kai = read_kai(annotations_, pod, out_.refusals);
  if (!kai) return;
  if (wishes.split == "mig") {
    out_.refusals.push_back({fmt::format("metadata.annotations[{}]", wishes.split_key),
                             "\"mig\" beside a fraction of a GPU; write nvidia.com/mig-<profile> for a MIG partition"});
    return;
  }
  if (wishes.split == "mps") {
    out_.refusals.push_back({fmt::format("metadata.annotations[{}]", wishes.split_key),
                             "\"mps\" beside a fraction of a GPU, which names no part of the SMs; write "
                             "nvidia.com/gpumem-percentage and nvidia.com/gpucores in place of the fraction"});
    return;
  }
  restrict(rules_, annotations_, wishes, kai->ask);
  for (const Selector& selector : kai->ask.selectors) {
    if (selector.op != Selector::Op::kEquals) kai->explanation += "; " + restriction_words(selector);
  }
  for (size_t i = 0; i < places_.size(); ++i) {
    if (places_[i].name != kai->container) continue;
    ContainerAsk& ask = asks[i];
    ClaimForm own;
    own.asks.push_back(kai->ask);
    own.one_numa_node = kai->ask.count > 1 && wishes.one_numa_node.contains(kai->ask.vendor);
    ask.form = merged(ask.form, own);
    ask.explanations.push_back(std::move(kai->explanation));
    ask.warnings.insert(ask.warnings.end(), kai->warnings.begin(), kai->warnings.end());
    return;
  }
}

void Translator::translate_containers() {
  std::set<std::string> vendors;
  for (const Place& place : places_) vendors.merge(vendors_of(rules_, place.resources));
  for (const ContainerRequest& request : requests_) {
    if (const Result<ClaimForm> form = read_claim_form(request.spec); form) {
      for (const Ask& ask : form->asks) vendors.insert(ask.vendor);
    }
  }
  const bool kai = has_kai_annotation(annotations_);
  if (kai) vendors.insert("nvidia");
  const Wishes wishes = read_annotations(rules_, annotations_, vendors, out_.refusals, out_.warnings);
  std::vector<ContainerAsk> asks;
  asks.reserve(places_.size());
  for (const Place& place : places_)
    asks.push_back(read_container(rules_, place.resources, annotations_, wishes, out_.refusals));
  if (kai) translate_kai(wishes, asks);
  bool any = !requests_.empty();
  for (size_t i = 0; i < places_.size() && out_.refusals.empty(); ++i) {
    any = any || !asks[i].form.asks.empty();
    translate(places_[i], asks[i]);
  }
  if (const std::string scheduler = text_of(spec(), "schedulerName");
      any && !scheduler.empty() && scheduler != "default-scheduler") {
    out_.warnings.push_back(fmt::format(
        "schedulerName: \"{}\": Heddle chooses the devices and the node, and the scheduler that the pod names "
        "binds it: that one must run, and honour ResourceClaims; remove schedulerName for kube-scheduler",
        scheduler));
  }
  if (const std::string node = text_of(spec(), "nodeName"); !node.empty() && any) {
    out_.refusals.push_back(
        {"spec.nodeName", fmt::format("a pod that names its node passes by the scheduler and gets no device; write "
                                      "nodeSelector: {{kubernetes.io/hostname: {}}}",
                                      node)});
  }
}

Result<Translation> Translator::run() {
  HEDDLE_CHECK_OK(check_shape());
  annotations_ = metadata_texts("annotations");
  const bool any_resource =
      std::any_of(places_.begin(), places_.end(), [&](const Place& place) { return !place.resources.empty(); });
  if (leave_alone(any_resource)) return std::move(out_);
  read_earlier_pass();
  refuse_pod_resources();
  if (const auto policy = model::marked_policy(annotations_, metadata_texts("labels")); !policy)
    out_.refusals.push_back({policy.error().field, policy.error().message});
  // A pod whose only request is a resource name in an annotation would start without any device.
  if (any_resource || !requests_.empty() || has_kai_annotation(annotations_) ||
      has_misplaced_resource(rules_, annotations_)) {
    translate_containers();
  }
  if (out_.refusals.empty()) finish();
  return std::move(out_);
}

}  // namespace

bool is_ignored(const std::map<std::string, std::string>& labels) {
  const auto it = labels.find("hami.io/webhook");
  return it != labels.end() && it->second == "ignore";
}

Result<Translation> translate_pod(const catalog::Requests& rules, std::string_view pod_json,
                                  std::string_view request_uid, const TranslateOptions& options) {
  Json pod = parse_json(pod_json);
  if (!pod.is_object()) return fail(Code::kInvalidArgument, "not a JSON object");
  if (const std::string kind = text_of(pod, "kind"); !kind.empty() && kind != "Pod") {
    return fail(Code::kInvalidArgument, fmt::format("\"{}\" is not a Pod", kind), "kind");
  }
  return Translator(rules, std::move(pod), request_uid, options).run();
}

}  // namespace heddle::dialects
