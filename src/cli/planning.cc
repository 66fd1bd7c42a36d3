#include "cli/planning.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "base/json.h"
#include "base/key_text.h"
#include "catalog/requests.h"
#include "cli/planning_parts.h"
#include "codec/codec.h"
#include "controller/ledger.h"
#include "controller/objects.h"
#include "controller/running.h"
#include "controller/units.h"
#include "dialects/translate.h"
#include "dialects/wire_names.h"
#include "engine/gang.h"
#include "engine/gang_eviction.h"

namespace heddle::cli {
namespace {

using Json = nlohmann::ordered_json;
using engine::Reason;

constexpr std::string_view kReviewUid = "00000000-0000-0000-0000-000000000000";
constexpr const char* kTorn = "its claims are allocated on different nodes; clear the allocation of all but one";
constexpr const char* kImplicitResource = "deviceclass.resource.kubernetes.io/";

// One claim of a pod, as it is or as it would be made.
struct Want {
  std::string key;
  model::ResourceClaim claim;
  bool known = false;  // in the ledger
};

struct Wants {
  std::vector<Want> claims;
  std::optional<Reason> blocked;
};

bool needs_translation(const dialects::Translation& translation) {
  return translation.changed && translation.refusals.empty();
}

template <typename Outcome>
std::vector<Reason> reasons_of(const Outcome& outcome) {
  const auto* waiting = std::get_if<engine::Waiting>(&outcome);
  std::vector<Reason> reasons = waiting != nullptr ? waiting->reasons : std::get<engine::Infeasible>(outcome).reasons;
  const auto& needs = waiting != nullptr ? waiting->needs : std::get<engine::Infeasible>(outcome).needs;
  if (needs) reasons.push_back(engine::needs_node(*needs));
  return reasons;
}

class Planner {
 public:
  Planner(std::shared_ptr<const catalog::Requests> rules, Fleet fleet)
      : rules_(std::move(rules)), fleet_(std::move(fleet)), ledger_(std::string(dialects::kDriver)), quotas_(rules_) {
    load();
  }

  Result<Plan> run() {
    std::vector<std::pair<std::tuple<int64_t, int64_t, std::string>, FleetPod*>> order;
    for (auto& [key, entry] : fleet_.pods) {
      const model::Pod& pod = entry.pod;
      if (!pod.node_name.empty() || pod.finished() || pod.meta.deleting) continue;
      order.emplace_back(std::tuple(-static_cast<int64_t>(pod.priority), pod.meta.created.unix_nanos, key), &entry);
    }
    std::sort(order.begin(), order.end());
    HEDDLE_CHECK_OK(note_arrivals());
    for (const auto& [key, entry] : fleet_.pods) units_.upsert(entry.pod);
    for (controller::GangObject& object : fleet_.gang_objects) units_.upsert_object(std::move(object));
    std::set<std::string> decided;
    for (const auto& [rank, entry] : order) {
      const controller::Unit* unit = units_.unit_of(entry->pod.meta.key());
      if (unit == nullptr || !unit->gang) {
        decide(*entry);
      } else if (decided.insert(unit->id).second) {
        decide_gang(*unit);
      }
    }
    look_out();
    for (const auto& [kind, count] : fleet_.ignored) {
      plan_.notes.push_back(fmt::format("{} {} object{} not looked at", count, kind, count == 1 ? "" : "s"));
    }
    for (const auto& [name, standing] : topologies_.standings()) {
      if (!standing.message.empty()) plan_.notes.push_back(fmt::format("topology {}: {}", name, standing.message));
    }
    return std::move(plan_);
  }

