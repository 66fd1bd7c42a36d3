// What requests and grants amount to, as quotas count them: of which vendor and model, and how much of a device. And
// what there is of it.
//
// Pure; one owner thread. Cost: one look at each device of the fleet a call (at one device for facts_of).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "queueing/meter.h"

namespace heddle::engine {

// Devices of one kind on one node. Partitions are not counted: they are parts of their cards.
struct FleetPart {
  std::string node;  // empty: not tied to one
  std::string vendor;
  std::string model;
  int64_t devices = 0;
  int64_t memory_bytes = 0;
  int64_t cores = 0;  // percent of one device, summed
  int64_t free = 0;   // devices that nobody holds a part of
  friend bool operator==(const FleetPart&, const FleetPart&) = default;
};
// Only devices that the class selects, if one is named; of a class that is not known: none. Devices that belong to
// another owner are left out. Ordered.
std::vector<FleetPart> fleet_of(const State& state, const std::string& device_class = {});

// One portion a request. Vendor and model are named where every device that could serve it has the same; amounts that
// depend on the device are the least then possible.
// Errors: those of State::place.
Result<std::vector<queueing::Portion>> asked(const State& state, const ClaimRequest& claim);

// What an allocation takes: one portion for each request and kind of device. spec: of the claim.
std::vector<queueing::Portion> granted(const State& state, const model::ClaimSpec& spec,
                                       const model::Allocation& allocation);

// What a result's name stands for: "req", or "req/sub" for an alternative of a request. Null: the claim has no such.
const model::DeviceSubRequest* find_request(const model::ClaimSpec& spec, const std::string& name);
// "node-1/nvidia" -> "nvidia": of a device that is no longer published.
std::string vendor_of_pool(const std::string& pool);

}  // namespace heddle::engine
