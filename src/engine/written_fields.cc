#include "engine/written_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/json.h"
#include "catalog/reader.h"

namespace heddle::engine {
namespace {

using Json = nlohmann::ordered_json;
using Names = std::vector<std::string>;

Result<void> check(const Json& object, const std::string& path, const Names& known) {
  if (!object.is_object()) return {};
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string meant = catalog::nearest(key, known);
    return fail(Code::kInvalidArgument,
                meant.empty() ? fmt::format("there is no such field; there are {}", fmt::join(known, ", "))
                              : fmt::format("there is no such field; did you mean {}?", meant),
                path.empty() ? key : fmt::format("{}.{}", path, key));
  }
  return {};
}

// Of each object in the list.
Result<void> check_items(const Json& object, const char* list, const std::string& path, const Names& known) {
  if (!object.is_object() || !object.contains(list) || !object.at(list).is_array()) return {};
  size_t i = 0;
  for (const Json& item : object.at(list)) {
    HEDDLE_CHECK_OK(check(item, fmt::format("{}.{}[{}]", path, list, i++), known));
  }
  return {};
}

Json part(const Json& object, const char* name) {
  return object.is_object() && object.contains(name) ? object.at(name) : Json();
}

// The spec, once the object around it and the names in it are known to be good.
Result<Json> read_spec(std::string_view json, const Names& known) {
  const Json object = parse_ordered_json(json);
  HEDDLE_CHECK_OK(check(object, "", {"apiVersion", "kind", "metadata", "spec", "status"}));
  Json spec = part(object, "spec");
  HEDDLE_CHECK_OK(check(spec, "spec", known));
  return spec;
}

// What is counted, and how much of it.
Names amounts(const Names& numbers) {
  Names names = {"counts", "deviceClass", "vendor", "model", "boxDevices", "boxLevel", "boxShape"};
  names.insert(names.end(), numbers.begin(), numbers.end());
  return names;
}

}  // namespace

Result<void> check_queue_fields(std::string_view json) {
  HEDDLE_TRY(const Json spec,
             read_spec(json, {"parent", "weight", "quotas", "namespaces", "namespaceSelector", "placementPolicy"}));
  HEDDLE_CHECK_OK(check_items(spec, "quotas", "spec", amounts({"guaranteed", "limit", "borrowing", "lending"})));
  const Json selector = part(spec, "namespaceSelector");
  HEDDLE_CHECK_OK(check(selector, "spec.namespaceSelector", {"matchLabels", "matchExpressions"}));
  return check_items(selector, "matchExpressions", "spec.namespaceSelector", {"key", "operator", "values"});
}

Result<void> check_reservation_fields(std::string_view json) {
  HEDDLE_TRY(const Json spec, read_spec(json, {"start", "end", "queue", "namespaces", "amounts"}));
  return check_items(spec, "amounts", "spec", amounts({"amount"}));
}

Result<void> check_topology_fields(std::string_view json) {
  HEDDLE_TRY(const Json spec, read_spec(json, {"levels"}));
  return check_items(spec, "levels", "spec", {"name", "nodeLabel", "deviceAttribute", "reserveNodes", "reserveUse"});
}

}  // namespace heddle::engine
