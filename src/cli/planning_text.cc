// A plan as JSON and as a table.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "cli/layout.h"
#include "cli/planning.h"
#include "codec/codec.h"

namespace heddle::cli {
namespace {

using Json = nlohmann::ordered_json;
using engine::Reason;

std::string devices_of(const PlacedPod& pod) {
  std::vector<std::string> parts;
  for (const model::ResourceClaim& claim : pod.claims) {
    for (const model::DeviceResult& result : claim.allocation->results) {
      std::string part = result.pool + "/" + result.device;
      for (const auto& [name, amount] : result.consumed_capacity) part += " " + name + " " + amount.to_string();
      parts.push_back(std::move(part));
    }
  }
  return parts.empty() ? "-" : fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

std::string plan_json(const Plan& plan) {
  Json placed = Json::array();
  for (const PlacedPod& pod : plan.placed) {
    Json claims = Json::array();
    for (const model::ResourceClaim& claim : pod.claims) claims.push_back(parse_ordered_json(codec::claim_json(claim)));
    placed.push_back(Json::object({{"namespace", pod.name_space}, {"pod", pod.name}, {"node", pod.node}}));
    placed.back()["claims"] = std::move(claims);
  }
  Json pending = Json::array();
  for (const PendingPod& pod : plan.pending) {
    Json reasons = Json::array();
    for (const Reason& reason : pod.reasons) {
      reasons.push_back(Json::object({{"code", reason.code}, {"message", reason.message}}));
    }
    pending.push_back(Json::object({{"namespace", pod.name_space}, {"pod", pod.name}}));
    pending.back()["reasons"] = std::move(reasons);
  }
  Json out = Json::object();
  out["placed"] = std::move(placed);
  out["pending"] = std::move(pending);
  return dump_json(out);
}

std::string plan_table(const Plan& plan, int width) {
  std::string out;
  if (!plan.placed.empty()) {
    Rows rows = {{"NAMESPACE", "POD", "NODE", "DEVICES"}};
    for (const PlacedPod& pod : plan.placed) {
      rows.push_back({printable(pod.name_space), printable(pod.name), printable(pod.node), printable(devices_of(pod))});
    }
    out += layout(rows, width);
  }
  if (!plan.pending.empty()) {
    Rows rows = {{"NAMESPACE", "PENDING", "REASON", "MESSAGE"}};
    for (const PendingPod& pod : plan.pending) {
      for (const Reason& reason : pod.reasons) {
        rows.push_back({printable(pod.name_space), printable(pod.name), reason.code, printable(reason.message)});
      }
    }
    out += (out.empty() ? "" : "\n") + layout(rows, width);
  }
  if (plan.placed.empty() && plan.pending.empty()) return "no pod waits\n";
  return out + fmt::format("\n{} placed, {} pending\n", plan.placed.size(), plan.pending.size());
}

}  // namespace heddle::cli
