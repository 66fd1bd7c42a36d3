// Kinds of devices that a queue's bounds keep from a workload: looked at before others are asked to make room there.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/demand.h"
#include "queueing/queueing.h"

namespace heddle::engine {

// Nodes that have devices of a kind (vendor and model) that quota would refuse to this waiting workload even if all
// that runs in its queue with less priority had ended. A workload that says which kind it wants has none: that is
// looked at where victims are chosen. Cost: the fleet's parts once, and a look at quota a kind; nothing where no bound
// of its queue depends on the kind.
std::set<std::string> nodes_of_refused_kinds(queueing::Queues& queues, const std::string& id,
                                             const std::vector<FleetPart>& fleet, Time now);

// How long no room is made again for a work that could not start though it was made `times` times.
constexpr Duration pause_after_vain(int times) {
  constexpr int kMostDoublings = 7;  // an hour
  if (times < 2) return Duration{};
  return Duration::seconds(int64_t{30} << (times - 2 < kMostDoublings ? times - 2 : kMostDoublings));
}

}  // namespace heddle::engine
