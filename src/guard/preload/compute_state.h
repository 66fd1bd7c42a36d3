// What a process keeps for the compute law (launch.h), and how what it gave to a device is measured and charged.
//
// Thread rule: under the lock of the device.
#pragma once

#include "guard/preload/compute_clock.h"
#include "guard/preload/compute_events.h"
#include "guard/preload/launch.h"

namespace heddle::guard {

inline constexpr uint32_t kSegments = 64;
inline constexpr uint32_t kEstimates = 1024;

struct Estimate {
  uint64_t key;
  double cost;
  uint32_t samples;
};

// How a segment is charged when it is over.
enum class Measure : uint8_t {
  kWall,        // without events: from the launch until its stream is seen to be through
  kEvents,      // by its events
  kPrediction,  // as predicted
};

struct Segment {
  bool per_thread;
  Measure measure;
  bool gaps;    // the device was probably idle in between
  bool late;    // the stream was through long before the end event: what lies between says nothing
  bool alone;   // to be closed behind its only launch
  bool ending;  // its context is being destroyed: the driver is not asked about it
  bool lost;    // its stream is gone and there are no events: it is over when the context is
  void* stream;
  uint64_t handle;  // of the context
  uint64_t thread;  // 0: the handle of the stream means the same in every thread
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

struct ComputeDevice {
  pthread_mutex_t lock;
  bool gate_closed;
  bool blocked;  // what it was given waits for something else
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

static_assert(kSegments == 64, "a bit for each segment");
static_assert(kMostEvents == 2 * kSegments, "two for each segment");

inline uint64_t bit_of(const ComputeDevice& device, const Segment& segment) {
  return uint64_t{1} << (&segment - device.segments);
}

template <typename Device, typename Body>
void for_each(Device& device, uint64_t mask, Body body) {
  for (; mask != 0; mask &= mask - 1) body(device.segments[__builtin_ctzll(mask)]);
}

Estimate& estimate_of(ComputeDevice& device, uint64_t key);

// Says in `usage` what this process has on the device: predicted, and since when it is not charged.
void publish(int rule, const ComputeDevice& device);

// Not 0: the number of the calling thread, where the handle means a stream of its own.
uint64_t thread_of_stream(const void* stream, bool per_thread);
// True when the stream of a segment, which is_here(), has nothing left to do.
bool is_through(const Segment& segment);
// True where the calling thread can reach the stream of a segment; `context`: the thread's own.
bool is_here(const Segment& segment, uint64_t context);
// True when the device has not begun any of what this process has given it: it waits for something else.
bool nothing_started(const ComputeDevice& device);

// Puts the end event behind the segment. Not while a launch of it is under way: that one closes it; and not while its
// stream records.
void close(ComputeDevice& device, Segment& segment);
// Closes the open segments of the calling thread's context that are at least so old; those of others close when their
// threads come by.
void close_older(ComputeDevice& device, int64_t now, int64_t age);
// Charges what the device is through with.
void settle(ComputeDevice& device, int rule, int64_t now);

}  // namespace heddle::guard
