// The scenario as the objects of a cluster, as agent and webhook would write them. For this folder.
#pragma once

#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/gang.h"
#include "model/claim.h"
#include "model/device.h"
#include "model/pod.h"
#include "queueing/preemption.h"
#include "simulation/scenario.h"
#include "simulation/simulation_units.h"

namespace heddle::simulation {

inline constexpr const char* kDriver = "accelerator.heddle.dev";

model::Node node_object(const SimulatedNode& node);
// One a vendor.
std::vector<model::ResourceSlice> slices_of(const SimulatedNode& node);
// Empty: the class of all devices.
model::DeviceClass class_of(const std::string& vendor);
std::string class_name(const std::string& vendor);

// What each member asks for.
model::ClaimSpec claim_spec(const DeviceAsk& ask);
model::Pod pod_object(const SimulatedWorkload& workload);
// Equal texts get equal answers of the engine. pod, spec: of each member.
std::string shape_of(const SimulatedWorkload& workload, const model::Pod& pod, const model::ClaimSpec& spec,
                     model::PlacementPolicy policy);
// What a member holds that runs there; its uid is that of the pod, too.
model::ResourceClaim claim_object(const Unit& unit, int64_t member, const model::Allocation& allocation);
// Of what runs.
queueing::Victim victim_of(const Unit& unit, const std::string& queue);
// Equal texts: where one finds nothing that gives way, the other finds nothing.
std::string plan_key(const SimulatedWorkload& workload, const std::string& queue, const std::string& shape);

// As the engine is asked for the gang; members: in rank order. shape: equal for equal requests.
engine::GangRequest gang_request(const SimulatedWorkload& workload, std::vector<engine::PlacementRequest> members,
                                 const std::string& shape);

}  // namespace heddle::simulation
