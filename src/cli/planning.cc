#include "cli/planning.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "base/json.h"
#include "cli/planner.h"
#include "cli/planning_parts.h"
#include "controller/objects.h"
#include "dialects/wire_names.h"

namespace heddle::cli {

Planner::Planner(std::shared_ptr<const catalog::Requests> rules, catalog::Catalog hardware, Fleet fleet, Time now)
    : rules_(std::move(rules)),
      hardware_(std::move(hardware)),
      fleet_(std::move(fleet)),
      now_(now),
      ledger_(std::string(dialects::kDriver)),
      quotas_(rules_) {
  load();
}

Result<Plan> Planner::run() {
  HEDDLE_CHECK_OK(note_arrivals());
  for (const auto& [key, entry] : fleet_.pods) units_.upsert(entry.pod);
  for (controller::GangObject& object : fleet_.gang_objects) units_.upsert_object(std::move(object));
  HEDDLE_CHECK_OK(build_queues());
  form_works();
  HEDDLE_CHECK_OK(adopt_all());
  place_started();
  pass_until_nothing_starts();
  tell_not_offered();
  number_positions();
  plan_evictions();
  look_out();
  tell_positions();
  sort_pending();
  add_notes();
  return std::move(plan_);
}

void Planner::load() {
  engine::State& state = ledger_.state();
  fleet_.queues.settle();
  for (auto& [name, node] : fleet_.nodes) {
    for (const auto& [resource, quantity] : node.allocatable) {
      if (quantity.sign() > 0) plugin_resources_.insert(resource);
    }
    state.upsert_node(std::move(node));
  }
  for (auto& [name, slice] : fleet_.slices) state.upsert_slice(std::move(slice));
  for (auto& [name, rule] : fleet_.taint_rules) state.upsert_taint_rule(std::move(rule));
  const std::string ours = R"(device.driver == "accelerator.heddle.dev")";
  fleet_.classes.emplace(dialects::kAnyClass, chart_class(dialects::kAnyClass, ours));
  for (const catalog::RequestVendor& vendor : rules_->vendors()) {
    const std::string name = fmt::format("{}-{}", dialects::kAnyClass, vendor.name);
    const std::string selector =
        fmt::format(R"({} && device.attributes["accelerator.heddle.dev"].vendor == "{}")", ours, vendor.name);
    fleet_.classes.emplace(name, chart_class(name, selector));
  }
  for (const auto& [name, device_class] : fleet_.classes) {
    state.upsert_class(device_class);
    if (controller::speaks_of(device_class, dialects::kDriver)) our_classes_.insert(name);
  }
  for (const auto& [key, claim] : fleet_.claims) ledger_.upsert(claim);
  for (const auto& [key, quota] : fleet_.quotas) quotas_.upsert(quota);
  for (const auto& [name, topology] : fleet_.topologies) topologies_.upsert(topology);
  state.keep_reserve(topologies_.levels());
  for (const auto& [key, entry] : fleet_.pods) {
    const model::Pod& pod = entry.pod;
    if (pod.node_name.empty() || pod.finished()) continue;
    state.upsert_pod_usage(pod.meta.uid, pod.node_name, model::effective_requests(pod), model::host_ports(pod));
  }
}

bool Planner::waits(const model::Pod& pod) {
  return pod.node_name.empty() && !pod.finished() && !pod.meta.deleting;
}

// The mix, from all pods that are there, before the first is placed: as a controller that has just started.
Result<void> Planner::note_arrivals() {
  for (auto& [key, entry] : fleet_.pods) {
    if (entry.pod.finished() || entry.pod.meta.deleting) continue;
    if (entry.pod.node_name.empty()) HEDDLE_CHECK_OK(translate(key, entry));
    const Translated& translated = translated_[key];
    const Wants wants = translated.refusals.empty() ? wants_of(entry.pod, translated.requests) : Wants{};
    if (wants.blocked || wants.claims.empty()) continue;
    engine::PlacementRequest asked;
    asked.pod = &entry.pod;
    for (const Want& want : wants.claims) asked.claims.push_back({want.key, want.key, want.claim.spec});
    ledger_.state().arrive(asked);
  }
  return {};
}

void Planner::pend(const model::Pod& pod, Reasons reasons) {
  plan_.pending.push_back({pod.meta.name_space, pod.meta.name, std::move(reasons)});
}

// As they stand by priority and age; the members of a gang together, by rank.
void Planner::sort_pending() {
  using Rank = std::tuple<int64_t, int64_t, std::string>;
  const auto rank_of = [&](const std::string& key) {
    const model::Pod& pod = fleet_.pods.at(key).pod;
    return Rank(-static_cast<int64_t>(pod.priority), pod.meta.created.unix_nanos, key);
  };
  std::vector<std::pair<std::pair<Rank, size_t>, PendingPod>> ranked;
  std::map<std::string, Rank> first;  // of gangs
  for (PendingPod& pod : plan_.pending) {
    const std::string key = pod.name_space + "/" + pod.name;
    const controller::Unit* unit = units_.unit_of(key);
    std::pair<Rank, size_t> rank{rank_of(key), 0};
    if (unit != nullptr && unit->gang) {
      const auto [known, fresh] = first.try_emplace(unit->id, rank.first);
      for (size_t i = 0; i < unit->members.size(); ++i) {
        if (fresh) known->second = std::min(known->second, rank_of(unit->members[i]));
        if (unit->members[i] == key) rank.second = i;
      }
      rank.first = known->second;
    }
    ranked.emplace_back(std::move(rank), std::move(pod));
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  plan_.pending.clear();
  for (auto& [rank, pod] : ranked) plan_.pending.push_back(std::move(pod));
}

// What keeps a pod off nodes and is for kube-scheduler to say.
void Planner::note_unseen(const FleetPod& entry) {
  std::vector<std::string> unseen;
  const nlohmann::json pod = parse_json(entry.json);
  if (!pod.is_object()) return;
  const nlohmann::json affinity = pod.value(nlohmann::json::json_pointer("/spec/affinity"), nlohmann::json());
  for (const char* rule : {"podAffinity", "podAntiAffinity"}) {
    if (affinity.is_object() && affinity.contains(rule) && !affinity.at(rule).empty()) unseen.emplace_back(rule);
  }
  const nlohmann::json spread =
      pod.value(nlohmann::json::json_pointer("/spec/topologySpreadConstraints"), nlohmann::json());
  if (!spread.empty()) unseen.emplace_back("topologySpreadConstraints");
  for (const std::string& name : entry.pod.volume_claims) {
    const auto claim = fleet_.volume_claims.find(entry.pod.meta.name_space + "/" + name);
    if (claim == fleet_.volume_claims.end()) {
      unseen.push_back(fmt::format("PersistentVolumeClaim {} (it is not in the input)", name));
    } else if (claim->second.volume_name.empty()) {
      unseen.push_back(fmt::format("PersistentVolumeClaim {} (it has no volume yet)", name));
    } else if (!fleet_.volumes.contains(claim->second.volume_name)) {
      unseen.push_back(
          fmt::format("PersistentVolume {} of claim {} (it is not in the input)", claim->second.volume_name, name));
    }
  }
  if (!unseen.empty())
    plan_.notes.push_back(fmt::format("pod {}: not looked at: {}", entry.pod.meta.key(), fmt::join(unseen, ", ")));
}

void Planner::add_notes() {
  for (const auto& [key, entry] : fleet_.pods) {
    if (waits(entry.pod)) note_unseen(entry);
  }
  for (const auto& [kind, count] : fleet_.ignored) {
    plan_.notes.push_back(fmt::format("{} {} object{} not looked at", count, kind, count == 1 ? "" : "s"));
  }
  for (const auto& [name, standing] : topologies_.standings()) {
    if (!standing.message.empty()) plan_.notes.push_back(fmt::format("topology {}: {}", name, standing.message));
  }
  for (const auto& [name, object] : fleet_.queues.queues()) {
    if (const auto* fault = fleet_.queues.fault_of_queue(name))
      plan_.notes.push_back(fmt::format("queue {}: {}; it is left out", name, fault->text()));
  }
  for (const auto& [name, object] : fleet_.queues.reservations()) {
    if (const auto* fault = fleet_.queues.fault_of_reservation(name))
      plan_.notes.push_back(fmt::format("reservation {}: {}; it is left out", name, fault->text()));
  }
}

Result<Plan> plan_fleet(Fleet fleet, Time now) {
  HEDDLE_TRY(catalog::Requests rules, catalog::Requests::built_in());
  HEDDLE_TRY(catalog::Catalog hardware, catalog::Catalog::built_in());
  return Planner(std::make_shared<const catalog::Requests>(std::move(rules)), std::move(hardware), std::move(fleet),
                 now)
      .run();
}

}  // namespace heddle::cli
