#include <array>
#include <utility>

#include "codec/codec.h"
#include "codec/readers.h"

namespace heddle::codec {
namespace {

using Operator = model::Requirement::Operator;

Operator read_operator(const JsonValue& in) {
  static constexpr std::array<std::pair<std::string_view, Operator>, 6> kNames = {{
      {"In", Operator::kIn},
      {"NotIn", Operator::kNotIn},
      {"Exists", Operator::kExists},
      {"DoesNotExist", Operator::kDoesNotExist},
      {"Gt", Operator::kGt},
      {"Lt", Operator::kLt},
  }};
  const std::string text = in.text();
  for (const auto& [name, op] : kNames) {
    if (text == name) return op;
  }
  in.wrong("must be one of In, NotIn, Exists, DoesNotExist, Gt, Lt");
  return Operator::kIn;
}

model::Requirement read_requirement(const JsonValue& in) {
  return {.key = in["key"].text(), .op = read_operator(in["operator"]), .values = in["values"].texts()};
}

model::NodeSelectorTerm read_term(const JsonValue& in) {
  return {.match_expressions = read_list(in["matchExpressions"], read_requirement),
          .match_fields = read_list(in["matchFields"], read_requirement)};
}

model::OwnerReference read_owner(const JsonValue& in) {
  return {.api_version = in["apiVersion"].text(),
          .kind = in["kind"].text(),
          .name = in["name"].text(),
          .uid = in["uid"].text(),
          .controller = in["controller"].flag()};
}

}  // namespace

model::ObjectMeta read_meta(const JsonValue& in) {
  model::ObjectMeta meta;
  meta.name_space = in["namespace"].text();
  meta.name = in["name"].text();
  meta.uid = in["uid"].text();
  meta.resource_version = in["resourceVersion"].text();
  meta.labels = in["labels"].text_map();
  meta.annotations = in["annotations"].text_map();
  meta.owners = read_list(in["ownerReferences"], read_owner);
  meta.finalizers = in["finalizers"].texts();
  meta.created = in["creationTimestamp"].time().value_or(Time{});
  meta.deleting = in["deletionTimestamp"].present();
  return meta;
}

model::Toleration read_toleration(const JsonValue& in) {
  return {.key = in["key"].text(),
          .op = in["operator"].text(),
          .value = in["value"].text(),
          .effect = in["effect"].text(),
          .seconds = in["tolerationSeconds"].integer()};
}

model::Taint read_taint(const JsonValue& in) {
  return {.key = in["key"].text(),
          .value = in["value"].text(),
          .effect = in["effect"].text(),
          .added = in["timeAdded"].time()};
}

model::NodeSelector read_node_selector(const JsonValue& in) {
  return {.terms = read_list(in["nodeSelectorTerms"], read_term)};
}

model::OpaqueConfig read_config(const JsonValue& in) {
  const JsonValue opaque = in["opaque"];
  return {.requests = in["requests"].texts(),
          .driver = opaque["driver"].text(),
          .parameters_json = opaque["parameters"].raw()};
}

// A selector of another kind than CEL stays in the list as an empty expression, which no allocator accepts: to leave it
// out would widen what the user asked for.
std::vector<std::string> read_selectors(const JsonValue& in) {
  return read_list(in, [](const JsonValue& item) { return item["cel"]["expression"].text(); });
}

Result<AnyObject> parse_any(std::string_view json) {
  return read_document(json, [](const JsonValue& in) {
    return AnyObject{in["apiVersion"].text(), in["kind"].text(), read_meta(in["metadata"])};
  });
}

}  // namespace heddle::codec
