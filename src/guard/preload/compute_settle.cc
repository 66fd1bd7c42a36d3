#include <string.h>

#include "guard/preload/compute_state.h"
#include "guard/preload/device_clock.h"
#include "guard/preload/sys.h"

namespace heddle::guard {
namespace {

using device_clock::capturing;
using device_clock::current_context;
using device_clock::Reached;

// A segment of another thread's own stream, of which that thread says nothing any more.
constexpr int64_t kAbandoned = 1000000000;

__thread char this_thread __attribute__((tls_model("initial-exec")));  // NOLINT: its address is the thread's number

void no_longer_outstanding(ComputeDevice& device, const Segment& segment) {
  device.outstanding -= segment.charged;
  if (device.outstanding < 1) device.outstanding = 0;
}

void finish(ComputeDevice& device, int rule, Segment& segment, double measured, int64_t now) {
  const Rate rate = rate_of(rule, now);
  charge_time(rule, measured, segment.charged, rate);
  if (!segment.lost) no_longer_outstanding(device, segment);
  if (heddle_guard_slot* slot = own_slot()) {
    const auto time = static_cast<uint64_t>(measured * rate.counted);
    __atomic_fetch_add(&slot->devices[rule].busy_ns, time, __ATOMIC_RELAXED);
  }
  const uint64_t bit = bit_of(device, segment);
  device.open &= ~bit;
  device.closed &= ~bit;
}

void learn(ComputeDevice& device, const Segment& segment, double duration, double time) {
  if (segment.launches == 1) {
    Estimate& estimate = estimate_of(device, segment.key);
    const double step = 1.0 / (estimate.samples + 1);
    estimate.cost += (step > 0.2 ? step : 0.2) * (duration - estimate.cost);
    if (estimate.cost < 100) estimate.cost = 100;
    if (estimate.samples < 1000000) ++estimate.samples;
  }
  constexpr double kWeight = 0.1;
  device.measured_mean += kWeight * (time - device.measured_mean);
  device.predicted_mean += kWeight * (segment.cost - device.predicted_mean);
}

void give_events_back(Segment& segment) {
  if (segment.context == nullptr) return;
  put_event(*segment.context, segment.start);
  put_event(*segment.context, segment.end);
  segment.start = segment.end = nullptr;
}

// A closed segment that the device is through with.
struct Ended {
  Segment* segment;
  Measure measure;
  bool placed;      // `end` is known, and not only how long it took
  int64_t end;      // on our clock
  double duration;  // from event to event, or from the launch until now
};

// False: the device has not got there yet.
bool has_ended(Segment& segment, int64_t now, Ended* ended) {
  if (segment.ending || segment.lost) return false;
  *ended = Ended{&segment, Measure::kWall, true, now, static_cast<double>(now - segment.opened)};
  if (segment.launches == 0 || segment.measure == Measure::kPrediction) {
    ended->measure = Measure::kPrediction;
    give_events_back(segment);
    return true;
  }
  if (segment.measure == Measure::kWall) {
    if (!is_here(segment, current_context()) || capturing(segment.stream, segment.per_thread)) return false;
    return device_clock::query_stream(segment.stream, segment.per_thread) != Reached::kNo;
  }
  const Reached reached = device_clock::query(segment.end);
  if (reached == Reached::kNo) return false;
  double length = 0;
  double until = 0;
  if (reached == Reached::kYes && device_clock::elapsed(segment.start, segment.end, &length)) {
    const EventContext& context = *segment.context;
    ended->measure = Measure::kEvents;
    ended->duration = length;
    ended->placed = context.base != nullptr && device_clock::elapsed(context.base, segment.end, &until);
    if (ended->placed) ended->end = context.base_ns + static_cast<int64_t>(until);
  }
  give_events_back(segment);
  return true;
}

void settle_one(ComputeDevice& device, int rule, const Ended& ended, int64_t now) {
  Segment& segment = *ended.segment;
  if (ended.measure == Measure::kPrediction) {
    finish(device, rule, segment, segment.cost, now);
    return;
  }
  double time = ended.duration;
  if (ended.placed)
    time = ledger::new_device_time(shared(rule), ended.end - static_cast<int64_t>(time), ended.end, now);
  if (ended.measure == Measure::kEvents) {
    if (!segment.late) learn(device, segment, ended.duration, time);
    const bool loose = segment.late || (segment.gaps && segment.launches > 1);
    if (loose && segment.cost < time) time = segment.cost;
  }
  finish(device, rule, segment, time, now);
}

// Charges what was in a context that is gone: nobody knows when the device was through with it, so until now.
void settle_ended_context(ComputeDevice& device, int rule, uint64_t handle) {
  const int64_t now = now_ns();
  int64_t since = now;
  const uint64_t all = device.open | device.closed;
  for_each(device, all, [&](const Segment& segment) {
    if (segment.handle == handle && segment.launches != 0 && segment.opened < since) since = segment.opened;
  });
  double time = since < now ? ledger::new_device_time(shared(rule), since, now, now) : 0;
  for_each(device, all, [&](Segment& segment) {
    if (segment.handle != handle) return;
    finish(device, rule, segment, time, now);
    time = 0;
  });
  publish(rule, device);
  for (EventContext& context : device.contexts) {
    if (context.handle == handle) memset(static_cast<void*>(&context), 0, sizeof(context));
  }
}

// From when on it was on the device, where that is known by now.
void find_start(Segment& segment) {
  double from = 0;
  if (segment.measure != Measure::kEvents || segment.context->base == nullptr) return;
  if (device_clock::query(segment.start) != Reached::kYes) return;
  if (!device_clock::elapsed(segment.context->base, segment.start, &from)) return;
  const int64_t began = segment.context->base_ns + static_cast<int64_t>(from);
  if (began > segment.opened) segment.opened = began;
}

// The devices to which this process has launched something.
template <typename Body>
void for_each_paced(Body body) {
  if (!config().any_compute_limit) return;
  Compute* all = __atomic_load_n(&process().compute, __ATOMIC_ACQUIRE);
  if (all == nullptr) return;
  for (uint32_t rule = 0; rule < config().device_count; ++rule) {
    ComputeDevice& device = all->devices[rule];
    const Lock lock(device.lock);
    if ((device.open | device.closed) != 0) body(device, static_cast<int>(rule));
  }
}

}  // namespace

uint64_t thread_of_stream(const void* stream, bool per_thread) {
  const auto handle = reinterpret_cast<uint64_t>(stream);
  return (per_thread && handle == 0) || handle == 2 ? reinterpret_cast<uint64_t>(&this_thread) : 0;
}

bool is_here(const Segment& segment, uint64_t context) {
  return segment.handle == context &&
         (segment.thread == 0 || segment.thread == reinterpret_cast<uint64_t>(&this_thread));
}

bool is_through(const Segment& segment) {
  return !capturing(segment.stream, segment.per_thread) &&
         device_clock::query_stream(segment.stream, segment.per_thread) == Reached::kYes;
}

bool nothing_started(const ComputeDevice& device) {
  bool started = false;
  for_each(device, device.open | device.closed, [&](const Segment& segment) {
    if (segment.measure == Measure::kEvents && device_clock::query(segment.start) != Reached::kNo) started = true;
  });
  return !started;
}

void publish(int rule, const ComputeDevice& device) {
  heddle_guard_slot* slot = own_slot();
  if (slot == nullptr) return;
  const double value = device.outstanding > 0 ? device.outstanding : 0;
  __atomic_store_n(&slot->devices[rule].outstanding_ns, static_cast<uint64_t>(value), __ATOMIC_RELAXED);
  int64_t since = 0;
  for_each(device, device.open | device.closed, [&](const Segment& segment) {
    if (since == 0 || segment.opened < since) since = segment.opened;
  });
  if (heddle_guard_unsettled* unsettled = own_unsettled(rule)) {
    __atomic_store_n(&unsettled->since_ns, since, __ATOMIC_RELAXED);
  }
}

// In the order in which the device came through: the watermark of a later end would make what was before it free.
void settle(ComputeDevice& device, int rule, int64_t now) {
  device.last_poll = now;
  Ended list[kSegments];
  uint32_t count = 0;
  for_each(device, device.closed, [&](Segment& segment) {
    Ended ended{};
    if (!has_ended(segment, now, &ended)) return;
    uint32_t at = count++;
    for (; at > 0 && list[at - 1].end > ended.end; --at) list[at] = list[at - 1];
    list[at] = ended;
  });
  for (uint32_t i = 0; i < count; ++i) settle_one(device, rule, list[i], now);
  if (count != 0) publish(rule, device);
}

void close(ComputeDevice& device, Segment& segment) {
  if (segment.in_flight != 0) return;
  if (segment.measure == Measure::kEvents) {
    if (capturing(segment.stream, segment.per_thread)) return;
    if (!record_event(segment.end, segment.stream, segment.per_thread)) {
      give_events_back(segment);
      segment.measure = Measure::kWall;
    }
  }
  device.open &= ~bit_of(device, segment);
  device.closed |= bit_of(device, segment);
}

void close_older(ComputeDevice& device, int64_t now, int64_t age) {
  if (device.open == 0) return;
  const uint64_t context = current_context();
  for_each(device, device.open, [&](Segment& segment) {
    if (now - segment.opened < age || segment.ending) return;
    if (is_here(segment, context)) {
      if (segment.busy_until < now && is_through(segment)) segment.gaps = segment.late = true;
      close(device, segment);
    } else if (segment.thread != 0 && segment.handle == context && now - segment.opened > kAbandoned) {
      segment.measure = Measure::kPrediction;
      close(device, segment);
    }
  });
}

void before_wait() {
  for_each_paced([](ComputeDevice& device, int) { close_older(device, now_ns(), 0); });
}

void after_wait() {
  for_each_paced([](ComputeDevice& device, int rule) { settle(device, rule, now_ns()); });
}

void before_stream_ends(void* stream) {
  for_each_paced([stream](ComputeDevice& device, int) {
    for_each(device, device.open | device.closed, [&](Segment& segment) {
      if (segment.stream != stream || segment.per_thread) return;
      if ((device.open & bit_of(device, segment)) != 0) close(device, segment);
      // What has no events, or a stream that ends while it records, can be asked no more.
      const bool open = (device.open & bit_of(device, segment)) != 0;
      if (segment.in_flight != 0 || segment.lost || (!open && segment.measure != Measure::kWall)) return;
      no_longer_outstanding(device, segment);
      segment.lost = true;
      device.open &= ~bit_of(device, segment);
      device.closed |= bit_of(device, segment);
    });
  });
}

void before_context_ends(uint64_t handle) {
  for_each_paced([handle](ComputeDevice& device, int rule) {
    const uint64_t context = current_context();
    for_each(device, device.open, [&](Segment& segment) {
      if (segment.handle == handle && is_here(segment, context)) close(device, segment);
    });
    settle(device, rule, now_ns());
    for_each(device, device.open | device.closed, [&](Segment& segment) {
      if (segment.handle != handle) return;
      find_start(segment);
      segment.ending = true;
    });
  });
}

void after_context_ended(uint64_t handle, bool ended) {
  Compute* all = __atomic_load_n(&process().compute, __ATOMIC_ACQUIRE);
  if (all == nullptr || !config().any_compute_limit) return;
  for (uint32_t rule = 0; rule < config().device_count; ++rule) {
    ComputeDevice& device = all->devices[rule];
    const Lock lock(device.lock);
    if (ended) {
      settle_ended_context(device, static_cast<int>(rule), handle);
      continue;
    }
    for_each(device, device.open | device.closed, [&](Segment& segment) {
      if (segment.handle == handle) segment.ending = false;
    });
  }
}

}  // namespace heddle::guard
