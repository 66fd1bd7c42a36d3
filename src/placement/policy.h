// Policies: what it costs to put a request on a node, as an integer so that ties are the same on every machine.
//
// A policy sees one node state and one request at a time, so that a caller can remember its answer until the mix
// changes. It keeps no record of the fleet. Not thread-safe.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "placement/mix.h"
#include "placement/types.h"

namespace heddle::placement {

using Cost = int32_t;
inline constexpr Cost kImpossible = std::numeric_limits<Cost>::max();

// What is free in the whole fleet.
struct FleetTotals {
  int64_t cpu_milli = 0;
  int64_t memory_bytes = 0;
  int64_t card_milli = 0;
  std::vector<int64_t> card_milli_of_kind;
  int64_t largest_cpu_milli = 0;  // of one node
  int64_t largest_card_milli = 0;
};

inline int idle_cards(const StateView& state) {
  int idle = 0;
  while (idle < state.count && state.cards[idle] == kWholeCard) ++idle;
  return idle;
}

// Nodes of equal state, and how many there are.
struct StateNodes {
  StateView state;
  int64_t nodes = 0;
};

// The fleet at one moment.
struct Fleet {
  const FleetTotals& totals;
  std::span<const StateNodes> states;  // every node is in one
};

// The cheapest way to take a request's cards on a node. first: see ways.h; 0 for requests without cards.
struct Way {
  Cost cost = kImpossible;
  int first = 0;
};

inline constexpr int kAlikeMilli = kWholeCard / 16;

// More idle cards than a node has.
inline constexpr int kNoState = kMaxCards + 1;

class Policy {
 public:
  virtual ~Policy() = default;
  // A new estimate of the mix: every value and cost known so far is void.
  virtual void learn(const Mix& mix, const Fleet& fleet) = 0;
  // What the fleet has left now. Changes kind_cost(). Values of states with at least so many idle cards have changed,
  // and all costs there; of others none.
  virtual int observe(const Fleet& fleet) = 0;
  // A number that cheapest() wants for the state; the same until they are void.
  [[nodiscard]] virtual int64_t value(const StateView& state) = 0;
  // The cheapest of the ways in which a request that fits can be put on a node. value: of this state.
  [[nodiscard]] virtual Way cheapest(const StateView& state, int64_t value, const Request& request) = 0;
  // To be added to the cost on nodes of this kind.
  [[nodiscard]] virtual Cost kind_cost(Kind kind, const Request& request) const = 0;
  // Two places whose costs differ by no more than this are worth about the same: a sixteenth of a card lies between
  // them.
  [[nodiscard]] virtual Cost alike() const { return 0; }
};

enum class PolicyName {
  kHeddle,   // fragmentation, holes, rooms, balance and pressure: heddle_policy.h
  kFgd,      // fragmentation gradient descent as its authors' simulator scores it
  kBestFit,  // least free CPU and cards afterwards, on the tightest card
  kRandom,   // any node and any cards that fit
};

std::unique_ptr<Policy> make_policy(PolicyName name);

}  // namespace heddle::placement
