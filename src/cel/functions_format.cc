// "...".format([...]) of cel-go v0.29.2 ext/formatting.go: %s %d %f %e %b %x %X %o %%.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "cel/functions.h"
#include "cel/type.h"

namespace heddle::cel {

namespace {

using Text = std::optional<std::string>;  // nothing: the verb does not take this kind

constexpr int kDefaultPrecision = 6;

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string double_text(double value, int precision, char verb) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  if (verb == 'e') return fmt::format("{:.{}e}", value, precision);
  return fmt::format("{:.{}f}", value, precision);
}

Text plain(Evaluation& e, const Value& value);

std::string nested(Evaluation& e, const Value& value) {
  switch (value.kind()) {
    case Kind::kString:
      return quoted(value.as_text());
    case Kind::kBytes:
      return "b" + quoted(value.as_text());
    case Kind::kDouble: {
      std::string text = double_text(value.as_double(), kDefaultPrecision, 'f');
      return std::isfinite(value.as_double()) ? text : quoted(text);
    }
    case Kind::kTimestamp:
      return fmt::format("timestamp({})", quoted(timestamp_text(value.seconds(), value.nanos())));
    case Kind::kDuration:
      return fmt::format("duration({})", quoted(duration_text(value.as_int())));
    default:
      return plain(e, value).value_or(std::string(kind_name(value.kind())));
  }
}

std::string list_text(Evaluation& e, const List& list) {
  std::string out = "[";
  for (size_t i = 0; i < list.size; ++i) out += (i > 0 ? ", " : "") + nested(e, list.items[i]);
  return out + "]";
}

std::string map_text(Evaluation& e, const Map& map) {
  std::vector<std::pair<std::string, std::string>> entries;
  entries.reserve(map.size());
  for (size_t i = 0; i < map.size(); ++i) entries.emplace_back(nested(e, map.key_at(i)), nested(e, map.value_at(i)));
  std::sort(entries.begin(), entries.end());
  std::string out = "{";
  for (size_t i = 0; i < entries.size(); ++i) out += (i > 0 ? ", " : "") + entries[i].first + ":" + entries[i].second;
  return out + "}";
}

Text plain(Evaluation& e, const Value& value) {
  switch (value.kind()) {
    case Kind::kNull:
      return "null";
    case Kind::kList:
      return list_text(e, value.as_list());
    case Kind::kMap:
      return map_text(e, value.as_map());
    case Kind::kType:
      return type_text(value.as_type());
    default:
      break;
  }
  Value text = convert_to_string(e, value);
  if (text.is_error()) return std::nullopt;
  return std::string(text.as_text());
}

Text decimal(const Value& value) {
  if (value.is(Kind::kInt)) return fmt::format("{}", value.as_int());
  if (value.is(Kind::kUint)) return fmt::format("{}", value.as_uint());
  return std::nullopt;
}

Text floating(const Value& value, int precision, char verb) {
  if (value.is(Kind::kDouble)) return double_text(value.as_double(), precision, verb);
  if (!value.is(Kind::kString)) return std::nullopt;
  std::string_view text = value.as_text();
  if (text == "NaN" || text == "Infinity" || text == "-Infinity") return std::string(text);
  return std::nullopt;
}

std::string hex_bytes(std::string_view text, bool upper) {
  std::string out;
  for (char c : text)
    out += upper ? fmt::format("{:02X}", static_cast<unsigned char>(c))
                 : fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

Text based(const Value& value, char verb) {
  bool hex = verb == 'x' || verb == 'X';
  if (hex && (value.is(Kind::kString) || value.is(Kind::kBytes))) return hex_bytes(value.as_text(), verb == 'X');
  if (verb == 'b' && value.is(Kind::kBool)) return value.as_bool() ? "1" : "0";
  uint64_t magnitude = 0;
  bool negative = false;
  if (value.is(Kind::kInt)) {
    negative = value.as_int() < 0;
    magnitude = negative ? 0 - static_cast<uint64_t>(value.as_int()) : static_cast<uint64_t>(value.as_int());
  } else if (value.is(Kind::kUint)) {
    magnitude = value.as_uint();
  } else {
    return std::nullopt;
  }
  std::string digits = verb == 'b'   ? fmt::format("{:b}", magnitude)
                       : verb == 'o' ? fmt::format("{:o}", magnitude)
                       : verb == 'x' ? fmt::format("{:x}", magnitude)
                                     : fmt::format("{:X}", magnitude);
  return (negative ? "-" : "") + digits;
}

Text clause(Evaluation& e, const Value& value, char verb, int precision) {
  switch (verb) {
    case 's':
      return plain(e, value);
    case 'd':
      return decimal(value);
    case 'f':
    case 'e':
      return floating(value, precision, verb);
    default:
      return based(value, verb);
  }
}

Value format(Evaluation& e, std::span<const Value> args) {
  if (!args[0].is(Kind::kString) || !args[1].is(Kind::kList)) return e.no_overload();
  std::string_view text = args[0].as_text();
  const List& values = args[1].as_list();
  std::string out;
  size_t used = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (++i == text.size()) return e.error("could not parse formatting clause: unexpected end of string");
    if (text[i] == '%') {
      out += '%';
      continue;
    }
    int precision = kDefaultPrecision;
    if (text[i] == '.') {
      precision = 0;
      for (++i; i < text.size() && text[i] >= '0' && text[i] <= '9' && precision < 1000; ++i)
        precision = precision * 10 + (text[i] - '0');
    }
    if (i == text.size() || std::string_view("sdfebxXo").find(text[i]) == std::string_view::npos || precision >= 1000)
      return e.error("could not parse formatting clause: unrecognized formatting clause");
    if (used == values.size) return e.error(fmt::format("index {} out of range", used));
    const Value& value = values.items[used++];
    Text clause_text = clause(e, value, text[i], precision);
    if (!clause_text)
      return e.error(
          fmt::format("error during formatting: %{} cannot be applied to a {}", text[i], kind_name(value.kind())));
    out += *clause_text;
  }
  return e.text(out);
}

constexpr std::array<FunctionEntry, 1> kFunctions = {{{"format", format, CostRule::kTraverseFirst}}};

}  // namespace

std::span<const FunctionEntry> format_functions() {
  return kFunctions;
}

}  // namespace heddle::cel
