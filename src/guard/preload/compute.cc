#include <string.h>

#include "guard/preload/compute_state.h"
#include "guard/preload/device_clock.h"
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
constexpr int64_t kHeld = 5000000;
constexpr int64_t kAskAgain = 20000000;  // while it waits: well within the 50 ms (broker.h) for which it counts
constexpr int64_t kBlocked = 50000000;   // what has not begun so long after waits for something else than the device
constexpr double kFarthest = 200000000;  // so far ahead work on the device counts as asking: who dies asks no longer

using device_clock::capturing;
using device_clock::current_context;

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

double share_of(int rule, int64_t now) {
  return rate_of(rule, now).share;
}

double concurrency(const ComputeDevice& device) {
  if (device.predicted_mean <= 0) return 1;
  const double ratio = device.measured_mean / device.predicted_mean;
  return ratio < 0.1 ? 0.1 : (ratio > 1 ? 1 : ratio);
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
  bool full;  // only what this process has on the device already is in the way
};

Verdict judge(ComputeDevice& device, int rule, const Estimate& estimate, int64_t now) {
  const Config& c = config();
  if (rate_of(rule, now).held) return {false, kHeld, false};
  const int64_t clock = virtual_clock(rule, now);
  if (clock > now) device.gate_closed = true;
  if (device.gate_closed) {
    const int64_t left = clock + c.reopen_ns - now;
    if (left > 0) return {false, left, false};
    device.gate_closed = false;
  }
  if (device.outstanding <= 0) return {true, 0, false};
  const double cost = concurrency(device) * estimate.cost;
  if (estimate.samples != 0 && device.outstanding + cost <= static_cast<double>(c.outstanding_ns)) {
    return {true, 0, false};
  }
  const Ahead ahead = look_ahead(device, now);
  if (estimate.samples != 0 && ahead.launches == 1 && !ahead.overdue && ahead.remaining <= kTopUp) {
    return {true, 0, false};
  }
  const int64_t until_top_up = ahead.remaining - kTopUp;
  return {false, until_top_up < kShortWait ? kShortWait : (until_top_up < kPoll ? until_top_up : kPoll), true};
}

// Work behind something that this very thread may have to do yet must not keep it: a launch that only waits for work
// that does not begin is let through, and is charged like any other.
class Patience {
 public:
  bool is_over(ComputeDevice& device, const Verdict& verdict, bool measured, int64_t now) {
    if (!verdict.full || !nothing_started(device)) {
      since_ = 0;
      device.blocked = false;
      return false;
    }
    if (since_ == 0) since_ = now;
    if (now - since_ >= kBlocked) device.blocked = true;
    return now - since_ >= kBlocked || (device.blocked && measured);
  }

 private:
  int64_t since_ = 0;
};

Segment* open_segment_of(ComputeDevice& device, const Launch& launch) {
  Segment* found = nullptr;
  if (device.open == 0) return found;
  const uint64_t context = current_context();
  for_each(device, device.open, [&](Segment& segment) {
    if (segment.stream == launch.stream && segment.per_thread == launch.per_thread && !segment.ending &&
        is_here(segment, context)) {
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
  segment.stream = launch.stream;
  segment.per_thread = launch.per_thread;
  segment.thread = thread_of_stream(launch.stream, launch.per_thread);
  segment.handle = current_context();
  segment.key = launch.key;
  segment.opened = now;
  segment.context = event_context_of(device.contexts, segment.handle);
  if (segment.context != nullptr) {
    const bool in_use = (device.open | device.closed) != 0;
    compare_clocks(*segment.context, launch.stream, launch.per_thread, in_use, now);
    segment.start = take_event(*segment.context);
    segment.end = take_event(*segment.context);
    const bool ready = segment.end != nullptr && record_event(segment.start, launch.stream, launch.per_thread);
    if (ready) segment.measure = Measure::kEvents;
  }
  device.open |= bit_of(device, segment);
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
  if (segment->launches != 0 && segment->busy_until < now && !segment->gaps) segment->gaps = is_through(*segment);
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

// publish() for one launch more: what was there before has its time in `usage` already.
void publish_launch(int rule, const ComputeDevice& device, const Segment& segment) {
  heddle_guard_slot* slot = own_slot();
  heddle_guard_unsettled* unsettled = slot != nullptr ? own_unsettled(rule) : nullptr;
  if (unsettled == nullptr) return;
  __atomic_store_n(&slot->devices[rule].outstanding_ns, static_cast<uint64_t>(device.outstanding), __ATOMIC_RELAXED);
  if (__atomic_load_n(&unsettled->since_ns, __ATOMIC_RELAXED) == 0) {
    __atomic_store_n(&unsettled->since_ns, segment.opened, __ATOMIC_RELAXED);
  }
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
  Patience patience;
  for (;;) {
    charge_left(rule, now);
    known = &estimate_of(device, launch.key);
    const Verdict verdict = judge(device, rule, *known, now);
    if (verdict.admitted || patience.is_over(device, verdict, known->samples != 0, now)) break;
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
    publish_launch(rule, device, *segment);
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
  // Its context or its stream may have been destroyed during the launch.
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

}  // namespace heddle::guard
