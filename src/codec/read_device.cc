#include "codec/codec.h"
#include "codec/readers.h"

namespace heddle::codec {
namespace {

using model::AttributeValue;
using model::Version;

template <typename T>
std::optional<AttributeValue> read_values(const JsonValue& in, T (*read)(const JsonValue&)) {
  if (!in.present()) return std::nullopt;
  return AttributeValue(read_list(in, read));
}

AttributeValue read_attribute(const JsonValue& in) {
  if (const auto number = in["int"].integer()) return *number;
  if (const JsonValue flag = in["bool"]; flag.present()) return flag.flag();
  if (const JsonValue text = in["string"]; text.present()) return text.text();
  if (const JsonValue version = in["version"]; version.present()) return Version{version.text()};
  if (auto list = read_values<int64_t>(in["ints"], [](const JsonValue& item) { return item.integer().value_or(0); })) {
    return *std::move(list);
  }
  if (const JsonValue list = in["bools"]; list.present()) {
    std::vector<bool> flags;
    list.each([&](const JsonValue& item) { flags.push_back(item.flag()); });
    return flags;
  }
  if (const JsonValue list = in["strings"]; list.present()) return list.texts();
  if (auto list = read_values<Version>(in["versions"], [](const JsonValue& item) { return Version{item.text()}; })) {
    return *std::move(list);
  }
  return std::monostate{};
}

Quantity read_required_quantity(const JsonValue& in) {
  return in.quantity().value_or(Quantity());
}

std::map<std::string, Quantity> read_counters(const JsonValue& in) {
  std::map<std::string, Quantity> counters;
  in.each_member([&](std::string_view name, const JsonValue& counter) {
    counters[std::string(name)] = read_required_quantity(counter["value"]);
  });
  return counters;
}

model::RequestPolicy read_policy(const JsonValue& in) {
  model::RequestPolicy policy;
  policy.default_value = in["default"].quantity();
  policy.valid_values = read_list(in["validValues"], read_required_quantity);
  if (const JsonValue range = in["validRange"]; range.present()) {
    policy.valid_range = model::RequestPolicy::Range{read_required_quantity(range["min"]), range["max"].quantity(),
                                                     range["step"].quantity()};
  }
  return policy;
}

model::Capacity read_capacity(const JsonValue& in) {
  model::Capacity capacity{.value = read_required_quantity(in["value"]), .policy = std::nullopt};
  if (const JsonValue policy = in["requestPolicy"]; policy.present()) capacity.policy = read_policy(policy);
  return capacity;
}

model::CounterConsumption read_consumption(const JsonValue& in) {
  return {.counter_set = in["counterSet"].text(),
          .counters = read_counters(in["counters"]),
          .compatibility_groups = in["compatibilityGroups"].texts()};
}

// nodeName, nodeSelector, allNodes and (slices only) perDeviceNodeSelection: at most one is set.
model::NodeScope read_scope(const JsonValue& in) {
  using Kind = model::NodeScope::Kind;
  model::NodeScope scope;
  int forms = 0;
  if (const JsonValue node = in["nodeName"]; node.present() && !node.text().empty()) {
    scope.kind = Kind::kNode;
    scope.node = node.text();
    ++forms;
  }
  if (const JsonValue selector = in["nodeSelector"]; selector.present()) {
    scope.kind = Kind::kSelector;
    scope.selector = read_node_selector(selector);
    ++forms;
  }
  if (in["allNodes"].flag()) {
    scope.kind = Kind::kAllNodes;
    ++forms;
  }
  if (in["perDeviceNodeSelection"].flag()) {
    scope.kind = Kind::kPerDevice;
    ++forms;
  }
  if (forms > 1) in.wrong("has more than one of nodeName, nodeSelector, allNodes and perDeviceNodeSelection");
  return scope;
}

model::Device read_device(const JsonValue& in) {
  model::Device device;
  device.name = in["name"].text();
  in["attributes"].each_member([&](std::string_view name, const JsonValue& value) {
    device.attributes[std::string(name)] = read_attribute(value);
  });
  in["capacity"].each_member([&](std::string_view name, const JsonValue& value) {
    device.capacity[std::string(name)] = read_capacity(value);
  });
  device.consumes_counters = read_list(in["consumesCounters"], read_consumption);
  device.taints = read_list(in["taints"], read_taint);
  device.binding_conditions = in["bindingConditions"].texts();
  device.binding_failure_conditions = in["bindingFailureConditions"].texts();
  device.scope = read_scope(in);
  device.binds_to_node = in["bindsToNode"].flag();
  device.allow_multiple_allocations = in["allowMultipleAllocations"].flag();
  return device;
}

model::CounterSet read_counter_set(const JsonValue& in) {
  return {.name = in["name"].text(), .counters = read_counters(in["counters"])};
}

model::ResourceSlice read_slice(const JsonValue& in) {
  const JsonValue spec = in["spec"];
  const JsonValue pool = spec["pool"];
  model::ResourceSlice slice;
  slice.meta = read_meta(in["metadata"]);
  slice.driver = spec["driver"].text();
  slice.pool = pool["name"].text();
  slice.generation = pool["generation"].integer().value_or(0);
  slice.pool_slice_count = pool["resourceSliceCount"].integer().value_or(0);
  slice.scope = read_scope(spec);
  slice.devices = read_list(spec["devices"], read_device);
  slice.shared_counters = read_list(spec["sharedCounters"], read_counter_set);
  slice.skip_node_operations = spec["skipNodeOperations"].texts();
  return slice;
}

model::DeviceClass read_class(const JsonValue& in) {
  const JsonValue spec = in["spec"];
  model::DeviceClass device_class;
  device_class.meta = read_meta(in["metadata"]);
  device_class.selectors = read_selectors(spec["selectors"]);
  device_class.config = read_list(spec["config"], read_config);
  device_class.extended_resource_name = spec["extendedResourceName"].text();
  return device_class;
}

std::optional<std::string> read_name(const JsonValue& in) {
  return in.present() ? std::optional(in.text()) : std::nullopt;
}

model::DeviceTaintRule read_taint_rule(const JsonValue& in) {
  const JsonValue spec = in["spec"];
  const JsonValue selector = spec["deviceSelector"];
  model::DeviceTaintRule rule;
  rule.meta = read_meta(in["metadata"]);
  rule.has_selector = selector.present();
  rule.driver = read_name(selector["driver"]);
  rule.pool = read_name(selector["pool"]);
  rule.device = read_name(selector["device"]);
  rule.taint = read_taint(spec["taint"]);
  return rule;
}

}  // namespace

Result<model::DeviceTaintRule> parse_taint_rule(std::string_view json) {
  return read_document(json, read_taint_rule);
}
Result<model::ResourceSlice> parse_slice(std::string_view json) {
  return read_document(json, read_slice);
}
Result<model::DeviceClass> parse_class(std::string_view json) {
  return read_document(json, read_class);
}
Result<model::Device> parse_device(std::string_view json) {
  return read_document(json, read_device);
}

}  // namespace heddle::codec
