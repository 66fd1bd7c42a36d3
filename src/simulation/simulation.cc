#include "simulation/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "base/key_text.h"
#include "base/random.h"
#include "codec/codec.h"
#include "engine/box_rooms.h"
#include "engine/demand.h"
#include "engine/eviction.h"
#include "engine/gang.h"
#include "engine/kind_quota.h"
#include "queueing/preemption.h"
#include "simulation/boxes.h"
#include "simulation/objects.h"
#include "simulation/simulation_units.h"
#include "simulation/tally.h"

namespace heddle::simulation {
namespace {

using engine::Reason;
using queueing::Phase;

constexpr int64_t kMostEvents = 50'000'000;
constexpr int64_t kLastNanos = int64_t{1} << 62;
constexpr int kMostKinds = 4;  // other kinds of devices that are tried when quota refuses one

class Simulation {
 public:
  Simulation(const SimulatedFleet& fleet, uint64_t seed, const Clock& stopwatch, const Observer& observer)
      : fleet_(fleet), random_(seed), stopwatch_(stopwatch), observer_(observer) {}

  Result<SimulationResult> run(const std::vector<SimulatedWorkload>& workloads) {
    HEDDLE_CHECK_OK(build(workloads));
    int64_t left = kMostEvents;
    while (!events_.empty()) {
      // Nobody waits for it: it is no part of the time that is looked at.
      if (events_.begin()->kind == EventKind::kTimer && !anybody_waits()) {
        events_.erase(events_.begin());
        continue;
      }
      const Time now = events_.begin()->at;
      if (now.unix_nanos > kLastNanos) return fail(Code::kExhausted, "more than a hundred years are simulated");
      tally_->advance(now);
      while (!events_.empty() && events_.begin()->at == now) {
        if (--left == 0) return fail(Code::kExhausted, "more than fifty million events are simulated");
        const Event event = *events_.begin();
        events_.erase(events_.begin());
        HEDDLE_CHECK_OK(happen(event));
      }
      const int64_t begin = stopwatch_.monotonic_nanos();
      HEDDLE_CHECK_OK(decide(now));
      nanos_ += stopwatch_.monotonic_nanos() - begin;
      if (observer_ && !queues_->violations().empty()) break;  // said below
      if (observer_) observer_(state_, now);
    }
    return finish();
  }

 private:
  // --- the world ---

  Result<void> build(const std::vector<SimulatedWorkload>& workloads) {
    std::set<std::string> vendors = {""};
    for (const SimulatedNode& node : fleet_.nodes) {
      state_.upsert_node(node_object(node));
      for (model::ResourceSlice& slice : slices_of(node)) state_.upsert_slice(std::move(slice));
      for (const DeviceGroup& group : node.devices) vendors.insert(group.vendor);
    }
    for (const SimulatedWorkload& workload : workloads) vendors.insert(workload.ask.vendor);
    for (const std::string& vendor : vendors) state_.upsert_class(class_of(vendor));
    parts_ = engine::fleet_of(state_);
    tally_.emplace(parts_);
    for (const engine::QueueObject& queue : fleet_.queues) table_.upsert(queue);
    for (const engine::ReservationObject& reservation : fleet_.reservations) table_.upsert(reservation);
    table_.settle();
    for (const engine::ReservationObject& one : fleet_.reservations) {
      if (const auto* fault = table_.fault_of_reservation(one.meta.name)) {
        return fail(Code::kInvalidArgument, fault->text(), "reservation " + one.meta.name);
      }
      push(one.reservation->start, EventKind::kTimer, {}, 0);
      push(one.reservation->end, EventKind::kTimer, {}, 0);
    }
    for (const auto& [name, object] : table_.queues()) {
      if (const auto* fault = table_.fault_of_queue(name)) {
        return fail(Code::kInvalidArgument, fault->text(), "queue " + name);
      }
    }
    HEDDLE_CHECK_OK(check_boxes(state_, table_));
    queueing::Config config = table_.config(
        [&](const std::string& device_class) { return engine::fleet_of(state_, device_class); }, wide_boxes(state_));
    config.patience = fleet_.patience;
    config.half_life = fleet_.half_life;
    HEDDLE_TRY(auto queues, queueing::Queues::make(std::move(config)));
    queues_.emplace(std::move(queues));
    preemptions_.emplace(*queues_);
    arrivals_left_ = static_cast<int64_t>(workloads.size());
    for (const SimulatedWorkload& workload : workloads) HEDDLE_CHECK_OK(add(workload));
    return {};
  }

