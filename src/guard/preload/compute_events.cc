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
constexpr int64_t kPrompt = 50000;

// When an event was reached: not before `from`, and by `to`. False: not so soon.
struct Moment {
  bool known;
  int64_t from, to;
};

// Waits for an event on a stream that had nothing to do. It may be late all the same, as when the context is not on the
// device or somebody just gave the stream something to wait for. First without a sleep, from which a busy machine
// wakes nobody in time.
Moment reached_soon(void* event, int64_t recorded) {
  constexpr int kSpins = 100;
  Moment moment{false, recorded, recorded};
  for (int i = 0;; ++i) {
    const device_clock::Reached reached = device_clock::query(event);
    const int64_t now = now_ns();
    if (reached != device_clock::Reached::kNo) return {reached == device_clock::Reached::kYes, moment.from, now};
    if (now - recorded >= kPatience) return moment;
    moment.from = now;
    if (i >= kSpins || now - recorded > 2 * kPrompt) sleep_ns(kPoll);
  }
}

// The clock of the device against ours: an event that has just been reached. Again where that took long: this thread
// was not run for a while, perhaps, and then nobody knows when it was reached. A base that is wrong by more than a
// kernel makes the intervals of this process, or those of the tenant's others, look like time that was charged already.
bool set_base(EventContext& context, void* stream, bool per_thread) {
  constexpr int kTries = 5;
  if (device_clock::query_stream(stream, per_thread) != device_clock::Reached::kYes) return false;
  void* event = take_event(context);  // the base there is stays good until another was reached
  for (int i = 0; i < kTries; ++i) {
    const int64_t before = now_ns();
    if (!record_event(event, stream, per_thread)) break;
    const Moment moment = reached_soon(event, before);
    if (!moment.known) break;
    const int64_t unsure = moment.to - moment.from;
    if (context.base != nullptr && i != 0 && unsure >= context.unsure_ns) continue;
    void* other = context.base;
    context.base = event;
    context.base_ns = moment.from;
    context.unsure_ns = unsure;
    event = other != nullptr ? other : take_event(context);
    if (unsure <= kPrompt) break;
  }
  put_event(context, event);
  return context.base != nullptr && context.unsure_ns <= kPrompt;
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
  const bool good = context.unsure_ns <= kPrompt && now - context.base_ns <= kRebase;
  if (context.base != nullptr && (in_use || good)) return;
  if (now < context.next_try_ns) return;
  if (!set_base(context, stream, per_thread)) context.next_try_ns = now_ns() + kRetry;
}

}  // namespace heddle::guard
