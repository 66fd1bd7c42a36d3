#include "guard/preload/compute_events.h"

#include <string.h>

#include "guard/preload/device_clock.h"
#include "guard/preload/sys.h"

namespace heddle::guard {
namespace {

constexpr int64_t kRebase = 8000000000;  // from here on elapsed times lose precision

constexpr int64_t kRetry = 10000000;
constexpr int64_t kPatience = 20000000;
constexpr int64_t kPoll = 20000;

// Waits for an event on a stream that had nothing to do. False: not reached so soon, as when the context is not on the
// device or somebody just gave the stream something to wait for.
bool reached_soon(void* event) {
  const int64_t until = now_ns() + kPatience;
  for (;;) {
    const device_clock::Reached reached = device_clock::query(event);
    if (reached != device_clock::Reached::kNo) return reached == device_clock::Reached::kYes;
    if (now_ns() >= until) return false;
    sleep_ns(kPoll);
  }
}

// The clock of the device against ours: an event that has just been reached. Once more where that took long: this
// thread was not run for a while, perhaps, and then nobody knows when it was reached; a base that is late would put all
// intervals of this process into the future, where they make those of others free.
bool set_base(EventContext& context, void* stream, bool per_thread) {
  constexpr int64_t kPrompt = 200000;
  constexpr int kTries = 5;
  if (device_clock::query_stream(stream, per_thread) != device_clock::Reached::kYes) return false;
  void* base = take_event(context);  // the one there is stays good until this one was reached
  int64_t base_ns = 0;
  for (int i = 0; i < kTries; ++i) {
    const int64_t before = now_ns();
    if (!record_event(base, stream, per_thread) || !reached_soon(base)) {
      put_event(context, base);
      return false;
    }
    const int64_t after = now_ns();
    // It is reached when it is recorded; what comes later is our own waking up.
    base_ns = after - before < kPrompt ? before : after;
    if (after - before < kPrompt) break;
  }
  put_event(context, context.base);
  context.base = base;
  context.base_ns = base_ns;
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

EventContext* event_context_of(EventContext (&contexts)[kMostContexts], uint64_t handle) {
  EventContext* free_place = nullptr;
  for (EventContext& context : contexts) {
    if (context.handle == handle) return handle != 0 ? &context : nullptr;
    if (context.handle == 0 && free_place == nullptr) free_place = &context;
  }
  if (free_place == nullptr) return nullptr;
  memset(static_cast<void*>(free_place), 0, sizeof(EventContext));
  free_place->handle = handle;
  return free_place;
}

void compare_clocks(EventContext& context, void* stream, bool per_thread, bool in_use, int64_t now) {
  if (context.base != nullptr && (in_use || now - context.base_ns <= kRebase)) return;
  if (now < context.next_try_ns) return;
  if (!set_base(context, stream, per_thread)) context.next_try_ns = now_ns() + kRetry;
}

}  // namespace heddle::guard
