// Gangs in the Reconciler: placed as one, granted as one, taken back or ended as one.
#include <fmt/format.h>

#include <algorithm>

#include "base/key_text.h"
#include "codec/codec.h"
#include "controller/objects.h"
#include "controller/reconciler_impl.h"
#include "engine/gang.h"

namespace heddle::controller {
namespace {

Telling waits(std::vector<engine::Reason> reasons) {
  return {"Waiting", std::move(reasons)};
}

bool bound(const model::Pod& pod) {
  return !pod.node_name.empty();
}

const model::ClaimSpec& spec_of(const Want& want) {
  return want.request != nullptr ? want.request->spec : want.claim->spec;
}

// In what the engine says, in place of a gang's name: equal gangs are told the same "no".
constexpr std::string_view kName = "\x01";

std::vector<engine::Reason> named(std::vector<engine::Reason> reasons, const std::string& name) {
  for (engine::Reason& reason : reasons) {
    for (size_t at = reason.message.find(kName); at != std::string::npos; at = reason.message.find(kName, at))
      reason.message.replace(at, kName.size(), name);
  }
  return reasons;
}

// Equal texts: what one gang is refused, the other is, too. Nothing for one that is bound to some nodes.
std::optional<std::string> shape_of(const engine::GangRequest& request) {
  if (!request.fixed_nodes.empty()) return std::nullopt;
  std::string shape = "gang ";
  append_part(shape, request.minimum);
  append_part(shape, request.required);
  append_part(shape, request.preferred);
  append_part(shape, request.segment_level);
  append_part(shape, request.segment_size);
  append_part(shape, request.subgroup_minimum.size());
  for (const auto& [subgroup, minimum] : request.subgroup_minimum) {
    append_part(shape, subgroup);
    append_part(shape, minimum);
  }
  const engine::GangMember* before = nullptr;
  for (const engine::GangMember& member : request.members) {
    const engine::PlacementRequest& asked = member.request;
    if (asked.pinned_node || asked.preferred_node || !asked.excluded_nodes.empty()) return std::nullopt;
    const bool same = before != nullptr && before->shape == member.shape && before->subgroup == member.subgroup &&
                      before->segment == member.segment && before->request.whole_nodes == asked.whole_nodes;
    before = &member;
    append_part(shape, int64_t{same});
    if (same) continue;
    append_part(shape, member.subgroup);
    append_part(shape, member.segment);
    append_part(shape, member.shape);
    append_parts(shape, asked.whole_nodes);
  }
  return shape;
}

}  // namespace

engine::Reason gang_incomplete(const Unit& unit, int64_t missing) {
  return {"GangIncomplete", fmt::format("{} of the {} members that gang {} needs cannot be placed yet; see their "
                                        "conditions",
                                        missing, unit.minimum, unit.name)};
}

GangRef Reconciler::Impl::gang_of_pod(const std::string& pod_key) {
  const Unit* unit = units.unit_of(pod_key);
  if (unit == nullptr || !unit->gang) return {};
  return {unit, &gangs[unit->id]};
}

void Reconciler::Impl::stand(const PodRecord& record, Stand now) {
  const std::string key = record.pod.meta.key();
  const auto [unit, gang] = gang_of_pod(key);
  if (gang == nullptr) return;
  gang->planned.erase(key);
  gang->whole.erase(key);
  if (now == Stand::kPlanned) gang->planned.insert(key);
  if (now == Stand::kWhole) gang->whole.insert(key);
  if (gang->held.empty() || !gang_may_start(*unit, *gang)) return;
  for (const std::string& other : std::exchange(gang->held, {})) dirty.insert(other);
}

// Members that have all they ask for: devices, or nothing to ask for, or an end that was well.
int64_t Reconciler::Impl::whole_members(const Unit& unit, const GangState& gang) const {
  return static_cast<int64_t>(gang.whole.size()) + gang.without_devices + unit.succeeded;
}

// Every claim of the gang is written, as far as it was decided, and that is enough of it.
bool Reconciler::Impl::gang_may_start(const Unit& unit, const GangState& gang) const {
  if (!gang.planned.empty() || whole_members(unit, gang) < unit.minimum) return false;
  return std::all_of(unit.subgroups.begin(), unit.subgroups.end(), [&](const Subgroup& subgroup) {
    const auto whole = std::count_if(subgroup.members.begin(), subgroup.members.end(), [&](const std::string& key) {
      return gang.whole.contains(key) || !pods.contains(key);
    });
    return whole >= subgroup.minimum;
  });
}

// False: the pod has its devices, and waits for the others of its gang with its gate still there.
bool Reconciler::Impl::released(PodRecord& record) {
  const std::string key = record.pod.meta.key();
  const auto [unit, gang] = gang_of_pod(key);
  if (gang == nullptr) return true;
  if (!gang_may_start(*unit, *gang)) {
    // Not written to the pod: this changes with every member, and passes in moments.
    record.telling =
        waits({{"GangStarting", fmt::format("has its devices; gang {} starts when {} members have theirs: {} "
                                            "so far",
                                            unit->name, unit->minimum, whole_members(*unit, *gang))}});
    gang->held.insert(key);
    stalled.insert(unit->id);
    return false;
  }
  gang->held.erase(key);
  return true;
}

// Started gangs that have been below their minimum for too long.
void Reconciler::Impl::check_short_gangs() {
  for (auto& [id, gang] : gangs) {
    if (gang.short_since == 0) continue;
    const Unit* unit = units.find(id);
    if (unit == nullptr || whole_members(*unit, gang) >= unit->minimum || !gang_started(*unit)) {
      gang.short_since = 0;
    } else if (clock.monotonic_nanos() - gang.short_since >= options.gang_patience.nanos) {
      end_gang(*unit);
    }
  }
}

// Gangs of which a part has its devices while nothing is being done for the rest: what they have goes back.
void Reconciler::Impl::check_stalled() {
  for (const std::string& id : std::exchange(stalled, {})) {
    const Unit* unit = units.find(id);
    if (unit == nullptr || !unit->gang || gang_started(*unit)) continue;
    const GangState& gang = gangs[id];
    if (!gang.planned.empty() || gang.held.empty() || gang_may_start(*unit, gang)) continue;
    const bool busy = std::any_of(unit->members.begin(), unit->members.end(), [&](const std::string& key) {
      const PodRecord* record = find(key);
      return record != nullptr &&
             (record->in_flight > 0 || record->clearing || record->retry_at > clock.monotonic_nanos());
    });
    if (busy) {
      stalled.insert(id);
    } else if (!unit->blocked && gang_waits(*unit)) {
      pass_due = true;  // the pass finds a place for the rest, or takes all of it back
    } else {
      take_back(*unit);
    }
  }
}

bool Reconciler::Impl::gang_waits(const Unit& unit) const {
  return std::any_of(unit.members.begin(), unit.members.end(), [&](const std::string& key) {
    const auto it = pods.find(key);
    return it != pods.end() && pending.contains(order_of(it->second.pod));
  });
}

// A member went past its gate: the gang was whole once, and what runs is not taken from it by force.
bool Reconciler::Impl::gang_started(const Unit& unit) const {
  return std::any_of(unit.members.begin(), unit.members.end(), [&](const std::string& key) {
    const auto it = pods.find(key);
    return it != pods.end() && !gated(it->second.pod) && (bound(it->second.pod) || !it->second.granted_node.empty());
  });
}

void Reconciler::Impl::units_changed() {
  for (const std::string& id : units.take_changed()) {
    const Unit* unit = units.find(id);
    if (unit == nullptr) {
      gangs.erase(id);
      continue;
    }
    if (!unit->gang) continue;
    GangState& gang = gangs[id];
    const std::set<std::string> members(unit->members.begin(), unit->members.end());
    for (auto* keys : {&gang.planned, &gang.whole, &gang.held})
      std::erase_if(*keys, [&](const std::string& key) { return !members.contains(key); });
    gang.without_devices = 0;
    for (const std::string& key : unit->members) {
      PodRecord* record = find(key);
      if (record == nullptr) {
        ++gang.without_devices;
        continue;
      }
      record->refused_version = 0;
      dirty.insert(key);
    }
    form_works(id);
    // A member left before the gang started: what the others have must not stand idle until another one comes.
    if (unit->blocked && !(gang.planned.empty() && gang.whole.empty()) && !gang_started(*unit)) take_back(*unit);
  }
}

std::vector<PodRecord*> Reconciler::Impl::waiting_members(const Unit& unit, const Work* work) {
  std::vector<PodRecord*> waiting;
  for (const std::string& key : unit.members) {
    PodRecord* record = work == nullptr || work->members.contains(key) ? find(key) : nullptr;
    if (record != nullptr && pending.contains(order_of(record->pod))) waiting.push_back(record);
  }
  return waiting;
}

void Reconciler::Impl::tell_gang(const Unit& unit, const Work* work, const Telling& telling) {
  for (PodRecord* record : waiting_members(unit, work)) {
    record->refused_version = placement_version();
    tell(*record, Telling(telling));
  }
}

// The gang cannot start as it is. What it has been given and does not use goes back; what is left of one that runs is
// ended when that lasts too long. A member by itself only waits.
void Reconciler::Impl::gang_refused(const Unit& unit, const Work& work, const Telling& telling) {
  const bool started = gang_started(unit);
  GangState& gang = gangs[unit.id];
  ++(telling.outcome == "Infeasible" ? stats.infeasible : stats.waiting);
  if (!started && !work.one_of_gang() && !(gang.whole.empty() && gang.planned.empty())) take_back(unit);
  if (started && whole_members(unit, gang) < unit.minimum && gang.short_since == 0) {
    gang.short_since = std::max<int64_t>(clock.monotonic_nanos(), 1);  // 0 says that it is not short
    wake_at(gang.short_since + options.gang_patience.nanos, {});
  }
  // Those that are not asked for before it has started hear the same.
  const Work* told = work.core && !started ? nullptr : &work;
  tell_gang(unit, told, telling);
  for (PodRecord* record : waiting_members(unit, told)) {
    if (record->failed_nodes.empty()) continue;
    record->failed_nodes.clear();
    record->failures = std::max(record->failures, 5);
    record->refused_version = 0;
    back_off(*record);
  }
}

// Nothing: something of it has to change first. open: its claims that need devices.
std::optional<engine::GangMember> Reconciler::Impl::gang_member(const PodRecord& record, std::vector<Want>& open) {
  const Wants wants = wants_of(record);
  engine::GangMember member;
  member.request = request_of(record, wants, open);
  member.shape = record.signature;
  for (const Want& want : open) {
    if (want.request == nullptr) append_part(member.shape, codec::claim_spec_json(spec_of(want)));
  }
  if (wants.blocked || open.empty()) return std::nullopt;
  return member;
}

// What is still to be placed, in rank order; nothing when something of it has to change first.
std::optional<GangAsk> Reconciler::Impl::gang_ask(const Unit& unit, const Work* work) {
  GangAsk ask;
  const GangState& gang = gangs[unit.id];
  const bool one = work != nullptr && work->one_of_gang();
  ask.request = gang_request_of(
      unit, [&](const std::string& key) { return gang.whole.contains(key) || !pods.contains(key); },
      one ? GangPart::kOneMember : GangPart::kCore);
  ask.request.name = kName;
  const std::map<std::string, MemberMark> marks = marks_of(unit);
  if (work != nullptr) ask.request.boxes = boxes_for(work->id);
  for (PodRecord* record : waiting_members(unit, work)) {
    GangAsk::Member asked;
    asked.record = record;
    std::optional<engine::GangMember> member = gang_member(*record, asked.open);
    if (!member) {
      dirty.insert(record->pod.meta.key());
      return std::nullopt;
    }
    for (const Want& want : asked.open) ask.least += least_usage(spec_of(want));
    const MemberMark& mark = marks.at(record->pod.meta.key());
    member->subgroup = mark.subgroup;
    member->segment = mark.segment;
    ask.request.members.push_back(*std::move(member));
    ask.members.push_back(std::move(asked));
  }
  const auto placed = placed_members(gang);
  // The others of a gang that starts one by one, while its first one chooses the place.
  const bool leads = work != nullptr && (work->core || placed.empty());
  for (PodRecord* record : leads ? waiting_members(unit, nullptr) : std::vector<PodRecord*>()) {
    if (work->members.contains(record->pod.meta.key())) continue;
    std::vector<Want> open;
    auto member = gang_member(*record, open);
    if (!member) continue;
    member->segment = marks.at(record->pod.meta.key()).segment;
    ask.request.later.push_back(*std::move(member));
  }
  for (const auto& [key, node] : placed) {
    ask.request.fixed_nodes.push_back(node);
    const auto mark = marks.find(key);
    if (mark != marks.end() && mark->second.segment >= 0)
      ask.request.fixed_segments[mark->second.segment].push_back(node);
  }
  // In the place of members that it lost: what reserves are for.
  if (!placed.empty() && whole_members(unit, gang) < unit.minimum && gang_started(unit))
    ask.request.reserve = engine::Reserve::kOpen;
  const int64_t needed = one ? 1 : unit.minimum - whole_members(unit, gang);
  ask.missing = needed - static_cast<int64_t>(ask.members.size());
  ask.request.minimum = std::clamp<int64_t>(needed, 1, std::max<int64_t>(static_cast<int64_t>(ask.members.size()), 1));
  return ask;
}

// With their nodes, whether they are bound or not.
std::vector<std::pair<std::string, std::string>> Reconciler::Impl::placed_members(const GangState& gang) {
  std::vector<std::pair<std::string, std::string>> placed;
  for (const std::string& key : gang.whole) {
    const PodRecord* record = find(key);
    if (record == nullptr) continue;
    std::string node = bound(record->pod) ? record->pod.node_name : claims_node(*record);
    if (!node.empty()) placed.emplace_back(key, std::move(node));
  }
  for (const std::string& key : gang.planned) {
    const PodRecord* record = find(key);
    const auto usage = record == nullptr ? usages.end() : usages.find(record->pod.meta.uid);
    if (usage != usages.end()) placed.emplace_back(key, usage->second.node);
  }
  return placed;
}

std::string Reconciler::Impl::claims_node(const PodRecord& record) const {
  for (const Want& want : wants_of(record).ours) {
    if (!want.allocated()) continue;
    if (const auto node = model::allocated_node(*want.claim->allocation)) return *node;
  }
  return {};
}

void Reconciler::Impl::place_gang(const Unit& unit, const Work& work, std::map<std::string, engine::Outcome>& answers) {
  if (unit.blocked) return gang_refused(unit, work, waits({*unit.blocked}));
  std::optional<GangAsk> ask = gang_ask(unit, &work);
  if (!ask || ask->members.empty()) return;
  if (ask->missing > 0) return gang_refused(unit, work, waits({gang_incomplete(unit, ask->missing)}));
  const model::Pod& first = ask->members.front().record->pod;
  if (auto quota = over_quota(first, ask->least)) return gang_refused(unit, work, waits({std::move(*quota)}));
  std::optional<std::string> shape = shape_of(ask->request);
  if (queued.holds.contains(work.id)) shape.reset();
  const queueing::Workload* workload = queued.queues->workload(work.id);
  if (shape && workload != nullptr && !ask->request.boxes.empty())
    append_part(*shape, workload->queue);  // which says what boxes are kept for others
  if (const auto same = shape ? answers.find(*shape) : answers.end(); same != answers.end())
    return gang_is_told(unit, work, same->second);
  std::optional<engine::Reason> over;  // what its queue says to the kind of devices that was tried first
  for (int kinds = 0;; ++kinds) {
    const int64_t start = clock.monotonic_nanos();
    auto outcome = engine::place_gang(ledger.state(), options.topology, ask->request, random);
    if (stats.place_nanos.size() < kMostTimes) stats.place_nanos.push_back(clock.monotonic_nanos() - start);
    if (!outcome) {
      ++stats.refused;
      return gang_refused(unit, work, {"Refused", {{"Invalid", outcome.error().text()}}});
    }
    if (auto* assigned = std::get_if<engine::GangAssigned>(&*outcome)) {
      auto reason = gang_assigned(unit, work, *ask, *assigned);
      if (!reason) return;
      if (!over) over = std::move(reason);
      if (kinds < kMostKinds && avoid_kind_of_gang(*assigned, *ask)) continue;
    }
    if (over) return gang_refused(unit, work, waits({std::move(*over)}));
    engine::Outcome no = std::get_if<engine::Waiting>(&*outcome) != nullptr
                             ? engine::Outcome(std::move(std::get<engine::Waiting>(*outcome)))
                             : engine::Outcome(std::move(std::get<engine::Infeasible>(*outcome)));
    gang_is_told(unit, work, no);
    if (shape) answers.emplace(std::move(*shape), std::move(no));
    return;
  }
}

// The engine's "no".
void Reconciler::Impl::gang_is_told(const Unit& unit, const Work& work, const engine::Outcome& no) {
  if (const auto* waiting = std::get_if<engine::Waiting>(&no))
    return gang_refused(unit, work, {"Waiting", named(waiting->reasons, unit.name), waiting->needs});
  const auto& never = std::get<engine::Infeasible>(no);
  gang_refused(unit, work, {"Infeasible", named(never.reasons, unit.name), never.needs});
}

// The nodes of the first member that is not on one of them yet; one kind at a time.
bool Reconciler::Impl::avoid_kind_of_gang(const engine::GangAssigned& outcome, GangAsk& ask) const {
  for (size_t i = 0; i < ask.members.size(); ++i) {
    if (!outcome.members[i] || !avoid_kind(*outcome.members[i], ask.members[i].open, ask.request.members[i].request))
      continue;
    const std::set<std::string> avoided = ask.request.members[i].request.held_nodes;
    for (engine::GangMember& member : ask.request.members)
      member.request.held_nodes.insert(avoided.begin(), avoided.end());
    return true;
  }
  return false;
}

// All of it is held before the first write goes out.
std::optional<engine::Reason> Reconciler::Impl::gang_assigned(const Unit& unit, const Work& work, GangAsk& ask,
                                                              engine::GangAssigned& outcome) {
  DeviceUsage asked;
  for (size_t i = 0; i < ask.members.size(); ++i) {
    if (!outcome.members[i]) continue;
    for (size_t claim = 0; claim < ask.members[i].open.size(); ++claim)
      asked += usage_of(spec_of(ask.members[i].open[claim]), outcome.members[i]->allocations[claim], options.driver);
  }
  if (auto quota = over_quota(ask.members.front().record->pod, asked)) {
    gang_refused(unit, work, waits({std::move(*quota)}));
    return std::nullopt;
  }
  if (auto reason = gang_over_queue(work, ask, outcome)) return reason;
  if (work.core) invite_growth(work);
  if (!gang_started(unit)) note_admitted(work.id, unit.submitted);
  GangState& gang = gangs[unit.id];
  std::vector<PodRecord*> placed;
  for (size_t i = 0; i < ask.members.size(); ++i) {
    PodRecord& record = *ask.members[i].record;
    if (!outcome.members[i]) {
      record.refused_version = placement_version();
      tell(record, waits({{"Capacity", fmt::format("gang {} has its minimum of {}; there is no room for this member",
                                                   unit.name, unit.minimum)}}));
      continue;
    }
    for (size_t claim = 0; claim < ask.members[i].open.size(); ++claim) {
      const Want& want = ask.members[i].open[claim];
      model::Allocation allocation = std::move(outcome.members[i]->allocations[claim]);
      allocation.timestamp = clock.now();
      ledger.plan(want.key, spec_of(want), std::move(allocation));
    }
    ++stats.assigned;
    set_usage(record.pod, outcome.members[i]->node);
    pending.erase(order_of(record.pod));
    gang.planned.insert(record.pod.meta.key());
    placed.push_back(&record);
  }
  if (!outcome.level.empty()) gang.place = fmt::format("{} {}", outcome.level, outcome.domain);
  for (PodRecord* record : placed) advance(*record);
  return std::nullopt;
}

// Members that wait for their gate, or for kube-scheduler, give back what they have; none of them runs yet.
void Reconciler::Impl::take_back(const Unit& unit) {
  for (const std::string& key : unit.members) {
    PodRecord* record = find(key);
    if (record == nullptr || bound(record->pod)) continue;
    if (!gangs[unit.id].planned.contains(key) && !gangs[unit.id].whole.contains(key)) continue;
    drop_plans(*record);
    forget_usage(record->pod.meta.uid);
    stand(*record, Stand::kNone);
    record->clearing = true;
    record->granted_node.clear();
    granted_unbound.erase(key);
    dirty.insert(key);
  }
  gangs[unit.id].held.clear();
}

// Below its minimum for too long: as it is, it only keeps devices from others. All of it goes, by the Eviction API
// where it runs, and its controller makes it anew.
void Reconciler::Impl::end_gang(const Unit& unit) {
  GangState& gang = gangs[unit.id];
  // Asked again after a pause, where a disruption budget refused.
  gang.short_since = clock.monotonic_nanos() - options.gang_patience.nanos + options.longest_backoff.nanos;
  wake_at(clock.monotonic_nanos() + options.longest_backoff.nanos, {});
  ++stats.repairs;
  const bool runs = std::any_of(unit.members.begin(), unit.members.end(), [&](const std::string& key) {
    const PodRecord* record = find(key);
    return record != nullptr && bound(record->pod);
  });
  const std::string why = fmt::format(
      "gang {} could not be brought back to its minimum of {}: {} have devices; {}", unit.name, unit.minimum,
      whole_members(unit, gang),
      runs ? "it is ended as a whole and starts again when its pods are made anew" : "all of it is placed again");
  const Telling telling{"Repair", {{"Repair", why}}};
  for (const std::string& key : unit.members) {
    PodRecord* record = find(key);
    if (record == nullptr) continue;
    record->tries = 0;
    record->failed_nodes.clear();
    if (bound(record->pod) && record->in_flight == 0) {
      emit(record, WriteKind::kEvictPod, {}, evict_pod(key, record->pod.meta.uid));
      tell_event(record->pod, "HeddleRepair", why, "Warning");
    } else if (!bound(record->pod)) {
      tell(*record, Telling(telling));
    }
  }
  take_back(unit);
}

}  // namespace heddle::controller
