// Workloads on a made-up fleet in virtual time: the engine, the queues and preemption as a cluster has them, without a
// cluster. Each decision is made by the code that makes it there.
//
// Pure but for the stopwatch that is passed in; the same scenario and seed give the same result. Not modelled: time
// that a decision or a start takes, failures. A workload that waits is tried again when something ends, and when a
// reservation begins or ends. One that is evicted ends after the grace, and then starts
// over.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/engine.h"
#include "simulation/scenario.h"

namespace heddle::simulation {

// Seconds from arrival to the first start, of workloads that started; percentiles by nearest rank.
struct Waits {
  int64_t count = 0;
  double mean = 0;
  double p50 = 0;
  double p99 = 0;
  double longest = 0;
};

struct KindUse {
  std::string vendor;
  std::string model;
  int64_t devices = 0;
  double allocated_percent = 0;
};

struct QueueUse {
  std::string queue;
  int64_t workloads = 0;
  Waits waits;
  int64_t evicted = 0;
  double device_hours = 0;
};

struct Unplaced {
  std::string workload;
  std::string queue;
  std::vector<engine::Reason> reasons;
};

struct SimulationResult {
  int64_t workloads = 0;
  int64_t started = 0;   // at least once
  int64_t finished = 0;  // came to their end
  // Means over time of all devices, from the first arrival to the last end; and to the last arrival, in which the
  // emptying at the end is not.
  double allocated_percent = 0;
  double allocated_percent_while_arriving = 0;
  double seconds_simulated = 0;
  Waits waits;
  Waits gang_waits;       // of those with more than one member
  int64_t evictions = 0;  // workloads that were ended to make room
  double lost_hours = 0;  // device hours of runs that were ended so
  int64_t decisions = 0;  // placements tried
  int64_t plans = 0;      // searches for victims
  double seconds = 0;     // of the stopwatch, in decisions
  std::vector<KindUse> kinds;
  std::vector<QueueUse> queues;    // those that had work
  std::vector<Unplaced> unplaced;  // never started, or waiting again when nothing runs any more
};

// Called after each decision round; for tests.
using Observer = std::function<void(const engine::State& state, Time now)>;

// Errors: kInvalidArgument for queues that do not fit together or a workload whose queue is not a leaf; kExhausted
// beyond fifty million events; kInternal where a decision breaks an invariant.
Result<SimulationResult> simulate(const SimulatedFleet& fleet, const std::vector<SimulatedWorkload>& workloads,
                                  uint64_t seed, const Clock& stopwatch, const Observer& observer = {});

}  // namespace heddle::simulation
