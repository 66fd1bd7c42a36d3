// The events by which the compute law measures, for each context of the process, and the device's clock against ours.
//
// Thread rule: under the lock of the device that the contexts are of. Zero is the initial state.
#pragma once

#include <stdint.h>

namespace heddle::guard {

inline constexpr uint32_t kMostEvents = 128;  // that are kept for later
inline constexpr uint32_t kMostContexts = 64;

struct EventContext {
  uint64_t handle;  // 0: free
  void* base;       // reached at base_ns of our clock; null: the two clocks were not compared yet
  int64_t base_ns;
  int64_t unsure_ns;    // so much later it may have been reached
  int64_t next_try_ns;  // of comparing them
  uint32_t free_count;
  void* free_events[kMostEvents];
};

// False: not recorded, as when there is no event.
bool record_event(void* event, void* stream, bool per_thread);
// Null: the driver gives none.
void* take_event(EventContext& context);
void put_event(EventContext& context, void* event);

// That of the calling thread; null: there is none, or all places are taken.
EventContext* event_context_of(EventContext (&contexts)[kMostContexts], uint64_t handle);
// Compares the clocks where that was not done yet, and again where it was long ago (elapsed times are floats) or not
// exact, and nothing is `in_use` that was measured by it. Only where the stream has nothing left to do: it is never
// waited for.
void compare_clocks(EventContext& context, void* stream, bool per_thread, bool in_use, int64_t now);

}  // namespace heddle::guard
