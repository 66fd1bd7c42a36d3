// One pod: from what the API server shows to the next write that is missing.
#include <fmt/format.h>

#include <algorithm>

#include "controller/objects.h"
#include "controller/reconciler_impl.h"
#include "dialects/wire_names.h"

namespace heddle::controller {
namespace {

// The claim can be taken from this pod without taking it from another one.
bool only_for(const model::ResourceClaim& claim, const model::Pod& pod) {
  return std::all_of(claim.reserved_for.begin(), claim.reserved_for.end(),
                     [&](const model::ConsumerReference& consumer) { return consumer.uid == pod.meta.uid; });
}

bool reserved_for(const model::ResourceClaim& claim, const model::Pod& pod) {
  return std::any_of(claim.reserved_for.begin(), claim.reserved_for.end(),
                     [&](const model::ConsumerReference& consumer) { return consumer.uid == pod.meta.uid; });
}

bool owned_by(const model::ResourceClaim& claim, const model::Pod& pod) {
  return std::any_of(claim.meta.owners.begin(), claim.meta.owners.end(), [&](const model::OwnerReference& owner) {
    return owner.controller && owner.kind == "Pod" && owner.uid == pod.meta.uid;
  });
}

bool asks_for(const model::ClaimSpec& spec, const std::set<std::string>& classes) {
  for (const model::DeviceRequest& request : spec.requests) {
    if (request.exactly && classes.contains(request.exactly->device_class)) return true;
    for (const model::DeviceSubRequest& alternative : request.first_available) {
      if (classes.contains(alternative.device_class)) return true;
    }
  }
  return false;
}

std::string node_of(const model::ResourceClaim& claim) {
  return claim.allocation ? model::allocated_node(*claim.allocation).value_or("") : std::string();
}

Telling blocked(std::string outcome, std::string code, std::string message) {
  return {std::move(outcome), {{std::move(code), std::move(message)}}};
}

}  // namespace

bool gated(const model::Pod& pod) {
  return std::find(pod.scheduling_gates.begin(), pod.scheduling_gates.end(), dialects::kGate) !=
         pod.scheduling_gates.end();
}

void Reconciler::Impl::add_want(const PodRecord& record, const model::PodResourceClaim& entry, Wants& wants) const {
  const auto request = std::find_if(record.requests.begin(), record.requests.end(), [&](const auto& candidate) {
    return candidate.claim_ref == entry.name && candidate.claim_name == entry.claim_name;
  });
  Want want;
  if (request != record.requests.end()) want.request = &*request;
  const std::string& name = entry.claim_name.empty() ? entry.actual_name : entry.claim_name;
  if (name.empty()) {
    wants.blocked =
        blocked("Waiting", "ClaimMissing", "the claim of template " + entry.template_name + " does not exist yet");
    return;
  }
  want.key = record.pod.meta.name_space + "/" + name;
  want.ref = entry.name;
  want.claim = ledger.find(want.key);
  if (want.request == nullptr && want.claim == nullptr) {
    wants.blocked = blocked("Waiting", "ClaimMissing", "claim " + name + " does not exist");
    return;
  }
  if (clearing_claims.contains(want.key)) {
    wants.blocked =
        blocked("Repair", "Repair", "claim " + name + " is taken back: its device was granted beyond its capacity");
    return;
  }
  if (want.claim != nullptr && want.claim->meta.deleting) {
    const bool made_by_us = want.request != nullptr && owned_by(*want.claim, record.pod);
    if (made_by_us) wants.deleted.push_back(want.key);
    wants.blocked =
        blocked("Waiting", "ClaimDeleted",
                "claim " + name + " is being deleted" +
                    (made_by_us ? "; it is made again when it is gone" : "; create it again when it is gone"));
    return;
  }
  if (want.request == nullptr && !asks_for(want.claim->spec, our_classes)) {
    const std::string node = node_of(*want.claim);
    if (!node.empty()) wants.foreign_node = node;
    return;
  }
  if (want.request != nullptr && want.claim != nullptr &&
      (!owned_by(*want.claim, record.pod) || !same_spec(want.claim->spec, want.request->spec))) {
    wants.blocked = blocked(
        "Refused", "ClaimMismatch",
        "claim " + name + " exists and was not made for this pod's request; delete it, or create the pod again");
    return;
  }
  wants.ours.push_back(std::move(want));
}

// In one container the limits of one claim would hide those of the other. The agent refuses to prepare such a pod; said
// before anything is granted. What other drivers make of several claims is theirs.
std::optional<Telling> Reconciler::Impl::claims_that_clash(const model::Pod& pod, const Wants& wants) const {
  const auto is_own = [&](const Want& want) {
    return want.request != nullptr || asks_for(want.claim->spec, own_classes);
  };
  size_t plain = 0;
  size_t init = 0;
  for (const model::Container& container : pod.containers) {
    const size_t number = container.init ? init++ : plain++;
    const Want* first = nullptr;
    for (const Want& want : wants.ours) {
      if (std::find(container.claims.begin(), container.claims.end(), want.ref) == container.claims.end()) continue;
      if (!is_own(want)) continue;
      if (first == nullptr) first = &want;
      if (first->key == want.key) continue;
      return blocked(
          "Refused", "Invalid",
          fmt::format("spec.{}[{}].resources.claims: container {} uses {} and {}, both for Heddle's devices; "
                      "ask for all of its devices in one claim, as requests of it",
                      container.init ? "initContainers" : "containers", number, container.name, first->ref, want.ref));
    }
  }
  return std::nullopt;
}

Wants Reconciler::Impl::wants_of(const PodRecord& record) const {
  Wants wants;
  if (record.bad_request) {
    wants.blocked = blocked("Refused", "Invalid", record.bad_request->text());
    return wants;
  }
  for (const std::string& gate : record.pod.scheduling_gates) {
    if (gate == dialects::kGate) continue;
    // Devices for a pod that another controller holds back would only stand idle.
    wants.blocked = blocked("Waiting", "Gated", "waits for the scheduling gate " + gate + " to be removed");
    return wants;
  }
  for (const model::PodResourceClaim& entry : record.pod.resource_claims) {
    add_want(record, entry, wants);
    if (wants.blocked) break;
  }
  if (!wants.blocked) wants.blocked = claims_that_clash(record.pod, wants);
  return wants;
}

// Once a pod, with all that it asks for: `packing` learns the mix from it. All pods that are there after a restart are
// advanced before the first of them is placed, so that their order decides nothing.
void Reconciler::Impl::note_arrival(PodRecord& record, const Wants& wants) {
  if (record.arrived || wants.blocked || wants.ours.empty()) return;
  record.arrived = true;
  engine::PlacementRequest asked;
  asked.pod = &record.pod;
  for (const Want& want : wants.ours) {
    asked.claims.push_back({want.key, want.key, want.request != nullptr ? want.request->spec : want.claim->spec});
  }
  ledger.state().arrive(asked);
  ++stats.arrived;
}

void Reconciler::Impl::drop_plans(PodRecord& record) {
  for (const model::PodResourceClaim& entry : record.pod.resource_claims) {
    if (!entry.claim_name.empty()) ledger.unplan(record.pod.meta.name_space + "/" + entry.claim_name);
    if (!entry.actual_name.empty()) ledger.unplan(record.pod.meta.name_space + "/" + entry.actual_name);
  }
}

// Nothing is left to do for the pod: it is bound, over, or has no claim of ours.
void Reconciler::Impl::settle(PodRecord& record) {
  pending.erase(order_of(record.pod));
  granted_unbound.erase(record.pod.meta.key());
  drop_plans(record);
  const bool over = record.pod.finished() || record.pod.meta.deleting;
  if (over && record.pod.node_name.empty()) forget_usage(record.pod.meta.uid);
  record.failed_nodes.clear();
  record.reread.clear();
  record.reread_pod = record.clearing = false;
  record.tries = record.failures = 0;
  record.release_at = 0;
}

void Reconciler::Impl::back_off(PodRecord& record) {
  const int doublings = std::min(record.failures, 16);
  ++record.failures;
  const int64_t pause = std::min(options.first_backoff.nanos << doublings, options.longest_backoff.nanos);
  record.retry_at = clock.monotonic_nanos() + pause;
  wake_at(record.retry_at, record.pod.meta.key());
}

// After a write whose effect is unknown or that met a newer object: read before anything else is written.
bool Reconciler::Impl::ask_again(PodRecord& record) {
  if (record.reread.empty() && !record.reread_pod) return false;
  for (const std::string& key : std::exchange(record.reread, {}))
    emit(&record, WriteKind::kReadClaim, key, read_claim(key));
  if (std::exchange(record.reread_pod, false)) emit(&record, WriteKind::kReadPod, {}, read_pod(record.pod.meta.key()));
  return true;
}

bool Reconciler::Impl::can_clear(const PodRecord& record, const Wants& wants) const {
  return std::any_of(wants.ours.begin(), wants.ours.end(),
                     [&](const Want& want) { return want.allocated() && only_for(*want.claim, record.pod); });
}

bool Reconciler::Impl::clear_claims(PodRecord& record, const Wants& wants) {
  bool any = false;
  for (const Want& want : wants.ours) {
    if (!want.allocated() || !only_for(*want.claim, record.pod)) continue;
    model::ResourceClaim cleared = *want.claim;
    cleared.allocation.reset();
    cleared.reserved_for.clear();
    emit(&record, WriteKind::kClearClaim, want.key, put_claim_status(cleared));
    any = true;
  }
  return any;
}

// Someone deletes a claim that we made for a pod that still waits: let go, it is made again. Not while kube-scheduler
// may be binding the pod to it: it says that it cannot as soon as it sees the claim.
void Reconciler::Impl::release_deleted(PodRecord& record, const Wants& wants) {
  const int64_t now = clock.monotonic_nanos();
  if (wants.deleted.empty() || gated(record.pod)) {
    record.release_at = 0;
  } else if (record.release_at == 0) {
    record.release_at = now + options.vanished_grace.nanos;
    wake_at(record.release_at, record.pod.meta.key());
  }
  if (now < record.release_at) return;
  for (const std::string& key : wants.deleted) {
    const model::ResourceClaim* claim = ledger.find(key);
    if (claim == nullptr || !only_for(*claim, record.pod)) continue;
    const auto& finalizers = claim->meta.finalizers;
    if (claim->allocation || !claim->reserved_for.empty()) {
      model::ResourceClaim cleared = *claim;
      cleared.allocation.reset();
      cleared.reserved_for.clear();
      emit(&record, WriteKind::kClearClaim, key, put_claim_status(cleared));
    } else if (std::find(finalizers.begin(), finalizers.end(), kProtectionFinalizer) != finalizers.end()) {
      emit(&record, WriteKind::kReleaseClaim, key, remove_finalizer(*claim));
    }
  }
}

// Repair. kube-scheduler may take one allocation back when it cannot bind the pod on that node, and nodes go away: then
// the pod's other claims go too, and it is placed again elsewhere.
bool Reconciler::Impl::move_away(PodRecord& record, const Wants& wants) {
  const bool planning = std::any_of(wants.ours.begin(), wants.ours.end(),
                                    [&](const Want& want) { return ledger.planned(want.key) != nullptr; });
  const bool open =
      std::any_of(wants.ours.begin(), wants.ours.end(), [](const Want& want) { return !want.allocated(); });
  std::set<std::string> places;
  for (const Want& want : wants.ours) {
    if (want.allocated() && !node_of(*want.claim).empty()) places.insert(node_of(*want.claim));
  }
  const bool node_gone =
      std::any_of(places.begin(), places.end(), [&](const auto& node) { return !nodes.contains(node); });
  const bool taken_back = open && !planning && !record.granted_node.empty();
  if (taken_back || node_gone || places.size() > 1) {
    const std::string failed =
        record.granted_node.empty() ? (places.empty() ? "" : *places.begin()) : record.granted_node;
    ++stats.repairs;
    ++record.tries;
    record.clearing = true;
    record.granted_node.clear();
    granted_unbound.erase(record.pod.meta.key());
    drop_plans(record);
    forget_usage(record.pod.meta.uid);
    if (!failed.empty()) record.failed_nodes.push_back(failed);
    const std::string why =
        node_gone ? "the node is gone" : "kube-scheduler could not bind the pod there and gave its device back";
    tell(record,
         blocked("Repair", "Repair", fmt::format("node {}: {}; placing again (try {})", failed, why, record.tries)));
    if (record.tries > options.repair_tries) {
      const auto [unit, gang] = gang_of_pod(record.pod.meta.key());
      if (gang != nullptr && whole_members(*unit, *gang) <= unit->minimum) {
        stand(record, Stand::kNone);
        end_gang(*unit);
      }
      record.failed_nodes.clear();
      record.failures = std::max(record.failures, 6);
      back_off(record);
      return true;
    }
  }
  if (!record.clearing) return false;
  if (clear_claims(record, wants)) return true;
  record.clearing = false;
  return false;
}

// The next write of each claim that has a planned allocation.
bool Reconciler::Impl::write_planned(PodRecord& record, const Wants& wants) {
  bool any = false;
  for (const Want& want : wants.ours) {
    const model::Allocation* plan = ledger.planned(want.key);
    if (plan == nullptr) continue;
    any = true;
    if (want.claim == nullptr) {
      emit(&record, WriteKind::kCreateClaim, want.key, create_claim(claim_for(record.pod, *want.request)));
      if (const auto& roundings = want.request->roundings; !roundings.empty()) {
        tell_event(record.pod, "HeddleRounded",
                   fmt::format("container {}: {}", want.request->container, fmt::join(roundings, "; ")), "Normal");
      }
      continue;
    }
    const auto& finalizers = want.claim->meta.finalizers;
    if (std::find(finalizers.begin(), finalizers.end(), kProtectionFinalizer) == finalizers.end()) {
      emit(&record, WriteKind::kProtectClaim, want.key, add_finalizer(*want.claim));
      continue;
    }
    model::ResourceClaim granted = *want.claim;
    granted.allocation = *plan;
    granted.allocation->timestamp = clock.now();
    if (!reserved_for(granted, record.pod)) {
      granted.reserved_for.push_back({"", "pods", record.pod.meta.name, record.pod.meta.uid});
    }
    emit(&record, WriteKind::kAllocateClaim, want.key, put_claim_status(granted));
  }
  return any;
}

// Every claim is written: the pod may go to kube-scheduler.
void Reconciler::Impl::grant(PodRecord& record, const Wants& wants) {
  std::string node;
  for (const Want& want : wants.ours) {
    if (node.empty()) node = node_of(*want.claim);
  }
  if (!node.empty()) set_usage(record.pod, node);
  need_no_nodes(record);
  std::vector<std::string> parts;
  for (const Want& want : wants.ours) {
    for (const model::DeviceResult& result : want.claim->allocation->results) {
      std::string part = result.pool + "/" + result.device;
      for (const auto& [name, amount] : result.consumed_capacity)
        part += fmt::format(" {} {}", name, amount.to_string());
      parts.push_back(std::move(part));
    }
  }
  Telling granted = blocked("Allocated", "Allocated", fmt::format("on node {}: {}", node, fmt::join(parts, ", ")));
  if (gated(record.pod)) {
    if (!nominate(record, node, std::move(granted))) emit(&record, WriteKind::kUngatePod, {}, ungate_pod(record.pod));
    return;
  }
  record.failures = 0;
  granted_unbound.insert(record.pod.meta.key());
  if (std::exchange(record.granted_node, node).empty()) tell(record, std::move(granted));
}

void Reconciler::Impl::advance(PodRecord& record) {
  if (!leading || record.in_flight > 0) return;
  const model::Pod& pod = record.pod;
  forget_refusals(record);
  if (record.retell_at != 0 && record.retell_at <= clock.monotonic_nanos()) {
    record.retell_at = 0;
    tell(record, Telling(record.telling));
  }
  if (pod.finished() || pod.meta.deleting) return settle(record);
  if (!pod.node_name.empty()) {
    stand(record, Stand::kWhole);
    // kube-scheduler can be faster than our own answer about the gate: what was granted is still to be told.
    const Wants granted = record.granted_node.empty() || !record.arrived ? wants_of(record) : Wants{};
    note_arrival(record, granted);
    const bool whole =
        std::all_of(granted.ours.begin(), granted.ours.end(), [](const Want& want) { return want.allocated(); });
    if (record.granted_node.empty() && !granted.blocked && !granted.ours.empty() && whole) grant(record, granted);
    return settle(record);
  }
  if (record.retry_at > clock.monotonic_nanos()) return;
  if (ask_again(record)) return;
  const Wants wants = wants_of(record);
  note_arrival(record, wants);
  if (wants.blocked) {
    pending.erase(order_of(pod));
    stand(record, Stand::kNone);
    tell(record, *wants.blocked);
    release_deleted(record, wants);
    return;
  }
  record.release_at = 0;
  if (wants.ours.empty()) {
    stand(record, Stand::kWhole);
    if (gated(pod)) emit(&record, WriteKind::kUngatePod, {}, ungate_pod(pod));
    return settle(record);
  }
  if (move_away(record, wants)) return stand(record, Stand::kNone);
  if (write_planned(record, wants)) return stand(record, Stand::kPlanned);
  const bool open =
      std::any_of(wants.ours.begin(), wants.ours.end(), [](const Want& want) { return !want.allocated(); });
  stand(record, open ? Stand::kNone : Stand::kWhole);
  if (open) {
    pending.insert(order_of(pod));
    pass_due = pass_due || record.refused_version == 0 || record.refused_version != placement_version();
    return;
  }
  pending.erase(order_of(pod));
  if (gated(pod) && !released(record)) return;
  grant(record, wants);
}

}  // namespace heddle::controller
