// Making room: plans of who gives way, evictions, and the room that is held until the one it was made for has started.
#include <fmt/format.h>

#include <algorithm>

#include "controller/objects.h"
#include "controller/reconciler_impl.h"

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

bool comes_back_at_once(const model::Pod& pod) {
  return std::any_of(pod.meta.owners.begin(), pod.meta.owners.end(), [](const model::OwnerReference& owner) {
    return owner.kind == "DaemonSet" || owner.kind == "Node";
  });
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
                          .leaving = pod.meta.deleting};
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
  ++queued.version;
  if (PodRecord* record = find(preemptor); record != nullptr) record->refused_version = 0;
}

// Those for which all victims have gone start first, where room was made for them.
void Reconciler::Impl::place_held() {
  const int64_t now = clock.monotonic_nanos();
  std::vector<std::string> ready;
  for (const auto& [id, hold] : queued.holds) {
    if (hold.ready) ready.push_back(id);
  }
  for (const std::string& id : ready) {
    PodRecord* record = find(id);
    if (record == nullptr || !pending.contains(order_of(record->pod))) {
      queued.holds.erase(id);
      continue;
    }
    if (record->in_flight > 0 || record->retry_at > now) continue;
    std::map<std::string, engine::Outcome> answers;
    place(*record, answers);
    if (queued.queues->phase(id) == Phase::kRunning) continue;
    // Something else came in between, such as a node that is closed now: it waits as others do, and is planned again.
    if (queued.queues->phase(id) == Phase::kHeld) queued.queues->requeue(id, clock.now());
    queued.holds.erase(id);
    record->refused_version = 0;
    ++queued.version;
  }
}

// Looks for victims for those that found no room, in the order of the queues.
void Reconciler::Impl::plan_evictions(const std::vector<std::string>& without_room) {
  size_t plans = 0;
  std::set<std::string> in_vain;  // equal units find no victims either
  for (const std::string& id : without_room) {
    PodRecord* record = find(id);
    if (record == nullptr || record->in_flight > 0 || queued.queues->phase(id) != Phase::kWaiting) continue;
    if (record->planned_version == placement_version()) continue;
    const queueing::Workload* workload = queued.queues->workload(id);
    const std::string like = fmt::format("{}\n{}\n{}", workload->queue, workload->priority, record->signature);
    if (record->refused_victims.empty() && in_vain.contains(like)) continue;
    if (++plans > kPlansAPass) {
      pass_due = true;
      wake_at(clock.monotonic_nanos() + options.first_backoff.nanos, {});
      return;
    }
    record->planned_version = placement_version();
    if (!plan_eviction(*record)) in_vain.insert(like);
  }
}

bool Reconciler::Impl::plan_eviction(PodRecord& record) {
  const Wants wants = wants_of(record);
  std::vector<Want> open;
  const engine::PlacementRequest request = request_of(record, wants, open);
  if (wants.blocked || open.empty()) return false;
  auto room = engine::RoomWithout::make(ledger.state(), request, queued.holdings);
  if (!room) return false;
  const auto answer = queued.preemptions->plan(unit_id(record), clock.now(), **room, record.refused_victims);
  if (!answer.eviction) return false;
  begin_eviction(record, *answer.eviction);
  return true;
}

void Reconciler::Impl::begin_eviction(PodRecord& record, const queueing::Eviction& eviction) {
  const queueing::Workload* own = queued.queues->workload(eviction.preemptor);
  const std::string queue = own->queue;
  const bool entitled = queued.queues->would_be_entitled(eviction.preemptor, eviction.victims);
  queued.holds[eviction.preemptor] = {eviction.site, eviction.victims, false};
  queued.preemptions->begin(eviction, clock.now());
  queued.status_dirty = true;
  for (const std::string& victim : eviction.victims) {
    const queueing::Workload* other = queued.queues->workload(victim);
    const bool borrowed = entitled && other != nullptr && other->queue != queue;
    const std::string why = borrowed ? fmt::format("{} of queue {} takes back what queue {} borrowed",
                                                   eviction.preemptor, queue, other->queue)
                                     : fmt::format("{} of queue {} has a higher priority", eviction.preemptor, queue);
    const auto plain = queued.plain.find(victim);
    const PodRecord* gone = find(victim);
    const std::string uid = plain != queued.plain.end() ? plain->second.uid : gone != nullptr ? gone->pod.meta.uid : "";
    queued.departures[victim] = {.unit = victim, .uid = uid, .why = why};
    ask_to_go(victim);
  }
  ++stats.preemptions;
  tell(record, {"Waiting",
                {{"Evicting", fmt::format("waits for {} to end on node {}: {}", list(eviction.victims), eviction.site,
                                          entitled ? fmt::format("it is within what queue {} is guaranteed", queue)
                                                   : std::string("they have a lower priority"))}}});
}

