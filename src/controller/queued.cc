// Units of work in their queues: what pods and claims say, told to queueing::Queues; and the order of trying.
#include <fmt/format.h>

#include <algorithm>

#include "codec/codec.h"
#include "controller/reconciler_impl.h"
#include "engine/box_map.h"

namespace heddle::controller {
namespace {

using queueing::Phase;

constexpr const char* kPosition = "Position";
constexpr size_t kPositionsTold = 20;  // further behind, the exact number would change all the time

}  // namespace

// The tree anew, with all units in it, when the objects or the fleet changed. Without any AcceleratorQueue it is one
// leaf, in which priority and age decide.
void Reconciler::Impl::refresh_queues() {
  Queued& q = queued;
  const bool objects = q.built_version != q.table.version();
  if (!objects && !std::exchange(q.fleet_due, false)) return;
  if (!objects && q.table.meters().empty()) return;  // no number of the tree depends on the fleet
  std::vector<engine::FleetPart> fleet = engine::fleet_of(ledger.state());
  for (engine::FleetPart& part : fleet) part.free = 0;
  q.table.settle();
  const auto wide_boxes = [&](const model::QuotaMeter& meter) {
    return engine::boxes_of_fleet(ledger.state(), options.topology, meter);
  };
  queueing::Amounts wide;
  for (const model::QuotaMeter& meter : q.table.meters()) {
    if (model::wider_than_a_node(meter)) wide.push_back(wide_boxes(meter));
  }
  if (!objects && fleet == q.fleet && wide == q.wide) return;
  q.fleet_due = false;
  q.fleet = std::move(fleet);
  q.wide = std::move(wide);
  q.built_version = q.table.version();
  queueing::Config config =
      q.table.config([&](const std::string& name) { return engine::fleet_of(ledger.state(), name); }, wide_boxes);
  if (q.queues) {
    for (auto& [name, past] : q.queues->past(clock.now())) config.past[name] = past;
  }
  if (!q.table.any()) config.patience.reset();  // whoever asks for no order but priority and age gets no other
  auto made = queueing::Queues::make(std::move(config));
  if (!made) {  // the table checks all that could be refused
    log.error("the tree of queues cannot be built", {{"error", made.error().text()}});
    return;
  }
  rebuild_works(std::move(*made));
}

void Reconciler::Impl::rebuild_works(queueing::Queues tree) {
  Queued& q = queued;
  q.preemptions.reset();
  q.queues.emplace(std::move(tree));
  q.preemptions = std::make_unique<queueing::Preemptions>(*q.queues);
  q.asked.clear();
  q.holdings.clear();
  q.works.clear();
  q.work_of.clear();
  q.ghost_of.clear();
  q.reform.clear();
  q.resync.clear();
  for (const auto& [key, record] : pods) {
    (void)work_of(record);
    if (!holds_since(record)) dirty.insert(key);  // what was refused may be good now
  }
  std::vector<std::tuple<bool, Time, std::string>> order;
  for (const auto& [id, work] : q.works) {
    const auto since = work_since(work);
    order.emplace_back(!since, since.value_or(Time{}), id);
  }
  std::sort(order.begin(), order.end());
  for (const auto& [waits, since, id] : order) sync_work(id);
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
  for (const auto& [id, hold] : queued.holds) ledger.state().free_room(id);
  queued = Queued{};
  queued.table = std::move(table);
  queued.plain = std::move(plain);
  queued.version = version + 1;
  pass_due = true;
  for (const auto& [key, record] : pods) {
    if (record.pod.node_name.empty()) dirty.insert(key);
  }
}

// After these pods changed: what the objects show of their works, told to the queues.
void Reconciler::Impl::sync_queues(const std::set<std::string>& pod_keys) {
  if (!queued.queues) return;
  for (const std::string& key : pod_keys) {
    PodRecord* record = find(key);
    if (record == nullptr) continue;
    if (const Work* work = work_of(*record); work != nullptr) {
      queued.resync.insert(work->id);
    } else if (pending.contains(order_of(record->pod))) {
      tell(*record, {"Waiting", {{"GangLeaving", "the earlier pods of its gang are on their way out"}}});
    }
  }
  for (const std::string& id : std::exchange(queued.resync, {})) sync_work(id);
}

void Reconciler::Impl::sync_work(const std::string& id) {
  const auto found = queued.works.find(id);
  if (found == queued.works.end()) return;
  const Work& work = found->second;
  if (!work.core && !work.ghosts.empty()) return;  // an earlier pod of that name still has devices
  queueing::Queues& queues = *queued.queues;
  const std::vector<PodRecord*> waiting = waiting_of(work);
  auto since = work_since(work);
  if (queues.phase(id) == Phase::kLeaving) {
    if (since) return note_victim(work);
    if (!work.ghosts.empty()) return;
    end_work(id);
    if (work.core) return;  // it is formed anew
  }
  if (!work.core && !waiting.empty()) since.reset();  // a part of a pod is nothing
  if (!since && (waiting.empty() || !may_queue(work, waiting))) {
    if (queues.phase(id)) end_work(id);
    return;
  }
  if (queues.phase(id) == Phase::kHeld && !since) return;
  StatedWork stated = workload_of(work);
  if (stated.refused && !since) {
    if (queues.phase(id)) end_work(id);
    for (PodRecord* record : waiting) {
      pending.erase(order_of(record->pod));
      tell(*record, {"Refused", {{"Queue", stated.refused->text()}}});
    }
    return;
  }
  queued.status_dirty = true;
  const queueing::Workload* known = queues.workload(id);
  const bool other_policy = known != nullptr && known->never_preempts != stated.workload.never_preempts;
  if (known != nullptr && (known->queue != stated.workload.queue || (other_policy && !since))) end_work(id);
  if (since) return sync_running(work, std::move(stated.workload), *since);
  sync_waiting(work, std::move(stated.workload));
}

void Reconciler::Impl::sync_waiting(const Work& work, queueing::Workload workload) {
  queueing::Queues& queues = *queued.queues;
  const Time now = clock.now();
  const auto phase = queues.phase(work.id);
  if (!phase) return take_in(queues.submit(std::move(workload), now));
  if (phase != Phase::kWaiting) {  // what it had has gone back
    if (phase == Phase::kRunning && queued.holds.contains(work.id)) give_up_hold(work.id, "withdrawn");
    queues.requeue(work.id, now);
    queued.preemptions->remove(work.id);
    queued.holdings.erase(work.id);
    queued.works.at(work.id).kept.clear();
  }
  queues.restate(work.id, std::move(workload.portions));
}

void Reconciler::Impl::sync_running(const Work& work, queueing::Workload workload, Time since) {
  queueing::Queues& queues = *queued.queues;
  const Time now = clock.now();
  const auto phase = queues.phase(work.id);
  if (work.core && phase != Phase::kRunning) invite_growth(work);
  if (!phase) {
    take_in(queues.adopt(std::move(workload), since, now));
  } else if (phase != Phase::kRunning) {
    if (queued.holds.contains(work.id)) give_up_hold(work.id, "withdrawn");
    if (queues.phase(work.id) != Phase::kWaiting) queues.requeue(work.id, now);
    queues.restate(work.id, std::move(workload.portions));
    queues.start(work.id, now);
  } else if (work.core && workload.portions != queues.workload(work.id)->portions &&
             !queues.refusal_of(work.id, workload.portions, now)) {
    queues.revise(work.id, std::move(workload.portions), now);
    ++queued.version;
  }
  note_victim(work);
}

void Reconciler::Impl::take_in(const Result<void>& answer) const {
  if (!answer) log.error("a unit of work is not counted", {{"error", answer.error().text()}});
}

// It runs: what it would give back if it were evicted.
void Reconciler::Impl::note_victim(const Work& work) {
  const queueing::Workload* workload = queued.queues->workload(work.id);
  if (workload == nullptr) return;
  engine::VictimHoldings& holdings = queued.holdings[work.id];
  holdings = {};
  queueing::Victim victim{.id = work.id,
                          .queue = workload->queue,
                          .priority = workload->priority,
                          .started = work_since(work).value_or(workload->submitted),
                          .cost = 0,
                          .site = {},
                          .leaving = false,
                          .sites = {}};
  std::set<std::string> sites;
  for (const PodRecord* record : holders_of(work)) {
    const model::Pod& pod = record->pod;
    holdings.pod_uids.push_back(pod.meta.uid);
    victim.leaving = victim.leaving || pod.meta.deleting;  // a gang without a member is lost already
    std::string site = pod.node_name;
    for (const Want& want : wants_of(*record).ours) {
      const bool alone = want.claim == nullptr ||
                         std::all_of(want.claim->reserved_for.begin(), want.claim->reserved_for.end(),
                                     [&](const model::ConsumerReference& user) { return user.uid == pod.meta.uid; });
      if (alone) holdings.claim_uids.push_back(want.key);
      const model::Allocation* allocation = ledger.planned(want.key);
      if (allocation == nullptr && want.allocated()) allocation = &*want.claim->allocation;
      if (allocation != nullptr && site.empty()) site = model::allocated_node(*allocation).value_or("");
    }
    sites.insert(std::move(site));
  }
  if (sites.size() == 1) victim.site = *sites.begin();
  if (sites.size() > 1) victim.sites.assign(sites.begin(), sites.end());
  for (const queueing::Portion& portion : workload->portions) victim.cost += portion.milli_devices;
  queued.preemptions->upsert(std::move(victim));
}

// It is over, for the queues and for those that wait for its room.
void Reconciler::Impl::end_work(const std::string& id) {
  if (!queued.queues) return;
  const Time now = clock.now();
  for (const std::string& preemptor : queued.preemptions->gone(id, now)) room_made(preemptor);
  if (queued.holds.contains(id)) give_up_hold(id, "withdrawn");
  queued.preemptions->remove(id);
  queued.holdings.erase(id);
  queued.queues->remove(id, now);
  if (const auto work = queued.works.find(id); work != queued.works.end() && work->second.core)
    queued.reform.insert(work->second.unit);
  ++queued.version;
  queued.status_dirty = true;
}

std::optional<engine::Reason> Reconciler::Impl::admit(const std::string& id, std::vector<queueing::Portion> demand) {
  queueing::Queues& queues = *queued.queues;
  const queueing::Workload* workload = queues.workload(id);
  if (workload == nullptr) return engine::Reason{"Queue", "the pod is in no queue yet"};
  const Time now = clock.now();
  if (queues.phase(id) == Phase::kRunning) {  // a member is replaced, or what was begun before a restart goes on
    if (auto reason = queues.refusal_of(id, demand, now))
      return engine::Reason{reason->code, std::move(reason->message)};
    queues.revise(id, std::move(demand), now);
    drop_hold(id);
    queued.status_dirty = queued.rooms_stale = true;
    return std::nullopt;
  }
  std::vector<queueing::Portion> before = workload->portions;
  if (queues.phase(id) == Phase::kHeld) queues.requeue(id, now);
  queues.restate(id, std::move(demand));
  if (auto reason = queues.refusal(id, now)) {
    queues.restate(id, std::move(before));
    drop_hold(id);
    return engine::Reason{reason->code, std::move(reason->message)};
  }
  queues.start(id, now);
  ++queued.started[workload->queue];
  drop_hold(id);
  queued.status_dirty = queued.rooms_stale = true;
  return std::nullopt;
}

void Reconciler::Impl::add_granted(const PodRecord& record, const std::vector<Want>& open,
                                   const engine::Assigned& outcome, std::vector<queueing::Portion>& demand) {
  for (size_t i = 0; i < open.size(); ++i) {
    if (!counts_for(record, open[i])) continue;
    const model::ClaimSpec& spec = open[i].request != nullptr ? open[i].request->spec : open[i].claim->spec;
    for (queueing::Portion& portion : engine::granted(ledger.state(), spec, outcome.allocations[i])) {
      queued.table.fill_boxes(portion);
      demand.push_back(std::move(portion));
    }
  }
}

std::optional<engine::Reason> Reconciler::Impl::over_queue(const PodRecord& record, const std::vector<Want>& open,
                                                           const engine::Assigned& outcome) {
  std::vector<queueing::Portion> demand = demand_of(record, true);
  add_granted(record, open, outcome, demand);
  return admit(work_id(record), std::move(demand));
}

// With the sum of the plan, and what members have already.
std::optional<engine::Reason> Reconciler::Impl::gang_over_queue(const Work& work, const GangAsk& ask,
                                                                const engine::GangAssigned& outcome) {
  std::vector<queueing::Portion> demand;
  std::set<const PodRecord*> planned;
  for (size_t i = 0; i < ask.members.size(); ++i) {
    if (!outcome.members[i]) continue;
    add_granted(*ask.members[i].record, ask.members[i].open, *outcome.members[i], demand);
    planned.insert(ask.members[i].record);
  }
  for (const std::string& key : work.members) {
    const PodRecord* record = find(key);
    if (record == nullptr) continue;
    for (queueing::Portion& portion : demand_of(*record, planned.contains(record)))
      demand.push_back(std::move(portion));
  }
  if (const Unit* unit = units.find(work.unit); unit != nullptr && work.core) count_as_one(*unit, work, demand);
  return admit(work.id, std::move(demand));
}

// Quota refused devices of this kind: the nodes that have some are left out. False when that cannot help.
bool Reconciler::Impl::avoid_kind(const engine::Assigned& outcome, const std::vector<Want>& open,
                                  engine::PlacementRequest& request) const {
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
  const std::string id = work_id(record);
  for (const auto& [unit, hold] : queued.holds) {
    if (unit != id) request.held_nodes.insert(hold.sites.begin(), hold.sites.end());
  }
  keep_boxes(record, request);
}

// Where it stands, behind the reasons why it does not start.
void Reconciler::Impl::add_position(const PodRecord& record, Telling& telling) const {
  std::erase_if(telling.reasons, [](const engine::Reason& reason) { return reason.code == kPosition; });  // told again
  if (!queued.table.any() || telling.outcome != "Waiting") return;
  const auto place = queued.positions.find(work_id(record));
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

// Members of what runs, or of what was begun before a restart: it has its quota. The works of those that found no room.
std::vector<std::string> Reconciler::Impl::place_started() {
  std::set<std::string> started;
  for (const Order& entry : pending) {
    const auto work = queued.work_of.find(std::get<2>(entry));
    if (work != queued.work_of.end() && queued.queues->phase(work->second) == Phase::kRunning)
      started.insert(work->second);
  }
  std::map<std::string, engine::Outcome> answers;
  std::vector<std::string> without_room;
  for (const std::string& id : started) {
    const Work& work = queued.works.at(id);
    if (busy(work) || queued.holds.contains(id)) continue;
    if (worth_trying(work)) place_work(work, answers);
    if (work.core && !waiting_of(work).empty()) without_room.push_back(id);
  }
  return without_room;
}

// A gang is tried when no write of a member is under way; a further member of one by itself.
bool Reconciler::Impl::busy(const Work& work) {
  const int64_t now = clock.monotonic_nanos();
  const auto at_work = [&](const std::string& key) {
    const PodRecord* record = find(key);
    if (record == nullptr || !record->pod.node_name.empty()) return false;
    const bool waits = pending.contains(order_of(record->pod));
    return record->in_flight > 0 || (work.core && record->clearing) || (waits && record->retry_at > now);
  };
  const Unit* unit = work.core ? units.find(work.unit) : nullptr;
  if (unit != nullptr) return std::any_of(unit->members.begin(), unit->members.end(), at_work);
  return std::any_of(work.members.begin(), work.members.end(), at_work);
}

bool Reconciler::Impl::worth_trying(const Work& work) {
  const std::vector<PodRecord*> waiting = waiting_of(work);
  return std::any_of(waiting.begin(), waiting.end(), [&](const PodRecord* record) {
    return record->refused_version == 0 || record->refused_version != placement_version();
  });
}

void Reconciler::Impl::place_work(const Work& work, std::map<std::string, engine::Outcome>& answers) {
  const Unit* unit = units.find(work.unit);
  if (unit != nullptr && unit->gang) return place_gang(*unit, work, answers);
  if (PodRecord* record = find(work.id); record != nullptr) place(*record, answers);
}

// Further members of a gang are asked for once it has started.
void Reconciler::Impl::invite_growth(const Work& core) {
  const Unit* unit = units.find(core.unit);
  if (unit == nullptr) return;
  for (const PodRecord* record : waiting_members(*unit, nullptr)) {
    if (!core.members.contains(record->pod.meta.key())) dirty.insert(record->pod.meta.key());
  }
}

// The waiting pods, in the order of the queues.
void Reconciler::Impl::place_pending() {
  queued.rooms_stale = true;
  place_held();
  if (!std::exchange(pass_due, false) && passed_version == placement_version()) return;
  passed_version = placement_version();
  std::vector<std::string> without_room = place_started();
  number_positions();
  std::map<std::string, engine::Outcome> answers;
  std::set<std::string> offered;
  {
    queueing::Queues::Pass pass = queued.queues->pass(clock.now());
    while (const auto offer = pass.next()) {
      offered.insert(offer->id);
      const auto work = queued.works.find(offer->id);
      if (work == queued.works.end()) continue;
      const bool is_busy = busy(work->second);
      if (!is_busy && worth_trying(work->second)) place_work(work->second, answers);
      if (queued.queues->phase(offer->id) != Phase::kWaiting) continue;
      const std::vector<PodRecord*> waiting = waiting_of(work->second);
      const bool hopeless = std::any_of(waiting.begin(), waiting.end(), [](const PodRecord* record) {
        return record->telling.outcome == "Infeasible" || record->telling.outcome == "Refused";
      });
      if (hopeless) continue;
      pass.refused(std::nullopt);
      if (!is_busy) without_room.push_back(offer->id);
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
  std::set<std::string> held_back;
  for (const Order& entry : order) {
    PodRecord* record = find(std::get<2>(entry));
    if (record == nullptr || record->in_flight > 0) continue;
    const std::string id = work_id(*record);
    if (offered.contains(id) || queued.queues->phase(id) != Phase::kWaiting) continue;
    auto reason = queued.queues->refusal(id, now);
    if (!reason) {
      tell(*record, {"Waiting", {{"Behind", "older work that has waited too long is to start first"}}});
      continue;
    }
    tell(*record, {"Waiting", {{reason->code, std::move(reason->message)}}});
    if (held_back.insert(id).second) without_room.push_back(id);
  }
}

void Reconciler::Impl::queue_timer() {
  ++queued.version;
  for (auto& [id, work] : queued.works) {
    if (work.kept.empty() || work.kept_until > clock.monotonic_nanos()) continue;
    work.kept.clear();
    queued.resync.insert(id);
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
