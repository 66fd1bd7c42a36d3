// Quota by shape: which boxes are intact, and what may still be opened without breaking one that a queue is guaranteed.
//
// A box is a number of whole devices of one node, of one domain of a level, or a slice of a torus (model::QuotaMeter,
// box_map.h). Intact are those of free devices, and those that borrowed work holds as whole boxes, for entitled work
// would take these back as such. Pure; one owner thread. Cost: one look at each device of the fleet for each box meter,
// at each device of the holders, and BoxMap::count().
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/box_map.h"
#include "engine/engine.h"
#include "engine/gang.h"
#include "model/queue.h"
#include "queueing/meter.h"

namespace heddle::engine {

// What one workload that runs has; one that is leaving is none.
struct BoxHolder {
  const model::Allocation* allocation = nullptr;  // borrowed for the call
  bool entitled = false;
  bool boxes = false;  // it took whole boxes
};

class BoxRooms {
 public:
  // levels: those in force.
  static BoxRooms look(const State& state, const std::vector<TopologyLevel>& levels,
                       const std::vector<model::QuotaMeter>& meters, const std::vector<BoxHolder>& holders);

  // How many free devices of the node may be opened with `keep` of the meter's boxes left intact in the fleet. Of boxes
  // of one node each; others have no bound.
  [[nodiscard]] int64_t may_open(size_t meter, const std::string& node, int64_t keep) const;
  // What the members of a gang may break together, for each meter of which boxes are to be kept.
  [[nodiscard]] std::vector<BoxBudget> budgets(const std::vector<model::QuotaMeter>& meters,
                                               const queueing::Amounts& keep) const;
  // Nodes where work that opens so many devices would break a box that is to be kept; keep: of Offer::keep_intact.
  [[nodiscard]] std::set<std::string> nodes_kept(const queueing::Amounts& keep, int64_t devices) const;

 private:
  struct Room {
    int64_t size = 0;                          // devices of a box; 0: the meter counts no boxes
    std::map<std::string, int64_t> available;  // devices by node
    int64_t intact = 0;                        // boxes of all nodes
    std::shared_ptr<const BoxMap> map = {};    // of boxes wider than a node
  };
  std::vector<Room> rooms_;  // by meter
};

// Whether the meter counts devices of this vendor and model.
bool counts(const model::QuotaMeter& meter, const std::string& vendor, const std::string& model);

}  // namespace heddle::engine
