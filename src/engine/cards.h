// The cards of one node as packing sees them, and which of them lie close together.
//
// A card is a whole device of the managed driver that only this node has and that work may get: not a partition, not
// one that another owner serves or that a taint keeps from everybody. What is free of it counts in thousandths: of a
// shared card what its fullest capacity has left, of any other all or nothing. A card that can be cut into partitions
// counts as free while none of it is in use, and as taken from the first partition on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "allocator/device.h"
#include "allocator/prepare.h"

namespace heddle::engine {

struct NodeEntry;

struct Card {
  const allocator::DeviceInfo* device = nullptr;
  // Where it is wired; -1: it does not say. Equal numbers mean the same only on one node.
  int32_t link = -1;    // linkDomain
  int32_t root = -1;    // resource.kubernetes.io/pcieRoot
  int32_t numa = -1;    // resource.kubernetes.io/numaNode
  int32_t module = -1;  // of which it is a die (modules.h)
};

struct NodeCards {
  // Cards of one kind are equal in vendor, model, capacities and the way they are shared. Empty: packing does not see
  // the node, which has no cards, cards of several kinds, more than placement::kMaxCards, or cannot be used (cordoned,
  // not ready).
  std::string kind;
  std::vector<Card> cards;       // in the order of the node's devices
  uint32_t number = UINT32_MAX;  // of the node, while packing has it
};

// Of the node's devices as they are published; without `number`.
NodeCards cards_of(const NodeEntry& node, const std::string& managed_driver, const allocator::Options& options);

// An attribute of the driver's own or of a qualified name; empty: it has none, or none that is text.
std::string attribute_text(const allocator::DeviceInfo& device, const char* name);
// Not marked unschedulable, ready and reachable.
bool is_open(const NodeEntry& node);
// A taint that no request of ours tolerates by itself: out of order, of another owner.
bool keeps_all_away(const allocator::DeviceInfo& device, const allocator::Options& options);
// A part of a card that is a device of its own.
bool is_partition(const allocator::DeviceInfo& device);

// 0 to 1000.
uint16_t free_milli(const allocator::DeviceInfo& device);

// The part that is taken of a device of this shape, by what is taken most of. Rounded down, at least 1.
int milli_of(const allocator::Shape& shape, const allocator::Consumption& take);

// `count` of these cards, close together: all on one PCIe root, else on one NUMA node, else in one link domain, the
// place that is left with the fewest; where none has enough, in as few such places as can be. Always inside as few link
// domains as can be. Cards that say nothing of where they are count as being in one place. Ties in the order given.
// Dies of modules (modules.h): as many whole modules as the number fills, close together, and for what is left over the
// dies of broken ones before those of another whole one.
// from: indices into `cards`; at least `count` of them.
std::vector<size_t> close_together(const std::vector<Card>& cards, const std::vector<size_t>& from, size_t count);

}  // namespace heddle::engine