  Result<void> add(const SimulatedWorkload& workload) {
    Unit unit;
    unit.workload = &workload;
    unit.pod = pod_object(workload);
    unit.spec = claim_spec(workload.ask);
    const std::string queue = queue_of(workload);
    if (!table_.leaf(queue)) {
      return fail(Code::kInvalidArgument,
                  table_.queues().contains(queue) ? "has queues below it: name one of those"
                                                  : "is not among the fleet's queues: add it there, or leave it out",
                  fmt::format("workload {}: queue {}", workload.name, queue));
    }
    if (!workload.reservation.empty()) {
      if (auto may = table_.may_use(workload.reservation, kAnybody, queue); !may) {
        return fail(may.error().code, may.error().message, fmt::format("workload {}: reservation", workload.name));
      }
    }
    HEDDLE_TRY(const auto member, engine::asked(state_, {workload.name, workload.name, unit.spec}));
    for (int64_t i = 0; i < workload.minimum; ++i) unit.asked.insert(unit.asked.end(), member.begin(), member.end());
    count_boxes(table_, workload, unit.asked);
    unit.policy = table_.policy_of(queue).value_or(model::PlacementPolicy::kPacking);
    unit.shape = shape_of(workload, unit.pod, unit.spec, unit.policy);
    push(Time{} + workload.arrival, EventKind::kArrival, workload.name, 0);
    units_.emplace(workload.name, std::move(unit));
    return {};
  }

  static std::string queue_of(const SimulatedWorkload& workload) {
    return workload.queue.empty() ? std::string(engine::kUnassignedQueue) : workload.queue;
  }

  void push(Time at, EventKind kind, const std::string& unit, int64_t run) {
    events_.insert({at, kind, ++events_made_, unit, run});
  }

  // --- what happens ---

  Result<void> happen(const Event& event) {
    if (event.kind == EventKind::kTimer) {
      ++version_;
      return {};
    }
    Unit& unit = units_.at(event.unit);
    if (event.kind == EventKind::kArrival) return arrive(unit, event.at);
    if (event.run != unit.run || unit.granted.empty()) return {};  // of an earlier run, or it has ended by itself
    const std::string queue = queue_of(*unit.workload);
    if (event.kind == EventKind::kGone) {
      tally_->evicted(queue, event.at - unit.started, milli_of(unit.holds));
    } else {
      unit.finished = true;
      ++finished_;
    }
    release(unit, event.at);
    if (unit.finished) queues_->remove(event.unit, event.at);
    ++version_;
    return {};
  }

  Result<void> arrive(Unit& unit, Time now) {
    const SimulatedWorkload& workload = *unit.workload;
    if (--arrivals_left_ == 0) tally_->all_have_come();
    tally_->came(queue_of(workload));
    queueing::Workload asked;
    asked.id = workload.name;
    asked.queue = queue_of(workload);
    asked.priority = workload.priority;
    asked.submitted = now;
    asked.portions = unit.asked;
    asked.runtime = workload.duration;
    asked.never_preempts = workload.never_preempts;
    asked.reservation = workload.reservation;
    return queues_->submit(std::move(asked), now);
  }

  // Its devices are free again, and those that wait for it may start.
  void release(Unit& unit, Time now) {
    const std::string& id = unit.workload->name;
    remove(unit);
    tally_->give_back(queue_of(*unit.workload), unit.holds);
    unit.granted.clear();
    unit.holds.clear();
    holdings_.erase(id);
    for (const std::string& preemptor : preemptions_->gone(id, now)) {
      if (const auto hold = holds_.find(preemptor); hold != holds_.end()) hold->second.ready = true;
    }
    preemptions_->remove(id);
  }

  void remove(const Unit& unit) {
    rooms_stale_ = true;
    for (const Granted& member : unit.granted) {
      state_.remove_claim(member.claim.meta.uid);
      state_.remove_pod_usage(member.claim.meta.uid);
    }
  }

  void put(const Unit& unit) {
    rooms_stale_ = true;
    const auto usage = model::effective_requests(unit.pod);
    for (const Granted& member : unit.granted) {
      state_.upsert_claim(member.claim);
      state_.upsert_pod_usage(member.claim.meta.uid, member.node, usage);
    }
  }

