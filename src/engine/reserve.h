// Nodes that levels of the topology reserve (TopologyLevel::reserve_nodes): of each domain the last by name of those
// that are empty. Inside the engine only.
//
// Empty: none of its own devices is held. A node that is closed, or of which a device is out of order or of another
// owner, replaces nothing and is not counted. Where a domain has no more empty nodes than it reserves, all are
// reserved; what runs is not moved for it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "allocator/allocator.h"
#include "allocator/prepare.h"
#include "engine/inventory.h"
#include "engine/topology.h"

namespace heddle::engine {

// It could replace another one, once it is empty.
[[nodiscard]] bool may_be_spare(const NodeEntry& node, const allocator::Options& options);
[[nodiscard]] bool is_empty(const NodeEntry& node);
[[nodiscard]] bool is_empty(const NodeEntry& node, const allocator::Assumption& assumption);

// Kept beside the inventory. Cost of a question: nothing where no level reserves; else after a change of what is held
// O(domains * nodes of one) at most, after a change of nodes or slices O(nodes * devices).
class ReserveKeeper {
 public:
  void set(const std::vector<TopologyLevel>& levels);
  // Some level reserves nodes, and lets what fits nowhere else use them.
  [[nodiscard]] bool lends() const;
  // Nothing: the node is not reserved.
  [[nodiscard]] std::optional<ReserveUse> of(const Inventory& inventory, const allocator::Options& options,
                                             const NodeEntry& node) const;
  // The node is in use, and would be reserved for replacements alone if it were empty.
  [[nodiscard]] bool would_be_kept(const Inventory& inventory, const allocator::Options& options,
                                   const NodeEntry& node) const;

 private:
  struct Domain {
    const TopologyLevel* level = nullptr;
    std::vector<const NodeEntry*> nodes;  // that may be spare, by name
    int64_t empty = 0;                    // up to what the level reserves
  };
  void refresh(const Inventory& inventory, const allocator::Options& options) const;
  void divide(const Inventory& inventory, const allocator::Options& options) const;

  std::vector<TopologyLevel> levels_;  // those that reserve
  // Made anew when the inventory has changed.
  mutable std::vector<Domain> domains_;
  mutable std::map<const NodeEntry*, ReserveUse> reserved_;
  mutable std::optional<uint64_t> reshapes_;
  mutable std::optional<uint64_t> changes_;
};

}  // namespace heddle::engine
