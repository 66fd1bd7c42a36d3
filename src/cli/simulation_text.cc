#include "cli/simulation_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "cli/layout.h"

namespace heddle::cli {
namespace {

using Json = nlohmann::ordered_json;
using simulation::Waits;

constexpr size_t kUnplacedShown = 50;  // in a table

Json waits_json(const Waits& waits) {
  Json out = Json::object();
  out["count"] = waits.count;
  out["meanSeconds"] = waits.mean;
  out["p50Seconds"] = waits.p50;
  out["p99Seconds"] = waits.p99;
  out["longestSeconds"] = waits.longest;
  return out;
}

std::string waits_text(const Waits& waits) {
  return fmt::format("mean {:.1f} s, p50 {:.1f} s, p99 {:.1f} s, longest {:.1f} s", waits.mean, waits.p50, waits.p99,
                     waits.longest);
}

}  // namespace

std::string simulation_json(const simulation::SimulationResult& result, uint64_t seed) {
  Json out = Json::object();
  out["seed"] = seed;
  out["workloads"] = result.workloads;
  out["started"] = result.started;
  out["finished"] = result.finished;
  out["allocatedPercent"] = result.allocated_percent;
  out["allocatedPercentWhileArriving"] = result.allocated_percent_while_arriving;
  out["simulatedSeconds"] = result.seconds_simulated;
  out["waits"] = waits_json(result.waits);
  out["gangWaits"] = waits_json(result.gang_waits);
  out["evictions"] = result.evictions;
  out["lostDeviceHours"] = result.lost_hours;
  out["models"] = Json::array();
  for (const simulation::KindUse& kind : result.kinds) {
    Json one = Json::object();
    one["vendor"] = kind.vendor;
    one["model"] = kind.model;
    one["devices"] = kind.devices;
    one["allocatedPercent"] = kind.allocated_percent;
    out["models"].push_back(std::move(one));
  }
  out["queues"] = Json::array();
  for (const simulation::QueueUse& queue : result.queues) {
    Json one = Json::object();
    one["queue"] = queue.queue;
    one["workloads"] = queue.workloads;
    one["waits"] = waits_json(queue.waits);
    one["evicted"] = queue.evicted;
    one["deviceHours"] = queue.device_hours;
    out["queues"].push_back(std::move(one));
  }
  out["unplaced"] = Json::array();
  for (const simulation::Unplaced& unplaced : result.unplaced) {
    Json one = Json::object();
    one["workload"] = unplaced.workload;
    one["queue"] = unplaced.queue;
    one["reasons"] = Json::array();
    for (const engine::Reason& reason : unplaced.reasons) {
      Json why = Json::object();
      why["code"] = reason.code;
      why["message"] = reason.message;
      one["reasons"].push_back(std::move(why));
    }
    out["unplaced"].push_back(std::move(one));
  }
  out["decisions"] = result.decisions;
  out["evictionPlans"] = result.plans;
  out["seconds"] = result.seconds;
  return dump_json(out, 2) + "\n";
}

std::string simulation_table(const simulation::SimulationResult& result, uint64_t seed, int width) {
  std::string out = fmt::format("seed {}: {} of {} workloads started, {} came to their end, in {:.0f} s\n", seed,
                                result.started, result.workloads, result.finished, result.seconds_simulated);
  out += fmt::format("allocated  {:.2f}% of all devices ({:.2f}% while work arrived)\n", result.allocated_percent,
                     result.allocated_percent_while_arriving);
  out += fmt::format("waits      {}\n", waits_text(result.waits));
  if (result.gang_waits.count > 0) out += fmt::format("gangs      {}\n", waits_text(result.gang_waits));
  out += fmt::format("evictions  {}, {:.2f} device hours lost\n", result.evictions, result.lost_hours);
  out += fmt::format("decisions  {} placements, {} plans of evictions, {:.3f} s\n", result.decisions, result.plans,
                     result.seconds);
  Rows models = {{"VENDOR", "MODEL", "DEVICES", "ALLOCATED"}};
  for (const simulation::KindUse& kind : result.kinds) {
    models.push_back({printable(kind.vendor), printable(kind.model), std::to_string(kind.devices),
                      fmt::format("{:.2f}%", kind.allocated_percent)});
  }
  if (models.size() > 1) out += "\n" + layout(models, width);
  Rows queues = {{"QUEUE", "WORKLOADS", "MEAN WAIT", "P99 WAIT", "EVICTED", "DEVICE HOURS"}};
  for (const simulation::QueueUse& queue : result.queues) {
    queues.push_back({printable(queue.queue), std::to_string(queue.workloads),
                      fmt::format("{:.1f} s", queue.waits.mean), fmt::format("{:.1f} s", queue.waits.p99),
                      std::to_string(queue.evicted), fmt::format("{:.2f}", queue.device_hours)});
  }
  if (queues.size() > 1) out += "\n" + layout(queues, width);
  if (result.unplaced.empty()) return out;
  Rows unplaced = {{"UNPLACED", "QUEUE", "REASON", "MESSAGE"}};
  for (size_t i = 0; i < result.unplaced.size() && i < kUnplacedShown; ++i) {
    const simulation::Unplaced& one = result.unplaced[i];
    for (const engine::Reason& reason : one.reasons) {
      unplaced.push_back({printable(one.workload), printable(one.queue), reason.code, printable(reason.message)});
    }
  }
  out += "\n" + layout(unplaced, width);
  if (result.unplaced.size() > kUnplacedShown) {
    out += fmt::format("and {} more: see -o json\n", result.unplaced.size() - kUnplacedShown);
  }
  return out;
}

}  // namespace heddle::cli