  // --- decisions ---

  Result<void> decide(Time now) {
    HEDDLE_CHECK_OK(place_held(now));
    std::vector<std::string> without_room;
    std::set<std::string> offered;
    {
      queueing::Queues::Pass pass = queues_->pass(now);
      while (const auto offer = pass.next()) {
        offered.insert(offer->id);
        Unit& unit = units_.at(offer->id);
        if (unit.refused_at != version_) HEDDLE_CHECK_OK(try_start(unit, now));
        if (queues_->phase(offer->id) != Phase::kWaiting || unit.hopeless) continue;
        pass.refused(std::nullopt);
        without_room.push_back(offer->id);
      }
    }
    note_not_offered(offered, without_room, now);
    return plan_evictions(without_room, now);
  }

  // Those for which all victims have gone, where room was made.
  Result<void> place_held(Time now) {
    std::vector<std::string> ready;
    for (const auto& [id, hold] : holds_) {
      if (hold.ready) ready.push_back(id);
    }
    for (const std::string& id : ready) {
      Unit& unit = units_.at(id);
      state_.free_room(id);
      HEDDLE_CHECK_OK(try_start(unit, now));
      if (queues_->phase(id) == Phase::kHeld) queues_->requeue(id, now);
      if (holds_.erase(id) == 0) continue;
      ++version_;
      unit.plan_after = now + engine::pause_after_vain(++unit.vain);
    }
    return {};
  }

  void note_not_offered(const std::set<std::string>& offered, std::vector<std::string>& without_room, Time now) {
    for (const std::string& queue : leaves()) {
      for (const std::string& id : queues_->waiting(queue, now)) {
        if (offered.contains(id)) continue;
        auto reason = queues_->refusal(id, now);
        if (!reason) {
          units_.at(id).reasons = {{"Behind", "older work that has waited too long is to start first"}};
          continue;
        }
        units_.at(id).reasons = {{reason->code, std::move(reason->message)}};
        without_room.push_back(id);
      }
    }
  }

  [[nodiscard]] bool anybody_waits() const {
    const std::vector<std::string> all = leaves();
    return std::any_of(all.begin(), all.end(),
                       [&](const std::string& queue) { return !queues_->waiting(queue, Time{kLastNanos}).empty(); });
  }

  [[nodiscard]] std::vector<std::string> leaves() const {
    std::vector<std::string> out = table_.leaves("");
    out.insert(out.begin(), engine::kUnassignedQueue);
    return out;
  }

  // Starts it when it has room and quota lets it; else its reasons say why not.
  Result<void> try_start(Unit& unit, Time now) {
    const std::string& id = unit.workload->name;
    if (queues_->phase(id) == Phase::kHeld) queues_->requeue(id, now);
    std::set<std::string> closed;
    for (const auto& [other, hold] : holds_) {
      if (other != id) closed.insert(hold.nodes.begin(), hold.nodes.end());
    }
    for (int kinds = 0; kinds <= kMostKinds; ++kinds) {
      HEDDLE_TRY(const Answer answer, kinds == 0 ? ask_known(unit, closed) : ask(unit, closed));
      const auto* spots = std::get_if<Spots>(&answer);
      if (spots == nullptr) {
        const auto& no = std::get<Refusal>(answer);
        if (kinds == 0) unit.hopeless = no.hopeless;
        if (kinds == 0) unit.reasons = no.reasons;
        break;
      }
      auto over = take(unit, *spots, now);
      if (!over) return {};
      unit.reasons = {std::move(*over)};
      if (!avoid_kinds(unit, *spots, closed)) break;
    }
    unit.refused_at = version_;
    return {};
  }

  // A "no" holds for all that ask the same until something ends.
  Result<Answer> ask_known(const Unit& unit, const std::set<std::string>& closed) {
    std::string key = unit.shape;
    append_parts(key, closed);
    const Kept kept = kept_for(unit);
    append_parts(key, kept.nodes);
    for (const engine::BoxBudget& budget : kept.boxes) append_part(key, budget_text(budget));
    const auto known = refusals_.find(key);
    if (known != refusals_.end() && known->second.first == version_) return Answer(known->second.second);
    HEDDLE_TRY(Answer answer, ask(unit, closed));
    if (const auto* no = std::get_if<Refusal>(&answer)) refusals_[key] = {version_, *no};
    return answer;
  }

