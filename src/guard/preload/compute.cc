#include <string.h>

#include "guard/preload/compute_events.h"
#include "guard/preload/device_clock.h"
#include "guard/preload/launch.h"
#include "guard/preload/sys.h"

namespace heddle::guard {
namespace {

constexpr double kFirstGuess = 1e6;
constexpr double kLongKernel = 0.5e6;      // always measured on its own
constexpr double kSegmentWork = 0.5e6;     // a segment is closed at this much predicted work,
constexpr uint32_t kSegmentLaunches = 32;  // this many launches,
constexpr int64_t kSegmentAge = 1000000;   // or this age
constexpr int64_t kPoll = 500000;
constexpr int64_t kShortWait = 50000;
constexpr int64_t kSampleDistance = 500000;
constexpr int64_t kTopUp = 300000;
constexpr double kLeastShare = 0.01;  // less than this of a device that gives way is nothing
constexpr int64_t kHeld = 5000000;
constexpr int64_t kAskAgain = 20000000;  // while it waits: well within the 50 ms (broker.h) for which it counts
constexpr double kFarthest = 200000000;  // so far ahead work on the device counts as asking: who dies asks no longer
constexpr int64_t kImpossible = 3600000000000;  // a clock this far ahead is damage, not debt
constexpr uint32_t kSegments = 64;
constexpr uint32_t kEstimates = 1024;

struct Estimate {
  uint64_t key;
  double cost;
  uint32_t samples;
};

struct Segment {
  bool per_thread;
  bool measured;  // has its events
  bool gaps;      // the device was probably idle in between
  bool late;      // the stream was through long before the end event: what lies between says nothing
  bool alone;     // to be closed behind its only launch
  void* stream;
  EventContext* context;
  void* start;
  void* end;
  uint64_t key;  // of the first launch
  double charged;
  double cost;
  uint32_t launches;
  uint32_t in_flight;  // launches between admit() and after_launch()
  int64_t opened;
  int64_t busy_until;  // predicted
};

}  // namespace

struct ComputeDevice {
  pthread_mutex_t lock;
  bool gate_closed;
  double outstanding;
  double measured_mean;  // of m and of the sum of costs: their ratio is the concurrency of streams
  double predicted_mean;
  int64_t last_sample;
  int64_t last_poll;
  uint64_t random;
  Estimate estimates[kEstimates];
  EventContext contexts[kMostContexts];
  // One bit for each segment; a segment in neither is free.
  uint64_t open;
  uint64_t closed;
  Segment segments[kSegments];
};

struct Compute {
  ComputeDevice devices[HEDDLE_GUARD_MAX_DEVICES];
};

namespace {

using device_clock::capturing;
using device_clock::current_context;

static_assert(kSegments == 64, "a bit for each segment");
static_assert(kMostEvents == 2 * kSegments, "two for each segment");

uint64_t bit_of(const ComputeDevice& device, const Segment& segment) {
  return uint64_t{1} << (&segment - device.segments);
}

template <typename Device, typename Body>
void for_each(Device& device, uint64_t mask, Body body) {
  for (; mask != 0; mask &= mask - 1) body(device.segments[__builtin_ctzll(mask)]);
}

Compute* compute() {
  Process& own = process();
  Compute* ready = __atomic_load_n(&own.compute, __ATOMIC_ACQUIRE);
  if (ready != nullptr) return ready;
  const Lock lock(own.compute_lock);
  if (own.compute == nullptr) {
    auto* fresh = static_cast<Compute*>(map_private(sizeof(Compute), OnFork::kDrop));
    __atomic_store_n(&own.compute, fresh, __ATOMIC_RELEASE);
  }
  return own.compute;
}

Estimate& estimate_of(ComputeDevice& device, uint64_t key) {
  const uint64_t mixed = key * 0x9e3779b97f4a7c15u;
  const uint64_t start = mixed >> 32;
  Estimate* place = nullptr;
  for (uint64_t i = 0; i < 8; ++i) {
    Estimate& at = device.estimates[(start + i) % kEstimates];
    if (at.key == key) return at;
    if (at.key == 0) {
      place = &at;
      break;
    }
    if (place == nullptr || at.samples < place->samples) place = &at;
  }
  *place = Estimate{key, kFirstGuess, 0};
  return *place;
}

// What the clock of a device runs with at present.
struct Rate {
  double share;    // of the device's time
  double counted;  // of a measured interval
  bool held;       // nothing is admitted
};

// The share of the limits, unless the agent has just said that more may be used, or that neighbours took a part of what
// was measured. A device that gives way has what the agent says; what is charged while it is held is no debt for later.
Rate rate_of(int rule, int64_t now) {
  const DeviceRule& limits = config().devices[rule];
  Rate rate{limits.gives_way ? 1 : static_cast<double>(limits.cores_percent) / 100.0, 1, false};
  Hint hint{};
  if (config().hints == nullptr || !unpack_hint(ledger::load(config().hints[rule]), now, &hint)) return rate;
  const double share = static_cast<double>(hint.rate_ppm) / 1e6;
  if (limits.gives_way) {
    rate.held = share < kLeastShare;
    if (!rate.held && share < 1) rate.share = share;
  } else if (share > rate.share) {
    rate.share = share < 1 ? share : 1;
  }
  rate.counted = static_cast<double>(hint.charge_ppm) / 1e6;
  return rate;
}

double share_of(int rule, int64_t now) {
  return rate_of(rule, now).share;
}

double concurrency(const ComputeDevice& device) {
  if (device.predicted_mean <= 0) return 1;
  const double ratio = device.measured_mean / device.predicted_mean;
  return ratio < 0.1 ? 0.1 : (ratio > 1 ? 1 : ratio);
}

heddle_guard_device_usage& shared(int rule) {
  return config().usage->devices[rule];
}

int64_t virtual_clock(int rule, int64_t now) {
  int64_t& clock = shared(rule).virtual_ns;
  int64_t value = __atomic_load_n(&clock, __ATOMIC_RELAXED);
  if (value - now > kImpossible) {
    __atomic_compare_exchange_n(&clock, &value, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    value = now;
  }
  return value;
}

void advance_clock(int rule, int64_t floor, double by) {
  int64_t& clock = shared(rule).virtual_ns;
  int64_t seen = __atomic_load_n(&clock, __ATOMIC_RELAXED);
  for (;;) {
    const int64_t next = (seen > floor ? seen : floor) + static_cast<int64_t>(by);
    if (__atomic_compare_exchange_n(&clock, &seen, next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return;
  }
}

// The part of [start, end] for which no process of the tenant was charged before. The device's clock may seem a little
// ahead of ours, by the same for all intervals of a context; an end or a watermark that is far ahead is damage, and
// would make everything free.
double new_time(int rule, int64_t start, int64_t end, int64_t now) {
  constexpr int64_t kAhead = 1000000000;
  int64_t& watermark = shared(rule).watermark_ns;
  if (end > now + kAhead) {
    start -= end - now;
    end = now;
  }
  int64_t seen = __atomic_load_n(&watermark, __ATOMIC_RELAXED);
  for (;;) {
    const int64_t from = seen > now + kAhead ? start : seen;
    if (end <= from) return 0;
    if (__atomic_compare_exchange_n(&watermark, &seen, end, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
      return static_cast<double>(end - (start > from ? start : from));
    }
  }
}

void publish_outstanding(int rule, const ComputeDevice& device) {
  heddle_guard_slot* slot = own_slot();
  if (slot == nullptr) return;
  const double value = device.outstanding > 0 ? device.outstanding : 0;
  __atomic_store_n(&slot->devices[rule].outstanding_ns, static_cast<uint64_t>(value), __ATOMIC_RELAXED);
}

void finish(ComputeDevice& device, int rule, Segment& segment, double measured, int64_t now) {
  const Rate rate = rate_of(rule, now);
  const double time = measured * rate.counted;
  __atomic_fetch_add(&shared(rule).charged_ns, static_cast<int64_t>(time), __ATOMIC_RELAXED);
  __atomic_fetch_add(&shared(rule).measured_ns, static_cast<int64_t>(measured), __ATOMIC_RELAXED);
  advance_clock(rule, INT64_MIN / 2, (time - segment.charged) / rate.share);
  device.outstanding -= segment.charged;
  if (device.outstanding < 1) device.outstanding = 0;
  if (heddle_guard_slot* slot = own_slot()) {
    __atomic_fetch_add(&slot->devices[rule].busy_ns, static_cast<uint64_t>(time), __ATOMIC_RELAXED);
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

// A closed segment that the device is through with.
struct Ended {
  Segment* segment;
  bool told;        // by its events
  int64_t end;      // on our clock
  double duration;  // from event to event
};

// False: the device has not got there yet.
bool has_ended(Segment& segment, int64_t now, Ended* ended) {
  *ended = Ended{&segment, false, now, segment.cost};
  if (!segment.measured) return true;
  const device_clock::Reached reached = device_clock::query(segment.end);
  if (reached == device_clock::Reached::kNo) return false;
  double length = 0;
  double until = 0;
  ended->told = reached == device_clock::Reached::kYes && device_clock::elapsed(segment.start, segment.end, &length) &&
                device_clock::elapsed(segment.context->base, segment.end, &until);
  put_event(*segment.context, segment.start);
  put_event(*segment.context, segment.end);
  if (!ended->told) return true;
  ended->duration = length;
  ended->end = segment.context->base_ns + static_cast<int64_t>(until);
  return true;
}

void settle_one(ComputeDevice& device, int rule, const Ended& ended, int64_t now) {
  Segment& segment = *ended.segment;
  if (!ended.told) {
    finish(device, rule, segment, segment.cost, now);
    return;
  }
  double time = new_time(rule, ended.end - static_cast<int64_t>(ended.duration), ended.end, now);
  if (!segment.late) learn(device, segment, ended.duration, time);
  const bool loose = segment.late || (segment.gaps && segment.launches > 1);
  if (loose && segment.cost < time) time = segment.cost;
  finish(device, rule, segment, time, now);
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
  if (count != 0) publish_outstanding(rule, device);
}

// Puts the end event behind the segment. Not while a launch of it is under way: that one closes it.
void close(ComputeDevice& device, Segment& segment) {
  if (segment.in_flight != 0) return;
  if (segment.measured) {
    const bool recorded =
        !capturing(segment.stream, segment.per_thread) && record_event(segment.end, segment.stream, segment.per_thread);
    if (!recorded) {
      put_event(*segment.context, segment.start);
      put_event(*segment.context, segment.end);
      segment.measured = false;
    }
  }
  device.open &= ~bit_of(device, segment);
  device.closed |= bit_of(device, segment);
}

// True when the stream of a segment has nothing left to do.
bool is_through(const Segment& segment) {
  return !capturing(segment.stream, segment.per_thread) && device_clock::is_through(segment.stream, segment.per_thread);
}

// Closes the open segments that are at least so old. An event is recorded in the context that is current; the segments
// of others close when their threads come by.
void close_older(ComputeDevice& device, int64_t now, int64_t age) {
  if (device.open == 0) return;
  const uint64_t context = current_context();
  for_each(device, device.open, [&](Segment& segment) {
    if (now - segment.opened < age || (segment.context != nullptr && segment.context->handle != context)) return;
    if (segment.busy_until < now) {
      segment.gaps = true;
      segment.late = is_through(segment);
    }
    close(device, segment);
  });
}

// Predicted time until the device is through with what this process has given it; the number of launches, too.
struct Ahead {
  uint32_t launches;
  int64_t remaining;
  bool overdue;
};

Ahead look_ahead(const ComputeDevice& device, int64_t now) {
  Ahead ahead{0, 0, false};
  for_each(device, device.open | device.closed, [&](const Segment& segment) {
    ahead.launches += segment.launches;
    const int64_t left = segment.busy_until - now;
    if (left > ahead.remaining) ahead.remaining = left;
    if (now - segment.opened > static_cast<int64_t>(2 * segment.cost) + 1000000) ahead.overdue = true;
  });
  return ahead;
}

struct Verdict {
  bool admitted;
  int64_t wait;
};

Verdict judge(ComputeDevice& device, int rule, const Estimate& estimate, int64_t now) {
  const Config& c = config();
  if (rate_of(rule, now).held) return {false, kHeld};
  const int64_t clock = virtual_clock(rule, now);
  if (clock > now) device.gate_closed = true;
  if (device.gate_closed) {
    const int64_t left = clock + c.reopen_ns - now;
    if (left > 0) return {false, left};
    device.gate_closed = false;
  }
  if (device.outstanding <= 0) return {true, 0};
  const double cost = concurrency(device) * estimate.cost;
  if (estimate.samples != 0 && device.outstanding + cost <= static_cast<double>(c.outstanding_ns)) return {true, 0};
  const Ahead ahead = look_ahead(device, now);
  if (estimate.samples != 0 && ahead.launches == 1 && !ahead.overdue && ahead.remaining <= kTopUp) return {true, 0};
  const int64_t until_top_up = ahead.remaining - kTopUp;
  return {false, until_top_up < kShortWait ? kShortWait : (until_top_up < kPoll ? until_top_up : kPoll)};
}

Segment* open_segment_of(ComputeDevice& device, const Launch& launch) {
  Segment* found = nullptr;
  if (device.open == 0) return found;
  const uint64_t context = current_context();
  for_each(device, device.open, [&](Segment& segment) {
    if (segment.stream == launch.stream && segment.per_thread == launch.per_thread &&
        (segment.context == nullptr || segment.context->handle == context)) {
      found = &segment;
    }
  });
  return found;
}

Segment* start_segment(ComputeDevice& device, const Launch& launch, int64_t now) {
  const uint64_t free = ~(device.open | device.closed);
  if (free == 0) return nullptr;
  Segment& segment = device.segments[__builtin_ctzll(free)];
  memset(static_cast<void*>(&segment), 0, sizeof(segment));
  device.open |= bit_of(device, segment);
  segment.stream = launch.stream;
  segment.per_thread = launch.per_thread;
  segment.key = launch.key;
  segment.opened = now;
  segment.context = event_context_of(device.contexts, launch.stream, launch.per_thread);
  if (segment.context == nullptr) return &segment;
  segment.start = take_event(*segment.context);
  segment.end = take_event(*segment.context);
  segment.measured = segment.end != nullptr && record_event(segment.start, launch.stream, launch.per_thread);
  return &segment;
}

bool wants_own_segment(ComputeDevice& device, const Estimate& estimate, int64_t now) {
  if (estimate.samples < 3 || estimate.cost >= kLongKernel) return true;
  device.random = device.random * 6364136223846793005u + 1442695040888963407u;
  if (device.random >> 60 != 0 || now - device.last_sample < kSampleDistance) return false;
  device.last_sample = now;
  return true;
}

// The segment that a launch belongs to; null: all are in use, the launch is charged by prediction alone.
Segment* place_launch(ComputeDevice& device, const Launch& launch, const Estimate& estimate, int64_t now) {
  const bool own = wants_own_segment(device, estimate, now);
  Segment* segment = open_segment_of(device, launch);
  if (segment != nullptr && (own || segment->alone)) {
    close(device, *segment);
    segment = nullptr;
  }
  if (segment == nullptr) segment = start_segment(device, launch, now);
  if (segment == nullptr) return nullptr;
  if (own) segment->alone = true;
  if (segment->launches != 0 && segment->busy_until < now) segment->gaps = true;
  const int64_t begin = segment->busy_until > now ? segment->busy_until : now;
  segment->busy_until = begin + static_cast<int64_t>(estimate.cost);
  return segment;
}

// A tenant asks for a device while a launch waits and while the device has work of it: a kernel longer than the time
// for which its word counts would be taken for a rest.
void say_it_asks(int rule, const ComputeDevice& device, int64_t now) {
  int64_t& word = shared(rule).want_ns;
  const double ahead = device.outstanding < kFarthest ? device.outstanding : kFarthest;
  const int64_t until = now + (ahead > 0 ? static_cast<int64_t>(ahead) : 0);
  const int64_t said = __atomic_load_n(&word, __ATOMIC_RELAXED);  // perhaps by a process that has more to do
  if (said >= until && said <= now + static_cast<int64_t>(kFarthest)) return;
  __atomic_store_n(&word, until, __ATOMIC_RELAXED);
}

}  // namespace

Ticket admit(int rule, const Launch& launch) {
  Compute* all = compute();
  if (all == nullptr || capturing(launch.stream, launch.per_thread)) return {0, 0, 0, 0};
  ComputeDevice& device = all->devices[rule];
  const Lock lock(device.lock);
  int64_t now = now_ns();
  const int64_t asked = now;
  close_older(device, now, kSegmentAge);
  if (now - device.last_poll >= kPoll) settle(device, rule, now);
  Estimate* known = nullptr;  // others may take its place while the lock is given back
  for (;;) {
    known = &estimate_of(device, launch.key);
    const Verdict verdict = judge(device, rule, *known, now);
    if (verdict.admitted) break;
    say_it_asks(rule, device, now);
    close_older(device, now, 0);
    const int64_t longest = device.outstanding > 0 ? kPoll : kAskAgain;
    const int64_t wait = verdict.wait < longest ? verdict.wait : longest;
    pthread_mutex_unlock(&device.lock);
    sleep_ns(wait);
    pthread_mutex_lock(&device.lock);
    now = now_ns();
    settle(device, rule, now);
  }
  if (heddle_guard_slot* slot = now != asked ? own_slot() : nullptr) {
    __atomic_fetch_add(&slot->throttled_ns, static_cast<uint64_t>(now - asked), __ATOMIC_RELAXED);
  }
  if ((device.open | device.closed) == 0) rebase_if_old(device.contexts, launch.stream, launch.per_thread, now);
  const Estimate estimate = *known;
  Segment* segment = place_launch(device, launch, estimate, now);
  const double charged = concurrency(device) * estimate.cost;
  advance_clock(rule, now - config().burst_ns, charged / share_of(rule, now));
  Ticket ticket{0, 0, 0, 0};
  if (segment != nullptr) {
    device.outstanding += charged;
    segment->charged += charged;
    segment->cost += estimate.cost;
    ++segment->launches;
    ++segment->in_flight;
    publish_outstanding(rule, device);
    ticket = {rule + 1, static_cast<uint32_t>(segment - device.segments), charged, estimate.cost};
  }
  say_it_asks(rule, device, now);
  return ticket;
}

void after_launch(const Ticket& ticket, bool launched) {
  if (ticket.device_plus_one == 0) return;
  Compute* all = compute();
  if (all == nullptr) return;
  const int rule = ticket.device_plus_one - 1;
  ComputeDevice& device = all->devices[rule];
  const Lock lock(device.lock);
  Segment& segment = device.segments[ticket.segment];
  // Its context may have been destroyed during the launch.
  if ((device.open & bit_of(device, segment)) == 0 || segment.in_flight == 0) return;
  --segment.in_flight;
  if (!launched) {
    advance_clock(rule, INT64_MIN / 2, -ticket.charged / share_of(rule, now_ns()));
    device.outstanding -= ticket.charged;
    segment.charged -= ticket.charged;
    segment.cost -= ticket.cost;
    --segment.launches;
  }
  if (segment.alone || segment.launches >= kSegmentLaunches || segment.cost >= kSegmentWork) close(device, segment);
}

void before_stream_ends(void* stream) {
  Compute* all = __atomic_load_n(&process().compute, __ATOMIC_ACQUIRE);
  if (all == nullptr) return;
  for (uint32_t rule = 0; rule < config().device_count; ++rule) {
    ComputeDevice& device = all->devices[rule];
    const Lock lock(device.lock);
    for_each(device, device.open, [&](Segment& segment) {
      if (segment.stream == stream && !segment.per_thread) close(device, segment);
    });
  }
}

void before_context_ends(uint64_t handle) {
  Compute* all = __atomic_load_n(&process().compute, __ATOMIC_ACQUIRE);
  if (all == nullptr) return;
  for (uint32_t rule = 0; rule < config().device_count; ++rule) {
    ComputeDevice& device = all->devices[rule];
    const Lock lock(device.lock);
    // The events go with the context; what they would have told is taken as predicted.
    const int64_t now = now_ns();
    for_each(device, device.open | device.closed, [&](Segment& segment) {
      if (segment.context == nullptr || segment.context->handle != handle) return;
      finish(device, static_cast<int>(rule), segment, segment.cost, now);
    });
    for (EventContext& context : device.contexts) {
      if (context.handle == handle) memset(static_cast<void*>(&context), 0, sizeof(context));
    }
  }
}

}  // namespace heddle::guard
