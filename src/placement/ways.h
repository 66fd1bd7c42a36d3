// The ways in which a request can take cards of a node: runs of neighbours in the cards sorted by what is free. For one
// card that is every distinct free amount; for several whole cards there is one way.
#pragma once

#include <algorithm>
#include <array>

#include "placement/types.h"

namespace heddle::placement {

// Cards sorted descending.
struct Cards {
  std::array<uint16_t, kMaxCards> milli;  // the first `count` count
  int count = 0;
};

// CPU, memory and the number of cards that are large enough. The kind is the caller's check.
inline bool fits(const StateView& state, const Request& request) {
  if (state.cpu_milli < request.cpu_milli || state.memory_bytes < request.memory_bytes) return false;
  return request.cards == 0 || (request.cards <= state.count && state.cards[request.cards - 1] >= request.milli);
}

// The first card of the way after the one at `first`, or -1; first -1 asks for the first way. The request must fit and
// ask for cards.
inline int next_way(const StateView& state, const Request& request, int first) {
  for (int way = first + 1; way + request.cards <= state.count; ++way) {
    const uint16_t smallest = state.cards[way + request.cards - 1];
    if (smallest < request.milli) return -1;
    if (way == 0 || state.cards[way - 1] != smallest) return way;
  }
  return -1;
}

// What is left of the cards, sorted descending again.
inline void take_way(const StateView& state, const Request& request, int first, Cards& left) {
  left.count = state.count;
  std::copy_n(state.cards, first, left.milli.begin());
  int taken = first;
  int after = first + request.cards;
  for (int i = first; i < state.count; ++i) {
    const bool from_taken = taken < first + request.cards &&
                            (after >= state.count || state.cards[taken] - request.milli >= state.cards[after]);
    left.milli[static_cast<size_t>(i)] =
        from_taken ? static_cast<uint16_t>(state.cards[taken++] - request.milli) : state.cards[after++];
  }
}

}  // namespace heddle::placement