  // Boxes that others are guaranteed and that this one may not break.
  [[nodiscard]] Kept kept_for(const Unit& unit) {
    Kept kept;
    const queueing::Amounts keep = queues_->keep_intact(unit.workload->name);
    if (std::all_of(keep.begin(), keep.end(), [](int64_t boxes) { return boxes == 0; })) return kept;
    if (std::exchange(rooms_stale_, false)) look_at_boxes();
    if (unit.placed_alone()) {
      kept.nodes = rooms_.nodes_kept(keep, unit.workload->ask.devices);
    } else {
      kept.boxes = rooms_.budgets(table_.meters(), keep);
    }
    return kept;
  }

  void look_at_boxes() {
    std::vector<engine::BoxHolder> holders;
    for (const auto& [id, holdings] : holdings_) {
      const Unit& unit = units_.at(id);
      if (queues_->phase(id) != Phase::kRunning) continue;
      const bool boxes = std::any_of(unit.holds.begin(), unit.holds.end(),
                                     [](const queueing::Portion& portion) { return portion.boxes > 0; });
      for (const Granted& member : unit.granted)
        holders.push_back({&*member.claim.allocation, queues_->entitled(id), boxes});
    }
    rooms_ = engine::BoxRooms::look(state_, engine::default_topology(), table_.meters(), holders);
  }

  [[nodiscard]] engine::PlacementRequest request_of(const Unit& unit, int64_t member,
                                                    const std::set<std::string>& closed) {
    engine::PlacementRequest request;
    request.pod = &unit.pod;
    const std::string key = fmt::format("default/{}-{}", unit.workload->name, member);
    request.claims.push_back({key, key, unit.spec});
    request.held_nodes = closed;
    request.policy = unit.policy;
    if (unit.placed_alone()) request.whole_nodes = kept_for(unit).nodes;
    return request;
  }

  [[nodiscard]] engine::GangRequest gang_of(const Unit& unit, const std::set<std::string>& closed) {
    std::vector<engine::PlacementRequest> members;
    members.reserve(static_cast<size_t>(unit.workload->members));
    for (int64_t i = 0; i < unit.workload->members; ++i) members.push_back(request_of(unit, i, closed));
    engine::GangRequest gang = gang_request(*unit.workload, std::move(members), unit.shape);
    gang.boxes = kept_for(unit).boxes;
    return gang;
  }

  Result<Answer> ask(const Unit& unit, const std::set<std::string>& closed) {
    ++decisions_;
    if (unit.placed_alone()) {
      auto outcome = state_.place(request_of(unit, 0, closed), random_);
      if (!outcome) return unclear(outcome.error());
      if (auto* assigned = std::get_if<engine::Assigned>(&*outcome)) return Answer(Spots{{std::move(*assigned)}});
      if (const auto* waits = std::get_if<engine::Waiting>(&*outcome)) return refusal_of(waits->reasons, false);
      return refusal_of(std::get<engine::Infeasible>(*outcome).reasons, true);
    }
    auto outcome = engine::place_gang(state_, engine::default_topology(), gang_of(unit, closed), random_);
    if (!outcome) return unclear(outcome.error());
    if (auto* assigned = std::get_if<engine::GangAssigned>(&*outcome)) {
      Spots spots;
      for (auto& member : assigned->members) {
        if (member) spots.members.push_back(std::move(*member));
      }
      return Answer(std::move(spots));
    }
    if (const auto* waits = std::get_if<engine::Waiting>(&*outcome)) return refusal_of(waits->reasons, false);
    return refusal_of(std::get<engine::Infeasible>(*outcome).reasons, true);
  }

