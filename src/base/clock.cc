#include "base/clock.h"

#include <fmt/format.h>

#include <ctime>
#include <optional>

#include "base/text.h"

namespace heddle {
namespace {

constexpr int64_t kNanosPerSecond = 1'000'000'000;
constexpr int64_t kSecondsPerDay = 86'400;

// Days since 1970-01-01 in the proleptic Gregorian calendar (H. Hinnant, chrono-compatible algorithms).
int64_t days_from_civil(int64_t year, int64_t month, int64_t day) {
  year -= month <= 2 ? 1 : 0;
  const int64_t era = (year >= 0 ? year : year - 399) / 400;
  const int64_t year_of_era = year - era * 400;
  const int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  const int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  return era * 146'097 + day_of_era - 719'468;
}

struct Civil {
  int64_t year = 0;
  int64_t month = 0;
  int64_t day = 0;
};

Civil civil_from_days(int64_t days) {
  days += 719'468;
  const int64_t era = (days >= 0 ? days : days - 146'096) / 146'097;
  const int64_t day_of_era = days - era * 146'097;
  const int64_t year_of_era = (day_of_era - day_of_era / 1'460 + day_of_era / 36'524 - day_of_era / 146'096) / 365;
  const int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const int64_t shifted_month = (5 * day_of_year + 2) / 153;
  const int64_t month = shifted_month + (shifted_month < 10 ? 3 : -9);
  const int64_t year = year_of_era + era * 400 + (month <= 2 ? 1 : 0);
  return {year, month, day_of_year - (153 * shifted_month + 2) / 5 + 1};
}

int64_t days_in_month(int64_t year, int64_t month) {
  const int64_t next_year = month == 12 ? year + 1 : year;
  const int64_t next_month = month == 12 ? 1 : month + 1;
  return days_from_civil(next_year, next_month, 1) - days_from_civil(year, month, 1);
}

std::string format_seconds(int64_t seconds, std::string_view fraction) {
  int64_t days = seconds / kSecondsPerDay;
  int64_t rest = seconds % kSecondsPerDay;
  if (rest < 0) {
    rest += kSecondsPerDay;
    --days;
  }
  const Civil date = civil_from_days(days);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}{}Z", date.year, date.month, date.day, rest / 3600,
                     rest / 60 % 60, rest % 60, fraction);
}

struct SplitTime {
  int64_t seconds = 0;
  int64_t nanos = 0;  // 0..999999999
};

SplitTime split(Time time) {
  SplitTime result{time.unix_nanos / kNanosPerSecond, time.unix_nanos % kNanosPerSecond};
  if (result.nanos < 0) {
    result.nanos += kNanosPerSecond;
    --result.seconds;
  }
  return result;
}

// Takes exactly `width` digits off the front.
std::optional<int64_t> take_number(std::string_view& text, size_t width) {
  if (text.size() < width) return std::nullopt;
  int64_t value = 0;
  for (const char c : text.substr(0, width)) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  text.remove_prefix(width);
  return value;
}

bool take(std::string_view& text, std::string_view any_of) {
  if (text.empty() || any_of.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

// The fraction in nanoseconds; digits beyond the ninth are dropped.
std::optional<int64_t> take_fraction(std::string_view& text) {
  if (!take(text, ".,")) return 0;
  int64_t nanos = 0;
  int64_t unit = kNanosPerSecond / 10;
  size_t length = 0;
  for (; length < text.size() && text[length] >= '0' && text[length] <= '9'; ++length) {
    nanos += (text[length] - '0') * unit;
    unit /= 10;
  }
  text.remove_prefix(length);
  if (length == 0) return std::nullopt;
  return nanos;
}

std::optional<int64_t> take_offset_seconds(std::string_view& text) {
  if (take(text, "Zz")) return 0;
  if (text.empty() || (text.front() != '+' && text.front() != '-')) return std::nullopt;
  const int64_t sign = text.front() == '-' ? -1 : 1;
  text.remove_prefix(1);
  const auto hours = take_number(text, 2);
  if (!hours || *hours > 23 || !take(text, ":")) return std::nullopt;
  const auto minutes = take_number(text, 2);
  if (!minutes || *minutes > 59) return std::nullopt;
  return sign * (*hours * 3600 + *minutes * 60);
}

std::optional<Time> parse_time(std::string_view text) {
  const auto year = take_number(text, 4);
  if (!year || !take(text, "-")) return std::nullopt;
  const auto month = take_number(text, 2);
  if (!month || *month < 1 || *month > 12 || !take(text, "-")) return std::nullopt;
  const auto day = take_number(text, 2);
  if (!day || *day < 1 || *day > days_in_month(*year, *month) || !take(text, "Tt ")) return std::nullopt;
  const auto hour = take_number(text, 2);
  if (!hour || *hour > 23 || !take(text, ":")) return std::nullopt;
  const auto minute = take_number(text, 2);
  if (!minute || *minute > 59 || !take(text, ":")) return std::nullopt;
  const auto second = take_number(text, 2);
  if (!second || *second > 60) return std::nullopt;
  const auto nanos = take_fraction(text);
  if (!nanos) return std::nullopt;
  const auto offset = take_offset_seconds(text);
  if (!offset || !text.empty()) return std::nullopt;
  const int64_t seconds =
      days_from_civil(*year, *month, *day) * kSecondsPerDay + *hour * 3600 + *minute * 60 + *second - *offset;
  int64_t total = 0;
  if (__builtin_mul_overflow(seconds, kNanosPerSecond, &total) || __builtin_add_overflow(total, *nanos, &total)) {
    return std::nullopt;
  }
  return Time{total};
}

int64_t read_clock(clockid_t id) {
  timespec now{};
  ::clock_gettime(id, &now);
  return int64_t{now.tv_sec} * kNanosPerSecond + now.tv_nsec;
}

}  // namespace

std::string format_rfc3339(Time time) {
  return format_seconds(split(time).seconds, "");
}

std::string format_rfc3339_micro(Time time) {
  const SplitTime parts = split(time);
  return format_seconds(parts.seconds, fmt::format(".{:06}", parts.nanos / 1000));
}

Result<Time> parse_rfc3339(std::string_view text) {
  if (const auto time = parse_time(text)) return *time;
  return fail(Code::kInvalidArgument, "\"" + cut_text(text, 64) +
                                          "\" is not a time in RFC 3339, such as 2026-11-29T18:33:46Z, between 1677 "
                                          "and 2262");
}

Time SystemClock::now() const {
  return {read_clock(CLOCK_REALTIME)};
}

int64_t SystemClock::monotonic_nanos() const {
  return read_clock(CLOCK_MONOTONIC);
}

}  // namespace heddle
