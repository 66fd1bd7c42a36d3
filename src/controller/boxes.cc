// Quota by shape: nodes that work may not use because it would break a box that a queue is guaranteed.
#include <algorithm>
#include <tuple>

#include "controller/reconciler_impl.h"

namespace heddle::controller {
namespace {

using Device = std::tuple<std::string, std::string, std::string>;  // driver, pool, name

// Devices that a request may open up on one node.
int64_t devices_of(const model::ClaimSpec& spec) {
  int64_t devices = 0;
  for (const model::DeviceRequest& request : spec.requests) {
    int64_t most = request.exactly ? request.exactly->count.value_or(1) : 1;
    for (const model::DeviceSubRequest& alternative : request.first_available)
      most = std::max(most, alternative.count.value_or(1));
    devices += most;
  }
  return devices;
}

}  // namespace

// By node: what is free, and what borrowed work holds as whole boxes, which entitled work would take back as such.
void Reconciler::Impl::look_at_boxes() {
  Queued& q = queued;
  q.rooms.assign(q.table.meters().size(), {});
  q.rooms_stale = false;
  std::map<std::string, std::set<Device>> borrowed;
  std::set<Device> entitled;
  for (const auto& [id, holdings] : q.holdings) {
    const queueing::Workload* workload = q.queues->workload(id);
    if (workload == nullptr) continue;
    const bool own = q.queues->entitled(id);
    const bool whole = std::any_of(workload->portions.begin(), workload->portions.end(),
                                   [](const queueing::Portion& portion) { return portion.boxes > 0; });
    if (!own && !whole) continue;
    for (const std::string& key : holdings.claim_uids) {
      const model::Allocation* allocation = ledger.planned(key);
      const model::ResourceClaim* claim = ledger.find(key);
      if (allocation == nullptr && claim != nullptr && claim->allocation) allocation = &*claim->allocation;
      if (allocation == nullptr) continue;
      const std::string node = model::allocated_node(*allocation).value_or("");
      for (const model::DeviceResult& result : allocation->results) {
        Device device{result.driver, result.pool, result.device};
        if (own) {
          entitled.insert(std::move(device));
        } else {
          borrowed[node].insert(std::move(device));
        }
      }
    }
  }
  for (size_t m = 0; m < q.table.meters().size(); ++m) {
    const model::QuotaMeter& meter = q.table.meters()[m];
    if (meter.counts != model::QuotaMeter::Counts::kBoxes) continue;
    BoxRoom& room = q.rooms[m];
    for (const engine::FleetPart& part : engine::fleet_of(ledger.state(), meter.device_class)) {
      const bool counts =
          (meter.vendor.empty() || meter.vendor == part.vendor) && (meter.model.empty() || meter.model == part.model);
      if (counts && !part.node.empty()) room.available[part.node] += part.free;
    }
    for (auto& [node, available] : room.available) {
      const auto lent = borrowed.find(node);
      if (lent != borrowed.end()) {
        available += std::count_if(lent->second.begin(), lent->second.end(),
                                   [&](const Device& device) { return !entitled.contains(device); });
      }
      room.intact += available / meter.box_devices;
    }
  }
}

// What the work may break, of the meters that keep any box whole.
std::vector<engine::BoxBudget> Reconciler::Impl::boxes_for(const std::string& work) {
  std::vector<engine::BoxBudget> budgets;
  if (!queued.queues) return budgets;
  const queueing::Amounts keep = queued.queues->keep_intact(work);
  if (std::all_of(keep.begin(), keep.end(), [](int64_t boxes) { return boxes == 0; })) return budgets;
  if (queued.rooms_stale) look_at_boxes();
  for (size_t m = 0; m < keep.size(); ++m) {
    if (keep[m] == 0) continue;
    const model::QuotaMeter& meter = queued.table.meters()[m];
    budgets.push_back({.box_devices = meter.box_devices,
                       .device_class = meter.device_class,
                       .vendor = meter.vendor,
                       .model = meter.model,
                       .available = queued.rooms[m].available,
                       .spare = std::max<int64_t>(queued.rooms[m].intact - keep[m], 0)});
  }
  return budgets;
}

// For one pod alone; the members of a gang are counted together (gang_ask).
void Reconciler::Impl::keep_boxes(const PodRecord& record, engine::PlacementRequest& request) {
  const Unit* unit = units.unit_of(record.pod.meta.key());
  if (unit != nullptr && unit->gang) return;
  int64_t devices = 0;
  for (const engine::ClaimRequest& claim : request.claims) devices += devices_of(claim.spec);
  for (const engine::BoxBudget& budget : boxes_for(work_id(record))) {
    const int64_t size = budget.box_devices;
    for (const auto& [node, available] : budget.available) {
      const int64_t broken = available / size - std::max<int64_t>(available - devices, 0) / size;
      if (broken > budget.spare) request.whole_nodes.insert(node);
    }
  }
}

}  // namespace heddle::controller
