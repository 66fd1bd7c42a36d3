// JSON values in and out, safe for what tenants write: nlohmann's own parse() takes any depth, which its recursive
// dump() and copies then answer with a stack overflow, and its dump() throws on text that is not UTF-8. Nothing else in
// src and apps calls those two (tools/lint/layers.py). Thread-safe.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace heddle {

// Objects and arrays within each other. Kubernetes' deepest objects, schemas of CustomResourceDefinitions, have
// some 80.
inline constexpr int kMaxJsonDepth = 512;

// The value; a discarded one (is_discarded(), and neither object nor array nor text) where text is no JSON or is
// nested deeper than kMaxJsonDepth. O(text).
nlohmann::json parse_json(std::string_view text);
// The same with the fields of objects in their order.
nlohmann::ordered_json parse_ordered_json(std::string_view text);

// The value on one line, or with this indent. Bytes that are not UTF-8 become U+FFFD.
std::string dump_json(const nlohmann::json& value, int indent = -1);
std::string dump_json(const nlohmann::ordered_json& value, int indent = -1);

}  // namespace heddle
