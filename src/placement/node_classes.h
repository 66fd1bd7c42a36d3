// The nodes of a fleet, grouped into classes of equal state. Nodes of one class are interchangeable to a policy, so a
// decision costs per class, not per node; and each class says when it last changed, so what is known about the others
// stays known.
//
// Classes live in slots, by kind. A slot that became empty is reused; `changed` tells. Not thread-safe.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "placement/policy.h"
#include "placement/types.h"
#include "placement/ways.h"

namespace heddle::placement {

struct NodeClass {
  int64_t cpu_milli = 0;
  int64_t memory_bytes = 0;
  Kind kind = 0;
  Cards cards;
  std::vector<NodeId> nodes;  // descending; empty: the slot is free
  // Remembered by the owner of a policy: the state's value, and for which estimate of the mix.
  int64_t value = 0;
  uint64_t value_of = 0;

  [[nodiscard]] StateView view() const { return {cpu_milli, memory_bytes, cards.milli.data(), cards.count, kind}; }
};

struct KindPool {
  std::vector<NodeClass> classes;
  std::vector<uint64_t> changed;  // by slot: NodeClasses::changes() when it last became another class
  std::vector<uint32_t> free_slots;
  std::unordered_multimap<uint64_t, uint32_t> slots_by_hash;
};

class NodeClasses {
 public:
  // Errors: kInvalidArgument when amounts are negative, a card has more than 1000 milli, or there are too many cards.
  Result<NodeId> add(const Node& node);
  // Replaces what is free on it. Errors: as add(); kNotFound.
  Result<void> set(NodeId id, const Node& node);
  // Takes it out of every class; its number is not used again. Errors: kNotFound.
  Result<void> remove(NodeId id);
  // What is free falls or rises by the request. Errors: kConflict when that much is not free (take) or a card would
  // have more than 1000 milli free (give_back); kNotFound. Then nothing changes. Cost: O(cards + nodes of one class).
  Result<void> take(const Choice& choice, const Request& request);
  Result<void> give_back(const Choice& choice, const Request& request);

  [[nodiscard]] bool has(NodeId id) const { return id < nodes_.size() && nodes_[id].present; }
  // The node must be there.
  [[nodiscard]] const Node& node(NodeId id) const { return nodes_[id].node; }
  [[nodiscard]] uint32_t slot_of(NodeId id) const { return nodes_[id].slot; }
  [[nodiscard]] size_t node_count() const { return nodes_.size(); }  // removed ones included
  [[nodiscard]] std::vector<KindPool>& pools() { return pools_; }
  [[nodiscard]] const std::vector<KindPool>& pools() const { return pools_; }
  [[nodiscard]] uint64_t changes() const { return changes_; }
  // largest_*: of the largest that was ever added.
  [[nodiscard]] const FleetTotals& totals() const { return totals_; }
  // Classes with at least so many idle cards count as changed now, and have no value any more. Cost: O(classes).
  void touch(int idle);
  // Valid until the next change. Cost: O(classes).
  [[nodiscard]] std::vector<StateNodes> states() const;

 private:
  struct Entry {
    Node node;
    uint32_t slot = 0;
    bool present = false;
  };
  Result<void> change(const Choice& choice, const Request& request, int sign);
  void enter(NodeId id);
  void leave(NodeId id);
  uint32_t slot_for(const Node& node);

  std::vector<Entry> nodes_;
  std::vector<KindPool> pools_;
  uint64_t changes_ = 0;
  FleetTotals totals_;
};

}  // namespace heddle::placement
