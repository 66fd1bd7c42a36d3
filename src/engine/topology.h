// How nodes lie to each other: levels from narrow to wide, each a node label or an attribute of the node's devices.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"

namespace heddle::engine {

struct TopologyLevel {
  std::string name;
  std::vector<std::string> labels;      // of nodes; the first that a node has
  std::vector<std::string> attributes;  // of devices, where no label says it; one that all devices of the node agree on
  // Empty nodes of each domain that new work leaves empty, so that a node that fails can be replaced there.
  int64_t reserve_nodes = 0;
  ReserveUse reserve_use = ReserveUse::kWhenNeeded;
};

// linkDomain, rack, superNode, zone, region. The node itself is a level below all of them, named "node", and the whole
// fleet one above; neither is listed.
std::vector<TopologyLevel> default_topology();

inline constexpr const char* kNodeLevel = "node";

struct NodeEntry;

// Where the node lies on that level; empty: in no domain of it.
std::string domain_of(const NodeEntry& node, const TopologyLevel& level);

// The name of the level that is called so or goes by that node label; what is wanted itself where none does.
std::string level_name(const std::vector<TopologyLevel>& levels, const std::string& wanted);

// Where the nodes of a State lie, for a few levels. Names of domains are label or attribute values.
class Topology {
 public:
  // wanted: level names or node labels that must be there, narrow to wide as they are meant. A label (with a slash)
  // that no level goes by becomes a level of its own, where the nodes say it lies: below the first level whose domains
  // hold its domains whole; the widest, where there is none. Where two hold each other's domains whole, as in a fleet
  // of one domain, those that are wanted lie as they are meant. Empty ones are left out. Errors: kInvalidArgument for a
  // name that no level has, and for a label whose domains cut across those of another level that is wanted.
  static Result<Topology> make(const State& state, const std::vector<TopologyLevel>& levels,
                               const std::vector<std::string>& wanted);

  // Narrow to wide, the first is the node.
  [[nodiscard]] const std::vector<std::string>& levels() const { return names_; }
  // By level and node, nodes by name; empty: the node is in no domain of that level.
  [[nodiscard]] const std::string& domain(size_t level, size_t node) const { return domains_[level][node]; }
  [[nodiscard]] const std::vector<std::string>& nodes() const { return domains_.front(); }
  // What makes it one.
  [[nodiscard]] const TopologyLevel& spec(size_t level) const { return levels_[level]; }
  // Of a name or a label that make() was given.
  [[nodiscard]] size_t level_of(const std::string& wanted) const;

 private:
  void add(const State& state, TopologyLevel level, size_t at);
  // Where a level with these domains belongs. meant: its place among `wanted`.
  [[nodiscard]] Result<size_t> place_of(const TopologyLevel& level, const std::vector<std::string>& domains,
                                        const std::vector<std::string>& wanted, size_t meant) const;

  std::vector<TopologyLevel> levels_;
  std::vector<std::string> names_;
  std::vector<std::vector<std::string>> domains_;
};

}  // namespace heddle::engine
