#include "controller/admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/base64.h"
#include "base/json.h"
#include "base/json_read.h"
#include "base/text.h"
#include "codec/admission.h"
#include "codec/codec.h"
#include "controller/gang_marks.h"
#include "controller/gangs.h"
#include "dialects/container.h"
#include "dialects/translate.h"
#include "dialects/wire_names.h"
#include "engine/engine.h"

namespace heddle::controller {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxDevices = 32;

struct Review {
  std::string uid;
  std::string operation;
  std::string kind;
  std::string user;
  Json object;
  Json old_object;
};

Json member(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(name);
  return it != object.end() ? *it : Json();
}

Result<Review> parse_review(std::string_view text) {
  HEDDLE_TRY(const codec::AdmissionReview read, codec::parse_admission_review(text));
  const auto parsed = [](const std::string& object) { return object.empty() ? Json() : parse_json(object); };
  return Review{read.uid, read.operation, read.kind, read.user, parsed(read.object), parsed(read.old_object)};
}

// patch: base64, which needs no escaping, and is most of the answer.
AdmissionAnswer answer(const std::string& uid, Json response, const std::string& patch = {}) {
  AdmissionAnswer out;
  out.allowed = response.value("allowed", true);
  out.changed = !patch.empty();
  response["uid"] = uid;
  out.body = R"({"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":)" + dump_json(response);
  if (out.changed) {
    out.body.pop_back();
    out.body += R"(,"patchType":"JSONPatch","patch":")" + patch + "\"}";
  }
  out.body += '}';
  return out;
}

template <typename R>
AdmissionAnswer allow(const R& review) {
  return answer(review.uid, {{"allowed", true}});
}

template <typename R>
AdmissionAnswer refuse(const R& review, const std::vector<std::string>& lines) {
  return answer(
      review.uid,
      {{"allowed", false},
       {"status", {{"code", 422}, {"reason", "Invalid"}, {"message", fmt::format("{}", fmt::join(lines, "; "))}}}});
}

// Warnings longer than this are cut by the API server.
std::string warning(const std::string& text) {
  return cut_text(text, 250);
}

std::vector<std::string> check_subrequest(const model::DeviceSubRequest& request, const std::string& path) {
  std::vector<std::string> out;
  const auto bad = [&](const char* field, std::string message) {
    out.push_back(fmt::format("{}.{}: {}", path, field, message));
  };
  if (request.admin_access) bad("adminAccess", "not supported on Heddle's classes");
  if (!request.derived_attributes.empty()) bad("derivedAttributes", "not supported yet");
  if (request.count && (*request.count < 1 || *request.count > kMaxDevices)) bad("count", "must be 1 to 32");
  for (size_t i = 0; i < request.selectors.size(); ++i) {
    const auto compiled = engine::check_selector(request.selectors[i]);
    if (!compiled) out.push_back(fmt::format("{}.selectors[{}]: {}", path, i, compiled.error().message));
  }
  for (const auto& [name, quantity] : request.capacity) {
    const std::string field = fmt::format("capacity.requests[{}]", name);
    const std::optional<int64_t> value = quantity.value();
    if (name == dialects::kMemoryCapacity) {
      if (!value || *value < 1) bad(field.c_str(), "must be a number of bytes above 0, such as 16Gi");
    } else if (name == dialects::kCoresCapacity) {
      if (!quantity.is_integer() || !value || *value < 0 || *value > 100)
        bad(field.c_str(), "must be a percentage, 0 to 100");
    } else {
      bad(field.c_str(), "unknown capacity; Heddle's devices have memory and cores");
    }
  }
  return out;
}

bool is_our_class(const std::string& name) {
  return name == dialects::kAnyClass || name.starts_with("heddle-");
}

std::vector<std::string> check_config(const model::OpaqueConfig& config, const std::string& path) {
  if (config.driver != dialects::kDriver) return {};
  const auto share = codec::parse_share_config(config.parameters_json);
  if (!share) return {fmt::format("{}.opaque.parameters: {}", path, share.error().text())};
  if (!*share) {
    return {fmt::format("{}.opaque.parameters: must be a ShareConfig of {}", path, dialects::kShareConfigVersion)};
  }
  return {};
}

// The requests of the claim that a configuration speaks of: "request", or "request/alternative".
bool speaks_of(const model::OpaqueConfig& config, const std::string& request, const std::string& alternative) {
  const std::string full = request + "/" + alternative;
  return config.requests.empty() ||
         std::any_of(config.requests.begin(), config.requests.end(),
                     [&](const std::string& name) { return name == request || name == full; });
}

