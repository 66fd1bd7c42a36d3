// What `heddle simulate --fleet --workloads` prints.
#pragma once

#include <string>

#include "simulation/simulation.h"

namespace heddle::cli {

std::string simulation_json(const simulation::SimulationResult& result, uint64_t seed);
// For a person. width: columns of the terminal; 0: not a terminal, nothing is cut.
std::string simulation_table(const simulation::SimulationResult& result, uint64_t seed, int width);

}  // namespace heddle::cli