 private:
  void load() {
    engine::State& state = ledger_.state();
    fleet_.queues.settle();
    for (auto& [name, node] : fleet_.nodes) {
      for (const auto& [resource, quantity] : node.allocatable) {
        if (quantity.sign() > 0) plugin_resources_.insert(resource);
      }
      state.upsert_node(std::move(node));
    }
    for (auto& [name, slice] : fleet_.slices) state.upsert_slice(std::move(slice));
    const std::string ours = R"(device.driver == "accelerator.heddle.dev")";
    fleet_.classes.emplace(dialects::kAnyClass, chart_class(dialects::kAnyClass, ours));
    for (const catalog::RequestVendor& vendor : rules_->vendors()) {
      const std::string name = fmt::format("{}-{}", dialects::kAnyClass, vendor.name);
      const std::string selector =
          fmt::format(R"({} && device.attributes["accelerator.heddle.dev"].vendor == "{}")", ours, vendor.name);
      fleet_.classes.emplace(name, chart_class(name, selector));
    }
    for (const auto& [name, device_class] : fleet_.classes) state.upsert_class(device_class);
    for (const auto& [key, claim] : fleet_.claims) ledger_.upsert(claim);
    for (const auto& [key, quota] : fleet_.quotas) quotas_.upsert(quota);
    for (const auto& [name, topology] : fleet_.topologies) topologies_.upsert(topology);
    for (const auto& [key, entry] : fleet_.pods) {
      const model::Pod& pod = entry.pod;
      if (pod.node_name.empty() || pod.finished()) continue;
      state.upsert_pod_usage(pod.meta.uid, pod.node_name, model::effective_requests(pod), model::host_ports(pod));
    }
  }

  void pend(const model::Pod& pod, std::vector<Reason> reasons) {
    plan_.pending.push_back({pod.meta.name_space, pod.meta.name, std::move(reasons)});
  }

  // The mix, from all pods that are there, before the first is placed: as a controller that has just started.
  Result<void> note_arrivals() {
    for (auto& [key, entry] : fleet_.pods) {
      if (entry.pod.finished() || entry.pod.meta.deleting) continue;
      if (entry.pod.node_name.empty()) HEDDLE_CHECK_OK(translate(key, entry));
      const Translated& translated = translated_[key];
      const Wants wants = translated.refusals.empty() ? wants_of(entry.pod, translated.requests) : Wants{};
      if (wants.blocked || wants.claims.empty()) continue;
      engine::PlacementRequest asked;
      asked.pod = &entry.pod;
      for (const Want& want : wants.claims) asked.claims.push_back({want.key, want.key, want.claim.spec});
      ledger_.state().arrive(asked);
    }
    return {};
  }

  void decide(const FleetPod& entry) {
    if (auto wants = prepare(entry)) place(entry.pod, std::move(*wants));
  }

  // The pod as the webhook leaves it.
  Result<void> translate(const std::string& key, FleetPod& entry) {
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
    translated.requests = std::move(translation->requests);
    return {};
  }

