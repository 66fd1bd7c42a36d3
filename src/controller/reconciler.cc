#include "controller/reconciler.h"

#include <algorithm>
#include <utility>

#include "controller/objects.h"
#include "controller/reconciler_impl.h"

namespace heddle::controller {

std::string_view write_name(WriteKind kind) {
  switch (kind) {
    case WriteKind::kCreateClaim:
      return "create_claim";
    case WriteKind::kAllocateClaim:
      return "allocate_claim";
    case WriteKind::kProtectClaim:
      return "protect_claim";
    case WriteKind::kClearClaim:
      return "clear_claim";
    case WriteKind::kReleaseClaim:
      return "release_claim";
    case WriteKind::kDeleteClaim:
      return "delete_claim";
    case WriteKind::kNominatePod:
      return "nominate_pod";
    case WriteKind::kUngatePod:
      return "ungate_pod";
    case WriteKind::kEvictPod:
      return "evict_pod";
    case WriteKind::kQueueStatus:
      return "queue_status";
    case WriteKind::kReadClaim:
      return "read_claim";
    case WriteKind::kReadPod:
      return "read_pod";
    case WriteKind::kProvision:
      return "provision";
    case WriteKind::kCondition:
      return "condition";
    case WriteKind::kEvent:
      return "event";
  }
  return "unknown";
}

Reconciler::Reconciler(ReconcilerOptions options, const Clock& clock, const Logger& log)
    : impl_(std::make_unique<Impl>(std::move(options), clock, log)) {}

Reconciler::~Reconciler() = default;

void Reconciler::upsert_pod(model::Pod pod) {
  impl_->upsert_pod(std::move(pod));
}
void Reconciler::remove_pod(const std::string& key, const std::string& uid) {
  impl_->remove_pod(key, uid);
}
void Reconciler::upsert_claim(model::ResourceClaim claim) {
  impl_->upsert_claim(std::move(claim));
}

void Reconciler::remove_claim(const std::string& key, const std::string& uid) {
  impl_->ledger.remove(key, uid);
  impl_->claim_changed(key);
}

void Reconciler::upsert_queue(QueueObject queue) {
  impl_->queued.table.upsert(std::move(queue));
}
void Reconciler::remove_queue(const std::string& name) {
  impl_->queued.table.remove_queue(name);
}
void Reconciler::upsert_reservation(ReservationObject reservation) {
  impl_->queued.table.upsert(std::move(reservation));
}
void Reconciler::remove_reservation(const std::string& name) {
  impl_->queued.table.remove_reservation(name);
}
void Reconciler::upsert_namespace(const model::Namespace& name_space) {
  impl_->queued.table.upsert(name_space);
}
void Reconciler::remove_namespace(const std::string& name) {
  impl_->queued.table.remove_namespace(name);
}

void Reconciler::upsert_node(model::Node node) {
  impl_->nodes.insert(node.meta.name);
  impl_->provisioning.node_labels[node.meta.name] = node_kind(node.meta);
  const uint64_t before = impl_->ledger.state().generation();
  impl_->ledger.state().upsert_node(std::move(node));
  // Its labels may say where it lies.
  if (!impl_->queued.wide.empty() && impl_->ledger.state().generation() != before) impl_->queued.fleet_due = true;
}

void Reconciler::remove_node(const std::string& name) {
  impl_->nodes.erase(name);
  impl_->provisioning.node_labels.erase(name);
  impl_->ledger.state().remove_node(name);
  for (const std::string& key : impl_->granted_unbound) {
    if (impl_->find(key) != nullptr && impl_->find(key)->granted_node == name) impl_->dirty.insert(key);
  }
}

void Reconciler::upsert_slice(model::ResourceSlice slice) {
  impl_->ledger.state().upsert_slice(std::move(slice));
  impl_->audit_due = impl_->queued.fleet_due = true;
}

void Reconciler::remove_slice(const std::string& name) {
  impl_->ledger.state().remove_slice(name);
  impl_->queued.fleet_due = true;
  const int64_t check = impl_->clock.monotonic_nanos() + impl_->options.vanished_grace.nanos;
  impl_->vanished_check_at = check;
  impl_->wake_at(check, {});
}

void Reconciler::upsert_taint_rule(model::DeviceTaintRule rule) {
  impl_->ledger.state().upsert_taint_rule(std::move(rule));
}

void Reconciler::remove_taint_rule(const std::string& name) {
  impl_->ledger.state().remove_taint_rule(name);
}

void Reconciler::upsert_class(model::DeviceClass device_class) {
  const std::string& name = device_class.meta.name;
  const std::set<std::string>& managed = impl_->options.managed_drivers;
  const bool own = speaks_of(device_class, impl_->options.driver);
  const bool ours = own || std::any_of(managed.begin(), managed.end(),
                                       [&](const std::string& driver) { return speaks_of(device_class, driver); });
  if (own) impl_->own_classes.insert(name);
  if (!own) impl_->own_classes.erase(name);
  if (ours && impl_->our_classes.insert(name).second) {
    for (const auto& [key, record] : impl_->pods) impl_->dirty.insert(key);
  }
  if (!ours) impl_->our_classes.erase(name);
  impl_->ledger.state().upsert_class(std::move(device_class));
  impl_->queued.fleet_due = true;
}

void Reconciler::remove_class(const std::string& name) {
  impl_->ledger.state().remove_class(name);
}
void Reconciler::upsert_quota(Quota quota) {
  impl_->quotas.upsert(std::move(quota));
}
void Reconciler::remove_quota(const std::string& key) {
  impl_->quotas.remove(key);
}

void Reconciler::upsert_topology(engine::TopologyObject topology) {
  impl_->topology_changed(impl_->topologies.upsert(std::move(topology)));
}
void Reconciler::remove_topology(const std::string& name) {
  impl_->topology_changed(impl_->topologies.remove(name));
}

void Reconciler::see_gang_kinds(std::set<std::string> object_kinds) {
  impl_->units.see_kinds(std::move(object_kinds));
}
bool Reconciler::gang_look_due() const {
  return impl_->units.look_due();
}
void Reconciler::begin_gang_look() {
  impl_->units.begin_look();
}
void Reconciler::upsert_gang_object(GangObject object) {
  impl_->units.upsert_object(std::move(object));
}
void Reconciler::remove_gang_object(const std::string& key) {
  impl_->units.remove_object(key);
}

void Reconciler::lead() {
  impl_->leading = true;
  impl_->audit_due = impl_->pass_due = true;
  for (const auto& [key, claim] : impl_->ledger.claims()) impl_->orphan_candidates.insert(key);
  for (const auto& [key, record] : impl_->pods) impl_->dirty.insert(key);
}

void Reconciler::resign() {
  impl_->resign();
}

void Reconciler::finish(uint64_t write_id, Result<std::string> answer) {
  impl_->finish(write_id, std::move(answer));
}

std::vector<Write> Reconciler::run() {
  Impl& impl = *impl_;
  if (!impl.leading) return {};
  const int64_t now = impl.clock.monotonic_nanos();
  while (!impl.timers.empty() && impl.timers.begin()->first <= now) {
    const std::string key = impl.timers.begin()->second;
    impl.timers.erase(impl.timers.begin());
    if (key.empty()) impl.orphans_due = impl.audit_due = true;
    if (key == kQueueTimer) impl.queue_timer();
    if (!key.empty() && impl.find(key) != nullptr) impl.dirty.insert(key);
  }
  impl.units_changed();
  impl.check_short_gangs();
  impl.check_vanished();
  impl.audit();
  impl.refresh_queues();
  impl.ask_again_to_go();
  // Placing can make a pod dirty again (its allocations are to be cleared first); each round gets further, so this
  // ends.
  for (int round = 0; round < 3; ++round) {
    impl.form_due();
    const std::set<std::string> changed = std::exchange(impl.dirty, {});
    for (const std::string& key : changed) {
      if (PodRecord* record = impl.find(key); record != nullptr) impl.advance(*record);
    }
    impl.sync_queues(changed);
    impl.place_pending();
    if (impl.dirty.empty()) impl.check_stalled();
    if (!impl.unsettled()) break;
  }
  if (impl.unsettled()) impl.wake_at(now, std::string(kStatusTimer));
  impl.tell_outlooks();
  impl.ask_for_nodes();
  impl.take_down_orphans();
  impl.write_queue_status();
  impl.write_topology_status();
  for (auto& [key, told] : impl.unnoticed) {
    if (std::exchange(told, true)) continue;
    impl.tell_event(impl.unnoticed_pods.at(key), "HeddleWaiting",
                    "asks for translated resources but was created before Heddle could translate them; delete it and "
                    "create it again",
                    "Warning");
  }
  return std::exchange(impl.out, {});
}

std::optional<int64_t> Reconciler::next_timer_nanos() const {
  if (impl_->timers.empty()) return std::nullopt;
  return impl_->timers.begin()->first;
}

std::optional<std::string> Reconciler::explain_json(const std::string& key) {
  return impl_->explain_json(key);
}

ReconcilerStats Reconciler::take_stats() {
  ReconcilerStats out = impl_->stats;
  impl_->stats.place_nanos.clear();
  impl_->stats.waits.clear();
  for (const auto& [priority, created, key] : impl_->pending) {
    const PodRecord* record = impl_->find(key);
    if (record == nullptr) continue;
    const auto& reasons = record->telling.reasons;
    ++out.pending_by_reason[reasons.empty() ? "Pending" : reasons.front().code];
  }
  out.tracked_pods = static_cast<int64_t>(impl_->pods.size());
  out.unnoticed_pods = static_cast<int64_t>(impl_->unnoticed.size());
  return out;
}

const Ledger& Reconciler::ledger() const {
  return impl_->ledger;
}

}  // namespace heddle::controller
