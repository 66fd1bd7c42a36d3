#include "dialects/selector.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/json.h"
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

// Where the attribute is there: device.attributes["accelerator.heddle.dev"].model. The API server bounds the cost of an
// expression before it takes it, and knows no bound of the text that orValue() gives: what walks through a text is
// written with has() and this.
std::string path(std::string_view attribute) {
  return fmt::format("device.attributes[\"{}\"].{}", kDriver, attribute);
}

std::string lowered(const Selector& selector) {
  if (selector.prefix.empty()) return path(selector.attribute) + ".lowerAscii()";
  return fmt::format("({} + {}).lowerAscii()", quoted(selector.prefix), path(selector.attribute));
}

std::string contains_text(const Selector& selector) {
  return fmt::format("has({}) && {}.exists(t, {}.contains(t))", path(selector.attribute), list_of(selector.values),
                     lowered(selector));
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
    Json value = parse_json(text.substr(0, i + 1));
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

// "has(", the attribute's path, ") && ".
bool take_has(std::string_view& text, Selector& out) {
  if (!take(text, "has(" + path(""))) return false;
  const size_t end = text.find(')');
  if (end == std::string_view::npos) return false;
  out.attribute = text.substr(0, end);
  text.remove_prefix(end);
  return take(text, ") && ");
}

bool take_lowered(std::string_view& text, Selector& out) {
  if (!take(text, "(")) return take(text, lowered(out));
  const std::optional<std::string> prefix = take_string(text);
  if (!prefix || prefix->empty()) return false;
  out.prefix = *prefix;
  return take(text, " + " + path(out.attribute) + ").lowerAscii()");
}

// Which of its parts goes with which model.
std::string pair_operand() {
  return fmt::format("has({0}) && ({1}.lowerAscii() + \"|\" + {0})", path("profile"), path("model"));
}

// What follows has() of the attribute.
bool take_text_search(std::string_view& text, Selector& out) {
  if (text.starts_with("has(")) {
    out.op = Selector::Op::kPairIn;
    return out.attribute == "model" && take(text, pair_operand()) && take(text, " in ") && take_list(text, out.values);
  }
  out.op = Selector::Op::kContainsAny;
  return take_list(text, out.values) && take(text, ".exists(t, ") && take_lowered(text, out) &&
         take(text, ".contains(t))");
}

bool take_selector(std::string_view text, Selector& out) {
  if (text.starts_with("has(")) return take_has(text, out) && take_text_search(text, out) && text.empty();
  if (take(text, "!(")) {
    if (text.starts_with("has(")) {
      if (!take_has(text, out) || !take_text_search(text, out) || text != ")") return false;
      const bool any = out.op == Selector::Op::kContainsAny;
      out.op = Selector::Op::kContainsNone;
      return any;
    }
    out.op = Selector::Op::kNotIn;
    return take_operand(text, out) && take(text, " in ") && take_list(text, out.values) && text == ")";
  }
  if (text.starts_with("[")) {
    out.op = Selector::Op::kStartsWithAny;
    return take_list(text, out.values) && take(text, ".exists(t, ") && take_operand(text, out) &&
           text == ".startsWith(t))";
  }
  if (!take_operand(text, out)) return false;
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
      return fmt::format("has({}) && {} in {}", path("model"), pair_operand(), list_of(selector.values));
    case Selector::Op::kContainsAny:
      return contains_text(selector);
    case Selector::Op::kContainsNone:
      return fmt::format("!({})", contains_text(selector));
  }
  return {};
}

std::optional<Selector> parse_selector(std::string_view text) {
  Selector out;
  if (!take_selector(text, out) || selector_text(out) != text) return std::nullopt;
  return out;
}

}  // namespace heddle::dialects
