// Making room: plans of who gives way, evictions, and the room that is held until the one it was made for has started.
#include <fmt/format.h>

#include <algorithm>

#include "base/key_text.h"
#include "controller/objects.h"
#include "controller/reconciler_impl.h"
#include "engine/gang_eviction.h"
#include "engine/kind_quota.h"

namespace heddle::controller {
namespace {

using queueing::Phase;

constexpr size_t kPlansAPass = 64;                 // searches for victims
constexpr size_t kNamedVictims = 5;                // in messages
constexpr int kMostDoublings = 6;                  // of the pause between two tries of an eviction
constexpr int64_t kRefusalNanos = 30'000'000'000;  // a victim that a budget protects is not asked again before

bool protected_by_budget(const Error& error) {
  return error.message.find("disruption budget") != std::string::npos ||
         error.message.find("PodDisruptionBudget") != std::string::npos;
}

std::string list(const std::vector<std::string>& names) {
  if (names.size() <= kNamedVictims) return fmt::format("{}", fmt::join(names, ", "));
  const std::vector<std::string> first(names.begin(), names.begin() + kNamedVictims);
  return fmt::format("{} and {} more", fmt::join(first, ", "), names.size() - kNamedVictims);
}

}  // namespace

// Pods without devices, which a unit of higher priority may push aside for their cpu and memory.
void Reconciler::Impl::note_plain_pod(const model::Pod& pod) {
  const std::string key = pod.meta.key();
  const bool candidate = !pod.node_name.empty() && !pod.finished() && !comes_back_at_once(pod);
  if (!candidate) return forget_plain_pod(key);
  queueing::Victim victim{.id = key,
                          .queue = {},
                          .priority = pod.priority,
                          .started = pod.meta.created,
                          .cost = 0,
                          .site = pod.node_name,
                          .leaving = pod.meta.deleting,
                          .sites = {}};
  const auto known = queued.plain.find(key);
  if (known != queued.plain.end() && known->second.victim == victim && known->second.uid == pod.meta.uid) return;
  queued.plain[key] = {victim, pod.meta.uid};
  if (!queued.queues) return;
  queued.holdings[key] = {{pod.meta.uid}, {}};
  queued.preemptions->upsert(std::move(victim));
}

void Reconciler::Impl::forget_plain_pod(const std::string& key) {
  if (queued.plain.erase(key) == 0 || !queued.queues) return;
  for (const std::string& preemptor : queued.preemptions->gone(key, clock.now())) room_made(preemptor);
  queued.preemptions->remove(key);
  queued.holdings.erase(key);
}

void Reconciler::Impl::room_made(const std::string& preemptor) {
  const auto hold = queued.holds.find(preemptor);
  if (hold == queued.holds.end()) return;
  hold->second.ready = true;
  ++stats.plans["made_room"];
  ++queued.version;
  const auto work = queued.works.find(preemptor);
  if (work == queued.works.end()) return;
  for (PodRecord* record : waiting_of(work->second)) record->refused_version = 0;
}

// Those for which all victims have gone start first, where room was made for them.
void Reconciler::Impl::place_held() {
  std::vector<std::string> ready;
  for (const auto& [id, hold] : queued.holds) {
    if (hold.ready) ready.push_back(id);
  }
  for (const std::string& id : ready) {
    const auto work = queued.works.find(id);
    if (work == queued.works.end() || waiting_of(work->second).empty()) {
      drop_hold(id);
      continue;
    }
    if (busy(work->second)) continue;
    ledger.state().free_room(id);
    std::map<std::string, engine::Outcome> answers;
    place_work(work->second, answers);
    if (queued.queues->phase(id) == Phase::kRunning && !queued.holds.contains(id)) {
      work->second.vain = 0;
      continue;
    }
    // Something else came in between, such as a node that is closed now: it waits as others do, and is planned again.
    if (queued.queues->phase(id) == Phase::kHeld) queued.queues->requeue(id, clock.now());
    ++stats.plans["overtaken"];
    drop_hold(id);
    for (PodRecord* record : waiting_of(work->second)) record->refused_version = 0;
    ++queued.version;
    // Whatever came in between may do so again: others are not ended for it again and again.
    if (const Duration pause = engine::pause_after_vain(++work->second.vain); pause.nanos > 0) {
      work->second.plan_after = clock.monotonic_nanos() + pause.nanos;
      wake_at(work->second.plan_after, {});
    }
  }
}

namespace {

void append_gang(std::string& key, const Unit& unit) {
  for (const std::string* part : {&unit.required, &unit.preferred, &unit.segment_level}) append_part(key, *part);
  append_part(key, unit.minimum);
  append_part(key, unit.segment_size);
  for (const int64_t segment : unit.segments) append_part(key, segment);
  for (const Subgroup& subgroup : unit.subgroups) {
    append_part(key, subgroup.name);
    append_part(key, subgroup.minimum);
    append_part(key, subgroup.members.size());
  }
}

// Equal texts: where one finds no victims, the other finds none. Said of what waits, by all that waits of it.
std::string plan_key(const Unit* unit, const queueing::Workload& workload, const std::vector<PodRecord*>& waiting) {
  std::string key;
  append_part(key, workload.queue);
  append_part(key, int64_t{workload.priority});
  append_part(key, int64_t{workload.never_preempts});
  append_part(key, int64_t{workload.growth});
  append_part(key, workload.reservation);
  if (unit != nullptr && unit->gang) append_gang(key, *unit);
  const PodRecord* before = nullptr;
  for (const PodRecord* record : waiting) {
    // What has claims of its own, or was turned away by some nodes, is like nothing else.
    if (record->requests.size() != record->pod.resource_claims.size() || !record->failed_nodes.empty()) {
      append_part(key, record->pod.meta.key());
      continue;
    }
    const bool same = before != nullptr && before->signature == record->signature;
    append_part(key, same ? std::string() : record->signature);
    before = record;
  }
  return key;
}

}  // namespace

// Looks for victims for those that found no room, in the order of the queues.
void Reconciler::Impl::plan_evictions(const std::vector<std::string>& without_room) {
  size_t plans = 0;
  std::set<std::string> in_vain;  // equal units find no victims either
  for (const std::string& id : without_room) {
    const auto found = queued.works.find(id);
    if (found == queued.works.end()) continue;
    Work& work = found->second;
    const bool runs = lost_a_member(work);
    if (!runs && queued.queues->phase(id) != Phase::kWaiting) continue;
    const std::vector<PodRecord*> waiting = waiting_of(work);
    if (waiting.empty() || busy(work) || work.planned_version == placement_version()) continue;
    if (clock.monotonic_nanos() < work.plan_after) continue;
    const queueing::Workload* workload = queued.queues->workload(id);
    const std::string like = runs ? "runs " + id : plan_key(units.find(work.unit), *workload, waiting);
    if (work.refused_victims.empty() && in_vain.contains(like)) continue;
    if (++plans > kPlansAPass) {
      pass_due = true;
      wake_at(clock.monotonic_nanos() + options.first_backoff.nanos, {});
      break;
    }
    work.planned_version = placement_version();
    if (!plan_eviction(work)) in_vain.insert(like);
  }
  for (const std::string& id : without_room) {  // guests in the room of others
    if (!queued.holds.contains(id)) ledger.state().free_room(id);
  }
}

// A gang that runs, and that has quota for members that wait: they come in the place of others that died.
bool Reconciler::Impl::lost_a_member(const Work& work) {
  if (!work.core || queued.queues->phase(work.id) != Phase::kRunning || queued.holds.contains(work.id)) return false;
  return !queued.queues->refusal_of(work.id, workload_of(work).workload.portions, clock.now());
}

// Whether room will be there for it.
bool Reconciler::Impl::plan_eviction(const Work& work) {
  const Unit* unit = units.find(work.unit);
  if (unit != nullptr && unit->gang) return plan_gang_eviction(*unit, work);
  PodRecord* record = find(work.id);
  if (record == nullptr) return false;
  const Wants wants = wants_of(*record);
  std::vector<Want> open;
  engine::PlacementRequest request = request_of(*record, wants, open);
  if (wants.blocked || open.empty()) return false;
  request.held_nodes.merge(engine::nodes_of_refused_kinds(*queued.queues, work.id, queued.fleet, clock.now()));
  auto room = engine::RoomWithout::make(ledger.state(), request, queued.holdings);
  if (!room) return false;
  auto answer = queued.preemptions->plan(work.id, clock.now(), **room, refused_victims(work));
  if (!answer.eviction) {
    auto guest = answer.reason && answer.reason->code == queueing::kLeaving ? (*room)->later_room() : std::nullopt;
    if (guest) ledger.state().keep_room(work.id, *std::move(guest));
    return guest.has_value();
  }
  add_growth(answer.eviction->victims);
  auto kept = (*room)->room_at(answer.eviction->site, answer.eviction->victims);
  if (!kept) return false;
  begin_eviction(work, std::move(*answer.eviction), {kept->node});
  ledger.state().keep_room(work.id, std::move(*kept));
  return true;
}

// All that waits of the work fits at once when the victims have gone; where it fits is held for it.
bool Reconciler::Impl::plan_gang_eviction(const Unit& unit, const Work& work) {
  if (unit.blocked) return false;
  // A member that came while it ran says so: the queue knows it from before.
  if (unit.never_preempts && !queued.queues->workload(work.id)->never_preempts) return false;
  std::optional<GangAsk> ask = gang_ask(unit, &work);
  if (!ask || ask->members.empty() || ask->missing > 0) return false;
  const auto closed = engine::nodes_of_refused_kinds(*queued.queues, work.id, queued.fleet, clock.now());
  for (engine::GangMember& member : ask->request.members)
    member.request.held_nodes.insert(closed.begin(), closed.end());
  auto room = engine::GangRoomWithout::make(ledger.state(), options.topology, ask->request, queued.holdings);
  if (!room) return false;
  auto answer = queued.preemptions->plan(work.id, clock.now(), **room, refused_victims(work));
  if (!answer.eviction || !(*room)->fits_without(answer.eviction->victims)) return false;
  begin_eviction(work, std::move(*answer.eviction), (*room)->sites());
  queued.holds[work.id].sites = (*room)->sites();
  return true;
}

// A gang that would have to go with a further member that may not, may not either.
std::set<std::string> Reconciler::Impl::refused_victims(const Work& work) const {
  std::set<std::string> refused = work.refused_victims;
  for (const std::string& id : work.refused_victims) {
    const auto victim = queued.works.find(id);
    if (victim != queued.works.end()) refused.insert(victim->second.unit);
  }
  return refused;
}

// A gang goes with all that it has: without its core the further members are of no use. They only ever borrow, so
// whoever may take the core may take them.
void Reconciler::Impl::add_growth(std::vector<std::string>& victims) const {
  std::set<std::string> gangs_of_victims;
  for (const std::string& victim : victims) {
    const auto work = queued.works.find(victim);
    if (work != queued.works.end() && work->second.core) gangs_of_victims.insert(victim);
  }
  for (const auto& [id, work] : queued.works) {
    const bool goes = work.growth && gangs_of_victims.contains(work.unit) &&
                      queued.queues->phase(id) == Phase::kRunning && !queued.departures.contains(id);
    if (goes && std::find(victims.begin(), victims.end(), id) == victims.end()) victims.push_back(id);
  }
}

void Reconciler::Impl::begin_eviction(const Work& work, queueing::Eviction eviction,
                                      const std::set<std::string>& sites) {
  const std::string queue = queued.queues->workload(eviction.preemptor)->queue;
  const bool entitled = queued.queues->phase(eviction.preemptor) == Phase::kRunning
                            ? queued.queues->entitled(eviction.preemptor)
                            : queued.queues->would_be_entitled(eviction.preemptor, eviction.victims);
  add_growth(eviction.victims);
  queued.holds[eviction.preemptor] = {{}, eviction.victims, false};
  queued.preemptions->begin(eviction, clock.now());
  for (const std::string& victim : eviction.victims) {
    if (queued.holds.contains(victim)) give_up_hold(victim, "withdrawn");  // it waited for a member, and goes itself
  }
  queued.status_dirty = true;
  std::vector<std::string> names;
  for (const std::string& victim : eviction.victims) {
    const queueing::Workload* other = queued.queues->workload(victim);
    const bool borrowed = entitled && other != nullptr && other->queue != queue;
    std::string who = work_name(eviction.preemptor);
    if (queued.table.any()) who += " of queue " + queue;
    const std::string why = borrowed ? fmt::format("{} takes back what queue {} borrowed", who, other->queue)
                                     : fmt::format("{} has a higher priority", who);
    names.push_back(work_name(victim));
    ask_to_go(victim, why, borrowed ? "reclaim" : "priority");
  }
  ++stats.preemptions;
  ++stats.plans["begun"];
  const Telling telling{
      "Waiting",
      {{"Evicting", fmt::format("waits for {} to end on node{} {}: {}", list(names), sites.size() > 1 ? "s" : "",
                                list({sites.begin(), sites.end()}),
                                entitled ? fmt::format("it is within what queue {} is guaranteed", queue)
                                         : std::string("they have a lower priority"))}}};
  for (PodRecord* record : waiting_of(work)) tell(*record, Telling(telling));
}

// All pods of a victim that have devices.
void Reconciler::Impl::ask_to_go(const std::string& victim, const std::string& why, const std::string& cause) {
  Farewell farewell{.pods = {}, .next = 0, .why = why, .cause = cause};
  if (const auto plain = queued.plain.find(victim); plain != queued.plain.end()) {
    farewell.pods.emplace_back(victim, plain->second.uid);
  } else if (const auto work = queued.works.find(victim); work != queued.works.end()) {
    for (const PodRecord* record : holders_of(work->second))
      farewell.pods.emplace_back(record->pod.meta.key(), record->pod.meta.uid);
    std::stable_partition(farewell.pods.begin(), farewell.pods.end(),
                          [&](const auto& pod) { return work->second.refusers.contains(pod.first); });
  }
  queued.farewells[victim] = std::move(farewell);
  ask_next_to_go(victim);
}

// The first one alone, and those that have been refused before, each; when they go, all others at once.
void Reconciler::Impl::ask_next_to_go(const std::string& victim) {
  const auto found = queued.farewells.find(victim);
  if (found == queued.farewells.end()) return;
  Farewell& farewell = found->second;
  const auto work = queued.works.find(victim);
  while (farewell.next < farewell.pods.size()) {
    const bool first = farewell.next == 0;
    const auto& [key, uid] = farewell.pods[farewell.next++];
    Departure& departure = queued.departures[key];
    const bool goes = departure.uid == uid && departure.accepted;
    departure = {.work = victim, .uid = uid, .why = farewell.why, .accepted = goes, .cause = farewell.cause};
    ask_pod_to_go(key);
    const bool alone = first || (work != queued.works.end() && work->second.refusers.contains(key));
    if (alone && departure.asked) return;
  }
  queued.farewells.erase(found);
}

// The pod is gone; whatever was asked of it, the others of its work may be waiting for the answer.
void Reconciler::Impl::drop_departure(const std::string& pod_key) {
  const auto found = queued.departures.find(pod_key);
  if (found == queued.departures.end()) return;
  const std::string work = found->second.work;
  queued.departures.erase(found);
  const auto farewell = queued.farewells.find(work);
  if (farewell == queued.farewells.end() || farewell->second.next == 0) return;
  if (farewell->second.pods[farewell->second.next - 1].first == pod_key) ask_next_to_go(work);
}

// After a new tree: the evictions under way go on.
void Reconciler::Impl::resume_holds() {
  const Time now = clock.now();
  std::map<std::string, Hold> holds = std::exchange(queued.holds, {});
  for (auto& [id, hold] : holds) {
    if (queued.queues->phase(id) != Phase::kWaiting) {
      ledger.state().free_room(id);
      continue;
    }
    std::vector<std::string> left;
    for (const std::string& victim : hold.victims) {
      const bool there = queued.plain.contains(victim) || queued.queues->phase(victim) == Phase::kRunning;
      if (!hold.ready && there) left.push_back(victim);
    }
    hold.ready = left.empty();
    if (hold.ready) {
      queued.queues->hold(id, now);
    } else {
      queued.preemptions->begin({id, {}, left}, now);
    }
    queued.holds[id] = std::move(hold);
  }
}

void Reconciler::Impl::ask_pod_to_go(const std::string& pod_key) {
  const auto found = queued.departures.find(pod_key);
  if (found == queued.departures.end() || found->second.asked || found->second.accepted) return;
  const PodRecord* record = find(pod_key);
  const auto plain = queued.plain.find(pod_key);
  const bool leaving =
      (record != nullptr && record->pod.meta.deleting) || (plain != queued.plain.end() && plain->second.victim.leaving);
  if (leaving) {  // on its way already
    found->second.accepted = true;
    return;
  }
  found->second.asked = true;
  emit(nullptr, WriteKind::kEvictPod, {}, evict_pod(pod_key, found->second.uid));
  flights[last_id].subject = pod_key;
}

void Reconciler::Impl::ask_again_to_go() {
  const int64_t now = clock.monotonic_nanos();
  std::vector<std::string> due;
  for (const auto& [key, departure] : queued.departures) {
    if (departure.ask_at != 0 && departure.ask_at <= now) due.push_back(key);
  }
  for (const std::string& key : due) {
    Departure& departure = queued.departures[key];
    departure.ask_at = 0;
    ask_pod_to_go(key);
    if (departure.accepted) ask_next_to_go(std::string(departure.work));
  }
}

void Reconciler::Impl::eviction_answered(const std::string& pod_key, const Result<std::string>& answer) {
  const auto found = queued.departures.find(pod_key);
  if (found == queued.departures.end()) return;
  Departure& departure = found->second;
  departure.asked = false;
  if (answer) {
    departure.accepted = true;
    ++stats.evictions;
    ++stats.evicted[{queue_of(departure.work), departure.cause}];
    tell_evicted(pod_key, departure);
    return ask_next_to_go(std::string(departure.work));
  }
  const Error& error = answer.error();
  if (error.code == Code::kNotFound) return ask_next_to_go(std::string(departure.work));  // the watch says so
  const bool unknown =
      error.code == Code::kUnavailable || error.code == Code::kDeadlineExceeded || error.code == Code::kConflict;
  if (unknown && !protected_by_budget(error)) {
    const int doublings = std::min(departure.failures++, kMostDoublings);
    departure.ask_at = clock.monotonic_nanos() + (options.first_backoff.nanos << doublings);
    wake_at(departure.ask_at, {});
    return;
  }
  const std::string victim = departure.work;
  ++stats.evictions_refused[queue_of(victim)];
  if (const auto work = queued.works.find(victim); work != queued.works.end()) work->second.refusers.insert(pod_key);
  queued.departures.erase(found);
  victim_stays(victim, error.message);
}

void Reconciler::Impl::drop_hold(const std::string& id) {
  if (!queued.holds.contains(id)) return;
  ledger.state().free_room(id);
  queued.holds.erase(id);
}

// Victims that were not asked to go yet stay.
void Reconciler::Impl::give_up_hold(const std::string& id, const char* result) {
  queued.preemptions->cancel(id, clock.now());
  const auto hold = queued.holds.find(id);
  if (hold == queued.holds.end()) return;
  if (!hold->second.ready) ++stats.plans[result];
  const std::set<std::string> victims(hold->second.victims.begin(), hold->second.victims.end());
  std::erase_if(queued.departures, [&](const auto& entry) {
    return victims.contains(entry.second.work) && !entry.second.accepted && !entry.second.asked;
  });
  for (const std::string& victim : victims) {
    queued.farewells.erase(victim);
    queued.resync.insert(victim);
    const auto work = queued.works.find(victim);
    if (work != queued.works.end() && work->second.core) queued.reform.insert(work->second.unit);
  }
  drop_hold(id);
}

// It may not be evicted: the plan is given up, and another one made without it.
void Reconciler::Impl::victim_stays(const std::string& victim, const std::string& why) {
  const auto preemptor = queued.preemptions->refuse(victim, clock.now());
  if (!preemptor) return;
  give_up_hold(*preemptor, "refused");
  ++queued.version;
  pass_due = true;
  const auto work = queued.works.find(*preemptor);
  if (work == queued.works.end()) return;
  work->second.planned_version = 0;
  work->second.refused_victims.insert(victim);
  work->second.refusals_end = clock.monotonic_nanos() + kRefusalNanos;
  wake_at(work->second.refusals_end, *work->second.members.begin());
  for (PodRecord* record : waiting_of(work->second)) {
    record->refused_version = 0;
    tell(*record, {"Waiting", {{"EvictionRefused", fmt::format("{} cannot be evicted: {}", work_name(victim), why)}}});
  }
}

// After a while a budget may allow what it refused.
void Reconciler::Impl::forget_refusals(const PodRecord& record) {
  const auto id = queued.work_of.find(record.pod.meta.key());
  if (id == queued.work_of.end()) return;
  Work& work = queued.works.at(id->second);
  if (work.refusals_end == 0 || work.refusals_end > clock.monotonic_nanos()) return;
  work.refusals_end = 0;
  work.refused_victims.clear();
  work.planned_version = 0;
  pass_due = true;
}

std::string Reconciler::Impl::queue_of(const std::string& work) const {
  const queueing::Workload* workload = queued.queues ? queued.queues->workload(work) : nullptr;
  return workload == nullptr ? std::string() : workload->queue;
}

void Reconciler::Impl::note_admitted(const std::string& work, Time submitted) {
  if (stats.waits.size() >= kMostTimes) return;
  stats.waits.push_back({queue_of(work), std::max<int64_t>((clock.now() - submitted).nanos, 0)});
}

void Reconciler::Impl::tell_evicted(const std::string& pod_key, const Departure& departure) {
  const PodRecord* record = find(pod_key);
  model::Pod pod;
  if (record != nullptr) {
    pod = record->pod;
  } else {
    const size_t slash = pod_key.find('/');
    pod.meta.name_space = pod_key.substr(0, slash);
    pod.meta.name = pod_key.substr(slash + 1);
    pod.meta.uid = departure.uid;
  }
  tell_event(pod, "HeddleEvicted", "evicted: " + departure.why, "Warning");
}

}  // namespace heddle::controller
