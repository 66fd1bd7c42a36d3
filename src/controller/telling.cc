// What users see of a decision: the pod's condition, events, and the answer of `heddle explain`.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text.h"
#include "controller/objects.h"
#include "controller/reconciler_impl.h"
#include "dialects/wire_names.h"

namespace heddle::controller {
namespace {

constexpr size_t kMessageLimit = 1000;

std::string joined(const std::vector<engine::Reason>& reasons) {
  std::string out;
  for (const engine::Reason& reason : reasons) out += (out.empty() ? "" : "; ") + reason.message;
  if (out.size() > kMessageLimit) out = cut_text(out, kMessageLimit - 3) + "...";
  return out;
}

const char* event_reason(const std::string& outcome) {
  if (outcome == "Allocated") return "HeddleAllocated";
  if (outcome == "Refused") return "HeddleRefused";
  if (outcome == "Repair") return "HeddleRepair";
  return "HeddleWaiting";
}

// Reasons of conditions are CamelCase words.
std::string reason_word(const std::vector<engine::Reason>& reasons) {
  return reasons.empty() || reasons.front().code.empty() ? "Waiting" : reasons.front().code;
}

model::PodCondition condition_of(const Telling& telling) {
  model::PodCondition condition;
  condition.type = kConditionType;
  condition.status = telling.outcome == "Allocated" ? "True" : "False";
  condition.reason = reason_word(telling.reasons);
  condition.message = joined(telling.reasons);
  return condition;
}

}  // namespace

void Reconciler::Impl::tell_event(const model::Pod& pod, const std::string& reason, const std::string& message,
                                  std::string_view type) {
  const uint64_t unique = static_cast<uint64_t>(clock.now().unix_nanos) + ++event_number;
  emit(nullptr, WriteKind::kEvent, {},
       create_event(pod, {reason, message, type}, options.component, clock.now(), unique));
}

// The condition and the node in one write, ahead of the gate: kube-scheduler then looks at that node alone, and need
// not write the nomination itself. It only helps, so a failure is not tried again. False when there is nothing to
// write.
bool Reconciler::Impl::nominate(PodRecord& record, const std::string& node, Telling telling) {
  const model::PodCondition condition = condition_of(telling);
  const bool known = condition.status == record.told.status && record.pod.nominated_node_name == node;
  if (node.empty() || record.nominated == node || known || record.telling_now) return false;
  const bool waited = record.told.status == "False";
  record.nominated = node;
  record.telling = std::move(telling);
  record.told = condition;
  record.told_at = clock.monotonic_nanos();
  record.retell_at = 0;
  emit(&record, WriteKind::kNominatePod, {}, patch_condition(record.pod, condition, clock.now(), node));
  if (waited) tell_event(record.pod, event_reason("Allocated"), condition.message, "Normal");
  return true;
}

void Reconciler::Impl::tell(PodRecord& record, Telling telling) {
  add_outlook(record, telling, Haste::kInTurn);
  add_position(record, telling);
  const model::PodCondition condition = condition_of(telling);
  const bool other_outcome = telling.outcome != record.telling.outcome;
  const bool repair = telling.outcome == "Repair";
  const bool news = repair && (other_outcome || condition.message != joined(record.telling.reasons));
  record.telling = std::move(telling);
  if (!leading) return;
  note_need(record);
  // Its condition may never be written: what comes next does not wait for it.
  if (news) tell_event(record.pod, event_reason("Repair"), condition.message, "Warning");
  if (record.telling_now) {  // two at once could arrive in either order
    record.tell_again = true;
    return;
  }
  const bool same_word = condition.status == record.told.status && condition.reason == record.told.reason;
  if (same_word && condition.message == record.told.message) return;
  const int64_t now = clock.monotonic_nanos();
  const int64_t next = record.told_at + options.message_interval.nanos;
  if (same_word && record.told_at != 0 && now < next) {
    // The numbers of a waiting pod change often.
    if (record.retell_at == 0) wake_at(record.retell_at = next, record.pod.meta.key());
    return;
  }
  const bool warn = record.telling.outcome != "Allocated";
  // A pod that never waited needs no news of that: kube-scheduler's own event says where it runs.
  const bool announce = warn ? !repair && (!same_word || other_outcome) : record.told.status == "False";
  record.told = condition;
  record.told_at = now;
  std::optional<std::string> nominate;
  if (warn && !std::exchange(record.nominated, {}).empty()) nominate.emplace();  // it did not hold
  record.telling_now = true;
  emit(&record, WriteKind::kCondition, {}, patch_condition(record.pod, condition, clock.now(), nominate));
  if (!announce) return;
  std::string message = condition.message;
  if (record.telling.outcome == "Infeasible")
    message = "fits on no node of this cluster, even an empty one: " + message;
  tell_event(record.pod, event_reason(record.telling.outcome), message, warn ? "Warning" : "Normal");
}

std::optional<std::string> Reconciler::Impl::explain_json(const std::string& key) {
  const auto it = pods.find(key);
  if (it == pods.end()) return std::nullopt;
  PodRecord& record = it->second;
  add_outlook(record, record.telling, Haste::kNow);
  nlohmann::json reasons = nlohmann::json::array();
  for (const engine::Reason& reason : record.telling.reasons)
    reasons.push_back({{"code", reason.code}, {"message", reason.message}});
  nlohmann::json claims = nlohmann::json::array();
  for (const model::PodResourceClaim& entry : record.pod.resource_claims) {
    const std::string& name = entry.claim_name.empty() ? entry.actual_name : entry.claim_name;
    const model::ResourceClaim* claim = ledger.find(record.pod.meta.name_space + "/" + name);
    nlohmann::json devices = nlohmann::json::array();
    if (claim != nullptr && claim->allocation) {
      for (const model::DeviceResult& result : claim->allocation->results) {
        nlohmann::json consumed = nlohmann::json::object();
        for (const auto& [capacity, amount] : result.consumed_capacity) consumed[capacity] = amount.to_string();
        devices.push_back({{"pool", result.pool}, {"device", result.device}, {"consumed", consumed}});
      }
    }
    claims.push_back({{"name", name}, {"exists", claim != nullptr}, {"devices", devices}});
  }
  std::string outcome = record.telling.outcome;
  if (!record.pod.node_name.empty()) outcome = "Bound";
  if (record.pod.finished()) outcome = "Finished";
  if (outcome.empty()) outcome = "Pending";
  nlohmann::json answer{{"pod", key},
                        {"outcome", outcome},
                        {"node", record.pod.node_name.empty() ? record.granted_node : record.pod.node_name},
                        {"reasons", reasons},
                        {"claims", claims},
                        {"gated", gated(record.pod)},
                        {"tries", record.tries},
                        {"failedNodes", record.failed_nodes}};
  if (const Unit* unit = units.unit_of(key); unit != nullptr && unit->gang) {
    const auto known = gangs.find(unit->id);
    answer["gang"] = {{"name", unit->name},
                      {"minimum", unit->minimum},
                      {"present", unit->present()},
                      {"withDevices", known == gangs.end() ? 0 : whole_members(*unit, known->second)},
                      {"place", known == gangs.end() ? std::string() : known->second.place}};
  }
  return dump_json(answer);
}

}  // namespace heddle::controller
