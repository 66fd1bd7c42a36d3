// What a simulation keeps of its work: units, events, room that is held. For this folder.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/engine.h"
#include "engine/gang.h"
#include "model/claim.h"
#include "model/pod.h"
#include "queueing/meter.h"
#include "simulation/scenario.h"

namespace heddle::simulation {

// One member that runs.
struct Granted {
  std::string node;
  model::ResourceClaim claim;  // its uid is that of the pod, too
};

struct Unit {
  const SimulatedWorkload* workload = nullptr;
  model::Pod pod;
  model::ClaimSpec spec;
  model::PlacementPolicy policy = model::PlacementPolicy::kPacking;
  std::string shape;  // equal texts get equal answers of the engine
  std::vector<queueing::Portion> asked;

  std::vector<Granted> granted;
  std::vector<queueing::Portion> holds;
  Time started;
  int64_t run = 0;  // counts starts, so that the end of an earlier run is known
  bool ever_started = false;
  bool finished = false;
  bool hopeless = false;    // fits on no node, even an empty one
  uint64_t refused_at = 0;  // Simulation::version_ of the last "no"
  uint64_t planned_at = 0;
  int vain = 0;       // times that room was made for it and it could not start
  Time plan_after{};  // no room is made for it before
  std::vector<engine::Reason> reasons;

  [[nodiscard]] bool single() const { return workload->members == 1; }
  // Placed as a pod, not as a gang.
  [[nodiscard]] bool placed_alone() const { return single() && workload->required.empty(); }
};

// Where members would go.
struct Spots {
  std::vector<engine::Assigned> members;
};
struct Refusal {
  std::vector<engine::Reason> reasons;
  bool hopeless = false;
};
using Answer = std::variant<Spots, Refusal>;
inline Answer refusal_of(std::vector<engine::Reason> reasons, bool hopeless) {
  return Refusal{std::move(reasons), hopeless};
}
// A search that was given up is neither yes nor no.
inline Result<Answer> unclear(const Error& error) {
  if (error.code == Code::kExhausted) return refusal_of({{"SearchLimit", error.text()}}, false);
  return tl::unexpected<Error>(error);
}

enum class EventKind { kEnd, kGone, kArrival, kTimer };  // kTimer: a reservation begins or ends
struct Event {
  Time at;
  EventKind kind = EventKind::kArrival;  // what ends makes room for what comes
  int64_t number = 0;
  std::string unit;
  int64_t run = 0;
  friend bool operator<(const Event& a, const Event& b) {
    return std::tie(a.at, a.kind, a.number) < std::tie(b.at, b.kind, b.number);
  }
};

// What it may not break of the boxes that others are guaranteed.
struct Kept {
  std::set<std::string> nodes;           // for one pod alone
  std::vector<engine::BoxBudget> boxes;  // for a gang
};

struct Hold {
  std::set<std::string> nodes;  // of a gang; for one pod the State keeps the room
  bool ready = false;
};

}  // namespace heddle::simulation
