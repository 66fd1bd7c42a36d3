// What `heddle plan` prints, as a function: a fleet in, where its pending pods would go and why not. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/fleet.h"
#include "engine/engine.h"
#include "model/claim.h"

namespace heddle::cli {

struct PlacedPod {
  std::string name_space;
  std::string name;
  std::string node;
  std::vector<model::ResourceClaim> claims;  // all of the pod's, allocated; those of the plan without a uid
};

struct PendingPod {
  std::string name_space;
  std::string name;
  std::vector<engine::Reason> reasons;
};

struct Plan {
  std::vector<PlacedPod> placed;    // in the order of decisions: that of the queues; in one of them priority, then age
  std::vector<PendingPod> pending;  // by priority, then creation time, then name; the members of a gang together
  std::vector<std::string> notes;   // what of the input was not looked at
};

// Every pod without a node is placed as the controller would at `now`: what users write of dialects is translated as
// the webhook does it, claims and claim templates are allocated, quotas, queues and reservations hold; what running
// pods and allocated claims have is taken. Nothing that runs is moved or ended: where something would give way to a
// pending pod, that is among its reasons (Evicting). Without DeviceClasses of Heddle in the input those of the chart
// are assumed. Errors: kInternal only; what is wrong with one pod is the reason of that pod.
Result<Plan> plan_fleet(Fleet fleet, Time now);

// {"placed":[{"namespace","pod","node","claims":[ResourceClaim...]}],"pending":[{"namespace","pod","reasons":[...]}]}
std::string plan_json(const Plan& plan);
// For a person. width: columns of the terminal; 0: not a terminal, nothing is cut.
std::string plan_table(const Plan& plan, int width);

}  // namespace heddle::cli
