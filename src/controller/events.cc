// Objects as they come from the API server, and the answers to writes.
#include <algorithm>

#include "base/key_text.h"
#include "codec/codec.h"
#include "controller/objects.h"
#include "controller/reconciler_impl.h"
#include "dialects/container.h"
#include "dialects/wire_names.h"

namespace heddle::controller {
namespace {

std::string signature_of(const PodRecord& record) {
  std::string out = engine::fit_signature(record.pod);
  append_part(out, record.requests.size());
  for (const dialects::ContainerRequest& request : record.requests)
    append_part(out, codec::claim_spec_json(request.spec));
  return out;
}

bool asks_for_translated_resources(const catalog::Requests& rules, const model::Pod& pod) {
  const auto asks = [&](const model::ResourceList& list) {
    return std::any_of(list.begin(), list.end(), [&](const auto& entry) {
      return dialects::asks_for_device(rules, entry.first) && entry.second.sign() > 0;
    });
  };
  return std::any_of(pod.containers.begin(), pod.containers.end(),
                     [&](const model::Container& c) { return asks(c.requests) || asks(c.limits); });
}

bool unschedulable(const model::Pod& pod) {
  return std::any_of(pod.conditions.begin(), pod.conditions.end(), [](const model::PodCondition& condition) {
    return condition.type == "PodScheduled" && condition.status == "False" && condition.reason == "Unschedulable";
  });
}

}  // namespace

PodRecord* Reconciler::Impl::find(const std::string& key) {
  const auto it = pods.find(key);
  return it == pods.end() ? nullptr : &it->second;
}

void Reconciler::Impl::emit(PodRecord* record, WriteKind kind, const std::string& claim_key, kube::Request request) {
  const uint64_t id = ++last_id;
  Flight flight{{}, {}, claim_key, kind};
  if (record != nullptr) {
    flight.pod_key = record->pod.meta.key();
    flight.pod_uid = record->pod.meta.uid;
    if (!is_telling(kind)) ++record->in_flight;
  }
  flights.emplace(id, std::move(flight));
  out.push_back({id, kind, std::move(request)});
}

void Reconciler::Impl::set_usage(const model::Pod& pod, const std::string& node) {
  const std::string& uid = pod.meta.uid;
  Usage usage{node, model::effective_requests(pod), model::host_ports(pod)};
  const auto it = usages.find(uid);
  if (it != usages.end() && it->second == usage) return;
  ledger.state().upsert_pod_usage(uid, node, usage.amounts, usage.ports);
  usages.insert_or_assign(uid, std::move(usage));
}

void Reconciler::Impl::forget_usage(const std::string& uid) {
  if (usages.erase(uid) > 0) ledger.state().remove_pod_usage(uid);
}

// Plain resources of bound pods. Status updates of a running pod come often and change nothing here.
void Reconciler::Impl::account_usage(const model::Pod& pod) {
  if (pod.finished()) return forget_usage(pod.meta.uid);
  if (pod.node_name.empty()) return;
  set_usage(pod, pod.node_name);
}

void Reconciler::Impl::index_claims(const PodRecord& record) {
  for (const model::PodResourceClaim& entry : record.pod.resource_claims) {
    for (const std::string* name : {&entry.claim_name, &entry.actual_name}) {
      if (!name->empty()) users[record.pod.meta.name_space + "/" + *name].insert(record.pod.meta.key());
    }
  }
}

void Reconciler::Impl::drop_claim_index(const PodRecord& record) {
  for (const model::PodResourceClaim& entry : record.pod.resource_claims) {
    for (const std::string* name : {&entry.claim_name, &entry.actual_name}) {
      const auto it = users.find(record.pod.meta.name_space + "/" + *name);
      if (it == users.end()) continue;
      it->second.erase(record.pod.meta.key());
      if (it->second.empty()) users.erase(it);
    }
  }
}

// Pods that ask for translated resources but passed admission before the webhook was there: they cannot be changed any
// more.
void Reconciler::Impl::notice_plain_pod(const model::Pod& pod) {
  const std::string key = pod.meta.key();
  const bool waits = pod.node_name.empty() && !pod.finished() && !pod.meta.deleting && unschedulable(pod);
  if (!waits || !asks_for_translated_resources(*options.rules, pod)) {
    unnoticed.erase(key);
    unnoticed_pods.erase(key);
    return;
  }
  if (!unnoticed.emplace(key, false).second) return;
  unnoticed_pods.insert_or_assign(key, pod);
}

void Reconciler::Impl::upsert_pod(model::Pod pod) {
  const std::string key = pod.meta.key();
  if (const auto it = pod_uids.find(key); it != pod_uids.end() && it->second != pod.meta.uid)
    remove_pod(key, it->second);
  PodRecord* known = find(key);
  if (known != nullptr && older_version(pod.meta.resource_version, known->pod.meta.resource_version)) return;
  pod_uids[key] = pod.meta.uid;
  account_usage(pod);
  const bool has_annotation = pod.meta.annotations.contains(std::string(dialects::kRequestAnnotation));
  const bool untracked = known == nullptr && pod.resource_claims.empty() && !gated(pod);
  if (!untracked || gang_of(pod)) units.upsert(pod);
  if (untracked) {
    note_plain_pod(pod);
    return notice_plain_pod(pod);
  }

  if (known != nullptr) drop_claim_index(*known);
  PodRecord& record = known != nullptr ? *known : pods[key];
  const bool fresh = known == nullptr;
  record.pod = std::move(pod);
  if (fresh) {
    if (has_annotation) {
      auto requests =
          dialects::parse_requests(record.pod.meta.annotations.at(std::string(dialects::kRequestAnnotation)));
      if (requests) record.requests = std::move(*requests);
      if (!requests) record.bad_request = requests.error();
    }
    record.signature = signature_of(record);
    for (const model::PodCondition& condition : record.pod.conditions) {
      if (condition.type == kConditionType) record.told = condition;
    }
    if (record.told.status == "False") record.nodes_asked = Asked::kUnknown;
  }
  index_claims(record);
  dirty.insert(key);
}

void Reconciler::Impl::remove_pod(const std::string& key, const std::string& uid) {
  const auto it = pod_uids.find(key);
  if (it == pod_uids.end() || (!uid.empty() && it->second != uid)) return;
  forget_usage(it->second);
  pod_uids.erase(it);
  units.remove(key);
  unnoticed.erase(key);
  unnoticed_pods.erase(key);
  forget_plain_pod(key);
  drop_departure(key);
  PodRecord* record = find(key);
  if (record == nullptr) return;
  leave_queue(*record);
  pending.erase(order_of(record->pod));
  granted_unbound.erase(key);
  drop_plans(*record);
  for (const model::PodResourceClaim& entry : record->pod.resource_claims) {
    if (!entry.claim_name.empty()) orphan_candidates.insert(record->pod.meta.name_space + "/" + entry.claim_name);
  }
  drop_claim_index(*record);
  pods.erase(key);
  dirty.erase(key);
}

void Reconciler::Impl::claim_changed(const std::string& key) {
  const auto it = users.find(key);
  if (it != users.end()) dirty.insert(it->second.begin(), it->second.end());
  claim_of_ghost_changed(key);
  orphan_candidates.insert(key);
}

void Reconciler::Impl::upsert_claim(model::ResourceClaim claim) {
  const std::string key = claim.meta.key();
  // What was planned is counted already, so its confirmation over-commits nothing.
  const model::Allocation* plan = ledger.planned(key);
  const bool news = claim.allocation && (plan == nullptr || plan->results != claim.allocation->results);
  const Ledger::Change change = ledger.upsert(std::move(claim));
  if (change == Ledger::Change::kNone) return;
  if (change == Ledger::Change::kAllocation && news) audit_due = true;
  claim_changed(key);
}

void Reconciler::Impl::finish(uint64_t id, Result<std::string> answer) {
  const auto it = flights.find(id);
  if (it == flights.end()) return;  // of an earlier leadership
  const Flight flight = std::move(it->second);
  flights.erase(it);
  if (flight.kind == WriteKind::kEvictPod && !flight.subject.empty()) return eviction_answered(flight.subject, answer);
  if (flight.kind == WriteKind::kProvision) {
    if (!flight.subject.empty()) provision_answered(flight.subject, answer);
    return;
  }
  if (flight.kind == WriteKind::kQueueStatus) {
    if (answer) return;
    queued.written.erase(flight.subject);
    const std::string topologies_of = std::string(kube::kAcceleratorTopologies.plural) + "/";
    if (flight.subject.starts_with(topologies_of)) topology_untold(flight.subject.substr(topologies_of.size()));
    return;
  }
  clearing_claims.erase(flight.claim_key);
  PodRecord* record = find(flight.pod_key);
  if (record != nullptr && record->pod.meta.uid != flight.pod_uid) record = nullptr;
  if (record != nullptr && !is_telling(flight.kind)) {
    --record->in_flight;
    dirty.insert(flight.pod_key);
  }
  if (record != nullptr && flight.kind == WriteKind::kCondition) record->telling_now = false;
  if (answer) {
    accept(record, flight.kind, flight.claim_key, *answer);
    if (record != nullptr && !record->telling_now && std::exchange(record->tell_again, false)) {
      tell(*record, Telling(record->telling));
    }
    return;
  }
  log.warning("write failed", {{"write", write_name(flight.kind)},
                               {"pod", flight.pod_key},
                               {"claim", flight.claim_key},
                               {"code", code_name(answer.error().code)},
                               {"error", answer.error().message}});
  if (flight.kind == WriteKind::kReadClaim && answer.error().code == Code::kNotFound) {
    ledger.remove(flight.claim_key, {});
    claim_changed(flight.claim_key);
  } else if (record != nullptr) {
    reject(*record, flight.kind, flight.claim_key, answer.error());
  } else if (!flight.claim_key.empty()) {
    // A write of audit() or for an orphan: both look again after a moment.
    claim_changed(flight.claim_key);
    wake_at(clock.monotonic_nanos() + options.retry_audit.nanos, {});
  }
}

void Reconciler::Impl::accept(PodRecord* record, WriteKind kind, const std::string& claim_key,
                              const std::string& body) {
  switch (kind) {
    case WriteKind::kCreateClaim:
    case WriteKind::kAllocateClaim:
    case WriteKind::kProtectClaim:
    case WriteKind::kClearClaim:
    case WriteKind::kReleaseClaim:
    case WriteKind::kReadClaim: {
      auto claim = codec::parse_claim(body);
      if (claim) {
        upsert_claim(std::move(*claim));
      } else if (record != nullptr) {
        record->reread.insert(claim_key);
        back_off(*record);
      }
      return;
    }
    case WriteKind::kNominatePod:
    case WriteKind::kUngatePod:
    case WriteKind::kReadPod: {
      auto pod = codec::parse_pod(body);
      if (pod) upsert_pod(std::move(*pod));
      return;
    }
    case WriteKind::kEvictPod:
      if (record != nullptr) ++stats.evicted[{queue_of(work_id(*record)), "gang"}];
      return;
    case WriteKind::kDeleteClaim:
    case WriteKind::kQueueStatus:
    case WriteKind::kProvision:
    case WriteKind::kCondition:
    case WriteKind::kEvent:
      return;
  }
}

// Plans stay while the effect of a write is unknown: until a read says otherwise, the share counts as held.
void Reconciler::Impl::reject(PodRecord& record, WriteKind kind, const std::string& claim_key, const Error& error) {
  if (kind == WriteKind::kEvent) return;
  if (kind == WriteKind::kCondition) {
    if (error.code != Code::kUnavailable && error.code != Code::kDeadlineExceeded) return;
    record.told = {};
    record.told_at = clock.monotonic_nanos();
    record.retell_at = record.told_at + options.message_interval.nanos;
    wake_at(record.retell_at, record.pod.meta.key());
    return;
  }
  if (kind == WriteKind::kNominatePod) {
    record.told = {};  // told again once the gate is gone
    return;
  }
  if (kind == WriteKind::kEvictPod) {
    if (error.code != Code::kNotFound) back_off(record);  // a disruption budget may allow it later
    return;
  }
  if (kind == WriteKind::kUngatePod || kind == WriteKind::kReadPod) {
    if (error.code == Code::kNotFound) return;  // the watch will say so
    record.reread_pod = true;
    return back_off(record);
  }
  if (kind == WriteKind::kReadClaim) {
    record.reread.insert(claim_key);
    return back_off(record);
  }
  const bool denied = error.code == Code::kPermissionDenied ||
                      (error.code == Code::kInvalidArgument && kind == WriteKind::kCreateClaim);
  if (denied) {
    drop_plans(record);
    forget_usage(record.pod.meta.uid);
    // The others of its gang hold nothing while this one may not.
    const GangRef gang = gang_of_pod(record.pod.meta.key());
    if (gang.state != nullptr && !gang_started(*gang.unit)) take_back(*gang.unit);
    stand(record, Stand::kNone);
    const bool quota = error.message.find("exceeded quota") != std::string::npos;
    tell(record, {"Waiting", {{quota ? "Quota" : "Denied", "the API server refused the claim: " + error.message}}});
    record.failures = std::max(record.failures, 4);
    record.refused_version = 0;
    return back_off(record);
  }
  record.reread.insert(claim_key);
  // A newer object is read at once; a server that has trouble, or an object that stays in dispute, gets time.
  const bool first_conflict =
      (error.code == Code::kConflict || error.code == Code::kAlreadyExists) && record.failures < 3;
  if (first_conflict) {
    ++record.failures;
    return;
  }
  back_off(record);
}

// What was under way may or may not have happened: everything is read anew before the next leadership.
void Reconciler::Impl::resign() {
  leading = false;
  flights.clear();
  out.clear();
  clearing_claims.clear();
  timers.clear();
  pending.clear();
  gangs.clear();
  stalled.clear();
  ledger.unplan_all();
  drop_queues();
  topology_told.clear();
  topology_due = true;
  outlooks = {};
  provisioning.due.clear();
  provisioning.asked.clear();
  for (auto& [key, record] : pods) {
    record.in_flight = 0;
    record.reread.clear();
    record.reread_pod = record.clearing = false;
    record.retry_at = 0;
    record.failures = record.tries = 0;
    record.refused_version = 0;
    record.retell_at = 0;
    record.failed_nodes.clear();
    record.nominated.clear();
    record.telling_now = record.tell_again = false;
    if (record.nodes_asked == Asked::kYes) record.nodes_asked = Asked::kUnknown;  // its answer may be lost
    if (record.pod.node_name.empty()) forget_usage(record.pod.meta.uid);
    dirty.insert(key);
  }
}

}  // namespace heddle::controller
