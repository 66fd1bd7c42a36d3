// Time as a dependency: the core is handed a Clock (or a time), and never reads one by itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace heddle {

// Nanoseconds since 1970-01-01T00:00:00Z. int64 reaches the year 2262.
struct Time {
  int64_t unix_nanos = 0;
  friend auto operator<=>(Time, Time) = default;
};

struct Duration {
  int64_t nanos = 0;
  static constexpr Duration millis(int64_t n) { return {n * 1'000'000}; }
  static constexpr Duration seconds(int64_t n) { return {n * 1'000'000'000}; }
  friend auto operator<=>(Duration, Duration) = default;
};

inline Time operator+(Time time, Duration duration) {
  return {time.unix_nanos + duration.nanos};
}
inline Duration operator-(Time left, Time right) {
  return {left.unix_nanos - right.unix_nanos};
}

// RFC 3339 as Kubernetes writes metav1.Time: whole seconds, UTC, "2026-11-29T18:33:46Z".
std::string format_rfc3339(Time time);
// metav1.MicroTime, with six digits of fraction (leases).
std::string format_rfc3339_micro(Time time);
// Accepts any fraction and any offset. Errors: kInvalidArgument.
Result<Time> parse_rfc3339(std::string_view text);

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual Time now() const = 0;                 // the wall clock, for what is written down
  [[nodiscard]] virtual int64_t monotonic_nanos() const = 0;  // for intervals and deadlines
};

// The machine's clocks. The one place that reads them.
class SystemClock final : public Clock {
 public:
  [[nodiscard]] Time now() const override;
  [[nodiscard]] int64_t monotonic_nanos() const override;
};

// A clock that stands still until a test moves it. Not thread-safe.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(Time start) : now_(start) {}
  [[nodiscard]] Time now() const override { return now_; }
  [[nodiscard]] int64_t monotonic_nanos() const override { return now_.unix_nanos; }
  void advance(Duration duration) { now_ = now_ + duration; }

 private:
  Time now_;
};

}  // namespace heddle
