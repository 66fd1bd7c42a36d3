// Timestamps and durations. Time zones by offset ("+02:00") or "UTC"; names of the tz database are refused by name,
// since the answer would depend on the machine's copy of it.
#include <fmt/format.h>

#include <array>
#include <charconv>

#include "base/clock.h"
#include "cel/functions.h"

namespace heddle::cel {

namespace {

using Args = std::span<const Value>;
constexpr int64_t kNanosPerSecond = 1'000'000'000;
// Wide enough for a duration before it is known to fit.
__extension__ using Wide = __int128;

struct Civil {
  int64_t year;
  int64_t month;  // 1..12
  int64_t day;    // 1..31
};

// Days since 1970-01-01 to a date (H. Hinnant's algorithm, public domain).
Civil civil_from_days(int64_t days) {
  days += 719468;
  int64_t era = (days >= 0 ? days : days - 146096) / 146097;
  int64_t day_of_era = days - era * 146097;
  int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  int64_t shifted = (5 * day_of_year + 2) / 153;
  int64_t month = shifted < 10 ? shifted + 3 : shifted - 9;
  return {year_of_era + era * 400 + (month <= 2 ? 1 : 0), month, day_of_year - (153 * shifted + 2) / 5 + 1};
}

int64_t days_from_civil(int64_t year, int64_t month, int64_t day) {
  year -= month <= 2 ? 1 : 0;
  int64_t era = (year >= 0 ? year : year - 399) / 400;
  int64_t year_of_era = year - era * 400;
  int64_t day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
  return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719468;
}

int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

bool number(std::string_view text, size_t at, size_t length, int64_t& out) {
  if (at + length > text.size()) return false;
  auto [end, error] = std::from_chars(text.data() + at, text.data() + at + length, out);
  return error == std::errc() && end == text.data() + at + length && text[at] != '-';
}

// "+02:00", "-5:30", "02:00", "UTC" and "" (UTC).
bool zone_offset(std::string_view text, int64_t& seconds) {
  seconds = 0;
  if (text.empty() || text == "UTC" || text == "Etc/UTC" || text == "Z") return true;
  int64_t sign = text[0] == '-' ? -1 : 1;
  if (text[0] == '-' || text[0] == '+') text.remove_prefix(1);
  size_t colon = text.find(':');
  int64_t hours = 0;
  int64_t minutes = 0;
  if (colon == std::string_view::npos || colon == 0 || colon > 2) return false;
  if (!number(text, 0, colon, hours) || text.size() != colon + 3 || !number(text, colon + 1, 2, minutes)) return false;
  seconds = sign * (hours * 3600 + minutes * 60);
  return hours < 24 && minutes < 60;
}

struct Fields {
  Civil date;
  int64_t days;
  int64_t second_of_day;
};

using Getter = int64_t (*)(const Fields&, const Value&);

Value timestamp_field(Evaluation& e, Args args, Getter getter) {
  int64_t offset = 0;
  if (args.size() == 2 && (!args[1].is(Kind::kString) || !zone_offset(args[1].as_text(), offset)))
    return args[1].is(Kind::kString) ? e.error(fmt::format("unknown time zone {}", args[1].as_text()))
                                     : e.no_overload();
  int64_t seconds = args[0].seconds() + offset;
  int64_t days = floor_div(seconds, 86400);
  Fields fields{civil_from_days(days), days, seconds - days * 86400};
  return Value::integer(getter(fields, args[0]));
}

template <Getter kGetter>
Value date_part(Evaluation& e, Args args) {
  return args[0].is(Kind::kTimestamp) ? timestamp_field(e, args, kGetter) : e.no_overload();
}

template <Getter kGetter, int64_t kNanos>
Value time_part(Evaluation& e, Args args) {
  if (args[0].is(Kind::kDuration))
    return args.size() == 1 ? Value::integer(args[0].as_int() / kNanos) : e.no_overload();
  return date_part<kGetter>(e, args);
}

int64_t year_of(const Fields& f, const Value&) {
  return f.date.year;
}
int64_t month_of(const Fields& f, const Value&) {
  return f.date.month - 1;
}
int64_t day_of_year(const Fields& f, const Value&) {
  return f.days - days_from_civil(f.date.year, 1, 1);
}
int64_t day_of_month(const Fields& f, const Value&) {
  return f.date.day - 1;
}
int64_t date_of(const Fields& f, const Value&) {
  return f.date.day;
}
int64_t day_of_week(const Fields& f, const Value&) {
  return ((f.days % 7) + 11) % 7;
}
int64_t hours_of(const Fields& f, const Value&) {
  return f.second_of_day / 3600;
}
int64_t minutes_of(const Fields& f, const Value&) {
  return f.second_of_day / 60 % 60;
}
int64_t seconds_of(const Fields& f, const Value&) {
  return f.second_of_day % 60;
}
int64_t millis_of(const Fields&, const Value& value) {
  return value.nanos() / 1'000'000;
}

// Milliseconds of a duration are those within its second.
Value milliseconds(Evaluation& e, Args args) {
  if (args[0].is(Kind::kDuration)) return Value::integer(args[0].as_int() / 1'000'000 % 1000);
  return date_part<millis_of>(e, args);
}

Value to_timestamp(Evaluation& e, Args args) {
  switch (args[0].kind()) {
    case Kind::kTimestamp:
      return args[0];
    case Kind::kString:
      return parse_timestamp(e, args[0].as_text());
    case Kind::kInt:
      if (args[0].as_int() < -62135596800 || args[0].as_int() > 253402300799) return Value::error("timestamp overflow");
      return Value::timestamp(args[0].as_int(), 0);
    default:
      return e.no_overload();
  }
}

Value to_duration(Evaluation& e, Args args) {
  if (args[0].is(Kind::kDuration)) return args[0];
  return args[0].is(Kind::kString) ? parse_duration(e, args[0].as_text()) : e.no_overload();
}

constexpr std::array<FunctionEntry, 12> kFunctions = {{
    {"timestamp", to_timestamp, CostRule::kOne},
    {"duration", to_duration, CostRule::kOne},
    {"getFullYear", date_part<year_of>, CostRule::kOne},
    {"getMonth", date_part<month_of>, CostRule::kOne},
    {"getDayOfYear", date_part<day_of_year>, CostRule::kOne},
    {"getDayOfMonth", date_part<day_of_month>, CostRule::kOne},
    {"getDate", date_part<date_of>, CostRule::kOne},
    {"getDayOfWeek", date_part<day_of_week>, CostRule::kOne},
    {"getHours", time_part<hours_of, 3600 * kNanosPerSecond>, CostRule::kOne},
    {"getMinutes", time_part<minutes_of, 60 * kNanosPerSecond>, CostRule::kOne},
    {"getSeconds", time_part<seconds_of, kNanosPerSecond>, CostRule::kOne},
    {"getMilliseconds", milliseconds, CostRule::kOne},
}};

struct Unit {
  std::string_view name;
  int64_t nanos;
};
constexpr std::array<Unit, 8> kUnits = {{{"ns", 1},
                                         {"us", 1000},
                                         {"\xC2\xB5s", 1000},
                                         {"\xCE\xBCs", 1000},
                                         {"ms", 1'000'000},
                                         {"s", kNanosPerSecond},
                                         {"m", 60 * kNanosPerSecond},
                                         {"h", 3600 * kNanosPerSecond}}};

const Unit* unit_at(std::string_view text) {
  const Unit* best = nullptr;
  for (const Unit& unit : kUnits)
    if (text.substr(0, unit.name.size()) == unit.name && (best == nullptr || unit.name.size() > best->name.size()))
      best = &unit;
  return best;
}

}  // namespace

// Go's time.ParseDuration: "1h15m30.918s", "-1.5h", "0".
Value parse_duration(Evaluation& e, std::string_view whole) {
  auto bad = [&] { return e.error(fmt::format("time: invalid duration \"{}\"", whole)); };
  std::string_view text = whole;
  bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  if (text == "0") return Value::duration(0);
  if (text.empty()) return bad();
  Wide total = 0;
  while (!text.empty()) {
    Wide units = 0;
    Wide scale = 1;
    size_t digits = 0;
    bool fraction = false;
    for (; !text.empty() && ((text[0] >= '0' && text[0] <= '9') || (text[0] == '.' && !fraction));
         text.remove_prefix(1)) {
      if (text[0] == '.') {
        fraction = true;
        continue;
      }
      ++digits;
      if (fraction && scale > static_cast<Wide>(kNanosPerSecond) * kNanosPerSecond) continue;
      units = units * 10 + (text[0] - '0');
      if (units > (static_cast<Wide>(1) << 90)) return bad();
      if (fraction) scale *= 10;
    }
    const Unit* unit = unit_at(text);
    if (digits == 0 || unit == nullptr) return bad();
    text.remove_prefix(unit->name.size());
    if (units / scale > INT64_MAX) return bad();
    total += units / scale * unit->nanos + units % scale * unit->nanos / scale;
    if (total > static_cast<Wide>(INT64_MAX) + (negative ? 1 : 0)) return bad();
  }
  return Value::duration(static_cast<int64_t>(negative ? -total : total));
}

// RFC 3339 with any fraction up to nanoseconds.
Value parse_timestamp(Evaluation& e, std::string_view text) {
  auto bad = [&] { return e.error(fmt::format("parsing time \"{}\" as RFC 3339: cannot parse", text)); };
  std::array<int64_t, 6> parts{};
  constexpr std::array<size_t, 6> kAt = {0, 5, 8, 11, 14, 17};
  if (text.size() < 20 || text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' || text[16] != ':')
    return bad();
  for (size_t i = 0; i < kAt.size(); ++i)
    if (!number(text, kAt[i], i == 0 ? 4 : 2, parts[i])) return bad();
  auto [year, month, day, hour, minute, second] = parts;
  size_t at = 19;
  int64_t nanos = 0;
  if (text[at] == '.') {
    int64_t scale = 100'000'000;
    size_t start = ++at;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at, scale /= 10) nanos += (text[at] - '0') * scale;
    if (at == start) return bad();
  }
  int64_t offset = 0;
  std::string_view zone = text.substr(at);
  if (zone.empty() ||
      (zone != "Z" && (zone.size() != 6 || (zone[0] != '+' && zone[0] != '-') || !zone_offset(zone, offset))))
    return bad();
  static constexpr std::array<int64_t, 12> kDays = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  if (month < 1 || month > 12 || hour > 23 || minute > 59 || second > 59) return bad();
  bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  if (day < 1 || day > kDays[static_cast<size_t>(month - 1)] + (month == 2 && leap ? 1 : 0)) return bad();
  int64_t seconds = days_from_civil(year, month, day) * 86400 + hour * 3600 + minute * 60 + second - offset;
  if (seconds < -62135596800 || seconds > 253402300799) return Value::error("timestamp overflow");
  return Value::timestamp(seconds, static_cast<uint32_t>(nanos));
}

std::string duration_text(int64_t nanos) {
  // Seconds with as many digits as needed: "90s", "1.5s", "-0.000000001s".
  uint64_t magnitude = nanos < 0 ? 0 - static_cast<uint64_t>(nanos) : static_cast<uint64_t>(nanos);
  std::string text = fmt::format("{}{}", nanos < 0 ? "-" : "", magnitude / 1'000'000'000U);
  if (uint64_t fraction = magnitude % 1'000'000'000U; fraction != 0) {
    std::string digits = fmt::format("{:09}", fraction);
    digits.erase(digits.find_last_not_of('0') + 1);
    text += "." + digits;
  }
  return text + "s";
}

std::string timestamp_text(int64_t seconds, uint32_t nanos) {
  int64_t days = floor_div(seconds, 86400);
  Civil date = civil_from_days(days);
  int64_t rest = seconds - days * 86400;
  std::string text = fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", date.year, date.month, date.day, rest / 3600,
                                 rest / 60 % 60, rest % 60);
  if (nanos != 0) {
    std::string digits = fmt::format("{:09}", nanos);
    digits.erase(digits.find_last_not_of('0') + 1);
    text += "." + digits;
  }
  return text + "Z";
}

std::span<const FunctionEntry> time_functions() {
  return kFunctions;
}

}  // namespace heddle::cel
