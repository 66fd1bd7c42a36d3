// The tenant's virtual clock on a device, which all its processes share in `usage`, and the rate at which it runs.
//
// Any thread, any process. Cost: loads and a compare-and-swap.
#pragma once

#include "guard/preload/state.h"

namespace heddle::guard {

// What the clock of a device runs with at present.
struct Rate {
  double share;    // of the device's time
  double counted;  // of a measured interval
  bool held;       // nothing is admitted
};

// The share of the limits, unless the agent has just said that more may be used, or that neighbours took a part of what
// was measured. A device that gives way has what the agent says; what is charged while it is held is no debt for later.
Rate rate_of(int rule, int64_t now);

heddle_guard_device_usage& shared(int rule);

int64_t virtual_clock(int rule, int64_t now);
// To `floor`, where it is behind it, and by so many nanoseconds.
void advance_clock(int rule, int64_t floor, double by);

// Charges a measured time; `predicted` of it is on the clock already.
void charge_time(int rule, double measured, double predicted, const Rate& rate);
// Charges what processes that are gone have left behind. Cost where there is nothing: one load.
void charge_left(int rule, int64_t now);

}  // namespace heddle::guard
