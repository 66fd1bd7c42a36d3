// Units of work in their queues: what pods and claims say, told to queueing::Queues; and the order of trying.
#include <fmt/format.h>

#include <algorithm>

#include "codec/codec.h"
#include "controller/reconciler_impl.h"

namespace heddle::controller {
namespace {

using queueing::Phase;

constexpr const char* kPosition = "Position";
constexpr size_t kPositionsTold = 20;  // further behind, the exact number would change all the time

std::string label_of(const model::Pod& pod, std::string_view name) {
  const auto found = pod.meta.labels.find(std::string(name));
  return found == pod.meta.labels.end() ? std::string() : found->second;
}

}  // namespace

// The tree anew, with all units in it, when the objects or the fleet changed.
void Reconciler::Impl::refresh_queues() {
  Queued& q = queued;
  if (!q.table.any()) {
    if (q.queues) drop_queues();
    return;
  }
  const bool objects = q.built_version != q.table.version();
  if (!objects && !std::exchange(q.fleet_due, false)) return;
  std::vector<engine::FleetPart> fleet = engine::fleet_of(ledger.state());
  for (engine::FleetPart& part : fleet) part.free = 0;
  if (!objects && fleet == q.fleet) return;
  q.fleet_due = false;
  q.fleet = std::move(fleet);
  q.table.settle();
  q.built_version = q.table.version();
  queueing::Config config =
      q.table.config([&](const std::string& name) { return engine::fleet_of(ledger.state(), name); });
  if (q.queues) {
    for (auto& [name, past] : q.queues->past(clock.now())) config.past[name] = past;
  }
  auto made = queueing::Queues::make(std::move(config));
  if (!made) {  // the table checks all that could be refused
    log.error("the tree of queues cannot be built", {{"error", made.error().text()}});
    return;
  }
  rebuild_units(std::move(*made));
}

void Reconciler::Impl::rebuild_units(queueing::Queues tree) {
  Queued& q = queued;
  q.preemptions.reset();
  q.queues.emplace(std::move(tree));
  q.preemptions = std::make_unique<queueing::Preemptions>(*q.queues);
  q.asked.clear();
  q.holdings.clear();
  q.ghosts.clear();
  q.ghost_of.clear();
  std::vector<std::pair<Time, std::string>> running;
  std::vector<std::string> others;
  for (const auto& [key, record] : pods) {
    const auto since = holds_since(record);
    if (since) {
      running.emplace_back(*since, key);
    } else {
      others.push_back(key);
    }
  }
  std::sort(running.begin(), running.end());
  for (const auto& [since, key] : running) sync_queue(pods.at(key));
  for (const std::string& key : others) {
    sync_queue(pods.at(key));
    dirty.insert(key);  // what was refused may be good now
  }
  for (const auto& [key, plain] : q.plain) {
    q.holdings[key] = {{plain.uid}, {}};
    q.preemptions->upsert(plain.victim);
  }
  resume_holds();
  ++q.version;
  pass_due = q.status_dirty = true;
}

void Reconciler::Impl::drop_queues() {
  const uint64_t version = queued.version;
  QueueTable table = std::move(queued.table);
  auto plain = std::move(queued.plain);
  queued = Queued{};
  queued.table = std::move(table);
  queued.plain = std::move(plain);
  queued.version = version + 1;
  pass_due = true;
  for (const auto& [key, record] : pods) {
    if (record.pod.node_name.empty()) dirty.insert(key);
  }
}

std::string Reconciler::Impl::unit_id(const PodRecord& record) {
  return record.pod.meta.key();
}

// A claim that several pods use is counted once, for the first of them.
bool Reconciler::Impl::counts_for(const PodRecord& record, const Want& want) {
  if (want.request != nullptr || want.claim == nullptr || want.claim->reserved_for.empty()) return true;
  return want.claim->reserved_for.front().uid == record.pod.meta.uid;
}

std::vector<queueing::Portion> Reconciler::Impl::demand_of(const PodRecord& record, const Wants& wants) {
  std::vector<queueing::Portion> demand;
  for (const Want& want : wants.ours) {
    if (!counts_for(record, want)) continue;
    const model::ClaimSpec& spec = want.request != nullptr ? want.request->spec : want.claim->spec;
    const model::Allocation* allocation = ledger.planned(want.key);
    if (allocation == nullptr && want.allocated()) allocation = &*want.claim->allocation;
    if (allocation != nullptr) {
      for (queueing::Portion& portion : engine::granted(ledger.state(), spec, *allocation))
        demand.push_back(std::move(portion));
      continue;
    }
    const auto [known, fresh] = queued.asked.try_emplace(codec::claim_spec_json(spec));
    if (fresh) {
      // What cannot be meant is refused when it is placed.
      if (auto asked = engine::asked(ledger.state(), {want.key, want.key, spec})) known->second = std::move(*asked);
    }
    demand.insert(demand.end(), known->second.begin(), known->second.end());
  }
  for (queueing::Portion& portion : demand) queued.table.fill_boxes(portion);
  return demand;
}

// Since when devices are granted to it; nothing while none are.
std::optional<Time> Reconciler::Impl::holds_since(const PodRecord& record) const {
  std::optional<Time> since;
  const Wants wants = wants_of(record);
  for (const Want& want : wants.ours) {
    if (!counts_for(record, want)) continue;
    const model::Allocation* allocation = ledger.planned(want.key);
    if (allocation == nullptr && want.allocated()) allocation = &*want.claim->allocation;
    if (allocation == nullptr) continue;
    const Time at = allocation->timestamp.value_or(record.pod.meta.created);
    since = since ? std::min(*since, at) : at;
  }
  return since;
}

Result<queueing::Workload> Reconciler::Impl::workload_of(const PodRecord& record, const Wants& wants) {
  const model::Pod& pod = record.pod;
  queueing::Workload workload;
  workload.id = unit_id(record);
  HEDDLE_TRY(workload.queue, queued.table.queue_of(pod.meta.name_space, label_of(pod, kQueueLabel)));
  workload.reservation = label_of(pod, kReservationLabel);
  if (!workload.reservation.empty())
    HEDDLE_CHECK_OK(queued.table.may_use(workload.reservation, pod.meta.name_space, workload.queue));
  workload.priority = pod.priority;
  workload.submitted = pod.meta.created;
  if (pod.active_deadline) workload.runtime = Duration::seconds(*pod.active_deadline);
  workload.portions = demand_of(record, wants);
  return workload;
}

// What the objects show of a pod's unit, told to the queues.
void Reconciler::Impl::sync_queue(PodRecord& record) {
  if (!queued.queues) return;
  queueing::Queues& queues = *queued.queues;
  const std::string id = unit_id(record);
  if (queued.ghosts.contains(id)) return;  // an earlier pod of that name still has devices
  const Time now = clock.now();
  const Wants wants = wants_of(record);
  const bool waits = pending.contains(order_of(record.pod));
  const auto since = holds_since(record);
  const auto phase = queues.phase(id);
  if (!waits && !since) {
    if (phase) end_unit(id);
    return;
  }
  if (phase == Phase::kLeaving && since) return note_victim(record, wants);
  if (phase == Phase::kHeld && waits) return;
  auto workload = workload_of(record, wants);
  if (!workload) {
    // Its label names a queue that is not for it. What runs is counted where work without a queue is.
    if (waits) {
      if (phase) end_unit(id);
      pending.erase(order_of(record.pod));
      return tell(record, {"Refused", {{"Queue", workload.error().text()}}});
    }
    workload = queueing::Workload{.id = id,
                                  .queue = kUnassignedQueue,
                                  .priority = record.pod.priority,
                                  .submitted = record.pod.meta.created,
                                  .portions = demand_of(record, wants),
                                  .runtime = {},
                                  .reservation = {}};
  }
  queued.status_dirty = true;
  const queueing::Workload* known = queues.workload(id);
  if (known != nullptr && known->queue != workload->queue) {
    end_unit(id);
    known = nullptr;
  }
  if (waits) {
    if (known == nullptr) return take_in(queues.submit(std::move(*workload), now));
    if (phase != Phase::kWaiting) queues.requeue(id, now);
    return queues.restate(id, std::move(workload->portions));
  }
  if (known == nullptr) {
    take_in(queues.adopt(std::move(*workload), *since, now));
  } else if (phase != Phase::kRunning) {
    if (queued.holds.contains(id)) give_up_hold(id);
    if (queues.phase(id) != Phase::kWaiting) queues.requeue(id, now);
    queues.restate(id, std::move(workload->portions));
    queues.start(id, now);
  }
  note_victim(record, wants);
}

void Reconciler::Impl::take_in(const Result<void>& answer) const {
  if (!answer) log.error("a unit of work is not counted", {{"error", answer.error().text()}});
}

// It runs: what it would give back if it were evicted.
void Reconciler::Impl::note_victim(const PodRecord& record, const Wants& wants) {
  const std::string id = unit_id(record);
  const queueing::Workload* workload = queued.queues->workload(id);
  if (workload == nullptr) return;
  engine::VictimHoldings& holdings = queued.holdings[id];
  holdings = {{record.pod.meta.uid}, {}};
  queueing::Victim victim{.id = id,
                          .queue = workload->queue,
                          .priority = record.pod.priority,
                          .started = holds_since(record).value_or(record.pod.meta.created),
                          .cost = 0,
                          .site = record.pod.node_name,
                          .leaving = record.pod.meta.deleting};
  for (const Want& want : wants.ours) {
    const bool alone =
        want.claim == nullptr ||
        std::all_of(want.claim->reserved_for.begin(), want.claim->reserved_for.end(),
                    [&](const model::ConsumerReference& user) { return user.uid == record.pod.meta.uid; });
    if (alone) holdings.claim_uids.push_back(want.key);
    const model::Allocation* allocation = ledger.planned(want.key);
    if (allocation == nullptr && want.allocated()) allocation = &*want.claim->allocation;
    if (allocation != nullptr && victim.site.empty()) victim.site = model::allocated_node(*allocation).value_or("");
  }
  for (const queueing::Portion& portion : workload->portions) victim.cost += portion.milli_devices;
  queued.preemptions->upsert(std::move(victim));
}

// The pod is gone. Its unit ends when its devices are free.
void Reconciler::Impl::leave_queue(const PodRecord& record) {
  if (!queued.queues) return;
  const std::string id = unit_id(record);
  std::set<std::string> held;
  for (const Want& want : wants_of(record).ours) {
    if (want.allocated() && counts_for(record, want)) held.insert(want.key);
  }
  const auto phase = queued.queues->phase(id);
  if (held.empty() || (phase != Phase::kRunning && phase != Phase::kLeaving)) return end_unit(id);
  for (const std::string& key : held) queued.ghost_of[key] = id;
  queued.ghosts[id] = std::move(held);
}

void Reconciler::Impl::claim_of_ghost_changed(const std::string& key) {
  const auto ghost = queued.ghost_of.find(key);
  if (ghost == queued.ghost_of.end()) return;
  const model::ResourceClaim* claim = ledger.find(key);
  if (claim != nullptr && claim->allocation) return;
  const std::string id = ghost->second;
  queued.ghost_of.erase(ghost);
  std::set<std::string>& held = queued.ghosts[id];
  held.erase(key);
  if (!held.empty()) return;
  queued.ghosts.erase(id);
  end_unit(id);
  if (find(id) != nullptr) dirty.insert(id);
}

// It is over, for the queues and for those that wait for its room.
void Reconciler::Impl::end_unit(const std::string& id) {
  if (!queued.queues) return;
  const Time now = clock.now();
  for (const std::string& preemptor : queued.preemptions->gone(id, now)) room_made(preemptor);
  if (queued.holds.contains(id)) give_up_hold(id);
  queued.preemptions->remove(id);
  queued.holdings.erase(id);
  queued.queues->remove(id, now);
  ++queued.version;
  queued.status_dirty = true;
}

// What quota says to the devices that were chosen for it; when nothing, it has started.
std::optional<engine::Reason> Reconciler::Impl::over_queue(const PodRecord& record, const std::vector<Want>& open,
                                                           const engine::Assigned& outcome) {
  if (!queued.queues) return std::nullopt;
  queueing::Queues& queues = *queued.queues;
  const std::string id = unit_id(record);
  const queueing::Workload* workload = queues.workload(id);
  if (workload == nullptr) return engine::Reason{"Queue", "the pod is in no queue yet"};
  const std::vector<queueing::Portion> before = workload->portions;
  std::vector<queueing::Portion> demand;
  for (size_t i = 0; i < open.size(); ++i) {
    if (!counts_for(record, open[i])) continue;
    const model::ClaimSpec& spec = open[i].request != nullptr ? open[i].request->spec : open[i].claim->spec;
    for (queueing::Portion& portion : engine::granted(ledger.state(), spec, outcome.allocations[i])) {
      queued.table.fill_boxes(portion);
      demand.push_back(std::move(portion));
    }
  }
  const Time now = clock.now();
  if (queues.phase(id) == Phase::kHeld) queues.requeue(id, now);
  queues.restate(id, std::move(demand));
  if (auto reason = queues.refusal(id, now)) {
    queues.restate(id, before);
    queued.holds.erase(id);
    return engine::Reason{reason->code, std::move(reason->message)};
  }
  queues.start(id, now);
  ++queued.started[workload->queue];
  queued.holds.erase(id);
  queued.status_dirty = queued.rooms_stale = true;
  return std::nullopt;
}

// Quota refused devices of this kind: the nodes that have some are left out. False when that cannot help.
bool Reconciler::Impl::avoid_kind(const engine::Assigned& outcome, const std::vector<Want>& open,
                                  engine::PlacementRequest& request) const {
  if (!queued.queues) return false;
  bool any = false;
  for (size_t i = 0; i < open.size(); ++i) {
    const model::ClaimSpec& spec = open[i].request != nullptr ? open[i].request->spec : open[i].claim->spec;
    for (const queueing::Portion& portion : engine::granted(ledger.state(), spec, outcome.allocations[i])) {
      for (const engine::FleetPart& part : queued.fleet) {
        if (part.vendor != portion.vendor || part.model != portion.model) continue;
        any = request.held_nodes.insert(part.node).second || any;
      }
    }
  }
  return any;
}

// Nodes that the unit may not use because of what others are promised.
void Reconciler::Impl::close_nodes(const PodRecord& record, engine::PlacementRequest& request) {
  const std::string id = unit_id(record);
  for (const auto& [unit, hold] : queued.holds) {
    if (unit != id && !hold.site.empty()) request.held_nodes.insert(hold.site);
  }
  keep_boxes(record, request);
}

// Where it stands, behind the reasons why it does not start.
void Reconciler::Impl::add_position(const PodRecord& record, Telling& telling) const {
  std::erase_if(telling.reasons, [](const engine::Reason& reason) { return reason.code == kPosition; });  // told again
  if (!queued.queues || telling.outcome != "Waiting") return;
  const auto place = queued.positions.find(unit_id(record));
  if (place == queued.positions.end()) return;
  const auto& [queue, counted] = place->second;
  const auto started = queued.started.find(queue);  // most of them stood before it
  const size_t position = counted - std::min(started == queued.started.end() ? 0 : started->second, counted - 1);
  const std::string where = position <= kPositionsTold ? fmt::format("number {}", position)
                                                       : fmt::format("behind more than {} others", kPositionsTold);
  telling.reasons.push_back({kPosition, fmt::format("{} in queue {}", where, queue)});
}

void Reconciler::Impl::number_positions() {
  queued.positions.clear();
  queued.started.clear();
  const Time now = clock.now();
  const auto number = [&](const std::string& queue) {
    size_t position = 0;
    for (const std::string& id : queued.queues->waiting(queue, now)) queued.positions[id] = {queue, ++position};
  };
  number(kUnassignedQueue);
  for (const auto& [name, spec] : queued.table.in_force()) {
    if (queued.table.leaf(name)) number(name);
  }
}

// As place_pending(), in the order of the queues.
void Reconciler::Impl::place_queued() {
  place_held();
  if (!std::exchange(pass_due, false) && passed_version == placement_version()) return;
  passed_version = placement_version();
  number_positions();
  queued.rooms_stale = true;
  const int64_t monotonic = clock.monotonic_nanos();
  std::map<std::string, engine::Outcome> answers;
  std::vector<std::string> without_room;
  std::set<std::string> offered;
  {
    queueing::Queues::Pass pass = queued.queues->pass(clock.now());
    while (const auto offer = pass.next()) {
      offered.insert(offer->id);
      PodRecord* record = find(offer->id);
      if (record == nullptr) continue;
      const bool busy = record->in_flight > 0 || record->retry_at > monotonic;
      const bool known = record->refused_version == placement_version() && record->refused_version != 0;
      if (!busy && !known) place(*record, answers);
      if (queued.queues->phase(offer->id) != Phase::kWaiting) continue;
      const bool hopeless = record->telling.outcome == "Infeasible" || record->telling.outcome == "Refused";
      if (hopeless) continue;
      pass.refused(std::nullopt);
      if (!busy) without_room.push_back(offer->id);
    }
  }
  tell_not_offered(offered, without_room);
  plan_evictions(without_room);
  wake_for_queues();
}

// Those that quota, a reservation or older work holds back.
void Reconciler::Impl::tell_not_offered(const std::set<std::string>& offered, std::vector<std::string>& without_room) {
  const Time now = clock.now();
  number_positions();
  const std::vector<Order> order(pending.begin(), pending.end());
  for (const Order& entry : order) {
    PodRecord* record = find(std::get<2>(entry));
    if (record == nullptr || record->in_flight > 0) continue;
    const std::string id = unit_id(*record);
    if (offered.contains(id) || queued.queues->phase(id) != Phase::kWaiting) continue;
    auto reason = queued.queues->refusal(id, now);
    if (!reason) {
      tell(*record, {"Waiting", {{"Behind", "older work that has waited too long is to start first"}}});
      continue;
    }
    tell(*record, {"Waiting", {{reason->code, std::move(reason->message)}}});
    without_room.push_back(id);
  }
}

// Times at which the queues may say something else without an event: reservations begin and end, and work starves.
void Reconciler::Impl::wake_for_queues() {
  const Time now = clock.now();
  std::optional<Time> next;
  const auto consider = [&](Time at) {
    if (at > now && (!next || at < *next)) next = at;
  };
  for (const auto& [name, object] : queued.table.reservations()) {
    if (!object.reservation) continue;
    consider(object.reservation->start);
    consider(object.reservation->end);
  }
  if (!next || next->unix_nanos == queued.woken_for) return;
  queued.woken_for = next->unix_nanos;
  wake_at(clock.monotonic_nanos() + (*next - now).nanos, std::string(kQueueTimer));
}

}  // namespace heddle::controller
