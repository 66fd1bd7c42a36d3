// With all decisions of a plan made: who would give way to what waits, or would have to end.
#include <fmt/format.h>

#include <algorithm>

#include "base/key_text.h"
#include "cli/planner.h"
#include "cli/planning_parts.h"
#include "controller/objects.h"
#include "engine/gang_eviction.h"
#include "engine/kind_quota.h"

namespace heddle::cli {
namespace {

using queueing::Phase;

constexpr const char* kEvicting = "Evicting";

}  // namespace

// For messages.
std::string Planner::work_name(const std::string& id) const {
  const auto work = works_.find(id);
  if (work == works_.end() || !work->second.core) return id;
  return fmt::format("gang {}/{}", id.substr(0, id.find('/')), id.substr(id.rfind('/') + 1));
}

// In the order of the decisions, as the controller would begin them.
void Planner::plan_evictions() {
  std::set<std::string> in_vain;  // equal ones find no victims either
  for (const std::string& id : without_room_) {
    const PlannedWork& work = works_.at(id);
    const auto phase = queues_->phase(id);
    const bool runs = phase == Phase::kRunning && work.core && !work.waiting.empty();
    if (work.hopeless || (phase != Phase::kWaiting && !runs)) continue;
    const std::string like = likeness(work);
    if (in_vain.contains(like)) continue;
    if (!plan_eviction(work)) in_vain.insert(like);
  }
  for (const std::string& id : without_room_) ledger_.state().free_room(id);
}

std::string Planner::likeness(const PlannedWork& work) {
  if (!work.unit.empty()) return work.id;
  model::Pod pod = fleet_.pods.at(work.id).pod;
  const Wants wants = wants_of(pod, translated_[work.id].requests);
  const Asked asked = ask_for(pod, wants.claims, work.id);
  if (!asked.common) return work.id;
  const queueing::Workload* workload = queues_->workload(work.id);
  std::string like = "pod ";
  append_part(like, workload->queue);
  append_part(like, int64_t{workload->priority});
  append_part(like, int64_t{workload->never_preempts});
  append_part(like, asked.shape);
  return like;
}

bool Planner::plan_eviction(const PlannedWork& work) {
  std::set<std::string> closed = held_nodes_;
  closed.merge(engine::nodes_of_refused_kinds(*queues_, work.id, parts_, now_));
  if (work.unit.empty()) {
    model::Pod pod = fleet_.pods.at(work.id).pod;
    const Wants wants = wants_of(pod, translated_[work.id].requests);
    Asked asked = ask_for(pod, wants.claims, work.id);
    if (wants.blocked || asked.torn || asked.request.claims.empty()) return false;
    asked.request.held_nodes = std::move(closed);
    auto room = engine::RoomWithout::make(ledger_.state(), asked.request, holdings_);
    if (!room) return false;
    auto answer = preemptions_->plan(work.id, now_, **room);
    if (!answer.eviction) {
      auto guest = answer.reason && answer.reason->code == queueing::kLeaving ? (*room)->later_room() : std::nullopt;
      if (guest) ledger_.state().keep_room(work.id, *std::move(guest));
      return guest.has_value();
    }
    auto kept = (*room)->room_at(answer.eviction->site, answer.eviction->victims);
    if (!kept) return false;
    would_evict(work, std::move(*answer.eviction), {kept->node});
    ledger_.state().keep_room(work.id, std::move(*kept));
    return true;
  }
  Gang gang;
  const size_t told = plan_.pending.size();
  gather(*units_.find(work.unit), work, gang);
  plan_.pending.resize(told);  // what cannot be decided has been said
  if (gang.pods.empty()) return false;
  for (engine::GangMember& member : gang.request.members) member.request.held_nodes = closed;
  auto room = engine::GangRoomWithout::make(ledger_.state(), topologies_.levels(), gang.request, holdings_);
  if (!room) return false;
  auto answer = preemptions_->plan(work.id, now_, **room);
  if (!answer.eviction || !(*room)->fits_without(answer.eviction->victims)) return false;
  would_evict(work, std::move(*answer.eviction), (*room)->sites());
  held_nodes_.insert((*room)->sites().begin(), (*room)->sites().end());
  return true;
}

// What gives way to it gives way to nobody else, and the room is not offered twice.
void Planner::would_evict(const PlannedWork& work, queueing::Eviction eviction, const std::set<std::string>& sites) {
  // A gang goes with all that it has.
  for (const auto& [id, other] : works_) {
    const auto& victims = eviction.victims;
    const bool goes = other.growth && !other.holders.empty() && queues_->phase(id) == Phase::kRunning &&
                      std::find(victims.begin(), victims.end(), other.unit) != victims.end() &&
                      std::find(victims.begin(), victims.end(), id) == victims.end();
    if (goes) eviction.victims.push_back(id);
  }
  preemptions_->begin(eviction, now_);
  std::vector<std::string> names;
  names.reserve(eviction.victims.size());
  for (const std::string& victim : eviction.victims) names.push_back(work_name(victim));
  const engine::Reason reason{kEvicting,
                              fmt::format("would start after evicting {}, on node{} {}", fmt::join(names, ", "),
                                          sites.size() == 1 ? "" : "s", fmt::join(sites, ", "))};
  for (PendingPod& pod : plan_.pending) {
    const std::string key = pod.name_space + "/" + pod.name;
    if (std::find(work.waiting.begin(), work.waiting.end(), key) != work.waiting.end()) pod.reasons.push_back(reason);
  }
}

// Which running or placed work would have to end for the pending ones to fit.
void Planner::look_out() {
  const controller::RunningTable running = running_table();
  std::map<std::string, std::optional<std::string>> answers;  // by gang, or by what is asked
  const std::set<std::string> quota{"Limit", "Borrowing", "Guarantee"};
  for (PendingPod& pod : plan_.pending) {
    if (pod.reasons.empty()) continue;
    const std::string& code = pod.reasons.front().code;
    const bool by_quota = quota.contains(code);
    if (code != "Capacity" && code != "NodeFit" && !by_quota) continue;
    if (by_quota && !fleet_.queues.reservations().empty()) continue;  // these may refuse it even then
    const bool gives_way = std::any_of(pod.reasons.begin(), pod.reasons.end(),
                                       [](const engine::Reason& reason) { return reason.code == kEvicting; });
    const std::string key = pod.name_space + "/" + pod.name;
    const auto work = work_of_.find(key);
    if (gives_way || work == work_of_.end()) continue;
    const PlannedWork& asks = works_.at(work->second);
    const auto [answer, fresh] = answers.try_emplace(asks.unit.empty() ? likeness(asks) : asks.id);
    if (fresh) answer->second = ends_for(asks, running);
    if (answer->second) pod.reasons.push_back({"Ends", "would fit when " + *answer->second});
  }
}

std::optional<std::string> Planner::ends_for(const PlannedWork& work, const controller::RunningTable& running) {
  const auto allowed = [&](const std::vector<std::string>& works) {
    return queues_->phase(work.id) != Phase::kWaiting || !queues_->refusal_without(work.id, works, now_);
  };
  const auto text = [](std::optional<controller::RunningTable::Found> found) {
    return found ? std::optional(std::move(found->text)) : std::nullopt;
  };
  if (work.unit.empty()) {
    model::Pod pod = fleet_.pods.at(work.id).pod;
    const Wants wants = wants_of(pod, translated_[work.id].requests);
    if (wants.blocked) return std::nullopt;
    const Asked asked = ask_for(pod, wants.claims, work.id);
    if (asked.torn) return std::nullopt;
    auto room = engine::RoomWithout::make(ledger_.state(), asked.request, running.holdings());
    if (!room) return std::nullopt;
    return text(running.who_has_to_end(**room, allowed, {.except = work.id, .steps = controller::kPodSteps}));
  }
  Gang gang;
  const size_t told = plan_.pending.size();
  gather(*units_.find(work.unit), work, gang);
  plan_.pending.resize(told);  // what cannot be decided has been said
  if (gang.pods.empty()) return std::nullopt;
  auto room = engine::GangRoomWithout::make(ledger_.state(), topologies_.levels(), gang.request, running.holdings());
  if (!room) return std::nullopt;
  return text(running.who_has_to_end(**room, allowed, {.except = work.unit, .steps = controller::kGangSteps}));
}

controller::RunningTable Planner::running_table() {
  controller::RunningTable running;
  for (const auto& [key, entry] : fleet_.pods) {
    const model::Pod& pod = entry.pod;
    std::vector<controller::HeldClaim> held;
    for (const model::PodResourceClaim& claim : pod.resource_claims) {
      const std::string name = claim_key(pod, claim);
      const model::ResourceClaim* known = claim_of(name);
      if (known == nullptr || !known->allocation) continue;
      const bool shared = std::any_of(known->reserved_for.begin(), known->reserved_for.end(),
                                      [&](const auto& user) { return user.uid != pod.meta.uid; });
      held.push_back({name, &*known->allocation, shared});
    }
    const auto work = work_of_.find(key);
    const bool plain = held.empty() && !pod.node_name.empty() && !pod.finished();
    if (!held.empty() || (plain && !controller::comes_back_at_once(pod)))
      running.add(pod, units_.unit_of(key), work == work_of_.end() ? std::string() : work->second, held);
  }
  return running;
}

}  // namespace heddle::cli
