#include "queueing/decay.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/quantity.h"

namespace heddle::queueing {
namespace {

constexpr size_t kSteps = 256;

constexpr uint64_t times(uint64_t a, uint64_t b) {
  return static_cast<uint64_t>((static_cast<Int128>(a) * static_cast<Int128>(b)) >> 63);
}

// 2^(-i / kSteps), in units of 2^-62.
constexpr std::array<int64_t, kSteps + 1> make_table() {
  constexpr uint64_t kStep = 9'198'432'556'164'277'331ULL;  // 2^63 * 2^(-1/256), rounded
  std::array<int64_t, kSteps + 1> table{};
  uint64_t value = uint64_t{1} << 63;
  for (size_t i = 0; i <= kSteps; ++i) {
    table[i] = static_cast<int64_t>(value >> 1);
    value = times(value, kStep);
  }
  return table;
}

constexpr std::array<int64_t, kSteps + 1> kTable = make_table();

int64_t clamp(Int128 value) {
  constexpr Int128 kMost = std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(std::clamp<Int128>(value, 0, kMost));
}

}  // namespace

int64_t decay(Duration elapsed, Duration half_life) {
  const int64_t halves = elapsed.nanos / half_life.nanos;
  if (halves >= 62) return 0;
  const Int128 rest = elapsed.nanos % half_life.nanos;
  const Int128 place = ((rest << 32) / half_life.nanos) * static_cast<Int128>(kSteps);  // in the table, 2^-32 of a step
  const Int128 inside = place & ((Int128{1} << 32) - 1);
  // 2^-x = e^-t with t = x ln 2; inside a step t is less than 0.003, so three terms are enough.
  constexpr Int128 kLn2PerStep = 12'486'629'536'330'718;  // ln 2 / kSteps, in units of 2^-62
  const Int128 t = (inside * kLn2PerStep) >> 32;
  const Int128 square = (t * t) >> 62;
  const Int128 factor = kOne - t + square / 2 - ((square * t) >> 62) / 6;
  return static_cast<int64_t>((kTable[static_cast<size_t>(place >> 32)] * factor) >> 62) >> halves;
}

int64_t steady_state(int64_t milli_devices, Duration half_life) {
  // half_life / ln 2, in seconds; 1 / ln 2 = 1.4426950408889634.
  constexpr Int128 kPerLn2 = 1'442'695'040'888'963;
  return clamp(static_cast<Int128>(milli_devices) * half_life.nanos / 1'000'000'000 * kPerLn2 / 1'000'000'000'000'000);
}

int64_t advance(int64_t past, int64_t milli_devices, Duration elapsed, Duration half_life) {
  const Int128 kept = decay(elapsed, half_life);
  const Int128 full = steady_state(milli_devices, half_life);
  return clamp((static_cast<Int128>(past) * kept + full * (kOne - kept)) >> 62);
}

}  // namespace heddle::queueing
