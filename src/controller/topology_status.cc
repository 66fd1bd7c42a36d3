// Which AcceleratorTopology is in force, and what the others are told.
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "controller/objects.h"
#include "controller/reconciler_impl.h"

namespace heddle::controller {

using Json = nlohmann::json;

// levels_changed: what is in force now has other levels than before.
void Reconciler::Impl::topology_changed(bool levels_changed) {
  topology_due = true;
  if (!levels_changed) return;
  options.topology = topologies.levels();
  ledger.state().keep_reserve(options.topology);
  // What no domain had room for may fit now, and what was refused may be known.
  ++queued.version;
  queued.fleet_due = true;  // boxes of a level may be others
  pass_due = true;
}

void Reconciler::Impl::write_topology_status() {
  const int64_t now = clock.monotonic_nanos();
  if (topology_retry_at != 0 && now >= topology_retry_at) {
    topology_due = true;
    topology_retry_at = 0;
  }
  if (!std::exchange(topology_due, false)) return;
  const auto standings = topologies.standings();
  std::erase_if(topology_told, [&](const auto& told) { return !standings.contains(told.first); });
  for (const auto& [name, standing] : standings) {
    const auto told = topology_told.find(name);
    if (told != topology_told.end() && told->second == standing) continue;
    topology_told.insert_or_assign(name, standing);
    const Json condition{{"type", "InForce"},
                         {"status", standing.in_force ? "True" : "False"},
                         {"reason", standing.reason},
                         {"message", standing.message},
                         {"lastTransitionTime", format_rfc3339(clock.now())}};
    emit(nullptr, WriteKind::kQueueStatus, {},
         patch_heddle_status(kube::kAcceleratorTopologies.plural, name,
                             dump_json(Json{{"status", {{"conditions", Json::array({condition})}}}})));
    flights[last_id].subject = std::string(kube::kAcceleratorTopologies.plural) + "/" + name;
  }
}

// The status could not be written.
void Reconciler::Impl::topology_untold(const std::string& name) {
  topology_told.erase(name);
  topology_retry_at = clock.monotonic_nanos() + options.longest_backoff.nanos;
  wake_at(topology_retry_at, std::string(kStatusTimer));
}

}  // namespace heddle::controller