  // Nothing: it runs. Else what quota says to these devices. Members beyond the minimum, or further segments, start as
  // far as quota lets them.
  std::optional<Reason> take(Unit& unit, Spots spots, Time now) {
    const SimulatedWorkload& workload = *unit.workload;
    const std::string& id = workload.name;
    const int64_t step = std::max<int64_t>(workload.segment_size, 1);
    std::vector<queueing::Portion> portions = portions_of(state_, table_, unit, spots);
    queues_->restate(id, portions);
    for (auto reason = queues_->refusal(id, now); reason; reason = queues_->refusal(id, now)) {
      const int64_t left = (std::ssize(spots.members) - 1) / step * step;
      if (left < workload.minimum) {
        queues_->restate(id, unit.asked);
        return Reason{reason->code, std::move(reason->message)};
      }
      spots.members.erase(spots.members.begin() + left, spots.members.end());
      portions = portions_of(state_, table_, unit, spots);
      queues_->restate(id, portions);
    }
    queues_->start(id, now);
    if (holds_.erase(id) > 0) ++version_;  // its nodes are open to others
    commit(unit, spots);
    unit.holds = std::move(portions);
    unit.started = now;
    ++unit.run;
    unit.reasons.clear();
    tally_->take(queue_of(workload), unit.holds);
    if (!unit.ever_started) tally_->started(queue_of(workload), now - (Time{} + workload.arrival), !unit.single());
    started_ += unit.ever_started ? 0 : 1;
    unit.ever_started = true;
    unit.vain = 0;
    push(now + workload.duration, EventKind::kEnd, id, unit.run);
    note_victim(unit);
    return std::nullopt;
  }

  void commit(Unit& unit, const Spots& spots) {
    for (size_t i = 0; i < spots.members.size(); ++i) {
      const engine::Assigned& member = spots.members[i];
      unit.granted.push_back({member.node, claim_object(unit, static_cast<int64_t>(i), member.allocations.front())});
    }
    put(unit);
  }

  void note_victim(const Unit& unit) {
    const std::string& id = unit.workload->name;
    for (const Granted& member : unit.granted) {
      holdings_[id].pod_uids.push_back(member.claim.meta.uid);
      holdings_[id].claim_uids.push_back(member.claim.meta.uid);
    }
    preemptions_->upsert(victim_of(unit, queue_of(*unit.workload)));
  }

  // Quota refused devices of these kinds: nodes that have some are left out. False when that cannot help.
  bool avoid_kinds(const Unit& unit, const Spots& spots, std::set<std::string>& closed) const {
    bool any = false;
    for (const engine::Assigned& member : spots.members) {
      for (const queueing::Portion& portion : engine::granted(state_, unit.spec, member.allocations.front())) {
        for (const engine::FleetPart& part : parts_) {
          if (part.vendor != portion.vendor || part.model != portion.model) continue;
          any = closed.insert(part.node).second || any;
        }
      }
    }
    return any;
  }

  // --- who gives way ---

  // Whether a gang has room when others have gone: they are taken out of the state for the look.
  class GangRoom final : public queueing::FitOracle {
   public:
    GangRoom(Simulation& simulation, const Unit& unit, const std::set<std::string>& closed)
        : simulation_(simulation), unit_(unit), closed_(closed) {}
    [[nodiscard]] bool single_site() const override { return false; }
    [[nodiscard]] bool fits(const std::string&, const std::vector<const queueing::Victim*>& gone) override {
      std::vector<std::string> ids;
      ids.reserve(gone.size());
      for (const queueing::Victim* victim : gone) ids.push_back(victim->id);
      return !nodes_without(ids).empty();
    }
    // Where it would be then; none: it has no room.
    std::set<std::string> nodes_without(const std::vector<std::string>& gone) {
      for (const std::string& id : gone) simulation_.remove(simulation_.units_.at(id));
      const auto answer = simulation_.ask(unit_, closed_);
      for (const std::string& id : gone) simulation_.put(simulation_.units_.at(id));
      std::set<std::string> nodes;
      const auto* spots = answer ? std::get_if<Spots>(&*answer) : nullptr;
      for (size_t i = 0; spots != nullptr && i < spots->members.size(); ++i) nodes.insert(spots->members[i].node);
      return nodes;
    }

   private:
    Simulation& simulation_;
    const Unit& unit_;
    const std::set<std::string>& closed_;
  };

  Result<void> plan_evictions(const std::vector<std::string>& without_room, Time now) {
    std::set<std::string> in_vain;  // equal units find no victims either
    for (const std::string& id : without_room) {
      Unit& unit = units_.at(id);
      if (queues_->phase(id) != Phase::kWaiting || unit.planned_at == version_ || now < unit.plan_after) continue;
      unit.planned_at = version_;
      const std::string like = plan_key(*unit.workload, queue_of(*unit.workload), unit.shape);
      if (in_vain.contains(like)) continue;
      HEDDLE_TRY(const bool found, plan_eviction(unit, now));
      if (!found) in_vain.insert(like);
    }
    for (const std::string& id : without_room) {  // guests in the room of others
      if (!holds_.contains(id)) state_.free_room(id);
    }
    return {};
  }

