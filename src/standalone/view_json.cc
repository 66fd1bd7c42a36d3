#include <nlohmann/json.hpp>

#include "base/json.h"
#include "standalone/api.h"

namespace heddle::standalone {
namespace {

using Json = nlohmann::ordered_json;

Json time_json(const std::optional<Time>& time) {
  return time ? Json(format_rfc3339(*time)) : Json(nullptr);
}

Json job_json(const Job& job) {
  Json out;
  out["id"] = job.id;
  out["name"] = job.request.name;
  out["claim"] = job.uid;
  out["state"] = state_name(job.state);
  out["owner"] = job.owner.name;
  out["ownerUid"] = job.owner.uid;
  out["what"] = describe(job.request);
  out["request"] = parse_ordered_json(request_json(job.request));
  out["submittedAt"] = format_rfc3339(job.submitted);
  out["grantedAt"] = time_json(job.granted);
  out["startedAt"] = time_json(job.started);
  out["endedAt"] = time_json(job.ended);
  out["pid"] = job.runner.pid;
  out["exitCode"] = job.exit_code ? Json(*job.exit_code) : Json(nullptr);
  out["outcome"] = job.outcome;
  out["evictedBy"] = job.eviction ? Json(job.eviction->by) : Json(nullptr);
  out["evictedWhy"] = job.eviction ? Json(job.eviction->why) : Json(nullptr);
  out["evictions"] = job.evictions;
  return out;
}

Json job_view(const JobView& view) {
  Json out = job_json(view.job);
  out["output"] = view.output.empty() ? Json(nullptr) : Json(view.output);
  out["queue"] = view.queue.empty() ? Json(nullptr) : Json(view.queue);
  out["ending"] = view.ending.empty() ? Json(nullptr) : Json(view.ending);
  out["position"] = view.position;
  out["reasons"] = Json::array();
  for (const auto& reason : view.reasons)
    out["reasons"].push_back({{"code", reason.code}, {"message", reason.message}});
  out["shares"] = Json::array();
  for (const auto& share : view.shares) {
    Json item;
    item["card"] = share.card;
    item["uuid"] = share.uuid;
    item["memoryBytes"] = share.memory_bytes;
    item["cores"] = share.cores;
    // Unknown is null, never 0.
    item["usedBytes"] = share.used_bytes < 0 ? Json(nullptr) : Json(share.used_bytes);
    out["shares"].push_back(std::move(item));
  }
  return out;
}

Json card_view(const CardView& view, Origin origin) {
  Json out;
  out["name"] = view.name;
  out["simulated"] = origin == Origin::kSimulated;
  out["vendor"] = view.card.vendor;
  out["model"] = view.card.model;
  out["uuid"] = view.card.uuid;
  out["index"] = view.card.index;
  out["healthy"] = view.card.healthy;
  out["healthMessage"] = view.card.health_message;
  out["memoryBytes"] = view.memory_bytes;
  out["grantedBytes"] = view.granted_bytes;
  out["grantedCores"] = view.granted_cores;
  out["usedBytes"] = view.used_bytes < 0 ? Json(nullptr) : Json(view.used_bytes);
  out["utilizationPercent"] = view.utilization_percent < 0 ? Json(nullptr) : Json(view.utilization_percent);
  out["holders"] = Json::array();
  for (const auto& holder : view.holders) {
    out["holders"].push_back({{"job", holder.job}, {"memoryBytes", holder.memory_bytes}, {"cores", holder.cores}});
  }
  return out;
}

}  // namespace

std::string job_view_json(const JobView& job) {
  return dump_json(job_view(job));
}

std::string view_json(const View& view) {
  Json out;
  out["version"] = HEDDLE_VERSION;
  out["node"] = view.node;
  out["simulated"] = view.origin == Origin::kSimulated;
  out["machine"] = view.what;
  out["startedAt"] = format_rfc3339(view.started);
  out["cards"] = Json::array();
  for (const auto& card : view.cards) out["cards"].push_back(card_view(card, view.origin));
  out["jobs"] = Json::array();
  for (const auto& job : view.jobs) out["jobs"].push_back(job_view(job));
  out["strangers"] = Json::array();
  for (const auto& stranger : view.strangers) {
    out["strangers"].push_back(
        {{"pid", stranger.pid},
         {"command", stranger.command},
         {"card", stranger.card},
         {"memoryBytes", stranger.memory_bytes < 0 ? Json(nullptr) : Json(stranger.memory_bytes)},
         {"what", stranger.what}});
  }
  out["trouble"] = view.trouble;
  out["ended"] = Json::array();
  for (const auto& job : view.ended) out["ended"].push_back(job_json(job));
  return dump_json(out);
}

}  // namespace heddle::standalone
