#include "guard/preload/compute_clock.h"

namespace heddle::guard {
namespace {

constexpr double kLeastShare = 0.01;            // less than this of a device that gives way is nothing
constexpr int64_t kImpossible = 3600000000000;  // a clock this far ahead is damage, not debt

}  // namespace

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

void charge_time(int rule, double measured, double predicted, const Rate& rate) {
  const double time = measured * rate.counted;
  __atomic_fetch_add(&shared(rule).charged_ns, static_cast<int64_t>(time), __ATOMIC_RELAXED);
  __atomic_fetch_add(&shared(rule).measured_ns, static_cast<int64_t>(measured), __ATOMIC_RELAXED);
  advance_clock(rule, INT64_MIN / 2, (time - predicted) / rate.share);
}

void charge_left(int rule, int64_t now) {
  uint64_t& left = shared(rule).left_ns;
  if (__atomic_load_n(&left, __ATOMIC_RELAXED) == 0) return;
  const uint64_t time = __atomic_exchange_n(&left, 0, __ATOMIC_RELAXED);
  const uint64_t most = HEDDLE_GUARD_SLOTS * static_cast<uint64_t>(ledger::kMostUnsettled);
  if (time <= most) charge_time(rule, static_cast<double>(time), 0, rate_of(rule, now));
}

}  // namespace heddle::guard
