// The works of a plan in their queues: the order of trying, and what quota says. As controller/queued.cc and works.cc.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "cli/planner.h"
#include "cli/planning_parts.h"
#include "engine/queue_table.h"

namespace heddle::cli {
namespace {

using engine::Reason;
using queueing::Phase;

std::string label_of(const model::Pod& pod, std::string_view name) {
  const auto found = pod.meta.labels.find(std::string(name));
  return found == pod.meta.labels.end() ? std::string() : found->second;
}

}  // namespace

Result<void> Planner::build_queues() {
  const engine::State& state = ledger_.state();
  parts_ = engine::fleet_of(state);
  queueing::Config config =
      fleet_.queues.config([&](const std::string& device_class) { return engine::fleet_of(state, device_class); });
  if (!fleet_.queues.any()) config.patience.reset();
  HEDDLE_TRY(auto queues, queueing::Queues::make(std::move(config)));
  queues_.emplace(std::move(queues));
  preemptions_.emplace(*queues_);
  // Who does not say when it came stands first, and does not count as having waited for ever.
  before_all_ = now_;
  for (const auto& [key, entry] : fleet_.pods) {
    if (entry.pod.meta.created != Time{}) before_all_ = std::min(before_all_, entry.pod.meta.created);
  }
  before_all_ = before_all_ + Duration::seconds(-1);
  return {};
}

// Everything that waits and can be decided, and everything that has devices.
void Planner::form_works() {
  for (const auto& [key, entry] : fleet_.pods) {
    const model::Pod& pod = entry.pod;
    const controller::Unit* unit = units_.unit_of(key);
    const bool member = unit != nullptr && unit->gang && !pod.finished() && !pod.meta.deleting;
    if (member) {
      if (unit->members.front() == key) form_gang(*unit);
      continue;
    }
    const bool holds = holds_since(pod).has_value();
    const bool open = waits(pod) && prepare(entry).has_value();
    if (!holds && !open) continue;
    PlannedWork work;
    work.id = key;
    join(key, work, !open ? Standing::kHolds : holds ? Standing::kBoth : Standing::kWaits);
  }
}

void Planner::join(const std::string& pod_key, const PlannedWork& work, Standing standing) {
  work_of_[pod_key] = work.id;
  PlannedWork& known = works_.try_emplace(work.id, work).first->second;
  if (standing != Standing::kHolds) known.waiting.push_back(pod_key);
  if (standing != Standing::kWaits) known.holders.push_back(pod_key);
}

void Planner::form_gang(const controller::Unit& unit) {
  std::set<std::string> open;
  int64_t placed = unit.succeeded;
  for (const std::string& key : unit.members) {
    const FleetPod& entry = fleet_.pods.at(key);
    if (!entry.pod.node_name.empty()) ++placed;
    if (waits(entry.pod) && prepare(entry)) open.insert(key);
  }
  const int64_t missing = unit.minimum - placed - std::ssize(open);
  if (unit.blocked || missing > 0) {
    const Reason why = unit.blocked ? *unit.blocked : incomplete(unit, missing);
    for (const std::string& key : open) pend(fleet_.pods.at(key).pod, {why});
    open.clear();
  }
  std::set<std::string> core;
  if (!controller::starts_one_by_one(unit)) {
    core = controller::core_members(unit, [&](const std::string& key) -> controller::MemberStanding {
      const model::Pod& pod = fleet_.pods.at(key).pod;
      std::optional<Time> since = holds_since(pod);
      if (!since && !pod.node_name.empty()) since = pod.meta.created;
      const bool leaves = !since && !open.contains(key);
      using Part = controller::MemberStanding::Part;
      return {leaves ? Part::kLeaving : Part::kOpen, since};
    });
  }
  for (const std::string& key : unit.members) {
    const bool holds = holds_since(fleet_.pods.at(key).pod).has_value();
    if (!holds && !open.contains(key)) continue;
    const bool of_core = core.contains(key);
    PlannedWork work;
    work.id = of_core ? unit.id : key;
    work.unit = unit.id;
    work.core = of_core;
    work.growth = !core.empty() && !of_core;
    join(key, work, !open.contains(key) ? Standing::kHolds : holds ? Standing::kBoth : Standing::kWaits);
  }
}

bool Planner::counts(const model::Pod& pod, const model::ResourceClaim& claim) const {
  const auto ours = [&](const std::string& device_class) { return our_classes_.contains(device_class); };
  const bool any =
      std::any_of(claim.spec.requests.begin(), claim.spec.requests.end(), [&](const model::DeviceRequest& request) {
        return (request.exactly && ours(request.exactly->device_class)) ||
               std::any_of(request.first_available.begin(), request.first_available.end(),
                           [&](const auto& alternative) { return ours(alternative.device_class); });
      });
  return any && (claim.reserved_for.empty() || claim.reserved_for.front().uid == pod.meta.uid);
}

// Since when devices are granted to it; nothing while none are.
std::optional<Time> Planner::holds_since(const model::Pod& pod) {
  std::optional<Time> since;
  for (const model::PodResourceClaim& entry : pod.resource_claims) {
    const model::ResourceClaim* claim = claim_of(claim_key(pod, entry));
    if (claim == nullptr || !claim->allocation || !counts(pod, *claim)) continue;
    const Time at = claim->allocation->timestamp.value_or(pod.meta.created);
    since = since ? std::min(*since, at) : at;
  }
  return since;
}

std::vector<queueing::Portion> Planner::demand_of(const model::Pod& pod, Portions which) {
  std::vector<queueing::Portion> demand;
  for (const Want& want : wants_of(pod, translated_[pod.meta.key()].requests).claims) {
    if (!counts(pod, want.claim)) continue;
    std::vector<queueing::Portion> portions;
    if (want.claim.allocation) {
      portions = engine::granted(ledger_.state(), want.claim.spec, *want.claim.allocation);
    } else if (which == Portions::kAll) {
      // What cannot be meant is refused when it is placed.
      if (auto asked = engine::asked(ledger_.state(), {want.key, want.key, want.claim.spec}))
        portions = std::move(*asked);
    }
    for (queueing::Portion& portion : portions) {
      fleet_.queues.fill_boxes(portion);
      demand.push_back(std::move(portion));
    }
  }
  return demand;
}

std::vector<queueing::Portion> Planner::granted_to(const model::Pod& pod, const std::vector<Want>& wants,
                                                   const engine::Assigned& assigned) const {
  std::vector<queueing::Portion> portions;
  size_t next = 0;
  for (const Want& want : wants) {
    if (want.claim.allocation) continue;
    const model::Allocation& allocation = assigned.allocations[next++];
    if (!counts(pod, want.claim)) continue;
    for (queueing::Portion& portion : engine::granted(ledger_.state(), want.claim.spec, allocation)) {
      fleet_.queues.fill_boxes(portion);
      portions.push_back(std::move(portion));
    }
  }
  return portions;
}

// Of a gang, the first member by rank says the queue and the reservation.
std::pair<queueing::Workload, std::optional<Error>> Planner::workload_of(const PlannedWork& work) {
  const engine::QueueTable& table = fleet_.queues;
  const controller::Unit* unit = work.unit.empty() ? nullptr : units_.find(work.unit);
  queueing::Workload workload;
  workload.id = work.id;
  workload.queue = engine::kUnassignedQueue;
  workload.growth = work.growth;
  std::vector<std::string> members = unit == nullptr ? std::vector<std::string>{work.id} : unit->members;
  std::erase_if(members, [&](const std::string& key) { return !work_of_.contains(key) || work_of_[key] != work.id; });
  const model::Pod& first = fleet_.pods.at(members.front()).pod;
  bool ends = true;
  for (const std::string& key : members) {
    const model::Pod& pod = fleet_.pods.at(key).pod;
    ends = ends && pod.active_deadline.has_value();
    if (ends)
      workload.runtime = std::max(workload.runtime.value_or(Duration{}), Duration::seconds(*pod.active_deadline));
    for (queueing::Portion& portion : demand_of(pod, Portions::kAll)) workload.portions.push_back(std::move(portion));
  }
  if (!ends) workload.runtime.reset();
  workload.priority = unit != nullptr ? unit->priority : first.priority;
  workload.never_preempts = unit != nullptr ? unit->never_preempts : first.never_preempts;
  workload.submitted = unit != nullptr && work.core ? unit->submitted : first.meta.created;
  auto queue = table.queue_of(first.meta.name_space, table.any() ? label_of(first, engine::kQueueLabel) : "");
  if (!queue) return {std::move(workload), queue.error()};
  workload.queue = std::move(*queue);
  if (!table.any() && table.reservations().empty()) return {std::move(workload), std::nullopt};
  workload.reservation = label_of(first, engine::kReservationLabel);
  if (workload.reservation.empty()) return {std::move(workload), std::nullopt};
  auto allowed = table.may_use(workload.reservation, first.meta.name_space, workload.queue);
  return {std::move(workload), allowed ? std::nullopt : std::optional(allowed.error())};
}

// What runs, in the order of its start; then what waits.
Result<void> Planner::adopt_all() {
  std::vector<std::tuple<Time, std::string>> order;
  for (const auto& [id, work] : works_) {
    std::optional<Time> since;
    for (const std::string& key : work.holders) {
      const Time at = holds_since(fleet_.pods.at(key).pod).value_or(Time{});
      since = since ? std::min(*since, at) : at;
    }
    if (since) order.emplace_back(*since, id);
  }
  std::sort(order.begin(), order.end());
  for (const auto& [since, id] : order) {
    const PlannedWork& work = works_.at(id);
    auto [workload, refused] = workload_of(work);
    if (refused) {
      workload.queue = engine::kUnassignedQueue;
      workload.reservation.clear();
    }
    note_victim(work, workload, since);
    HEDDLE_CHECK_OK(queues_->adopt(std::move(workload), std::min(since, now_), now_));
  }
  note_plain_victims();
  for (auto& [id, work] : works_) {
    if (work.holders.empty() && !work.growth) submit(work);
  }
  return {};
}

void Planner::note_victim(const PlannedWork& work, const queueing::Workload& workload, Time since) {
  engine::VictimHoldings& holdings = holdings_[work.id];
  queueing::Victim victim;
  victim.id = work.id;
  victim.queue = workload.queue;
  victim.priority = workload.priority;
  victim.started = since;
  std::set<std::string> sites;
  for (const std::string& key : work.holders) {
    const model::Pod& pod = fleet_.pods.at(key).pod;
    holdings.pod_uids.push_back(pod.meta.uid);
    victim.leaving = victim.leaving || pod.meta.deleting;
    std::string site = pod.node_name;
    for (const model::PodResourceClaim& entry : pod.resource_claims) {
      const std::string name = claim_key(pod, entry);
      const model::ResourceClaim* claim = claim_of(name);
      if (claim == nullptr || !claim->allocation) continue;
      claims_of_work_[work.id].insert(name);
      const bool alone = std::all_of(claim->reserved_for.begin(), claim->reserved_for.end(),
                                     [&](const auto& user) { return user.uid == pod.meta.uid; });
      if (alone) holdings.claim_uids.push_back(name);
      if (site.empty()) site = model::allocated_node(*claim->allocation).value_or("");
    }
    if (!site.empty()) sites.insert(std::move(site));
  }
  if (sites.size() == 1) victim.site = *sites.begin();
  if (sites.size() > 1) victim.sites.assign(sites.begin(), sites.end());
  for (const queueing::Portion& portion : workload.portions) victim.cost += portion.milli_devices;
  preemptions_->upsert(std::move(victim));
}

// Pods without devices, which a higher priority may push aside for their cpu and memory.
void Planner::note_plain_victims() {
  for (const auto& [key, entry] : fleet_.pods) {
    const model::Pod& pod = entry.pod;
    const bool back_at_once = std::any_of(pod.meta.owners.begin(), pod.meta.owners.end(), [](const auto& owner) {
      return owner.kind == "DaemonSet" || owner.kind == "Node";
    });
    if (pod.node_name.empty() || pod.finished() || back_at_once || work_of_.contains(key)) continue;
    holdings_[key] = {{pod.meta.uid}, {}};
    queueing::Victim victim;
    victim.id = key;
    victim.priority = pod.priority;
    victim.started = pod.meta.created;
    victim.site = pod.node_name;
    victim.leaving = pod.meta.deleting;
    preemptions_->upsert(std::move(victim));
  }
}

void Planner::tell(PlannedWork& work, const Reasons& reasons) {
  work.decided = true;
  for (const std::string& key : work.waiting) pend(fleet_.pods.at(key).pod, reasons);
}

void Planner::submit(PlannedWork& work) {
  auto [workload, refused] = workload_of(work);
  // What asks for no accelerator is not for queues to refuse.
  if (refused && !workload.portions.empty()) return tell(work, {{"Queue", refused->text()}});
  if (workload.submitted == Time{}) workload.submitted = before_all_;
  if (auto taken = queues_->submit(std::move(workload), now_); !taken) tell(work, {{"Queue", taken.error().text()}});
}

// Further members of gangs whose core has started since. True: there were some.
bool Planner::submit_growth() {
  bool any = false;
  for (auto& [id, work] : works_) {
    if (!work.growth || !work.holders.empty() || work.decided || queues_->phase(id)) continue;
    if (queues_->phase(work.unit) == Phase::kRunning) {
      submit(work);
      any = true;
    }
  }
  return any;
}

// Members of what runs have their quota.
void Planner::place_started() {
  for (auto& [id, work] : works_) {
    if (work.holders.empty() || work.waiting.empty()) continue;
    decide(work);
    if (queues_->phase(id) == Phase::kRunning) without_room_.push_back(id);
  }
}

void Planner::decide(PlannedWork& work) {
  work.decided = true;
  if (!work.unit.empty()) {
    decide_gang(*units_.find(work.unit), work);
    return;
  }
  const FleetPod& entry = fleet_.pods.at(work.id);
  if (auto wants = prepare(entry)) place(work, entry.pod, std::move(*wants));
}

void Planner::pass_until_nothing_starts() {
  (void)submit_growth();
  do {
    queueing::Queues::Pass pass = queues_->pass(now_);
    while (const auto offer = pass.next()) {
      PlannedWork& work = works_.at(offer->id);
      const bool fresh = !work.decided;
      if (fresh) decide(work);
      if (queues_->phase(offer->id) != Phase::kWaiting || work.hopeless) continue;
      pass.refused(std::nullopt);
      if (fresh) without_room_.push_back(offer->id);
    }
  } while (submit_growth());
}

// Those that quota, a reservation or older work holds back; and further members of gangs that do not start.
void Planner::tell_not_offered() {
  std::vector<std::tuple<int64_t, int64_t, std::string>> order;
  for (const auto& [id, work] : works_) {
    if (work.decided || work.waiting.empty()) continue;
    const model::Pod& first = fleet_.pods.at(work.waiting.front()).pod;
    order.emplace_back(-static_cast<int64_t>(first.priority), first.meta.created.unix_nanos, id);
  }
  std::sort(order.begin(), order.end());
  for (const auto& [priority, created, id] : order) {
    PlannedWork& work = works_.at(id);
    if (!queues_->phase(id)) {
      const controller::Unit& unit = *units_.find(work.unit);
      tell(work, {{"GangIncomplete", fmt::format("gang {} has not started: see its other members", unit.name)}});
      continue;
    }
    if (auto reason = queues_->refusal(id, now_)) {
      tell(work, {{reason->code, std::move(reason->message)}});
      without_room_.push_back(id);
    } else {
      tell(work, {{"Behind", "older work that has waited too long is to start first"}});
    }
  }
}

void Planner::number_positions() {
  if (!fleet_.queues.any()) return;
  const auto number = [&](const std::string& queue) {
    size_t position = 0;
    for (const std::string& id : queues_->waiting(queue, now_))
      positions_[id] = fmt::format("number {} in queue {}", ++position, queue);
  };
  number(engine::kUnassignedQueue);
  for (const auto& [name, spec] : fleet_.queues.in_force()) {
    if (fleet_.queues.leaf(name)) number(name);
  }
}

void Planner::tell_positions() {
  for (PendingPod& pod : plan_.pending) {
    const auto work = work_of_.find(pod.name_space + "/" + pod.name);
    if (work == work_of_.end()) continue;
    const auto place = positions_.find(work->second);
    if (place != positions_.end()) pod.reasons.push_back({"Position", place->second});
  }
}

std::optional<Reason> Planner::admit(const std::string& work, std::vector<queueing::Portion> demand) {
  const auto told = [](queueing::Reason reason) { return Reason{std::move(reason.code), std::move(reason.message)}; };
  if (queues_->phase(work) == Phase::kRunning) {
    if (auto reason = queues_->refusal_of(work, demand, now_)) return told(std::move(*reason));
    queues_->revise(work, std::move(demand), now_);
    return std::nullopt;
  }
  std::vector<queueing::Portion> before = queues_->workload(work)->portions;
  queues_->restate(work, std::move(demand));
  if (auto reason = queues_->refusal(work, now_)) {
    queues_->restate(work, std::move(before));
    return told(std::move(*reason));
  }
  queues_->start(work, now_);
  return std::nullopt;
}

// --- quota by shape ---

void Planner::look_at_boxes() {
  rooms_stale_ = false;
  std::vector<engine::BoxHolder> holders;
  for (const auto& [id, claims] : claims_of_work_) {
    const queueing::Workload* workload = queues_->workload(id);
    if (workload == nullptr) continue;
    const bool boxes = std::any_of(workload->portions.begin(), workload->portions.end(),
                                   [](const queueing::Portion& portion) { return portion.boxes > 0; });
    for (const std::string& key : claims) {
      const model::ResourceClaim* claim = claim_of(key);
      if (claim != nullptr && claim->allocation) holders.push_back({&*claim->allocation, queues_->entitled(id), boxes});
    }
  }
  rooms_ = engine::BoxRooms::look(ledger_.state(), topologies_.levels(), fleet_.queues.meters(), holders);
}

// How many boxes the work must leave, by meter; empty: it may break any.
queueing::Amounts Planner::boxes_kept(const std::string& work) {
  if (queues_->workload(work) == nullptr) return {};
  queueing::Amounts keep = queues_->keep_intact(work);
  if (std::all_of(keep.begin(), keep.end(), [](int64_t boxes) { return boxes == 0; })) return {};
  if (rooms_stale_) look_at_boxes();
  return keep;
}

}  // namespace heddle::cli