// What is addressed is more than what is granted; where the grant follows from the device the node says so.
std::string check_virtual_memory(const model::ShareConfig& share, const model::DeviceSubRequest& sub) {
  const auto memory = sub.capacity.find(std::string(dialects::kMemoryCapacity));
  if (!share.virtual_memory || memory == sub.capacity.end()) return {};
  const std::optional<int64_t> granted = memory->second.value();
  if (!granted || *share.virtual_memory > *granted) return {};
  return fmt::format("{} is not more than the {} of memory that the request asks for; write more, or leave it out",
                     Quantity::bytes(*share.virtual_memory).to_string(), memory->second.to_string());
}

// A mask is a part of the SMs, so a part has to be asked for.
std::string check_isolation(const model::ShareConfig& share, const model::DeviceSubRequest& sub) {
  if (share.isolation != model::kIsolationMps) return {};
  const auto cores = sub.capacity.find(std::string(dialects::kCoresCapacity));
  const std::optional<int64_t> percent = cores == sub.capacity.end() ? std::nullopt : cores->second.value();
  if (percent && *percent > 0 && *percent < 100) return {};
  return "mps needs cores of 1 to 99 in the capacity of the request: the percentage of the SMs";
}

// A share is named once: in bytes by the request, or in percent by one ShareConfig.
std::vector<std::string> check_share(const model::ClaimSpec& spec, const model::DeviceSubRequest& sub,
                                     const std::string& request, const std::string& path) {
  std::vector<std::string> out;
  std::optional<size_t> first;
  std::optional<int64_t> percent;
  for (size_t i = 0; i < spec.config.size(); ++i) {
    const model::OpaqueConfig& config = spec.config[i];
    if (config.driver != dialects::kDriver || !speaks_of(config, request, sub.name)) continue;
    const auto share = codec::parse_share_config(config.parameters_json);
    if (!share || !*share) continue;  // check_config() speaks of these
    if (auto wrong = check_virtual_memory(**share, sub); !wrong.empty()) {
      out.push_back(fmt::format("spec.devices.config[{}].opaque.parameters.virtualMemory: {}", i, wrong));
    }
    if (auto wrong = check_isolation(**share, sub); !wrong.empty()) {
      out.push_back(fmt::format("spec.devices.config[{}].opaque.parameters.isolation: {}", i, wrong));
    }
    if (!(*share)->memory_percent) continue;
    if (percent && *percent != *(*share)->memory_percent) {
      out.push_back(
          fmt::format("spec.devices.config[{}]: gives memoryPercent {} for request {}, config[{}] gives {}; "
                      "leave one out, or name its requests",
                      i, *(*share)->memory_percent, request, *first, *percent));
      continue;
    }
    if (!percent) first = i;
    percent = (*share)->memory_percent;
  }
  const auto memory = sub.capacity.find(std::string(dialects::kMemoryCapacity));
  if (percent && memory != sub.capacity.end()) {
    out.push_back(
        fmt::format("{}.capacity.requests[memory]: asks for {}, and spec.devices.config[{}] gives "
                    "memoryPercent {} for the same request; leave one out",
                    path, memory->second.to_string(), *first, *percent));
  }
  return out;
}

std::map<std::string, std::string> texts_of(const Json& object, const char* name) {
  std::map<std::string, std::string> out;
  const Json texts = member(member(object, "metadata"), name);
  if (!texts.is_object()) return out;
  for (const auto& [key, value] : texts.items())
    out.emplace(key, value.is_string() ? value.get<std::string>() : dump_json(value));
  return out;
}

std::map<std::string, std::string> annotations_of(const Json& object) {
  return texts_of(object, "annotations");
}

std::map<std::string, std::string> labels_of(const Json& object) {
  return texts_of(object, "labels");
}

bool has_gate(const Json& pod) {
  const Json gates = member(member(pod, "spec"), "schedulingGates");
  return gates.is_array() && std::any_of(gates.begin(), gates.end(),
                                         [](const Json& gate) { return json_text(gate, "name") == dialects::kGate; });
}

// A gang over claims that users wrote is held back until all of it can start: its claims alone would not hold a member
// whose claims happen to be allocated first. What turns out to have no claim on our devices is let go at once.
bool is_gang_over_claims(const model::Pod& pod) {
  return !pod.resource_claims.empty() && pod.node_name.empty() &&
         !pod.meta.annotations.contains("kubernetes.io/config.mirror") && gang_of(pod).has_value();
}

// Few pods have them, and reading a pod costs more than a look for the words.
bool may_have_gang_marks(const std::string& pod) {
  return pod.find("heddle.dev/gang") != std::string::npos || pod.find("heddle.dev/topology") != std::string::npos;
}

