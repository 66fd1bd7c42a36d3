#include "base/clock.h"
#include "codec/codec.h"
#include "codec/writers.h"

namespace heddle::codec {
namespace {

void write_requirement(JsonWriter& out, const model::Requirement& requirement) {
  out.begin_object();
  out.key("key").text(requirement.key);
  out.key("operator").text(operator_name(requirement.op));
  write_texts(out, "values", requirement.values);
  out.end_object();
}

void write_owner(JsonWriter& out, const model::OwnerReference& owner) {
  out.begin_object();
  out.key("apiVersion").text(owner.api_version);
  out.key("kind").text(owner.kind);
  out.key("name").text(owner.name);
  out.key("uid").text(owner.uid);
  write_true(out, "controller", owner.controller);
  out.end_object();
}

}  // namespace

std::string_view operator_name(model::Requirement::Operator op) {
  using Operator = model::Requirement::Operator;
  switch (op) {
    case Operator::kIn:
      return "In";
    case Operator::kNotIn:
      return "NotIn";
    case Operator::kExists:
      return "Exists";
    case Operator::kDoesNotExist:
      return "DoesNotExist";
    case Operator::kGt:
      return "Gt";
    case Operator::kLt:
      return "Lt";
  }
  return "In";
}

void write_text(JsonWriter& out, std::string_view key, std::string_view value) {
  if (!value.empty()) out.key(key).text(value);
}

void write_true(JsonWriter& out, std::string_view key, bool value) {
  if (value) out.key(key).flag(value);
}

void write_texts(JsonWriter& out, std::string_view key, const std::vector<std::string>& values) {
  write_list(out, key, values, [](JsonWriter& list, const std::string& value) { list.text(value); });
}

void write_text_map(JsonWriter& out, std::string_view key, const std::map<std::string, std::string>& values) {
  if (values.empty()) return;
  out.key(key).begin_object();
  for (const auto& [name, value] : values) out.key(name).text(value);
  out.end_object();
}

void write_quantity_map(JsonWriter& out, std::string_view key, const std::map<std::string, Quantity>& values) {
  if (values.empty()) return;
  out.key(key).begin_object();
  for (const auto& [name, value] : values) out.key(name).text(value.to_string());
  out.end_object();
}

void write_meta(JsonWriter& out, const model::ObjectMeta& meta) {
  out.key("metadata").begin_object();
  write_text(out, "name", meta.name);
  write_text(out, "namespace", meta.name_space);
  write_text(out, "uid", meta.uid);
  write_text(out, "resourceVersion", meta.resource_version);
  if (meta.created != Time{}) out.key("creationTimestamp").text(format_rfc3339(meta.created));
  write_text_map(out, "labels", meta.labels);
  write_text_map(out, "annotations", meta.annotations);
  write_list(out, "ownerReferences", meta.owners, write_owner);
  write_texts(out, "finalizers", meta.finalizers);
  out.end_object();
}

void write_node_selector(JsonWriter& out, const model::NodeSelector& selector) {
  out.begin_object();
  out.key("nodeSelectorTerms").begin_list();
  for (const model::NodeSelectorTerm& term : selector.terms) {
    out.begin_object();
    write_list(out, "matchExpressions", term.match_expressions, write_requirement);
    write_list(out, "matchFields", term.match_fields, write_requirement);
    out.end_object();
  }
  out.end_list();
  out.end_object();
}

void write_taint(JsonWriter& out, const model::Taint& taint) {
  out.begin_object();
  out.key("key").text(taint.key);
  write_text(out, "value", taint.value);
  out.key("effect").text(taint.effect);
  if (taint.added) out.key("timeAdded").text(format_rfc3339(*taint.added));
  out.end_object();
}

void write_toleration(JsonWriter& out, const model::Toleration& toleration) {
  out.begin_object();
  write_text(out, "key", toleration.key);
  write_text(out, "operator", toleration.op);
  write_text(out, "value", toleration.value);
  write_text(out, "effect", toleration.effect);
  if (toleration.seconds) out.key("tolerationSeconds").number(*toleration.seconds);
  out.end_object();
}

}  // namespace heddle::codec