// After a new tree: the evictions under way go on.
void Reconciler::Impl::resume_holds() {
  const Time now = clock.now();
  std::map<std::string, Hold> holds = std::exchange(queued.holds, {});
  for (auto& [id, hold] : holds) {
    if (queued.queues->phase(id) != Phase::kWaiting) continue;
    std::vector<std::string> left;
    for (const std::string& victim : hold.victims) {
      const bool there = queued.plain.contains(victim) || queued.queues->phase(victim) == Phase::kRunning;
      if (!hold.ready && there) left.push_back(victim);
    }
    hold.ready = left.empty();
    if (hold.ready) {
      queued.queues->hold(id, now);
    } else {
      queued.preemptions->begin({id, hold.site, left}, now);
    }
    queued.holds[id] = std::move(hold);
  }
}

void Reconciler::Impl::ask_to_go(const std::string& pod_key) {
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
    queued.departures[key].ask_at = 0;
    ask_to_go(key);
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
    return tell_evicted(pod_key, departure);
  }
  const Error& error = answer.error();
  if (error.code == Code::kNotFound) return;  // the watch says so
  const bool unknown =
      error.code == Code::kUnavailable || error.code == Code::kDeadlineExceeded || error.code == Code::kConflict;
  if (unknown && !protected_by_budget(error)) {
    const int doublings = std::min(departure.failures++, kMostDoublings);
    departure.ask_at = clock.monotonic_nanos() + (options.first_backoff.nanos << doublings);
    wake_at(departure.ask_at, {});
    return;
  }
  const std::string victim = departure.unit;
  queued.departures.erase(found);
  victim_stays(victim, error.message);
}

// Victims that were not asked to go yet stay.
void Reconciler::Impl::give_up_hold(const std::string& id) {
  queued.preemptions->cancel(id, clock.now());
  const auto hold = queued.holds.find(id);
  if (hold == queued.holds.end()) return;
  for (const std::string& victim : hold->second.victims) {
    const auto departure = queued.departures.find(victim);
    if (departure != queued.departures.end() && !departure->second.accepted && !departure->second.asked)
      queued.departures.erase(departure);
  }
  queued.holds.erase(hold);
}

// It may not be evicted: the plan is given up, and another one made without it.
void Reconciler::Impl::victim_stays(const std::string& victim, const std::string& why) {
  const auto preemptor = queued.preemptions->refuse(victim, clock.now());
  if (!preemptor) return;
  give_up_hold(*preemptor);
  ++queued.version;
  pass_due = true;
  PodRecord* record = find(*preemptor);
  if (record == nullptr) return;
  record->refused_version = record->planned_version = 0;
  record->refused_victims.insert(victim);
  record->refusals_end = clock.monotonic_nanos() + kRefusalNanos;
  wake_at(record->refusals_end, record->pod.meta.key());
  tell(*record, {"Waiting", {{"EvictionRefused", fmt::format("{} cannot be evicted: {}", victim, why)}}});
}

// After a while a budget may allow what it refused.
void Reconciler::Impl::forget_refusals(PodRecord& record) {
  if (record.refusals_end == 0 || record.refusals_end > clock.monotonic_nanos()) return;
  record.refusals_end = 0;
  record.refused_victims.clear();
  record.planned_version = 0;
  pass_due = true;
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
