// Half-lives in whole numbers, the same on every machine.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace heddle::queueing {

inline constexpr int64_t kOne = int64_t{1} << 62;

// 2^(-elapsed / half_life) in units of 2^-62; elapsed >= 0, half_life > 0. Within 10^-9 of the exact value.
int64_t decay(Duration elapsed, Duration half_life);

// What `now` thousandths of a device, used without pause for ever, come to: the value that decayed usage tends to.
int64_t steady_state(int64_t milli_devices, Duration half_life);

// Usage `past` after `elapsed` more during which `milli_devices` were in use.
int64_t advance(int64_t past, int64_t milli_devices, Duration elapsed, Duration half_life);

}  // namespace heddle::queueing
