// What is simulated: a made-up fleet, its queues, and the workloads that come. Values, and how they are written as JSON
// (docs/simulate.md). Pure; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/quantity.h"
#include "base/result.h"
#include "engine/queue_table.h"

namespace heddle::simulation {

struct DeviceGroup {
  std::string vendor;
  std::string model;
  int64_t count = 0;  // of one node
  int64_t memory_bytes = 0;
};

struct SimulatedNode {
  std::string name;
  std::vector<DeviceGroup> devices;
  std::map<std::string, std::string> labels;
  Quantity cpu;
  Quantity memory;
};

struct SimulatedFleet {
  std::vector<SimulatedNode> nodes;
  std::vector<engine::QueueObject> queues;
  std::optional<Duration> patience;  // nothing: nobody starves
  Duration half_life = Duration::seconds(7LL * 24 * 3600);
  Duration grace = Duration::seconds(30);                    // from an eviction to the end of what is evicted
  std::vector<engine::ReservationObject> reservations = {};  // their times are since Time{}, the start
};

// What each member asks for. No memory, no percent, no cores: whole devices.
struct DeviceAsk {
  int64_t devices = 1;
  std::string vendor;  // empty: any
  std::string model;   // empty: any
  std::optional<Quantity> memory;
  std::optional<int64_t> memory_percent;
  std::optional<int64_t> cores;
};

struct SimulatedWorkload {
  std::string name;   // unique
  Duration arrival;   // since the start
  Duration duration;  // of a run that nobody ends; an evicted workload starts over
  std::string queue;
  int32_t priority = 0;
  int64_t members = 1;
  int64_t minimum = 1;  // 1 to members; a gang that starts with fewer than all stays so
  DeviceAsk ask;
  Quantity cpu;
  Quantity memory;
  std::map<std::string, std::string> node_selector;
  std::string required;  // topology levels; empty: none
  std::string preferred;
  bool never_preempts = false;   // preemptionPolicy: Never
  int64_t segment_size = 0;      // members; 0: none
  std::string segment_level;     // with a size
  std::string reservation = {};  // runs inside this one only
};

// The one namespace of a simulation.
inline constexpr const char* kAnybody = "default";

struct NamedJson {
  std::string name;  // of the file, for errors
  std::string text;
};

// Errors: kInvalidArgument; the field is "FILE: nodes[0].devices[1].memory", the message says what to write.
Result<SimulatedFleet> read_fleet(const NamedJson& file);
// In the order of arrival, then of the file. seed: of random gaps and durations.
// Errors: as read_fleet(); kExhausted for more than a million workloads.
Result<std::vector<SimulatedWorkload>> read_workloads(const NamedJson& file, uint64_t seed);

}  // namespace heddle::simulation
