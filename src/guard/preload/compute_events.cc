#include "guard/preload/compute_events.h"

#include <string.h>

#include "guard/preload/device_clock.h"
#include "guard/preload/sys.h"

namespace heddle::guard {
namespace {

constexpr int64_t kRebase = 8000000000;  // from here on elapsed times lose precision

// The clock of the device against ours: an event that has just been reached. Once more where that took long: either the
// stream was busy and is idle now, or this thread was not run for a while, and then nobody knows when it was reached; a
// base that is late would put all intervals of this process into the future, where they make those of others free.
bool set_base(EventContext& context, void* stream, bool per_thread) {
  constexpr int64_t kPrompt = 200000;
  constexpr int kTries = 5;
  if (context.base == nullptr) context.base = take_event(context);
  for (int i = 0; i < kTries; ++i) {
    const int64_t before = now_ns();
    if (!record_event(context.base, stream, per_thread) || !device_clock::wait(context.base)) return false;
    const int64_t after = now_ns();
    // On an idle stream it is reached when it is recorded; what comes later is our own waking up.
    context.base_ns = after - before < kPrompt ? before : after;
    if (after - before < kPrompt) break;
  }
  return true;
}

}  // namespace

bool record_event(void* event, void* stream, bool per_thread) {
  return event != nullptr && device_clock::record(event, stream, per_thread);
}

void* take_event(EventContext& context) {
  if (context.free_count != 0) return context.free_events[--context.free_count];
  return device_clock::create_event();
}

void put_event(EventContext& context, void* event) {
  if (event != nullptr && context.free_count < kMostEvents) context.free_events[context.free_count++] = event;
}

EventContext* event_context_of(EventContext (&contexts)[kMostContexts], void* stream, bool per_thread) {
  const uint64_t handle = device_clock::current_context();
  EventContext* free_place = nullptr;
  for (EventContext& context : contexts) {
    if (context.handle == handle) return &context;
    if (context.handle == 0 && free_place == nullptr) free_place = &context;
  }
  if (handle == 0 || free_place == nullptr) return nullptr;
  memset(static_cast<void*>(free_place), 0, sizeof(EventContext));
  if (!set_base(*free_place, stream, per_thread)) return nullptr;
  free_place->handle = handle;
  return free_place;
}

void rebase_if_old(EventContext (&contexts)[kMostContexts], void* stream, bool per_thread, int64_t now) {
  const uint64_t handle = device_clock::current_context();
  for (EventContext& context : contexts) {
    if (context.handle == handle && handle != 0 && now - context.base_ns > kRebase) {
      set_base(context, stream, per_thread);
    }
  }
}

}  // namespace heddle::guard