  // What the pod wants. Nothing: it is told why it cannot be decided.
  std::optional<std::vector<Want>> prepare(const FleetPod& entry) {
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
  static Result<void> apply(const dialects::Translation& translation, FleetPod& entry) {
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

  // --- claims ---

  Wants wants_of(const model::Pod& pod, const std::vector<dialects::ContainerRequest>& requests) {
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

  void add_want(const model::Pod& pod, const model::PodResourceClaim& entry,
                const std::vector<dialects::ContainerRequest>& requests, Wants& wants) {
    Want want;
    want.key = claim_key(pod, entry);
    const auto known = claims_.find(want.key);
    const model::ResourceClaim* claim = known != claims_.end() ? &known->second : ledger_.find(want.key);
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
  void add_extended(const model::Pod& pod, Wants& wants) {
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

  [[nodiscard]] std::string class_for(const std::string& resource) const {
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

  // --- placing ---

  struct Asked {
    engine::PlacementRequest request;
    controller::DeviceUsage least;
    std::string shape;
    bool common = true;  // equal shapes get equal answers
    bool torn = false;   // its claims are on different nodes
  };

  // The pod is borrowed, and is tied to where its allocated claims are.
  Asked ask_for(model::Pod& pod, const std::vector<Want>& wants) const {
    Asked asked;
    asked.request.pod = &pod;
    asked.request.policy = fleet_.queues.policy_for(pod.meta);
    asked.request.volumes = volumes_of(pod);
    asked.request.name_holders = false;  // look_out()
    if (!pod.nominated_node_name.empty()) asked.request.preferred_node = pod.nominated_node_name;
    asked.shape = engine::fit_signature(pod);
    asked.common = !asked.request.preferred_node;
    for (const Want& want : wants) {
      if (!want.claim.allocation) {
        asked.least += controller::least_usage(want.claim.spec);
        append_part(asked.shape, codec::claim_spec_json(want.claim.spec));
        asked.request.claims.push_back({want.key, want.key, want.claim.spec});
        continue;
      }
      asked.common = false;
      asked.torn = asked.torn || !tie_to(*want.claim.allocation, pod, asked.request);
    }
    return asked;
  }

  void place(model::Pod pod, std::vector<Want> wants) {
    const auto [request, least, shape, common, torn] = ask_for(pod, wants);
    if (torn) return pend(pod, {{"Repair", kTorn}});
    const bool asks = least != controller::DeviceUsage{};
    if (asks) {
      if (auto zero = quotas_.forbidden(pod.meta.name_space, controller::scope_of(pod), least)) {
        return pend(pod, {{"Quota", std::move(*zero)}});
      }
      if (auto reason = over_quota(pod, least)) return pend(pod, {std::move(*reason)});
    }
    if (const auto same = answers_.find(shape); common && same != answers_.end()) return pend(pod, same->second);
    auto outcome = ledger_.state().place(request, random_);
    if (!outcome) {
      const bool gave_up = outcome.error().code == Code::kExhausted;
      return pend(pod, {{gave_up ? "SearchLimit" : "Invalid", outcome.error().text()}});
    }
    if (auto* assigned = std::get_if<engine::Assigned>(&*outcome)) return grant(pod, wants, std::move(*assigned));
    const std::vector<Reason> reasons = reasons_of(*outcome);
    // A pass only takes, so a "no" holds for every pod that asks the same.
    if (common) answers_.emplace(shape, reasons);
    pend(pod, reasons);
  }

  // --- gangs ---

  // Members that could be decided, with copies of their pods that the request borrows.
  struct Gang {
    std::vector<std::unique_ptr<model::Pod>> pods;
    std::vector<std::vector<Want>> wants;
    engine::GangRequest request;
    controller::DeviceUsage least;
    int64_t placed = 0;  // before
  };

  void gather(const controller::Unit& unit, Gang& gang) {
    gang.placed = unit.succeeded;
    const std::map<std::string, int64_t> segment_of = unit.segment_numbers();
    for (const std::string& key : unit.members) {
      FleetPod& entry = fleet_.pods.at(key);
      const int64_t segment = segment_of.empty() ? -1 : segment_of.at(key);
      if (!entry.pod.node_name.empty()) {
        ++gang.placed;
        gang.request.fixed_nodes.push_back(entry.pod.node_name);
        if (segment >= 0) gang.request.fixed_segments[segment].push_back(entry.pod.node_name);
        continue;
      }
      auto wants = prepare(entry);
      if (!wants) continue;
      auto pod = std::make_unique<model::Pod>(entry.pod);
      Asked asked = ask_for(*pod, *wants);
      if (asked.torn) {
        pend(*pod, {{"Repair", kTorn}});
        continue;
      }
      gang.least += asked.least;
      gang.request.members.push_back({std::move(asked.request), std::move(asked.shape)});
      gang.request.members.back().segment = segment;
      gang.pods.push_back(std::move(pod));
      gang.wants.push_back(std::move(*wants));
    }
  }

  static void complete(const controller::Unit& unit, Gang& gang) {
    gang.request.name = unit.name;
    gang.request.minimum =
        std::clamp<int64_t>(unit.minimum - gang.placed, 1, std::max<int64_t>(std::ssize(gang.pods), 1));
    gang.request.required = unit.required;
    gang.request.preferred = unit.preferred;
    gang.request.segment_level = unit.segment_level;
    gang.request.segment_size = unit.segment_size;
  }

  void pend_gang(const Gang& gang, const std::vector<Reason>& reasons) {
    for (const auto& pod : gang.pods) pend(*pod, reasons);
  }

  void decide_gang(const controller::Unit& unit) {
    Gang gang;
    gather(unit, gang);
    const auto waiting = static_cast<int64_t>(gang.pods.size());
    const int64_t needed = unit.minimum - gang.placed;
    if (unit.blocked || waiting < needed || waiting == 0) {
      const std::string some = fmt::format("{} of the {} members that gang {} needs cannot be placed", needed - waiting,
                                           unit.minimum, unit.name);
      pend_gang(gang, {unit.blocked ? *unit.blocked : Reason{"GangIncomplete", some}});
      return;
    }
    if (auto zero = quotas_.forbidden(unit.name_space, controller::scope_of(*gang.pods[0]), gang.least)) {
      pend_gang(gang, {{"Quota", std::move(*zero)}});
      return;
    }
    if (auto reason = over_quota(*gang.pods[0], gang.least)) {
      pend_gang(gang, {std::move(*reason)});
      return;
    }
    complete(unit, gang);
    auto outcome = engine::place_gang(ledger_.state(), topologies_.levels(), gang.request, random_);
    if (!outcome) {
      pend_gang(gang, {{"Invalid", outcome.error().text()}});
    } else if (auto* assigned = std::get_if<engine::GangAssigned>(&*outcome)) {
      for (size_t i = 0; i < gang.pods.size(); ++i) {
        if (assigned->members[i]) grant(*gang.pods[i], gang.wants[i], std::move(*assigned->members[i]));
        if (!assigned->members[i])
          pend(*gang.pods[i], {{"Capacity", fmt::format("gang {} has its minimum of {}; there is no room for this "
                                                        "member",
                                                        unit.name, unit.minimum)}});
      }
    } else {
      pend_gang(gang, reasons_of(*outcome));
    }
  }

  // --- who would have to end ---

  // With all decisions made: which running or placed work would have to end for the pending ones to fit.
  void look_out() {
    const controller::RunningTable running = running_table();
    std::map<std::string, std::optional<std::string>> answers;  // by gang, or by what is asked
    for (size_t i = 0; i < plan_.pending.size(); ++i) {
      PendingPod& pod = plan_.pending[i];
      if (pod.reasons.empty() || (pod.reasons.front().code != "Capacity" && pod.reasons.front().code != "NodeFit"))
        continue;
      const std::string key = pod.name_space + "/" + pod.name;
      const controller::Unit* unit = units_.unit_of(key);
      const bool gang = unit != nullptr && unit->gang;
      model::Pod copy = fleet_.pods.at(key).pod;
      const Wants wants = wants_of(copy, translated_[key].requests);
      if (wants.blocked) continue;
      const Asked asked = ask_for(copy, wants.claims);
      if (asked.torn) continue;
      const auto [answer, fresh] = answers.try_emplace(gang ? "gang " + unit->id : asked.common ? asked.shape : key);
      if (fresh) answer->second = gang ? ends_for_gang(*unit, running) : ends_for(asked.request, key, running);
      if (answer->second) plan_.pending[i].reasons.push_back({"Ends", "would fit when " + *answer->second});
    }
  }

  std::optional<std::string> ends_for(const engine::PlacementRequest& request, const std::string& key,
                                      const controller::RunningTable& running) {
    auto room = engine::RoomWithout::make(ledger_.state(), request, running.holdings());
    return room ? running.ends(**room, {.except = key, .steps = controller::kPodSteps}) : std::nullopt;
  }

  std::optional<std::string> ends_for_gang(const controller::Unit& unit, const controller::RunningTable& running) {
    Gang gang;
    const size_t told = plan_.pending.size();
    gather(unit, gang);
    plan_.pending.resize(told);  // what cannot be decided has been said
    if (gang.pods.empty()) return std::nullopt;
    complete(unit, gang);
    auto room = engine::GangRoomWithout::make(ledger_.state(), topologies_.levels(), gang.request, running.holdings());
    return room ? running.ends(**room, {.except = unit.id, .steps = controller::kGangSteps}) : std::nullopt;
  }

  controller::RunningTable running_table() {
    controller::RunningTable running;
    for (const auto& [key, entry] : fleet_.pods) {
      const model::Pod& pod = entry.pod;
      std::vector<controller::HeldClaim> held;
      for (const model::PodResourceClaim& claim : pod.resource_claims) {
        const std::string name = claim_key(pod, claim);
        const auto planned = claims_.find(name);
        const model::ResourceClaim* known = planned != claims_.end() ? &planned->second : ledger_.find(name);
        if (known == nullptr || !known->allocation) continue;
        const bool shared = std::any_of(known->reserved_for.begin(), known->reserved_for.end(),
                                        [&](const auto& user) { return user.uid != pod.meta.uid; });
        held.push_back({name, &*known->allocation, shared});
      }
      if (!held.empty()) running.add(pod, units_.unit_of(key), {}, held);
    }
    return running;
  }

  // False when the pod is tied to another node already.
  static bool tie_to(const model::Allocation& allocation, model::Pod& pod, engine::PlacementRequest& request) {
    if (!allocation.node_selector) return true;
    const auto node = model::allocated_node(allocation);
    if (!node) {
      pod.required_node_affinity = pod.required_node_affinity
                                       ? both(*pod.required_node_affinity, *allocation.node_selector)
                                       : *allocation.node_selector;
      return true;
    }
    if (request.pinned_node && *request.pinned_node != *node) return false;
    request.pinned_node = node;
    return true;
  }

  [[nodiscard]] std::vector<model::VolumeReach> volumes_of(const model::Pod& pod) const {
    std::vector<model::VolumeReach> volumes;
    for (const std::string& name : pod.volume_claims) {
      const auto claim = fleet_.volume_claims.find(pod.meta.name_space + "/" + name);
      if (claim == fleet_.volume_claims.end()) continue;
      const auto volume = fleet_.volumes.find(claim->second.volume_name);
      if (volume != fleet_.volumes.end()) volumes.push_back(model::reach_of(volume->second, name));
    }
    return volumes;
  }

  [[nodiscard]] std::optional<Reason> over_quota(const model::Pod& pod, const controller::DeviceUsage& ask) const {
    const auto used = [&](const controller::Quota& quota) {
      if (quota.terms.empty()) return ledger_.usage(quota.name_space);
      std::set<std::string> claims;  // one of several pods counts once
      const std::string prefix = quota.name_space + "/";
      for (auto it = fleet_.pods.lower_bound(prefix); it != fleet_.pods.end() && it->first.starts_with(prefix); ++it) {
        if (!quota.covers(controller::scope_of(it->second.pod))) continue;
        const model::Pod& other = it->second.pod;
        for (const model::PodResourceClaim& entry : other.resource_claims) claims.insert(claim_key(other, entry));
      }
      controller::DeviceUsage sum;
      for (const std::string& key : claims) sum += ledger_.usage_of_claim(key);
      return sum;
    };
    return quotas_.exceeded(pod.meta.name_space, controller::scope_of(pod), used, ask);
  }

  void grant(const model::Pod& pod, std::vector<Want>& wants, engine::Assigned assigned) {
    controller::DeviceUsage asked;
    size_t allocated = 0;
    for (const Want& want : wants) {
      if (want.claim.allocation) continue;
      asked += controller::usage_of(want.claim.spec, assigned.allocations[allocated++], dialects::kDriver);
    }
    if (asked != controller::DeviceUsage{}) {
      if (auto reason = over_quota(pod, asked)) return pend(pod, {std::move(*reason)});
    }
    PlacedPod placed{pod.meta.name_space, pod.meta.name, assigned.node, {}};
    size_t next = 0;
    for (Want& want : wants) {
      model::ResourceClaim& claim = want.claim;
      const bool reserved = std::any_of(claim.reserved_for.begin(), claim.reserved_for.end(),
                                        [&](const auto& consumer) { return consumer.uid == pod.meta.uid; });
      if (!reserved) claim.reserved_for.push_back({"", "pods", pod.meta.name, pod.meta.uid});
      if (!claim.allocation) {
        model::Allocation allocation = std::move(assigned.allocations[next++]);
        if (!want.known) ledger_.upsert(claim);
        ledger_.plan(want.key, claim.spec, allocation);
        claim.allocation = std::move(allocation);
      }
      claims_.insert_or_assign(want.key, claim);
      placed.claims.push_back(claim);
    }
    ledger_.state().upsert_pod_usage(pod.meta.uid, assigned.node, model::effective_requests(pod),
                                     model::host_ports(pod));
    plan_.placed.push_back(std::move(placed));
  }

  struct Translated {
    std::vector<dialects::ContainerRequest> requests;
    std::vector<Reason> refusals;
  };

  std::shared_ptr<const catalog::Requests> rules_;
  Fleet fleet_;
  controller::Ledger ledger_;
  controller::QuotaTable quotas_;
  controller::UnitTable units_;
  engine::TopologyTable topologies_;
  SeededRandom random_{1};
  std::map<std::string, Translated> translated_;        // pods without a node
  std::set<std::string> plugin_resources_;              // that some node has
  std::map<std::string, model::ResourceClaim> claims_;  // of placed pods, allocated
  std::map<std::string, std::vector<Reason>> answers_;  // "no" by what was asked
  Plan plan_;
};

}  // namespace

Result<Plan> plan_fleet(Fleet fleet) {
  HEDDLE_TRY(catalog::Requests rules, catalog::Requests::built_in());
  return Planner(std::make_shared<const catalog::Requests>(std::move(rules)), std::move(fleet)).run();
}

}  // namespace heddle::cli