std::string with_gate(const std::string& patch, const Json& pod) {
  Json operations = patch.empty() ? Json::array() : parse_json(patch);
  const Json gate = Json::object({{"name", dialects::kGate}});
  const bool has_gates = member(member(pod, "spec"), "schedulingGates").is_array();
  operations.push_back({{"op", "add"},
                        {"path", has_gates ? "/spec/schedulingGates/-" : "/spec/schedulingGates"},
                        {"value", has_gates ? gate : Json::array({gate})}});
  return dump_json(operations);
}

// Resources that came after the translation (another webhook, no second call) would be handed to the stock scheduler.
std::vector<std::string> untranslated(const catalog::Requests& rules, const Json& pod) {
  std::vector<std::string> out;
  for (const char* list : {"containers", "initContainers"}) {
    const Json containers = member(member(pod, "spec"), list);
    if (!containers.is_array()) continue;
    for (size_t i = 0; i < containers.size(); ++i) {
      for (const char* kind : {"limits", "requests"}) {
        const Json amounts = member(member(containers[i], "resources"), kind);
        if (!amounts.is_object()) continue;
        for (const auto& [key, value] : amounts.items()) {
          const bool zero = value == "0" || value == 0;
          if (!dialects::asks_for_device(rules, key) || zero) continue;
          out.push_back(fmt::format(
              "spec.{}[{}].resources.{}[{}]: was added after Heddle translated the pod; order the webhooks so "
              "that Heddle's comes last, or set its reinvocationPolicy to IfNeeded",
              list, i, kind, key));
        }
      }
    }
  }
  return out;
}

AdmissionAnswer validate_pod(const Review& review, const AdmissionContext& context) {
  if (!context.controller_user.empty() && review.user == context.controller_user) return allow(review);
  const std::string annotation(dialects::kRequestAnnotation);
  const auto now = annotations_of(review.object);
  std::vector<std::string> lines;
  if (review.operation == "CREATE") {
    if (now.contains("kubernetes.io/config.mirror")) return allow(review);
    if (!dialects::is_ignored(labels_of(review.object))) lines = untranslated(*context.rules, review.object);
    if (const auto it = now.find(annotation); it != now.end()) {
      const auto requests = dialects::parse_requests(it->second);
      if (!requests) lines.push_back("metadata.annotations[" + annotation + "]: " + requests.error().text());
    }
  } else if (review.operation == "UPDATE") {
    const auto before = annotations_of(review.old_object);
    const auto value = [&](const auto& all) { return all.contains(annotation) ? all.at(annotation) : std::string(); };
    if (value(before) != value(now)) {
      lines.push_back("metadata.annotations[" + annotation +
                      "]: is written at admission and cannot be changed; create the pod again");
    }
    if (has_gate(review.old_object) && !has_gate(review.object)) {
      lines.push_back(
          fmt::format("spec.schedulingGates: {} is removed by Heddle when the pod has its devices", dialects::kGate));
    }
  }
  return lines.empty() ? allow(review) : refuse(review, lines);
}

AdmissionAnswer validate_class(const Review& review) {
  if (review.operation != "CREATE" && review.operation != "UPDATE") return allow(review);
  const auto parsed = codec::parse_class(dump_json(review.object));
  if (!parsed) return allow(review);  // the API server's own validation says it better
  const std::vector<std::string> lines = check_class(*parsed);
  return lines.empty() ? allow(review) : refuse(review, lines);
}

AdmissionAnswer validate_claim(const Review& review, const Json& spec) {
  if (review.operation != "CREATE") return allow(review);
  const auto parsed = codec::parse_claim_spec(dump_json(spec));
  if (!parsed) return allow(review);  // the API server's own validation says it better
  const std::vector<std::string> lines = check_claim(*parsed);
  return lines.empty() ? allow(review) : refuse(review, lines);
}

}  // namespace

