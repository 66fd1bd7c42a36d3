#include "simulation/boxes.h"

#include <fmt/format.h>

#include <utility>

#include "engine/box_map.h"
#include "engine/demand.h"

namespace heddle::simulation {

Result<void> check_boxes(const engine::State& state, const engine::QueueTable& table) {
  for (const auto& [name, spec] : table.in_force()) {
    for (const model::QueueQuota& quota : spec.quotas) {
      const auto known = engine::Topology::make(state, engine::default_topology(), {quota.meter.box_level});
      if (!known) return fail(known.error().code, known.error().message, fmt::format("queue {}: boxLevel", name));
    }
  }
  return {};
}

engine::QueueTable::WideBoxes wide_boxes(const engine::State& state) {
  return [&state](const model::QuotaMeter& meter) {
    return engine::boxes_of_fleet(state, engine::default_topology(), meter);
  };
}

void count_boxes(const engine::QueueTable& table, const SimulatedWorkload& workload,
                 std::vector<queueing::Portion>& portions) {
  for (queueing::Portion& portion : portions) table.fill_boxes(portion);
  table.fill_wide_boxes(portions, {workload.required, workload.segment_level, workload.segment_size},
                        engine::default_topology());
}

std::vector<queueing::Portion> portions_of(const engine::State& state, const engine::QueueTable& table,
                                           const Unit& unit, const Spots& spots) {
  std::vector<queueing::Portion> portions;
  for (const engine::Assigned& member : spots.members) {
    for (queueing::Portion& portion : engine::granted(state, unit.spec, member.allocations.front()))
      portions.push_back(std::move(portion));
  }
  count_boxes(table, *unit.workload, portions);
  return portions;
}

std::string budget_text(const engine::BoxBudget& budget) {
  return fmt::format("{} of {} {} {} {} {}", budget.spare, budget.box_devices, budget.device_class, budget.vendor,
                     budget.model, budget.map == nullptr ? std::string() : budget.map->text(1));
}

}  // namespace heddle::simulation
