#include "dialects/selector.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "dialects/wire_names.h"

namespace heddle::dialects {
namespace {

using Json = nlohmann::json;

// A JSON string of valid UTF-8 without '/' escapes is a CEL string literal too.
std::string quoted(const std::string& text) {
  return Json(text).dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::string list_of(const std::vector<std::string>& values) {
  std::vector<std::string> items;
  items.reserve(values.size());
  for (const std::string& value : values) items.push_back(quoted(value));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

// device.attributes["accelerator.heddle.dev"].?model.orValue("")
std::string operand(const Selector& selector) {
  return fmt::format("device.attributes[\"{}\"].?{}.orValue({})", kDriver, selector.attribute,
                     quoted(selector.otherwise));
}

std::string lowered(const Selector& selector) {
  if (selector.prefix.empty()) return operand(selector) + ".lowerAscii()";
  return fmt::format("({} + {}).lowerAscii()", quoted(selector.prefix), operand(selector));
}

// Takes `start` off the front of `text`.
bool take(std::string_view& text, std::string_view start) {
  if (!text.starts_with(start)) return false;
  text.remove_prefix(start.size());
  return true;
}

// A JSON value from the front: a string or a list of strings.
std::optional<Json> take_json(std::string_view& text) {
  if (text.empty() || (text.front() != '"' && text.front() != '[')) return std::nullopt;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') {
      ++i;
      continue;
    }
    if (c == '"') in_string = !in_string;
    const bool ends = !in_string && (text.front() == '"' ? c == '"' : c == ']');
    if (!ends) continue;
    Json value = Json::parse(text.substr(0, i + 1), nullptr, false);
    if (value.is_discarded()) return std::nullopt;
    text.remove_prefix(i + 1);
    return value;
  }
  return std::nullopt;
}

std::optional<std::string> take_string(std::string_view& text) {
  const std::optional<Json> value = take_json(text);
  if (!value || !value->is_string()) return std::nullopt;
  return value->get<std::string>();
}

bool take_list(std::string_view& text, std::vector<std::string>& out) {
  const std::optional<Json> value = take_json(text);
  if (!value || !value->is_array()) return false;
  for (const Json& item : *value) {
    if (!item.is_string()) return false;
    out.push_back(item.get<std::string>());
  }
  return true;
}

bool take_operand(std::string_view& text, Selector& out) {
  if (!take(text, fmt::format("device.attributes[\"{}\"].?", kDriver))) return false;
  const size_t dot = text.find('.');
  if (dot == std::string_view::npos || dot == 0) return false;
  out.attribute = text.substr(0, dot);
  text.remove_prefix(dot);
  if (!take(text, ".orValue(")) return false;
  const std::optional<std::string> otherwise = take_string(text);
  if (!otherwise || !take(text, ")")) return false;
  out.otherwise = *otherwise;
  return true;
}

bool take_lowered(std::string_view& text, Selector& out) {
  if (take(text, "(")) {
    const std::optional<std::string> prefix = take_string(text);
    if (!prefix || prefix->empty() || !take(text, " + ")) return false;
    out.prefix = *prefix;
    return take_operand(text, out) && take(text, ").lowerAscii()");
  }
  return take_operand(text, out) && take(text, ".lowerAscii()");
}

constexpr std::string_view kPairMiddle = " + \"|\" + ";

// Which of its parts goes with which model.
std::string pair_operand(const Selector& selector) {
  return fmt::format("({}.lowerAscii(){}{})", operand(selector), kPairMiddle, operand({{}, "profile", {}, "", ""}));
}

bool take_pair(std::string_view text, Selector& out) {
  out.op = Selector::Op::kPairIn;
  out.attribute = "model";
  return take(text, pair_operand(out)) && take(text, " in ") && take_list(text, out.values) && text.empty();
}

bool take_selector(std::string_view text, Selector& out) {
  if (text.starts_with("(")) return take_pair(text, out);
  const bool no = take(text, "!");
  if (no && take(text, "(")) {
    out.op = Selector::Op::kNotIn;
    return take_operand(text, out) && take(text, " in ") && take_list(text, out.values) && text == ")";
  }
  if (text.starts_with("[")) {
    if (!take_list(text, out.values) || !take(text, ".exists(t, ")) return false;
    if (text.starts_with("device") && !no) {
      std::string_view rest = text;
      if (!take_operand(rest, out)) return false;
      if (rest == ".startsWith(t))") {
        out.op = Selector::Op::kStartsWithAny;
        return true;
      }
      out.attribute.clear();
      out.otherwise.clear();
    }
    out.op = no ? Selector::Op::kContainsNone : Selector::Op::kContainsAny;
    return take_lowered(text, out) && text == ".contains(t))";
  }
  if (no || !take_operand(text, out)) return false;
  if (take(text, " in ")) {
    out.op = Selector::Op::kIn;
    return take_list(text, out.values) && text.empty();
  }
  if (!take(text, " == ")) return false;
  const std::optional<std::string> value = take_string(text);
  out.op = Selector::Op::kEquals;
  if (value) out.values.push_back(*value);
  return value && text.empty();
}

}  // namespace

std::string selector_text(const Selector& selector) {
  switch (selector.op) {
    case Selector::Op::kEquals:
      return fmt::format("{} == {}", operand(selector), quoted(selector.values.empty() ? "" : selector.values.front()));
    case Selector::Op::kIn:
      return fmt::format("{} in {}", operand(selector), list_of(selector.values));
    case Selector::Op::kNotIn:
      return fmt::format("!({} in {})", operand(selector), list_of(selector.values));
    case Selector::Op::kStartsWithAny:
      return fmt::format("{}.exists(t, {}.startsWith(t))", list_of(selector.values), operand(selector));
    case Selector::Op::kPairIn:
      return fmt::format("{} in {}", pair_operand(selector), list_of(selector.values));
    case Selector::Op::kContainsAny:
      return fmt::format("{}.exists(t, {}.contains(t))", list_of(selector.values), lowered(selector));
    case Selector::Op::kContainsNone:
      return fmt::format("!{}.exists(t, {}.contains(t))", list_of(selector.values), lowered(selector));
  }
  return {};
}

std::optional<Selector> parse_selector(std::string_view text) {
  Selector out;
  if (!take_selector(text, out) || selector_text(out) != text) return std::nullopt;
  return out;
}

}  // namespace heddle::dialects
