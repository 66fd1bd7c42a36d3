#include "codec/codec.h"
#include "codec/writers.h"

namespace heddle::codec {
namespace {

using model::Version;

struct AttributeWriter {
  JsonWriter& out;

  void operator()(std::monostate /*none*/) const {}
  void operator()(int64_t value) const { out.key("int").number(value); }
  void operator()(bool value) const { out.key("bool").flag(value); }
  void operator()(const std::string& value) const { out.key("string").text(value); }
  void operator()(const Version& value) const { out.key("version").text(value.text); }
  void operator()(const std::vector<int64_t>& values) const {
    write_list(out, "ints", values, [](JsonWriter& list, int64_t value) { list.number(value); });
  }
  void operator()(const std::vector<bool>& values) const {
    if (values.empty()) return;
    out.key("bools").begin_list();
    for (const bool value : values) out.flag(value);
    out.end_list();
  }
  void operator()(const std::vector<std::string>& values) const { write_texts(out, "strings", values); }
  void operator()(const std::vector<Version>& values) const {
    write_list(out, "versions", values, [](JsonWriter& list, const Version& value) { list.text(value.text); });
  }
};

void write_counters(JsonWriter& out, const std::map<std::string, Quantity>& counters) {
  if (counters.empty()) return;
  out.key("counters").begin_object();
  for (const auto& [name, value] : counters) {
    out.key(name).begin_object();
    out.key("value").text(value.to_string());
    out.end_object();
  }
  out.end_object();
}

void write_policy(JsonWriter& out, const model::RequestPolicy& policy) {
  out.key("requestPolicy").begin_object();
  if (policy.default_value) out.key("default").text(policy.default_value->to_string());
  write_list(out, "validValues", policy.valid_values,
             [](JsonWriter& list, const Quantity& value) { list.text(value.to_string()); });
  if (policy.valid_range) {
    out.key("validRange").begin_object();
    out.key("min").text(policy.valid_range->min.to_string());
    if (policy.valid_range->max) out.key("max").text(policy.valid_range->max->to_string());
    if (policy.valid_range->step) out.key("step").text(policy.valid_range->step->to_string());
    out.end_object();
  }
  out.end_object();
}

void write_consumption(JsonWriter& out, const model::CounterConsumption& consumption) {
  out.begin_object();
  out.key("counterSet").text(consumption.counter_set);
  write_counters(out, consumption.counters);
  write_texts(out, "compatibilityGroups", consumption.compatibility_groups);
  out.end_object();
}

void write_scope(JsonWriter& out, const model::NodeScope& scope) {
  using Kind = model::NodeScope::Kind;
  switch (scope.kind) {
    case Kind::kUnknown:
      break;
    case Kind::kNode:
      out.key("nodeName").text(scope.node);
      break;
    case Kind::kSelector:
      out.key("nodeSelector");
      write_node_selector(out, scope.selector);
      break;
    case Kind::kAllNodes:
      out.key("allNodes").flag(true);
      break;
    case Kind::kPerDevice:
      out.key("perDeviceNodeSelection").flag(true);
      break;
  }
}

void write_device(JsonWriter& out, const model::Device& device) {
  out.begin_object();
  out.key("name").text(device.name);
  if (!device.attributes.empty()) {
    out.key("attributes").begin_object();
    for (const auto& [name, value] : device.attributes) {
      out.key(name).begin_object();
      std::visit(AttributeWriter{out}, value);
      out.end_object();
    }
    out.end_object();
  }
  if (!device.capacity.empty()) {
    out.key("capacity").begin_object();
    for (const auto& [name, capacity] : device.capacity) {
      out.key(name).begin_object();
      out.key("value").text(capacity.value.to_string());
      if (capacity.policy) write_policy(out, *capacity.policy);
      out.end_object();
    }
    out.end_object();
  }
  write_list(out, "consumesCounters", device.consumes_counters, write_consumption);
  write_scope(out, device.scope);
  write_list(out, "taints", device.taints, write_taint);
  write_true(out, "bindsToNode", device.binds_to_node);
  write_texts(out, "bindingConditions", device.binding_conditions);
  write_texts(out, "bindingFailureConditions", device.binding_failure_conditions);
  write_true(out, "allowMultipleAllocations", device.allow_multiple_allocations);
  out.end_object();
}

void write_counter_set(JsonWriter& out, const model::CounterSet& set) {
  out.begin_object();
  out.key("name").text(set.name);
  write_counters(out, set.counters);
  out.end_object();
}

}  // namespace

std::string device_json(const model::Device& device) {
  JsonWriter out;
  write_device(out, device);
  return out.take();
}

std::string slice_json(const model::ResourceSlice& slice) {
  JsonWriter out;
  out.begin_object();
  out.key("apiVersion").text("resource.k8s.io/v1");
  out.key("kind").text("ResourceSlice");
  write_meta(out, slice.meta);
  out.key("spec").begin_object();
  out.key("driver").text(slice.driver);
  out.key("pool").begin_object();
  out.key("name").text(slice.pool);
  out.key("generation").number(slice.generation);
  out.key("resourceSliceCount").number(slice.pool_slice_count);
  out.end_object();
  write_scope(out, slice.scope);
  write_list(out, "devices", slice.devices, write_device);
  write_list(out, "sharedCounters", slice.shared_counters, write_counter_set);
  write_texts(out, "skipNodeOperations", slice.skip_node_operations);
  out.end_object();
  out.end_object();
  return out.take();
}

}  // namespace heddle::codec
