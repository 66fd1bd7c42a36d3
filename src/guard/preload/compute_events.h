// The events by which the compute law measures, for each context of the process, and the device's clock against ours.
//
// Thread rule: under the lock of the device that the contexts are of. Zero is the initial state.
#pragma once

#include <stdint.h>

namespace heddle::guard {

inline constexpr uint32_t kMostEvents = 128;  // that are kept for later
inline constexpr uint32_t kMostContexts = 8;

struct EventContext {
  uint64_t handle;  // 0: free
  void* base;
  int64_t base_ns;
  uint32_t free_count;
  void* free_events[kMostEvents];
};

// False: not recorded, as when there is no event.
bool record_event(void* event, void* stream, bool per_thread);
// Null: the driver gives none.
void* take_event(EventContext& context);
void put_event(EventContext& context, void* event);

// That of the calling thread, with its base; null: there is none, or all places are taken. Cost of a new one: a wait
// for the stream.
EventContext* event_context_of(EventContext (&contexts)[kMostContexts], void* stream, bool per_thread);
// Takes a new base where the one of the calling thread's context is old: elapsed times are floats. Nothing may be
// measured by the old one any more. Cost then: as above.
void rebase_if_old(EventContext (&contexts)[kMostContexts], void* stream, bool per_thread, int64_t now);

}  // namespace heddle::guard
