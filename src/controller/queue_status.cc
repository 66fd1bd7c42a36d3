// What queues and reservations say of themselves: usage, what waits, whether they are in force, and the past.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "controller/objects.h"
#include "controller/reconciler_impl.h"

namespace heddle::controller {
namespace {

using Json = nlohmann::json;

constexpr int64_t kStatusNanos = 2'000'000'000;  // between two looks at what there is to write

std::string number_text(const model::QuotaMeter& meter, int64_t amount) {
  switch (meter.counts) {
    case model::QuotaMeter::Counts::kDevices:
      return Quantity::from_nano(Int128{amount} * 1'000'000, Quantity::Format::kDecimalSi).to_string();
    case model::QuotaMeter::Counts::kMemory:
      return Quantity::bytes(amount).to_string();
    case model::QuotaMeter::Counts::kCores:
    case model::QuotaMeter::Counts::kBoxes:
      break;
  }
  return std::to_string(amount);
}

}  // namespace

// All but its past and its condition, as a JSON object.
std::string Reconciler::Impl::queue_status(const std::string& name, const QueueObject& object) const {
  Json status = Json::object();
  const auto spec = queued.table.in_force().find(name);
  if (spec == queued.table.in_force().end() || !queued.queues) return dump_json(status);
  const queueing::Queues& queues = *queued.queues;
  size_t waiting = 0;
  size_t running = 0;
  queueing::Amounts entitled(queued.table.meters().size(), 0);
  for (const std::string& leaf : queued.table.leaves(name)) {
    waiting += queues.waiting(leaf, clock.now()).size();
    running += queues.active(leaf);
    queueing::add(entitled, queues.entitled_usage(leaf));
  }
  status["waiting"] = waiting;
  status["running"] = running;
  const queueing::Amounts used = queues.usage(name);
  Json usage = Json::array();
  for (const model::QueueQuota& quota : spec->second.quotas) {
    for (size_t m = 0; m < queued.table.meters().size(); ++m) {
      if (queued.table.meters()[m] != quota.meter) continue;
      Json entry{{"name", model::meter_name(quota.meter)},
                 {"used", number_text(quota.meter, used[m])},
                 {"entitled", number_text(quota.meter, entitled[m])}};
      if (quota.guaranteed) entry["guaranteed"] = number_text(quota.meter, *quota.guaranteed);
      if (quota.limit) entry["limit"] = number_text(quota.meter, *quota.limit);
      usage.push_back(std::move(entry));
    }
  }
  status["usage"] = std::move(usage);
  if (object.queue && object.queue->spec == spec->second) status["inForce"] = parse_json(object.queue->spec_json);
  return dump_json(status);
}

// Written when something else than the past changed; that goes with it.
void Reconciler::Impl::write_status(std::string_view plural, const std::string& name, const QueueTable::Fault* fault,
                                    const std::string& rest, int64_t generation) {
  const std::string subject = fmt::format("{}/{}", plural, name);
  const std::string condition = fault == nullptr ? "True" : "False";
  const std::string why = fault == nullptr ? "" : fault->text() + "; until then the last good tree stays in force";
  const std::string text = fmt::format("{}\n{}\n{}\n{}", rest, condition, why, generation);
  const auto [written, fresh] = queued.written.try_emplace(subject);
  if (written->second.text == text) return;
  if (written->second.condition != condition) {
    written->second.condition = condition;
    written->second.since = clock.now();
  }
  written->second.text = text;
  Json status = parse_json(rest);
  status["observedGeneration"] = generation;
  status["conditions"] = Json::array({{{"type", "InForce"},
                                       {"status", condition},
                                       {"reason", fault == nullptr ? "InForce" : "Invalid"},
                                       {"message", why},
                                       {"observedGeneration", generation},
                                       {"lastTransitionTime", format_rfc3339(written->second.since)}}});
  if (queued.queues && plural == kube::kAcceleratorQueues.plural) {
    const auto past = queued.queues->past(clock.now());
    if (const auto own = past.find(name); own != past.end()) {
      status["past"] = {{"at", format_rfc3339(own->second.at)},
                        {"milliDeviceSeconds", own->second.milli_device_seconds}};
    }
  }
  emit(nullptr, WriteKind::kQueueStatus, {}, patch_heddle_status(plural, name, dump_json(Json{{"status", status}})));
  flights[last_id].subject = subject;
}

void Reconciler::Impl::write_queue_status() {
  const int64_t now = clock.monotonic_nanos();
  if ((!queued.table.any() && queued.table.reservations().empty()) || !queued.status_dirty || now < queued.status_at)
    return;
  queued.status_dirty = false;
  queued.status_at = now + kStatusNanos;
  wake_at(queued.status_at, std::string(kStatusTimer));
  for (const auto& [name, object] : queued.table.queues()) {
    write_status(kube::kAcceleratorQueues.plural, name, queued.table.fault_of_queue(name), queue_status(name, object),
                 object.generation);
  }
  for (const auto& [name, object] : queued.table.reservations()) {
    write_status(kube::kAcceleratorReservations.plural, name, queued.table.fault_of_reservation(name), "{}",
                 object.generation);
  }
}

}  // namespace heddle::controller
