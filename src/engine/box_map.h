// Boxes that quota counts: groups of whole devices that lie together, on one node, in one domain of a level, or as a
// slice of a torus. How many there are of devices that are available, and what taking some of them would cost.
//
// On a node and in a domain any of its devices make a box, so the count is exact. Of slices it is the lower bound of
// placement/grid.h: what fits on one grid of one orientation, in each torus. Whoever takes devices of one host lowers
// it by no more than one, and the count says by how much. A host has a part in a slice while all its chips are
// available.
//
// Pure; one owner thread. Cost: make() as fleet_of() and one look at each node; count() and lost() O(nodes), of slices
// as count_on_grid().
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/topology.h"
#include "engine/tori.h"
#include "model/queue.h"

namespace heddle::engine {

using NodeDevices = std::map<std::string, int64_t>;  // by node

class BoxMap {
 public:
  // Of the devices that the meter counts, which is one of boxes. levels: those in force; a level that is none of them
  // has no domains, and so no boxes.
  static BoxMap make(const State& state, const std::vector<TopologyLevel>& levels, const model::QuotaMeter& meter);

  // Devices that there are, and those that nobody holds a part of.
  [[nodiscard]] const NodeDevices& devices() const { return devices_; }
  [[nodiscard]] const NodeDevices& free() const { return free_; }

  [[nodiscard]] int64_t count(const NodeDevices& available) const;
  // By node, how many boxes are lost when so many devices are taken there; those where none is are left out.
  [[nodiscard]] NodeDevices lost(const NodeDevices& available, int64_t devices) const;
  // "3 boxes of 72 devices of one superNode", "1 slice of 4x4x4 devices".
  [[nodiscard]] std::string text(int64_t boxes) const;

 private:
  [[nodiscard]] std::map<std::string, int64_t> by_domain(const NodeDevices& available) const;
  [[nodiscard]] placement::Torus usable(const NamedTorus& torus, const NodeDevices& available) const;

  int64_t box_devices_ = 1;
  std::string level_;  // empty: the node
  NodeDevices devices_;
  NodeDevices free_;
  bool slices_ = false;
  std::map<std::string, std::string> domain_of_;  // by node; a node without is in none. Not for slices
  placement::Extent shape_ = {1, 1, 1};
  std::vector<NamedTorus> tori_;  // for slices
};

// How many boxes there were if nobody held anything.
int64_t boxes_of_fleet(const State& state, const std::vector<TopologyLevel>& levels, const model::QuotaMeter& meter);

}  // namespace heddle::engine
