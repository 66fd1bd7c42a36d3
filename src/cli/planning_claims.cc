// What the pods of a plan want: translated as the webhook does it, with the claims that are there or would be made.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "cli/planner.h"
#include "cli/planning_parts.h"
#include "codec/codec.h"
#include "controller/gang_marks.h"
#include "controller/objects.h"
#include "dialects/wire_names.h"

namespace heddle::cli {
namespace {

using Json = nlohmann::ordered_json;
using engine::Reason;

constexpr std::string_view kReviewUid = "00000000-0000-0000-0000-000000000000";
constexpr const char* kImplicitResource = "deviceclass.resource.kubernetes.io/";

bool needs_translation(const dialects::Translation& translation) {
  return translation.changed && translation.refusals.empty();
}

}  // namespace

// As the plan has it, else as it came; null: it is not there.
const model::ResourceClaim* Planner::claim_of(const std::string& key) const {
  const auto planned = claims_.find(key);
  return planned != claims_.end() ? &planned->second : ledger_.find(key);
}

// The pod as the webhook leaves it.
Result<void> Planner::translate(const std::string& key, FleetPod& entry) {
  Translated& translated = translated_[key];
  auto translation = dialects::translate_pod(
      *rules_, entry.json,
      entry.pod.meta.uid.find('/') == std::string::npos ? entry.pod.meta.uid : std::string(kReviewUid));
  if (!translation) {
    translated.refusals.push_back({"Refused", translation.error().text()});
    return {};
  }
  for (const auto& refusal : translation->refusals) {
    translated.refusals.push_back({"Refused", refusal.field + ": " + refusal.message});
  }
  if (needs_translation(*translation)) HEDDLE_CHECK_OK(apply(*translation, entry));
  for (std::string& line : controller::check_gang_marks(entry.pod, translation->requests, &hardware_))
    translated.refusals.push_back({"Refused", std::move(line)});
  translated.requests = std::move(translation->requests);
  return {};
}

// What the pod wants. Nothing: it is told why it cannot be decided.
std::optional<std::vector<Want>> Planner::prepare(const FleetPod& entry) {
  const Translated& translated = translated_[entry.pod.meta.key()];
  if (!translated.refusals.empty()) {
    pend(entry.pod, translated.refusals);
    return std::nullopt;
  }
  Wants wants = wants_of(entry.pod, translated.requests);
  if (wants.blocked) {
    pend(entry.pod, {std::move(*wants.blocked)});
    return std::nullopt;
  }
  return std::move(wants.claims);
}

// The pod as the webhook leaves it.
Result<void> Planner::apply(const dialects::Translation& translation, FleetPod& entry) {
  const std::string uid = entry.pod.meta.uid;
  const int32_t priority = entry.pod.priority;
  try {
    const Json patched = parse_ordered_json(entry.json).patch(parse_ordered_json(translation.json_patch));
    HEDDLE_TRY(entry.pod, codec::parse_pod(dump_json(patched)));
  } catch (const Json::exception& error) {
    return fail(Code::kInternal, fmt::format("the translation's own patch does not apply: {}", error.what()));
  }
  entry.pod.meta.uid = uid;
  entry.pod.priority = priority;
  return {};
}

Wants Planner::wants_of(const model::Pod& pod, const std::vector<dialects::ContainerRequest>& requests) {
  Wants wants;
  for (const std::string& gate : pod.scheduling_gates) {
    if (gate == dialects::kGate) continue;
    wants.blocked = Reason{"Gated", "waits for the scheduling gate " + gate + " to be removed"};
    return wants;
  }
  for (const model::PodResourceClaim& entry : pod.resource_claims) {
    add_want(pod, entry, requests, wants);
    if (wants.blocked) return wants;
  }
  add_extended(pod, wants);
  return wants;
}

void Planner::add_want(const model::Pod& pod, const model::PodResourceClaim& entry,
                       const std::vector<dialects::ContainerRequest>& requests, Wants& wants) {
  Want want;
  want.key = claim_key(pod, entry);
  const model::ResourceClaim* claim = claim_of(want.key);
  if (claim != nullptr) {
    want.claim = *claim;
    want.known = true;
    if (claim->meta.deleting) {
      wants.blocked = Reason{"ClaimDeleted", "claim " + claim->meta.name + " is being deleted; create it again"};
    }
    wants.claims.push_back(std::move(want));
    return;
  }
  const auto request = std::find_if(requests.begin(), requests.end(), [&](const auto& candidate) {
    return candidate.claim_ref == entry.name && candidate.claim_name == entry.claim_name;
  });
  if (request != requests.end()) {
    want.claim = controller::claim_for(pod, *request);
    wants.claims.push_back(std::move(want));
    return;
  }
  const auto found = fleet_.templates.find(pod.meta.name_space + "/" + entry.template_name);
  if (entry.template_name.empty() || found == fleet_.templates.end()) {
    const bool by_template = !entry.template_name.empty();
    wants.blocked = Reason{"ClaimMissing", fmt::format("{} {} is not there: create it, or add it to the input",
                                                       by_template ? "ResourceClaimTemplate" : "ResourceClaim",
                                                       by_template ? entry.template_name : entry.claim_name)};
    return;
  }
  dialects::ContainerRequest made;
  made.claim_ref = entry.name;
  made.claim_name = want.key.substr(pod.meta.name_space.size() + 1);
  made.spec = found->second;
  want.claim = controller::claim_for(pod, made);
  want.claim.meta.labels.clear();
  wants.claims.push_back(std::move(want));
}

// Extended resources that a device class stands for and no device plugin serves: kube-scheduler makes a claim.
void Planner::add_extended(const model::Pod& pod, Wants& wants) {
  dialects::ContainerRequest made;
  for (const auto& [resource, amount] : model::effective_requests(pod)) {
    if (amount <= 0 || plugin_resources_.contains(resource)) continue;
    const std::string device_class = class_for(resource);
    if (device_class.empty()) continue;
    model::DeviceSubRequest exactly;
    exactly.device_class = device_class;
    exactly.allocation_mode = "ExactCount";
    exactly.count = amount;
    made.spec.requests.push_back({.name = fmt::format("request-{}", made.spec.requests.size()),
                                  .exactly = std::move(exactly),
                                  .first_available = {}});
  }
  if (made.spec.requests.empty()) return;
  made.claim_name = pod.meta.name + "-extended-resources";
  Want want{pod.meta.name_space + "/" + made.claim_name, controller::claim_for(pod, made), false};
  want.claim.meta.labels.clear();
  want.claim.meta.annotations = {{"resource.kubernetes.io/extended-resource-claim", "true"}};
  wants.claims.push_back(std::move(want));
}

std::string Planner::class_for(const std::string& resource) const {
  if (resource.starts_with(kImplicitResource)) {
    const std::string name = resource.substr(std::string_view(kImplicitResource).size());
    return fleet_.classes.contains(name) ? name : std::string();
  }
  const model::DeviceClass* best = nullptr;  // the newest, then the first by name
  for (const auto& [name, device_class] : fleet_.classes) {
    if (device_class.extended_resource_name != resource) continue;
    if (best == nullptr || device_class.meta.created > best->meta.created) best = &device_class;
  }
  return best == nullptr ? std::string() : best->meta.name;
}

std::vector<model::VolumeReach> Planner::volumes_of(const model::Pod& pod) const {
  std::vector<model::VolumeReach> volumes;
  for (const std::string& name : pod.volume_claims) {
    const auto claim = fleet_.volume_claims.find(pod.meta.name_space + "/" + name);
    if (claim == fleet_.volume_claims.end()) continue;
    const auto volume = fleet_.volumes.find(claim->second.volume_name);
    if (volume != fleet_.volumes.end()) volumes.push_back(model::reach_of(volume->second, name));
  }
  return volumes;
}

}  // namespace heddle::cli
