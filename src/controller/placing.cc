// The waiting pods in order, and what must be taken back: over-commitment, vanished devices, claims without their pod.
#include <fmt/format.h>

#include <algorithm>

#include "base/key_text.h"
#include "codec/codec.h"
#include "controller/objects.h"
#include "controller/reconciler_impl.h"
#include "dialects/wire_names.h"

namespace heddle::controller {
namespace {

Telling no(const char* outcome, std::vector<engine::Reason> reasons) {
  return {outcome, std::move(reasons)};
}

Telling no(const engine::Outcome& outcome) {
  if (const auto* waiting = std::get_if<engine::Waiting>(&outcome))
    return {"Waiting", waiting->reasons, waiting->needs};
  const auto& never = std::get<engine::Infeasible>(outcome);
  return {"Infeasible", never.reasons, never.needs};
}

}  // namespace

// What the pods of the namespace hold that a quota covers; a claim of several pods counts once.
DeviceUsage Reconciler::Impl::used_of(const Quota& quota) const {
  if (quota.terms.empty()) return ledger.usage(quota.name_space);
  const std::string prefix = quota.name_space + "/";
  std::set<std::string> claims;
  for (auto it = pods.lower_bound(prefix); it != pods.end() && it->first.starts_with(prefix); ++it) {
    const model::Pod& pod = it->second.pod;
    if (!quota.covers(scope_of(pod))) continue;
    for (const model::PodResourceClaim& entry : pod.resource_claims)
      claims.insert(prefix + (entry.claim_name.empty() ? entry.actual_name : entry.claim_name));
  }
  DeviceUsage sum;
  for (const std::string& key : claims) sum += ledger.usage_of_claim(key);
  return sum;
}

std::optional<engine::Reason> Reconciler::Impl::over_quota(const model::Pod& pod, const DeviceUsage& ask) const {
  return quotas.exceeded(pod.meta.name_space, scope_of(pod), [&](const Quota& quota) { return used_of(quota); }, ask);
}

std::optional<engine::Reason> Reconciler::Impl::assigned(PodRecord& record, const std::vector<Want>& open,
                                                         const engine::Assigned& outcome) {
  const model::Pod& pod = record.pod;
  DeviceUsage asked;
  const auto spec_of = [](const Want& want) -> const model::ClaimSpec& {
    return want.request != nullptr ? want.request->spec : want.claim->spec;
  };
  for (size_t i = 0; i < open.size(); ++i) asked += usage_of(spec_of(open[i]), outcome.allocations[i], options.driver);
  if (auto quota = over_quota(pod, asked)) {
    record.refused_version = placement_version();
    ++stats.waiting;
    tell(record, no("Waiting", {std::move(*quota)}));
    return std::nullopt;
  }
  if (auto reason = over_queue(record, open, outcome)) return reason;
  ++stats.assigned;
  if (gated(pod)) note_admitted(work_id(record), pod.meta.created);
  for (size_t i = 0; i < open.size(); ++i) {
    model::Allocation allocation = outcome.allocations[i];
    allocation.timestamp = clock.now();
    ledger.plan(open[i].key, spec_of(open[i]), std::move(allocation));
  }
  set_usage(pod, outcome.node);
  pending.erase(order_of(pod));
  advance(record);
  return std::nullopt;
}

engine::PlacementRequest Reconciler::Impl::request_of(const PodRecord& record, const Wants& wants,
                                                      std::vector<Want>& open) {
  engine::PlacementRequest request;
  request.pod = &record.pod;
  request.pinned_node = wants.foreign_node;
  // Of kube-scheduler; our own nomination is of an earlier decision that did not hold.
  const std::string& nominated = record.pod.nominated_node_name;
  if (!nominated.empty() && nominated != record.nominated) request.preferred_node = nominated;
  request.excluded_nodes = record.failed_nodes;
  request.policy = queued.table.policy_for(record.pod.meta);
  request.name_holders = false;  // outlook.cc
  for (const Want& want : wants.ours) {
    if (want.allocated()) {
      const auto node = model::allocated_node(*want.claim->allocation);
      if (node) request.pinned_node = node;
      continue;
    }
    request.claims.push_back({want.key, want.key, want.request != nullptr ? want.request->spec : want.claim->spec});
    open.push_back(want);
  }
  close_nodes(record, request);
  return request;
}

void Reconciler::Impl::place(PodRecord& record, std::map<std::string, engine::Outcome>& answers) {
  const Wants wants = wants_of(record);
  std::vector<Want> open;
  engine::PlacementRequest request = request_of(record, wants, open);
  DeviceUsage least;
  std::string shape = record.signature;
  for (const Want& want : open) {
    const model::ClaimSpec& spec = want.request != nullptr ? want.request->spec : want.claim->spec;
    if (want.request == nullptr) append_part(shape, codec::claim_spec_json(spec));
    least += least_usage(spec);
  }
  append_parts(shape, request.whole_nodes);
  if (wants.blocked || open.empty()) {
    dirty.insert(record.pod.meta.key());
    return;
  }
  if (auto quota = over_quota(record.pod, least)) {
    record.refused_version = placement_version();
    ++stats.waiting;
    return tell(record, no("Waiting", {std::move(*quota)}));
  }
  const bool common = !request.pinned_node && !request.preferred_node && request.excluded_nodes.empty() &&
                      !queued.holds.contains(work_id(record));
  if (const auto same = answers.find(shape); common && same != answers.end()) {
    record.refused_version = placement_version();
    return tell(record, no(same->second));
  }
  const int64_t start = clock.monotonic_nanos();
  Result<engine::Outcome> outcome = ledger.state().place(request, random);
  if (stats.place_nanos.size() < kMostTimes) stats.place_nanos.push_back(clock.monotonic_nanos() - start);
  std::optional<engine::Reason> over;
  for (int kinds = 0; outcome && std::holds_alternative<engine::Assigned>(*outcome); ++kinds) {
    const auto& found = std::get<engine::Assigned>(*outcome);
    auto reason = assigned(record, open, found);
    if (!reason) return;
    if (!over) over = std::move(reason);
    if (kinds == kMostKinds || !avoid_kind(found, open, request)) break;
    outcome = ledger.state().place(request, random);
  }
  record.refused_version = placement_version();
  if (over) {
    ++stats.waiting;
    return tell(record, no("Waiting", {std::move(*over)}));
  }
  if (request.pinned_node && !wants.foreign_node && can_clear(record, wants)) {
    // A part of the pod is allocated on a node where the rest cannot follow.
    record.clearing = true;
    record.refused_version = 0;
    dirty.insert(record.pod.meta.key());
    return;
  }
  if (!outcome) {
    ++stats.refused;
    return tell(record, no("Refused", {{"Invalid", outcome.error().text()}}));
  }
  if (common) answers.emplace(shape, *outcome);
  const bool waits = std::holds_alternative<engine::Waiting>(*outcome);
  ++(waits ? stats.waiting : stats.infeasible);
  tell(record, no(*outcome));
  if (!record.failed_nodes.empty()) {
    // The nodes that failed are tried again after a pause: what kept the pod off them may have ended.
    record.failed_nodes.clear();
    record.failures = std::max(record.failures, 5);
    record.refused_version = 0;
    back_off(record);
  }
}

// Two leaders, or a write that arrived late: the younger allocation that nobody runs on yet goes.
void Reconciler::Impl::audit() {
  if (!std::exchange(audit_due, false)) return;
  for (const engine::OverCommit& over : ledger.state().over_commits()) {
    bool cleared = false;
    for (auto it = over.claim_uids.rbegin(); it != over.claim_uids.rend() && !cleared; ++it) {
      const std::string& key = *it;  // the State knows claims by key, see ledger.h
      if (clearing_claims.contains(key)) {
        cleared = true;
      } else if (ledger.planned(key) != nullptr) {
        ledger.unplan(key);
        claim_changed(key);
        cleared = true;
      } else if (const model::ResourceClaim* claim = ledger.find(key); claim != nullptr && claim->allocation) {
        const bool runs =
            std::any_of(claim->reserved_for.begin(), claim->reserved_for.end(), [&](const auto& consumer) {
              PodRecord* user = find(claim->meta.name_space + "/" + consumer.name);
              return user != nullptr && user->pod.meta.uid == consumer.uid && !user->pod.node_name.empty();
            });
        if (runs) continue;
        model::ResourceClaim without = *claim;
        without.allocation.reset();
        without.reserved_for.clear();
        emit(nullptr, WriteKind::kClearClaim, key, put_claim_status(without));
        clearing_claims.insert(key);
        ++stats.over_commits_cleared;
        cleared = true;
      }
    }
    log.error("device granted beyond its capacity",
              {{"device", over.device.pool + "/" + over.device.device}, {"what", over.what}, {"cleared", cleared}});
  }
}

// Pods that wait for their binding while their device is no longer published.
void Reconciler::Impl::check_vanished() {
  if (vanished_check_at == 0 || clock.monotonic_nanos() < vanished_check_at) return;
  vanished_check_at = 0;
  if (granted_unbound.empty()) return;
  std::set<std::string> vanished;
  for (const engine::DeviceUse& use : ledger.state().device_uses()) {
    if (use.published) continue;
    for (const auto& holder : use.holders) vanished.insert(holder.claim_uid);
  }
  for (const std::string& key : std::set<std::string>(granted_unbound)) {
    PodRecord* record = find(key);
    if (record == nullptr) continue;
    const Wants wants = wants_of(*record);
    const bool lost = std::any_of(wants.ours.begin(), wants.ours.end(),
                                  [&](const Want& want) { return vanished.contains(want.key); });
    if (!lost) continue;
    ++stats.repairs;
    record->clearing = true;
    record->granted_node.clear();
    granted_unbound.erase(key);
    tell(*record, no("Repair", {{"Repair", "a device of the pod is no longer published; placing again"}}));
    dirty.insert(key);
  }
}

// The garbage collector and the claim controller take down claims whose pod is gone. Where they cannot (a claim that
// was never reserved), we do, after giving them time.
void Reconciler::Impl::take_down(const std::string& key, int64_t now) {
  const model::ResourceClaim* claim = ledger.find(key);
  if (claim == nullptr || !claim->meta.labels.contains(std::string(dialects::kManagedLabel)) ||
      claim->meta.owners.empty()) {
    orphans.erase(key);
    return;
  }
  const model::OwnerReference& owner = claim->meta.owners.front();
  const auto pod = pod_uids.find(claim->meta.name_space + "/" + owner.name);
  if (pod != pod_uids.end() && pod->second == owner.uid) {
    orphans.erase(key);
    return;
  }
  const int64_t due = orphans.emplace(key, now).first->second + options.orphan_grace.nanos;
  if (now < due) {
    wake_at(due, {});
    return;
  }
  if (clearing_claims.contains(key)) return;
  const auto& finalizers = claim->meta.finalizers;
  if (claim->allocation) {
    model::ResourceClaim without = *claim;
    without.allocation.reset();
    without.reserved_for.clear();
    emit(nullptr, WriteKind::kClearClaim, key, put_claim_status(without));
  } else if (std::find(finalizers.begin(), finalizers.end(), kProtectionFinalizer) != finalizers.end()) {
    emit(nullptr, WriteKind::kReleaseClaim, key, remove_finalizer(*claim));
  } else if (!claim->meta.deleting) {
    emit(nullptr, WriteKind::kDeleteClaim, key, delete_claim(*claim));
  } else {
    return;
  }
  clearing_claims.insert(key);
  // When the answer changes nothing, once more after a pause.
  wake_at(now + options.longest_backoff.nanos, {});
}

void Reconciler::Impl::take_down_orphans() {
  std::set<std::string> candidates = std::exchange(orphan_candidates, {});
  if (std::exchange(orphans_due, false)) {
    for (const auto& [key, since] : orphans) candidates.insert(key);
  }
  const int64_t now = clock.monotonic_nanos();
  for (const std::string& key : candidates) take_down(key, now);
}

}  // namespace heddle::controller