std::vector<std::string> check_claim(const model::ClaimSpec& spec) {
  std::vector<std::string> out;
  bool ours = false;
  const auto add = [&](std::vector<std::string> lines) { out.insert(out.end(), lines.begin(), lines.end()); };
  for (size_t i = 0; i < spec.requests.size(); ++i) {
    const model::DeviceRequest& request = spec.requests[i];
    const std::string path = fmt::format("spec.devices.requests[{}]", i);
    if (request.exactly) {
      add(check_share(spec, *request.exactly, request.name, path + ".exactly"));
      if (is_our_class(request.exactly->device_class)) {
        ours = true;
        add(check_subrequest(*request.exactly, path + ".exactly"));
      }
    }
    for (size_t j = 0; j < request.first_available.size(); ++j) {
      const std::string alternative = fmt::format("{}.firstAvailable[{}]", path, j);
      add(check_share(spec, request.first_available[j], request.name, alternative));
      if (!is_our_class(request.first_available[j].device_class)) continue;
      ours = true;
      add(check_subrequest(request.first_available[j], alternative));
    }
  }
  ours = ours || std::any_of(spec.config.begin(), spec.config.end(),
                             [](const model::OpaqueConfig& config) { return config.driver == dialects::kDriver; });
  if (!ours) return {};
  for (size_t i = 0; i < spec.config.size(); ++i)
    add(check_config(spec.config[i], fmt::format("spec.devices.config[{}]", i)));
  return out;
}

std::vector<std::string> check_class(const model::DeviceClass& device_class) {
  std::vector<std::string> out;
  const auto about_us = [](const std::string& selector) {
    return selector.find(dialects::kDriver) != std::string::npos;
  };
  if (std::any_of(device_class.selectors.begin(), device_class.selectors.end(), about_us)) {
    for (size_t i = 0; i < device_class.selectors.size(); ++i) {
      const auto compiled = engine::check_selector(device_class.selectors[i]);
      if (!compiled) out.push_back(fmt::format("spec.selectors[{}]: {}", i, compiled.error().message));
    }
  }
  for (size_t i = 0; i < device_class.config.size(); ++i) {
    if (device_class.config[i].driver != dialects::kDriver) continue;
    out.push_back(fmt::format(
        "spec.config[{}].opaque: Heddle takes configuration from claims only; write it in spec.devices.config of the "
        "claims on this class",
        i));
  }
  return out;
}

Result<AdmissionAnswer> mutate(std::string_view text, const AdmissionContext& context) {
  HEDDLE_TRY(const codec::AdmissionReview review, codec::parse_admission_review(text));
  if (review.kind != "Pod" || review.operation != "CREATE") return allow(review);
  HEDDLE_TRY(dialects::Translation translation, dialects::translate_pod(*context.rules, review.object, review.uid));
  std::vector<std::string> refused;
  refused.reserve(translation.refusals.size() + 1);
  for (const dialects::Refusal& refusal : translation.refusals)
    refused.push_back(refusal.field + ": " + refusal.message);
  if (context.quotas && context.quotas->has(review.name_space) && refused.empty()) {
    HEDDLE_TRY(const model::Pod pod, codec::parse_pod(review.object));
    DeviceUsage asked;
    for (const dialects::ContainerRequest& request : translation.requests) asked += least_usage(request.spec);
    if (const auto why = context.quotas->forbidden(review.name_space, scope_of(pod), asked)) refused.push_back(*why);
  }
  if (may_have_gang_marks(review.object)) {
    HEDDLE_TRY(const model::Pod pod, codec::parse_pod(review.object));
    const bool ignored = dialects::is_ignored(pod.meta.labels);
    for (std::string& line : check_gang_marks(pod, translation.requests, context.hardware.get())) {
      if (!ignored) refused.push_back(std::move(line));
    }
  }
  if (!refused.empty()) return refuse(review, refused);
  if (translation.requests.empty()) {
    const auto pod = codec::parse_pod(review.object);
    const Json object = parse_json(review.object);
    if (pod && is_gang_over_claims(*pod) && !has_gate(object) && !dialects::is_ignored(pod->meta.labels)) {
      translation.json_patch = with_gate(translation.json_patch, object);
      translation.changed = true;
    }
  }
  Json response{{"allowed", true}};
  for (const std::string& line : translation.warnings) response["warnings"].push_back(warning(line));
  for (const dialects::ContainerRequest& request : translation.requests) {
    for (const std::string& line : request.roundings)
      response["warnings"].push_back(warning(fmt::format("container {}: {}", request.container, line)));
  }
  return answer(review.uid, std::move(response),
                translation.changed ? base64_encode(translation.json_patch) : std::string());
}

Result<AdmissionAnswer> validate(std::string_view text, const AdmissionContext& context) {
  HEDDLE_TRY(const Review review, parse_review(text));
  if (review.kind == "Pod") return validate_pod(review, context);
  if (review.kind == "ResourceClaim") return validate_claim(review, member(review.object, "spec"));
  if (review.kind == "ResourceClaimTemplate")
    return validate_claim(review, member(member(review.object, "spec"), "spec"));
  if (review.kind == "DeviceClass") return validate_class(review);
  return allow(review);
}

}  // namespace heddle::controller
