// Devices and nodes for the works of a plan, as the controller decides them.
#include <fmt/format.h>

#include <algorithm>

#include "base/key_text.h"
#include "cli/planner.h"
#include "cli/planning_parts.h"
#include "codec/codec.h"
#include "controller/objects.h"
#include "dialects/wire_names.h"

namespace heddle::cli {
namespace {

using engine::Reason;

constexpr const char* kTorn = "its claims are allocated on different nodes; clear the allocation of all but one";
constexpr int kMostKinds = 4;  // other kinds of devices that are tried when quota refuses one

template <typename Outcome>
std::vector<Reason> reasons_of(const Outcome& outcome) {
  const auto* waiting = std::get_if<engine::Waiting>(&outcome);
  std::vector<Reason> reasons = waiting != nullptr ? waiting->reasons : std::get<engine::Infeasible>(outcome).reasons;
  const auto& needs = waiting != nullptr ? waiting->needs : std::get<engine::Infeasible>(outcome).needs;
  if (needs) reasons.push_back(engine::needs_node(*needs));
  return reasons;
}

std::vector<Reason> reasons_of(const Error& error) {
  return {{error.code == Code::kExhausted ? "SearchLimit" : "Invalid", error.text()}};
}

}  // namespace

// The pod is borrowed, and is tied to where its allocated claims are.
Planner::Asked Planner::ask_for(model::Pod& pod, const std::vector<Want>& wants, const std::string& work) {
  Asked asked;
  asked.request.pod = &pod;
  asked.request.policy = fleet_.queues.policy_for(pod.meta);
  asked.request.volumes = volumes_of(pod);
  asked.request.name_holders = false;  // look_out()
  if (!pod.nominated_node_name.empty()) asked.request.preferred_node = pod.nominated_node_name;
  asked.shape = engine::fit_signature(pod);
  asked.common = !asked.request.preferred_node;
  int64_t devices = 0;
  for (const Want& want : wants) {
    if (!want.claim.allocation) {
      asked.least += controller::least_usage(want.claim.spec);
      append_part(asked.shape, codec::claim_spec_json(want.claim.spec));
      asked.request.claims.push_back({want.key, want.key, want.claim.spec});
      devices += controller::devices_opened(want.claim.spec);
      continue;
    }
    asked.common = false;
    asked.torn = asked.torn || !tie_to(*want.claim.allocation, pod, asked.request);
  }
  if (const auto planned = works_.find(work); planned != works_.end() && planned->second.unit.empty()) {
    asked.request.whole_nodes = rooms_.nodes_kept(boxes_kept(work), devices);
    append_parts(asked.shape, asked.request.whole_nodes);
  }
  return asked;
}

bool Planner::tie_to(const model::Allocation& allocation, model::Pod& pod, engine::PlacementRequest& request) {
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

bool Planner::place(PlannedWork& work, model::Pod pod, std::vector<Want> wants) {
  Asked asked = ask_for(pod, wants, work.id);
  const auto refuse = [&](Reasons reasons) {
    pend(pod, std::move(reasons));
    return false;
  };
  work.hopeless = true;  // until something that may change stands in the way
  if (asked.torn) return refuse({{"Repair", kTorn}});
  if (asked.least != controller::DeviceUsage{}) {
    if (auto zero = quotas_.forbidden(pod.meta.name_space, controller::scope_of(pod), asked.least))
      return refuse({{"Quota", std::move(*zero)}});
    if (auto reason = over_quota(pod, asked.least)) return refuse({std::move(*reason)});
  }
  if (const auto same = answers_.find(asked.shape); asked.common && same != answers_.end()) {
    work.hopeless = same->second.hopeless;
    return refuse(same->second.reasons);
  }
  std::optional<Reason> over;
  for (int kinds = 0;; ++kinds) {
    auto outcome = ledger_.state().place(asked.request, random_);
    if (!outcome) return refuse(reasons_of(outcome.error()));
    if (auto* assigned = std::get_if<engine::Assigned>(&*outcome)) {
      if (auto quota = over_quota(pod, usage_of(wants, *assigned))) return refuse({std::move(*quota)});
      std::vector<queueing::Portion> demand = demand_of(pod, Portions::kHeld);
      for (queueing::Portion& portion : granted_to(pod, wants, *assigned)) demand.push_back(std::move(portion));
      auto reason = admit(work.id, std::move(demand));
      if (!reason) {
        grant(pod, wants, std::move(*assigned));
        return true;
      }
      if (!over) over = std::move(reason);
      if (kinds < kMostKinds && avoid_kinds(wants, *assigned, asked.request.held_nodes)) continue;
    }
    work.hopeless = !over && std::holds_alternative<engine::Infeasible>(*outcome);
    if (over) return refuse({std::move(*over)});
    Reasons reasons = reasons_of(*outcome);
    // A pass only takes, so a "no" holds for every pod that asks the same.
    if (asked.common) answers_.emplace(asked.shape, Answer{reasons, work.hopeless});
    return refuse(std::move(reasons));
  }
}

// --- gangs ---

void Planner::gather(const controller::Unit& unit, const PlannedWork& work, Gang& gang) {
  gang.placed = unit.succeeded;
  const auto node_of = [&](const std::string& key) {
    const auto planned = placed_nodes_.find(key);
    return planned != placed_nodes_.end() ? planned->second : fleet_.pods.at(key).pod.node_name;
  };
  gang.request = controller::gang_request_of(
      unit, [&](const std::string& key) { return !node_of(key).empty(); },
      work.one_of_gang() ? controller::GangPart::kOneMember : controller::GangPart::kCore);
  const std::map<std::string, controller::MemberMark> marks = controller::marks_of(unit);
  for (const std::string& key : unit.members) {
    const controller::MemberMark& mark = marks.at(key);
    if (const std::string node = node_of(key); !node.empty()) {
      ++gang.placed;
      gang.request.fixed_nodes.push_back(node);
      if (mark.segment >= 0) gang.request.fixed_segments[mark.segment].push_back(node);
      continue;
    }
    if (std::find(work.waiting.begin(), work.waiting.end(), key) == work.waiting.end()) continue;
    auto wants = prepare(fleet_.pods.at(key));
    if (!wants) continue;
    auto pod = std::make_unique<model::Pod>(fleet_.pods.at(key).pod);
    Asked asked = ask_for(*pod, *wants, work.id);
    if (asked.torn) {
      pend(*pod, {{"Repair", kTorn}});
      continue;
    }
    gang.least += asked.least;
    gang.request.members.push_back({std::move(asked.request), std::move(asked.shape), mark.subgroup, mark.segment});
    gang.pods.push_back(std::move(pod));
    gang.wants.push_back(std::move(*wants));
  }
  const bool started = std::any_of(unit.members.begin(), unit.members.end(),
                                   [&](const std::string& key) { return !fleet_.pods.at(key).pod.node_name.empty(); });
  // In the place of members that it lost.
  if (started && gang.placed < unit.minimum) gang.request.reserve = engine::Reserve::kOpen;
  const int64_t needed = work.one_of_gang() ? 1 : unit.minimum - gang.placed;
  gang.request.minimum = std::clamp<int64_t>(needed, 1, std::max<int64_t>(std::ssize(gang.pods), 1));
  if (work.core || gang.request.fixed_nodes.empty()) add_later(unit, work, gang);
  gang.request.boxes = rooms_.budgets(fleet_.queues.meters(), boxes_kept(work.id));
}

// Those that are asked for when this work has started: they have a say in where it goes.
void Planner::add_later(const controller::Unit& unit, const PlannedWork& work, Gang& gang) {
  const std::map<std::string, int64_t> segment_of = unit.segment_numbers();
  for (const std::string& key : unit.members) {
    const model::Pod& own = fleet_.pods.at(key).pod;
    const bool here = std::find(work.waiting.begin(), work.waiting.end(), key) != work.waiting.end();
    if (here || !waits(own) || placed_nodes_.contains(key) || !translated_[key].refusals.empty()) continue;
    const Wants wants = wants_of(own, translated_[key].requests);
    if (wants.blocked) continue;
    auto pod = std::make_unique<model::Pod>(own);
    Asked asked = ask_for(*pod, wants.claims, work.id);
    if (asked.torn) continue;
    const auto segment = segment_of.find(key);
    gang.request.later.push_back({std::move(asked.request), std::move(asked.shape), {}, -1});
    if (segment != segment_of.end()) gang.request.later.back().segment = segment->second;
    gang.later.push_back(std::move(pod));
  }
}

void Planner::pend_gang(const Gang& gang, const Reasons& reasons) {
  for (const auto& pod : gang.pods) pend(*pod, reasons);
}

bool Planner::decide_gang(const controller::Unit& unit, PlannedWork& work) {
  Gang gang;
  gather(unit, work, gang);
  const auto refuse = [&](const Reasons& reasons) {
    pend_gang(gang, reasons);
    return false;
  };
  work.hopeless = true;
  const auto waiting = static_cast<int64_t>(gang.pods.size());
  const int64_t needed = work.one_of_gang() ? 1 : unit.minimum - gang.placed;
  if (waiting < needed || waiting == 0) return refuse({incomplete(unit, needed - waiting)});
  const controller::PodScope scope = controller::scope_of(*gang.pods[0]);
  if (auto zero = quotas_.forbidden(unit.name_space, scope, gang.least)) return refuse({{"Quota", std::move(*zero)}});
  if (auto reason = over_quota(*gang.pods[0], gang.least)) return refuse({std::move(*reason)});
  return place_gang(unit, work, gang);
}

bool Planner::place_gang(const controller::Unit& unit, PlannedWork& work, Gang& gang) {
  std::optional<Reason> over;
  for (int kinds = 0;; ++kinds) {
    auto outcome = engine::place_gang(ledger_.state(), topologies_.levels(), gang.request, random_);
    if (!outcome) {
      pend_gang(gang, reasons_of(outcome.error()));
      return false;
    }
    if (auto* assigned = std::get_if<engine::GangAssigned>(&*outcome)) {
      auto reason = gang_assigned(unit, work, gang, *assigned);
      if (!reason) return true;
      if (!over) over = std::move(reason);
      std::set<std::string> closed = gang.request.members[0].request.held_nodes;
      bool other = false;
      for (size_t i = 0; i < gang.pods.size() && !other && kinds < kMostKinds; ++i)
        other = assigned->members[i] && avoid_kinds(gang.wants[i], *assigned->members[i], closed);
      for (engine::GangMember& member : gang.request.members) member.request.held_nodes = closed;
      if (other) continue;
    }
    work.hopeless = !over && std::holds_alternative<engine::Infeasible>(*outcome);
    Reasons reasons = over ? Reasons{std::move(*over)} : reasons_of(*outcome);
    if (work.growth && !reasons.empty() && reasons.front().code == "Capacity") {
      reasons.front().message =
          fmt::format("gang {} has its minimum of {}; there is no room for this member", unit.name, unit.minimum);
    }
    pend_gang(gang, reasons);
    return false;
  }
}

// Nothing: it has started. Else what quota says to these devices.
std::optional<Reason> Planner::gang_assigned(const controller::Unit& unit, const PlannedWork& work, Gang& gang,
                                             engine::GangAssigned& assigned) {
  controller::DeviceUsage asked;
  std::vector<queueing::Portion> demand;
  const auto add = [&](std::vector<queueing::Portion> portions) {
    for (queueing::Portion& portion : portions) demand.push_back(std::move(portion));
  };
  for (size_t i = 0; i < gang.pods.size(); ++i) {
    if (!assigned.members[i]) continue;
    asked += usage_of(gang.wants[i], *assigned.members[i]);
    add(granted_to(*gang.pods[i], gang.wants[i], *assigned.members[i]));
  }
  if (auto quota = over_quota(*gang.pods[0], asked)) return quota;
  std::set<std::string> members(work.holders.begin(), work.holders.end());
  members.insert(work.waiting.begin(), work.waiting.end());
  for (const std::string& key : members) add(demand_of(fleet_.pods.at(key).pod, Portions::kHeld));
  if (auto reason = admit(work.id, std::move(demand))) return reason;
  for (size_t i = 0; i < gang.pods.size(); ++i) {
    if (assigned.members[i]) {
      grant(*gang.pods[i], gang.wants[i], std::move(*assigned.members[i]));
      continue;
    }
    pend(*gang.pods[i], {{"Capacity", fmt::format("gang {} has its minimum of {}; there is no room for this member",
                                                  unit.name, unit.minimum)}});
  }
  return std::nullopt;
}

engine::Reason Planner::incomplete(const controller::Unit& unit, int64_t missing) {
  return {"GangIncomplete",
          fmt::format("{} of the {} members that gang {} needs cannot be placed", missing, unit.minimum, unit.name)};
}

// --- what quota of a namespace says, and what is granted ---

controller::DeviceUsage Planner::usage_of(const std::vector<Want>& wants, const engine::Assigned& assigned) {
  controller::DeviceUsage asked;
  size_t next = 0;
  for (const Want& want : wants) {
    if (want.claim.allocation) continue;
    asked += controller::usage_of(want.claim.spec, assigned.allocations[next++], dialects::kDriver);
  }
  return asked;
}

std::optional<Reason> Planner::over_quota(const model::Pod& pod, const controller::DeviceUsage& ask) const {
  if (ask == controller::DeviceUsage{}) return std::nullopt;
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

// Quota refused devices of these kinds: the nodes that have some are left out. False when that cannot help.
bool Planner::avoid_kinds(const std::vector<Want>& wants, const engine::Assigned& assigned,
                          std::set<std::string>& closed) const {
  bool any = false;
  size_t next = 0;
  for (const Want& want : wants) {
    if (want.claim.allocation) continue;
    for (const queueing::Portion& portion :
         engine::granted(ledger_.state(), want.claim.spec, assigned.allocations[next])) {
      for (const engine::FleetPart& part : parts_) {
        if (part.vendor != portion.vendor || part.model != portion.model) continue;
        any = closed.insert(part.node).second || any;
      }
    }
    ++next;
  }
  return any;
}

void Planner::grant(const model::Pod& pod, std::vector<Want>& wants, engine::Assigned assigned) {
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
      claims_of_work_[work_of_[pod.meta.key()]].insert(want.key);
    }
    claims_.insert_or_assign(want.key, claim);
    placed.claims.push_back(claim);
  }
  ledger_.state().upsert_pod_usage(pod.meta.uid, assigned.node, model::effective_requests(pod), model::host_ports(pod));
  placed_nodes_[pod.meta.key()] = assigned.node;
  rooms_stale_ = true;
  plan_.placed.push_back(std::move(placed));
}

}  // namespace heddle::cli
