// The card as a machine that runs work: who has it at which moment, and what is finished when. There is no daemon;
// whoever holds the card's mutex first brings the state up to the present.
#pragma once

#include <cstdint>

#include "state/layout.h"

namespace nvsim {

// Runs the card up to `now`. Caller holds the card's mutex. Cost: one step per slice, bucket or finished kernel that
// lies between; a card without work costs nothing.
void advance(CardState& card, std::int64_t now);

// Puts an item at the end of a queue; the caller has seen that there is room. Caller holds the mutex and has advanced.
void push(CardState& card, int slot, int queue, const Item& item);

// True while the queue has room for `count` more entries.
bool has_room(const ProcessSlot& slot, int queue, std::uint64_t count);

// A time before which entry `position` of the queue (a tail value) cannot be finished: exact when the process has the
// card alone. Used to sleep without a wake-up from the card.
std::int64_t earliest_end(const CardState& card, int slot, int queue, std::uint64_t position);

// Percent of the `window` before `now` with work, from the history: the running bucket and as many whole ones before it
// as the window holds.
unsigned busy_percent(const Bucket* buckets, std::int64_t now, std::int64_t window);

}  // namespace nvsim
