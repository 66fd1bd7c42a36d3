// Quota by shape: nodes that work may not use because it would break a box that a queue is guaranteed.
#include <algorithm>

#include "controller/objects.h"
#include "controller/reconciler_impl.h"

namespace heddle::controller {
// What runs, as far as it counts for boxes.
void Reconciler::Impl::look_at_boxes() {
  Queued& q = queued;
  q.rooms_stale = false;
  std::vector<engine::BoxHolder> holders;
  for (const auto& [id, holdings] : q.holdings) {
    const queueing::Workload* workload = q.queues->workload(id);
    if (workload == nullptr) continue;
    const bool boxes = std::any_of(workload->portions.begin(), workload->portions.end(),
                                   [](const queueing::Portion& portion) { return portion.boxes > 0; });
    for (const std::string& key : holdings.claim_uids) {
      const model::Allocation* allocation = ledger.planned(key);
      const model::ResourceClaim* claim = ledger.find(key);
      if (allocation == nullptr && claim != nullptr && claim->allocation) allocation = &*claim->allocation;
      if (allocation != nullptr) holders.push_back({allocation, q.queues->entitled(id), boxes});
    }
  }
  q.rooms = engine::BoxRooms::look(ledger.state(), options.topology, q.table.meters(), holders);
}

// How many boxes the work must leave, by meter; empty: it may break any.
queueing::Amounts Reconciler::Impl::boxes_kept(const std::string& work) {
  if (!queued.queues) return {};
  queueing::Amounts keep = queued.queues->keep_intact(work);
  if (std::all_of(keep.begin(), keep.end(), [](int64_t boxes) { return boxes == 0; })) return {};
  if (queued.rooms_stale) look_at_boxes();
  return keep;
}

// What the work may break, of the meters that keep any box whole.
std::vector<engine::BoxBudget> Reconciler::Impl::boxes_for(const std::string& work) {
  return queued.rooms.budgets(queued.table.meters(), boxes_kept(work));
}

// For one pod alone; the members of a gang are counted together (gang_ask).
void Reconciler::Impl::keep_boxes(const PodRecord& record, engine::PlacementRequest& request) {
  const Unit* unit = units.unit_of(record.pod.meta.key());
  if (unit != nullptr && unit->gang) return;
  int64_t devices = 0;
  for (const engine::ClaimRequest& claim : request.claims) devices += devices_opened(claim.spec);
  const queueing::Amounts keep = boxes_kept(work_id(record));
  request.whole_nodes.merge(queued.rooms.nodes_kept(keep, devices));
}

}  // namespace heddle::controller
