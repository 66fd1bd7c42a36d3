// What work takes of its queue in a simulation, as devices and as boxes, and which boxes there are. For this folder.
//
// Levels are the default ones and node labels. Pure.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/gang.h"
#include "engine/queue_table.h"
#include "queueing/meter.h"
#include "simulation/scenario.h"
#include "simulation/simulation_units.h"

namespace heddle::simulation {

// Errors: kInvalidArgument for a boxLevel that is no level.
Result<void> check_boxes(const engine::State& state, const engine::QueueTable& table);
// For QueueTable::config(); the state is borrowed.
engine::QueueTable::WideBoxes wide_boxes(const engine::State& state);
// Of what all members take together.
void count_boxes(const engine::QueueTable& table, const SimulatedWorkload& workload,
                 std::vector<queueing::Portion>& portions);
// What the unit takes with its members there.
std::vector<queueing::Portion> portions_of(const engine::State& state, const engine::QueueTable& table,
                                           const Unit& unit, const Spots& spots);
// Equal texts: the same may be broken.
std::string budget_text(const engine::BoxBudget& budget);

}  // namespace heddle::simulation
