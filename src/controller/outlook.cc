// What would let the waiting ones start: which running work would have to end, as trials on the engine say.
//
// A trial costs more than a "no" does, so answers are shared by equal requests and made at a bounded rate: no more than
// a small part of the owner thread's time. Until its turn comes, a pod is told the last answer while what that names
// still runs.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/key_text.h"
#include "controller/reconciler_impl.h"
#include "engine/gang_eviction.h"
#include "engine/kind_quota.h"

namespace heddle::controller {
namespace {

constexpr const char* kEnds = "Ends";
constexpr const char* kNeedsNode = "NeedsNode";
constexpr int64_t kRest = 19;  // of 20 parts of the time
constexpr size_t kMostAnswers = 65536;

// What the end of running work can change.
bool may_change(const Telling& telling) {
  static const std::set<std::string> codes{"Capacity", "NodeFit", "Limit", "Borrowing", "Guarantee"};
  return telling.outcome == "Waiting" && !telling.reasons.empty() && codes.contains(telling.reasons.front().code);
}

}  // namespace

// All that has devices, or cpu and memory of a node, but for what waits.
void Reconciler::Impl::refresh_running() {
  if (outlooks.running_version == placement_version()) return;
  outlooks.running_version = placement_version();
  outlooks.running = {};
  for (const auto& [key, record] : pods) {
    if (pending.contains(order_of(record.pod))) continue;
    const Wants wants = wants_of(record);
    std::vector<HeldClaim> claims;
    for (const Want& want : wants.ours) {
      HeldClaim held{want.key, ledger.planned(want.key), false};
      if (held.allocation == nullptr && want.allocated()) held.allocation = &*want.claim->allocation;
      if (held.allocation == nullptr) continue;
      held.shared =
          want.claim != nullptr && std::any_of(want.claim->reserved_for.begin(), want.claim->reserved_for.end(),
                                               [&](const auto& user) { return user.uid != record.pod.meta.uid; });
      claims.push_back(std::move(held));
    }
    if (claims.empty()) continue;
    const std::string work = queued.queues ? work_id(record) : std::string();
    outlooks.running.add(record.pod, units.unit_of(key), work, claims);
  }
  for (const auto& [key, plain] : queued.plain) {
    if (pods.contains(key)) continue;
    model::Pod pod;
    pod.meta.name = key;
    pod.meta.uid = plain.uid;
    pod.meta.created = plain.victim.started;
    pod.meta.deleting = plain.victim.leaving;
    pod.node_name = plain.victim.site;
    pod.priority = plain.victim.priority;
    outlooks.running.add(pod, units.unit_of(key), {}, {});
  }
}

// Equal ones have equal answers.
std::string Reconciler::Impl::outlook_key(const PodRecord& record) const {
  std::string key = record.pod.meta.key();
  const Unit* unit = units.unit_of(key);
  if (unit != nullptr && unit->gang) return "gang " + work_id(record) + " " + unit->id;
  const bool all_ours = record.requests.size() == record.pod.resource_claims.size();
  const bool in_part = std::any_of(
      record.pod.resource_claims.begin(), record.pod.resource_claims.end(), [&](const model::PodResourceClaim& entry) {
        const auto* claim = ledger.find(record.pod.meta.name_space + "/" + entry.claim_name);
        return claim != nullptr && claim->allocation;
      });
  if (!all_ours || in_part || !record.failed_nodes.empty()) return key;
  const queueing::Workload* workload = queued.queues ? queued.queues->workload(work_id(record)) : nullptr;
  if (workload == nullptr) return record.signature;
  std::string shared;
  for (const std::string* part : {&workload->queue, &workload->reservation, &record.signature})
    append_part(shared, *part);
  return shared;
}

std::optional<RunningTable::Found> Reconciler::Impl::who_has_to_end(PodRecord& record) {
  refresh_running();
  const std::string key = record.pod.meta.key();
  const std::string id = work_id(record);
  const auto allowed = [&](const std::vector<std::string>& works) {
    return !queued.queues || !queued.queues->refusal_without(id, works, clock.now());
  };
  std::set<std::string> refused_kinds;
  if (queued.queues) {
    refused_kinds = engine::nodes_of_refused_kinds(*queued.queues, id, queued.fleet, clock.now());
  }
  const Unit* unit = units.unit_of(key);
  if (unit == nullptr || !unit->gang) {
    const Wants wants = wants_of(record);
    std::vector<Want> open;
    engine::PlacementRequest request = request_of(record, wants, open);
    if (wants.blocked || open.empty()) return std::nullopt;
    request.held_nodes.insert(refused_kinds.begin(), refused_kinds.end());
    auto room = engine::RoomWithout::make(ledger.state(), request, outlooks.running.holdings());
    return room ? outlooks.running.who_has_to_end(**room, allowed, {.except = key, .steps = kPodSteps}) : std::nullopt;
  }
  const auto work = queued.works.find(id);
  std::optional<GangAsk> ask = gang_ask(*unit, work == queued.works.end() ? nullptr : &work->second);
  if (!ask || ask->members.empty() || ask->missing > 0) return std::nullopt;
  for (engine::GangMember& member : ask->request.members)
    member.request.held_nodes.insert(refused_kinds.begin(), refused_kinds.end());
  auto room =
      engine::GangRoomWithout::make(ledger.state(), options.topology, ask->request, outlooks.running.holdings());
  return room ? outlooks.running.who_has_to_end(**room, allowed, {.except = unit->id, .steps = kGangSteps})
              : std::nullopt;
}

// The answer as things are; nothing where it is not its turn.
const Outlooks::Answer* Reconciler::Impl::look_out(PodRecord& record, Haste haste) {
  if (outlooks.answers.size() > kMostAnswers) outlooks.answers.clear();
  Outlooks::Answer& answer = outlooks.answers[outlook_key(record)];
  if (answer.version == placement_version()) return &answer;
  const int64_t begin = clock.monotonic_nanos();
  if (haste == Haste::kInTurn && begin < outlooks.next_at) {
    outlooks.due.insert(record.pod.meta.key());
    const bool valid = std::all_of(answer.units.begin(), answer.units.end(), [&](const std::string& id) {
      const Unit* unit = units.find(id);
      return unit != nullptr && !unit->members.empty();
    });
    return valid ? &answer : nullptr;
  }
  answer = {.version = placement_version(), .text = {}, .units = {}};
  if (auto found = who_has_to_end(record)) {
    answer.text = std::move(found->text);
    answer.units = std::move(found->units);
  }
  const int64_t end = clock.monotonic_nanos();
  outlooks.next_at = end + kRest * (end - begin);
  return &answer;
}

// Behind the reasons why it does not start.
void Reconciler::Impl::add_outlook(PodRecord& record, Telling& telling, Haste haste) {
  std::erase_if(telling.reasons, [](const engine::Reason& reason) {  // told again
    return reason.code == kEnds || reason.code == kNeedsNode;
  });
  if (telling.needs) telling.reasons.push_back(engine::needs_node(*telling.needs));
  if (!leading || !may_change(telling) || !pending.contains(order_of(record.pod))) return;
  const std::string& code = telling.reasons.front().code;
  const bool by_quota = code != "Capacity" && code != "NodeFit";
  if (by_quota && !queued.table.reservations().empty()) return;  // these may refuse it even then
  const Outlooks::Answer* answer = look_out(record, haste);
  if (answer == nullptr || answer->text.empty()) return;
  telling.reasons.push_back(
      {kEnds, fmt::format("would {} when {}", next_in_line(record) ? "start" : "fit", answer->text)});
}

// Nothing is tried before it, as far as its own queue says.
bool Reconciler::Impl::next_in_line(const PodRecord& record) const {
  if (queued.queues) {
    const auto place = queued.positions.find(work_id(record));
    if (place == queued.positions.end()) return false;
    const auto& [queue, counted] = place->second;
    const auto started = queued.started.find(queue);  // most of them stood before it
    return counted <= 1 + (started == queued.started.end() ? 0 : started->second);
  }
  const Unit* own = units.unit_of(record.pod.meta.key());
  return !pending.empty() && own != nullptr && units.unit_of(std::get<2>(*pending.begin())) == own;
}

// Those whose turn it is.
void Reconciler::Impl::tell_outlooks() {
  while (!outlooks.due.empty()) {
    if (clock.monotonic_nanos() < outlooks.next_at) return wake_at(outlooks.next_at, std::string(kStatusTimer));
    const std::string key = *outlooks.due.begin();
    outlooks.due.erase(outlooks.due.begin());
    if (PodRecord* record = find(key); record != nullptr && may_change(record->telling))
      tell(*record, Telling(record->telling));
  }
}

}  // namespace heddle::controller