  Result<bool> plan_eviction(Unit& unit, Time now) {
    const std::string& id = unit.workload->name;
    std::set<std::string> closed;
    for (const auto& [other, hold] : holds_) closed.insert(hold.nodes.begin(), hold.nodes.end());
    ++plans_;
    closed.merge(engine::nodes_of_refused_kinds(*queues_, id, parts_, now));
    Hold hold;
    std::optional<queueing::Eviction> eviction;
    if (unit.placed_alone()) {
      const engine::PlacementRequest request = request_of(unit, 0, closed);
      HEDDLE_TRY(const auto room, engine::RoomWithout::make(state_, request, holdings_));
      auto answer = preemptions_->plan(id, now, *room);
      eviction = std::move(answer.eviction);
      auto kept = eviction ? room->room_at(eviction->site, eviction->victims)
                  : answer.reason && answer.reason->code == queueing::kLeaving ? room->later_room()
                                                                               : std::nullopt;
      if (!kept) return false;
      const bool guest = kept->guest;
      state_.keep_room(id, std::move(*kept));
      if (guest) return true;
    } else {
      GangRoom room(*this, unit, closed);
      eviction = preemptions_->plan(id, now, room).eviction;
      if (eviction) hold.nodes = room.nodes_without(eviction->victims);
    }
    if (!eviction) return false;
    preemptions_->begin(*eviction, now);
    for (const std::string& victim : eviction->victims) {
      push(now + fleet_.grace, EventKind::kGone, victim, units_.at(victim).run);
    }
    unit.reasons = {{"Evicting", fmt::format("waits for {} to end", fmt::join(eviction->victims, ", "))}};
    holds_[id] = std::move(hold);
    return true;
  }

  // --- the end ---

  Result<SimulationResult> finish() {
    if (const auto wrong = queues_->violations(); !wrong.empty()) return fail(Code::kInternal, wrong.front());
    if (!state_.over_commits().empty()) return fail(Code::kInternal, "a device is granted twice");
    SimulationResult result;
    tally_->report(result);
    result.workloads = static_cast<int64_t>(units_.size());
    result.started = started_;
    result.finished = finished_;
    result.decisions = decisions_;
    result.plans = plans_;
    constexpr double kNanos = 1e9;
    result.seconds = static_cast<double>(nanos_) / kNanos;
    for (const auto& [id, unit] : units_) {
      if (!unit.finished) result.unplaced.push_back({id, queue_of(*unit.workload), unit.reasons});
    }
    return result;
  }

  const SimulatedFleet& fleet_;
  engine::State state_;
  engine::QueueTable table_;
  std::vector<engine::FleetPart> parts_;
  std::optional<queueing::Queues> queues_;
  std::optional<queueing::Preemptions> preemptions_;
  std::map<std::string, engine::VictimHoldings> holdings_;
  std::map<std::string, Hold> holds_;  // by the unit that room is made for
  std::map<std::string, Unit> units_;
  std::map<std::string, std::pair<uint64_t, Refusal>> refusals_;  // by shape and closed nodes, with their version
  std::set<Event> events_;
  engine::BoxRooms rooms_;
  bool rooms_stale_ = true;
  std::optional<Tally> tally_;
  SeededRandom random_;
  const Clock& stopwatch_;
  const Observer& observer_;
  uint64_t version_ = 1;  // raised when something could start that could not before
  int64_t events_made_ = 0;
  int64_t arrivals_left_ = 0;
  int64_t decisions_ = 0;
  int64_t plans_ = 0;
  int64_t nanos_ = 0;
  int64_t started_ = 0;
  int64_t finished_ = 0;
};

}  // namespace

Result<SimulationResult> simulate(const SimulatedFleet& fleet, const std::vector<SimulatedWorkload>& workloads,
                                  uint64_t seed, const Clock& stopwatch, const Observer& observer) {
  return Simulation(fleet, seed, stopwatch, observer).run(workloads);
}

}  // namespace heddle::simulation
