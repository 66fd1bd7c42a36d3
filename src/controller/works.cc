// Units as the works that queues know: which pods are one workload, what it asks for and holds, and how long it lasts.
//
// A gang is one work with the members that it cannot start without, its core, and one work for each further member:
// those are asked for one by one, may be taken back one by one, and go with the core. Which members are the core is
// kept while it runs, so that a further member takes the place of one that died; after a restart those that have had
// their devices the longest are it.
#include <fmt/format.h>

#include <algorithm>

#include "codec/codec.h"
#include "controller/reconciler_impl.h"

namespace heddle::controller {
namespace {

using queueing::Phase;

std::string label_of(const model::Pod& pod, std::string_view name) {
  const auto found = pod.meta.labels.find(std::string(name));
  return found == pod.meta.labels.end() ? std::string() : found->second;
}

}  // namespace

// The members that the gang cannot start without. What the core has already stays in it once it counts.
std::set<std::string> Reconciler::Impl::core_of(const Unit& unit) {
  const auto phase = queued.queues->phase(unit.id);
  const bool fixed = phase == Phase::kRunning || phase == Phase::kHeld;
  return core_members(unit, [&](const std::string& key) -> MemberStanding {
    const PodRecord* record = find(key);
    if (record == nullptr) return {MemberStanding::Part::kAsksNothing, {}};
    const auto own = queued.work_of.find(key);
    if (fixed && own != queued.work_of.end() && own->second == unit.id) return {MemberStanding::Part::kCore, {}};
    if (own != queued.work_of.end() && queued.queues->phase(own->second) == Phase::kLeaving)
      return {MemberStanding::Part::kLeaving, {}};
    return {MemberStanding::Part::kOpen, holds_since(*record)};
  });
}

// What is leaving is left alone: pods that have come meanwhile are formed into works when it has gone.
void Reconciler::Impl::form_works(const std::string& unit_id) {
  const Unit* unit = units.find(unit_id);
  if (unit == nullptr || !queued.queues) return;
  std::set<std::string> core;
  if (unit->gang) {
    if (queued.queues->phase(unit_id) == Phase::kLeaving) return;
    if (!starts_one_by_one(*unit)) core = core_of(*unit);
  }
  for (const std::string& key : unit->members) {
    if (find(key) == nullptr) continue;
    join(key, core.contains(key) ? unit_id : key, unit_id, !core.empty());
  }
}

void Reconciler::Impl::form_due() {
  for (const std::string& id : std::exchange(queued.reform, {})) {
    form_works(id);
    const Unit* unit = units.find(id);
    if (unit != nullptr) dirty.insert(unit->members.begin(), unit->members.end());
  }
}

void Reconciler::Impl::join(const std::string& pod_key, const std::string& id, const std::string& unit, bool has_core) {
  const bool core = has_core && id == unit;
  const bool growth = has_core && id != unit;
  const auto known = queued.work_of.find(pod_key);
  if (known != queued.work_of.end() && known->second == id) {
    const Work& work = queued.works.at(id);
    if (work.unit == unit && work.core == core && work.growth == growth) return;
  }
  if (known != queued.work_of.end()) leave_work(pod_key);
  Work& work = queued.works[id];
  work.id = id;
  work.unit = unit;
  work.core = core;
  work.growth = growth;
  work.members.insert(pod_key);
  queued.work_of[pod_key] = id;
  queued.resync.insert(id);
}

// The pod belongs to its work no more. A work without pods ends when its devices are free.
void Reconciler::Impl::leave_work(const std::string& pod_key) {
  const auto known = queued.work_of.find(pod_key);
  if (known == queued.work_of.end()) return;
  const std::string id = known->second;
  queued.work_of.erase(known);
  Work& work = queued.works.at(id);
  work.members.erase(pod_key);
  if (work.members.empty() && work.ghosts.empty()) {
    end_work(id);
    queued.works.erase(id);
  } else {
    queued.resync.insert(id);
  }
}

// The work of a pod. Null: a gang of that name is on its way out, and the pod is of the next one.
Work* Reconciler::Impl::work_of(const PodRecord& record) {
  const std::string key = record.pod.meta.key();
  const Unit* unit = units.unit_of(key);
  if (!queued.work_of.contains(key) && unit != nullptr) form_works(unit->id);
  const bool gang = unit != nullptr && unit->gang;
  if (!queued.work_of.contains(key)) {
    // On its way out, or over: it is counted where it still has devices.
    if (gang && !holds_since(record)) return nullptr;
    const bool with_core = gang && queued.works.contains(unit->id);
    join(key, with_core ? unit->id : key, gang ? unit->id : key, with_core);
  }
  return &queued.works.at(queued.work_of.at(key));
}

std::string Reconciler::Impl::work_id(const PodRecord& record) const {
  const std::string key = record.pod.meta.key();
  const auto known = queued.work_of.find(key);
  return known == queued.work_of.end() ? key : known->second;
}

// For messages.
std::string Reconciler::Impl::work_name(const std::string& id) const {
  const auto work = queued.works.find(id);
  if (work == queued.works.end() || !work->second.core) return id;
  return fmt::format("gang {}/{}", id.substr(0, id.find('/')), id.substr(id.rfind('/') + 1));
}

// The pod is gone. Its work ends when its devices are free.
void Reconciler::Impl::leave_queue(const PodRecord& record) {
  if (!queued.queues) return;
  const std::string key = record.pod.meta.key();
  const auto known = queued.work_of.find(key);
  if (known == queued.work_of.end()) return;
  Work& work = queued.works.at(known->second);
  const auto phase = queued.queues->phase(work.id);
  if (phase == Phase::kRunning || phase == Phase::kLeaving) {
    for (const Want& want : wants_of(record).ours) {
      if (!want.allocated() || !counts_for(record, want)) continue;
      work.ghosts.insert(want.key);
      queued.ghost_of[want.key] = work.id;
    }
  }
  if (phase == Phase::kRunning && work.core && !record.pod.finished()) {
    work.kept.push_back(demand_of(record, true));
    work.kept_until = clock.monotonic_nanos() + options.gang_patience.nanos;
    wake_at(work.kept_until, std::string(kQueueTimer));
  }
  leave_work(key);
}

void Reconciler::Impl::claim_of_ghost_changed(const std::string& key) {
  const auto ghost = queued.ghost_of.find(key);
  if (ghost == queued.ghost_of.end()) return;
  const model::ResourceClaim* claim = ledger.find(key);
  if (claim != nullptr && claim->allocation) return;
  const std::string id = ghost->second;
  queued.ghost_of.erase(ghost);
  Work& work = queued.works.at(id);
  work.ghosts.erase(key);
  queued.resync.insert(id);
  if (!work.ghosts.empty()) return;
  if (work.members.empty() || !work.core) end_work(id);
  if (work.members.empty()) queued.works.erase(id);
}

std::vector<PodRecord*> Reconciler::Impl::waiting_of(const Work& work) {
  std::vector<PodRecord*> waiting;
  for (const std::string& key : work.members) {
    PodRecord* record = find(key);
    if (record != nullptr && pending.contains(order_of(record->pod))) waiting.push_back(record);
  }
  return waiting;
}

std::vector<PodRecord*> Reconciler::Impl::holders_of(const Work& work) {
  std::vector<PodRecord*> holders;
  for (const std::string& key : work.members) {
    PodRecord* record = find(key);
    if (record != nullptr && holds_since(*record)) holders.push_back(record);
  }
  return holders;
}

// A claim that several pods use is counted once, for the first of them.
bool Reconciler::Impl::counts_for(const PodRecord& record, const Want& want) {
  if (want.request != nullptr || want.claim == nullptr || want.claim->reserved_for.empty()) return true;
  return want.claim->reserved_for.front().uid == record.pod.meta.uid;
}

std::vector<queueing::Portion> Reconciler::Impl::demand_of(const PodRecord& record, bool only_held) {
  const Wants wants = wants_of(record);
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
    if (only_held) continue;
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

std::optional<Time> Reconciler::Impl::work_since(const Work& work) const {
  std::optional<Time> since;
  for (const std::string& key : work.members) {
    const auto record = pods.find(key);
    const auto own = record == pods.end() ? std::nullopt : holds_since(record->second);
    if (own) since = since ? std::min(*since, *own) : *own;
  }
  return since;
}

// Quota of members that died, until others have come in their place.
void Reconciler::Impl::keep_for_the_dead(const Unit& unit, const Work& core,
                                         std::vector<queueing::Portion>& demand) const {
  if (core.kept.empty() || clock.monotonic_nanos() >= core.kept_until) return;
  const auto there = std::count_if(unit.members.begin(), unit.members.end(), [&](const std::string& key) {
    return core.members.contains(key) || !pods.contains(key);
  });
  const int64_t missing =
      std::min<int64_t>(unit.minimum - unit.succeeded - there, static_cast<int64_t>(core.kept.size()));
  for (int64_t i = 0; i < missing; ++i) {
    const std::vector<queueing::Portion>& portions = core.kept[core.kept.size() - 1 - static_cast<size_t>(i)];
    demand.insert(demand.end(), portions.begin(), portions.end());
  }
}

// What a gang takes as one unit: with those that died, and in boxes wider than a node.
void Reconciler::Impl::count_as_one(const Unit& unit, const Work& core, std::vector<queueing::Portion>& demand) const {
  keep_for_the_dead(unit, core, demand);
  queued.table.fill_wide_boxes(demand, {unit.required, unit.segment_level, unit.segment_size}, options.topology);
}

// Of a gang, the first member by rank says the queue and the reservation.
StatedWork Reconciler::Impl::workload_of(const Work& work) {
  const Unit* unit = units.find(work.unit);
  const bool gang = unit != nullptr && unit->gang && !unit->members.empty();
  std::vector<std::string> ranked = gang ? unit->members : std::vector<std::string>();
  ranked.insert(ranked.end(), work.members.begin(), work.members.end());  // also those that are on their way out
  StatedWork stated;
  queueing::Workload& workload = stated.workload;
  workload = {.id = work.id,
              .queue = kUnassignedQueue,
              .submitted = {},
              .portions = {},
              .runtime = {},
              .reservation = {},
              .growth = work.growth,
              .never_preempts = false};
  const model::Pod* first = nullptr;
  bool ends = true;
  std::set<std::string> seen;
  for (const std::string& key : ranked) {
    const PodRecord* record = find(key);
    if (record == nullptr || !work.members.contains(key) || !seen.insert(key).second) continue;
    const model::Pod& pod = record->pod;
    if (first == nullptr) first = &pod;
    ends = ends && pod.active_deadline.has_value();
    if (ends)
      workload.runtime = std::max(workload.runtime.value_or(Duration{}), Duration::seconds(*pod.active_deadline));
    for (queueing::Portion& portion : demand_of(*record, false)) workload.portions.push_back(std::move(portion));
  }
  if (!ends) workload.runtime.reset();
  if (first == nullptr) return stated;
  if (gang && work.core) count_as_one(*unit, work, workload.portions);
  workload.priority = gang ? unit->priority : first->priority;
  workload.never_preempts = gang ? unit->never_preempts : first->never_preempts;
  workload.submitted = gang && work.core ? unit->submitted : first->meta.created;
  // Where there are no queues, or no reservations, a label of one says nothing.
  const QueueTable& table = queued.table;
  auto queue = table.queue_of(first->meta.name_space, table.any() ? label_of(*first, kQueueLabel) : std::string());
  std::string reservation = table.any() || !table.reservations().empty() ? label_of(*first, kReservationLabel) : "";
  Result<void> allowed;
  if (queue && !reservation.empty()) allowed = queued.table.may_use(reservation, first->meta.name_space, *queue);
  if (!queue || !allowed) {
    stated.refused = queue ? allowed.error() : queue.error();
    return stated;
  }
  workload.queue = std::move(*queue);
  workload.reservation = std::move(reservation);
  return stated;
}

// A gang is in its queue when it could start, quota and room apart; a further member when the core runs. Else says why
// not.
bool Reconciler::Impl::may_queue(const Work& work, const std::vector<PodRecord*>& waiting) {
  if (!work.core) return !work.growth || queued.queues->phase(work.unit) == Phase::kRunning;
  const Unit* unit = units.find(work.unit);
  if (unit == nullptr) return false;
  std::optional<engine::Reason> reason = unit->blocked;
  const int64_t missing = unit->minimum - whole_members(*unit, gangs[unit->id]) - static_cast<int64_t>(waiting.size());
  if (!reason && missing > 0) reason = gang_incomplete(*unit, missing);
  if (!reason) return true;
  tell_gang(*unit, nullptr, {"Waiting", {std::move(*reason)}});
  return false;
}

}  // namespace heddle::controller
