// What placement decides about: nodes, requests and choices, as numbers.
//
// Units: CPU in milli-cores, memory in bytes, cards in milli (1000 = a whole card). A share of a card counts with the
// larger of its memory and its compute part. All are int64 or smaller and never negative.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::placement {

inline constexpr int kWholeCard = 1000;
inline constexpr int kMaxCards = 128;  // of one node

// Nodes of one kind are equal in everything that a request can select by: model of the cards, labels, taints. What a
// kind means is the caller's business; kinds are small numbers from 0.
using Kind = uint16_t;
// Numbers in the order in which nodes were added. Ties go to the lowest, so the order is part of the input.
using NodeId = uint32_t;

struct Node {
  int64_t cpu_milli = 0;             // free
  int64_t memory_bytes = 0;          // free
  std::vector<uint16_t> free_milli;  // one a card, by the card's index; at most kMaxCards
  Kind kind = 0;

  friend bool operator==(const Node&, const Node&) = default;
};

// What one pod asks for on one node. Pods of equal requests are one class of the mix.
struct Request {
  int64_t cpu_milli = 0;
  int64_t memory_bytes = 0;
  int cards = 0;            // different cards, 0 for a pod without
  int milli = 0;            // of each card, 1 to 1000; 0 when cards is 0
  std::vector<Kind> kinds;  // ascending; empty: any

  [[nodiscard]] int64_t card_milli() const { return int64_t{cards} * milli; }
  friend bool operator==(const Request&, const Request&) = default;
};

// Where a request goes: `milli` of each of these cards.
struct Choice {
  NodeId node = 0;
  std::vector<uint16_t> cards;  // indices, ascending

  friend bool operator==(const Choice&, const Choice&) = default;
};

// A node without the names of its cards: all that a policy looks at. `cards` has `count` entries, sorted descending.
struct StateView {
  int64_t cpu_milli = 0;
  int64_t memory_bytes = 0;
  const uint16_t* cards = nullptr;
  int count = 0;
  Kind kind = 0;
};

}  // namespace heddle::placement
