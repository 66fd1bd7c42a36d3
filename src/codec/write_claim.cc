#include "codec/codec.h"
#include "codec/writers.h"

namespace heddle::codec {
namespace {

void write_sub_request(JsonWriter& out, const model::DeviceSubRequest& request) {
  out.begin_object();
  write_text(out, "name", request.name);
  out.key("deviceClassName").text(request.device_class);
  write_list(out, "selectors", request.selectors, [](JsonWriter& list, const std::string& expression) {
    list.begin_object();
    list.key("cel").begin_object();
    list.key("expression").text(expression);
    list.end_object();
    list.end_object();
  });
  write_text(out, "allocationMode", request.allocation_mode);
  if (request.count) out.key("count").number(*request.count);
  write_true(out, "adminAccess", request.admin_access);
  write_list(out, "tolerations", request.tolerations, write_toleration);
  if (!request.capacity.empty()) {
    out.key("capacity").begin_object();
    write_quantity_map(out, "requests", request.capacity);
    out.end_object();
  }
  if (!request.derived_attributes.empty()) {
    out.key("derivedAttributes").begin_list();
    for (const auto& [name, expression] : request.derived_attributes) {
      out.begin_object();
      out.key("name").text(name);
      out.key("expression").text(expression);
      out.end_object();
    }
    out.end_list();
  }
  out.end_object();
}

void write_request(JsonWriter& out, const model::DeviceRequest& request) {
  out.begin_object();
  out.key("name").text(request.name);
  if (request.exactly) {
    out.key("exactly");
    write_sub_request(out, *request.exactly);
  }
  write_list(out, "firstAvailable", request.first_available, write_sub_request);
  out.end_object();
}

void write_constraint(JsonWriter& out, const model::DeviceConstraint& constraint) {
  out.begin_object();
  write_texts(out, "requests", constraint.requests);
  write_text(out, "matchAttribute", constraint.match_attribute);
  write_text(out, "distinctAttribute", constraint.distinct_attribute);
  out.end_object();
}

void write_config_fields(JsonWriter& out, const model::OpaqueConfig& config) {
  write_texts(out, "requests", config.requests);
  if (config.driver.empty() && config.parameters_json.empty()) return;  // of a kind that this version does not know
  out.key("opaque").begin_object();
  out.key("driver").text(config.driver);
  out.key("parameters").raw(config.parameters_json.empty() ? "null" : config.parameters_json);
  out.end_object();
}

void write_spec(JsonWriter& out, const model::ClaimSpec& spec) {
  out.begin_object();
  out.key("devices").begin_object();
  write_list(out, "requests", spec.requests, write_request);
  write_list(out, "constraints", spec.constraints, write_constraint);
  write_list(out, "config", spec.config, [](JsonWriter& list, const model::OpaqueConfig& config) {
    list.begin_object();
    write_config_fields(list, config);
    list.end_object();
  });
  out.end_object();
  out.end_object();
}

void write_result(JsonWriter& out, const model::DeviceResult& result) {
  out.begin_object();
  out.key("request").text(result.request);
  out.key("driver").text(result.driver);
  out.key("pool").text(result.pool);
  out.key("device").text(result.device);
  write_true(out, "adminAccess", result.admin_access);
  write_list(out, "tolerations", result.tolerations, write_toleration);
  write_texts(out, "bindingConditions", result.binding_conditions);
  write_texts(out, "bindingFailureConditions", result.binding_failure_conditions);
  write_text(out, "shareID", result.share_id);
  write_quantity_map(out, "consumedCapacity", result.consumed_capacity);
  write_texts(out, "skipNodeOperations", result.skip_node_operations);
  out.end_object();
}

void write_allocation(JsonWriter& out, const model::Allocation& allocation) {
  out.begin_object();
  out.key("devices").begin_object();
  write_list(out, "results", allocation.results, write_result);
  write_list(out, "config", allocation.config, [](JsonWriter& list, const model::AllocatedConfig& config) {
    list.begin_object();
    list.key("source").text(config.from_class ? "FromClass" : "FromClaim");
    write_config_fields(list, config.config);
    list.end_object();
  });
  out.end_object();
  if (allocation.node_selector) {
    out.key("nodeSelector");
    write_node_selector(out, *allocation.node_selector);
  }
  if (allocation.timestamp) out.key("allocationTimestamp").text(format_rfc3339(*allocation.timestamp));
  out.end_object();
}

void write_status(JsonWriter& out, const model::ResourceClaim& claim) {
  out.begin_object();
  if (claim.allocation) {
    out.key("allocation");
    write_allocation(out, *claim.allocation);
  }
  write_list(out, "reservedFor", claim.reserved_for, [](JsonWriter& list, const model::ConsumerReference& consumer) {
    list.begin_object();
    write_text(list, "apiGroup", consumer.api_group);
    list.key("resource").text(consumer.resource);
    list.key("name").text(consumer.name);
    list.key("uid").text(consumer.uid);
    list.end_object();
  });
  out.end_object();
}

}  // namespace

std::string claim_spec_json(const model::ClaimSpec& spec) {
  JsonWriter out;
  write_spec(out, spec);
  return out.take();
}

std::string allocation_json(const model::Allocation& allocation) {
  JsonWriter out;
  write_allocation(out, allocation);
  return out.take();
}

std::string claim_status_json(const model::ResourceClaim& claim) {
  JsonWriter out;
  write_status(out, claim);
  return out.take();
}

std::string claim_json(const model::ResourceClaim& claim) {
  JsonWriter out;
  out.begin_object();
  out.key("apiVersion").text("resource.k8s.io/v1");
  out.key("kind").text("ResourceClaim");
  write_meta(out, claim.meta);
  out.key("spec");
  write_spec(out, claim.spec);
  if (claim.allocation || !claim.reserved_for.empty()) {
    out.key("status");
    write_status(out, claim);
  }
  out.end_object();
  return out.take();
}

std::string share_config_json(const model::ShareConfig& config) {
  JsonWriter out;
  out.begin_object();
  out.key("apiVersion").text("heddle.dev/v1alpha1");
  out.key("kind").text("ShareConfig");
  if (config.memory_percent) out.key("memoryPercent").number(*config.memory_percent);
  if (config.priority) out.key("priority").number(*config.priority);
  if (config.isolation) out.key("isolation").text(*config.isolation);
  if (config.virtual_memory) out.key("virtualMemory").text(Quantity::bytes(*config.virtual_memory).to_string());
  out.end_object();
  return out.take();
}

}  // namespace heddle::codec
