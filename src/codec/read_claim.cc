#include <algorithm>
#include <array>

#include "codec/codec.h"
#include "codec/readers.h"

namespace heddle::codec {
namespace {

// `exactly` of a request and the entries of firstAvailable differ in adminAccess only, which a subrequest must not
// have; it is read in both, so that a wrong one is refused and not ignored.
model::DeviceSubRequest read_sub_request(const JsonValue& in) {
  model::DeviceSubRequest request;
  request.name = in["name"].text();
  request.device_class = in["deviceClassName"].text();
  request.selectors = read_selectors(in["selectors"]);
  request.allocation_mode = in["allocationMode"].text();
  request.count = in["count"].integer();
  request.admin_access = in["adminAccess"].flag();
  request.tolerations = read_list(in["tolerations"], read_toleration);
  request.capacity = in["capacity"]["requests"].quantity_map();
  in["derivedAttributes"].each([&](const JsonValue& attribute) {
    request.derived_attributes[attribute["name"].text()] = attribute["expression"].text();
  });
  return request;
}

model::DeviceRequest read_request(const JsonValue& in) {
  model::DeviceRequest request;
  request.name = in["name"].text();
  if (const JsonValue exactly = in["exactly"]; exactly.present()) request.exactly = read_sub_request(exactly);
  request.first_available = read_list(in["firstAvailable"], read_sub_request);
  return request;
}

model::DeviceConstraint read_constraint(const JsonValue& in) {
  return {.requests = in["requests"].texts(),
          .match_attribute = in["matchAttribute"].text(),
          .distinct_attribute = in["distinctAttribute"].text()};
}

model::DeviceResult read_result(const JsonValue& in) {
  model::DeviceResult result;
  result.request = in["request"].text();
  result.driver = in["driver"].text();
  result.pool = in["pool"].text();
  result.device = in["device"].text();
  result.admin_access = in["adminAccess"].flag();
  result.tolerations = read_list(in["tolerations"], read_toleration);
  result.binding_conditions = in["bindingConditions"].texts();
  result.binding_failure_conditions = in["bindingFailureConditions"].texts();
  result.share_id = in["shareID"].text();
  result.consumed_capacity = in["consumedCapacity"].quantity_map();
  result.skip_node_operations = in["skipNodeOperations"].texts();
  return result;
}

model::AllocatedConfig read_allocated_config(const JsonValue& in) {
  const std::string source = in["source"].text();
  if (source != "FromClass" && source != "FromClaim") in["source"].wrong("must be FromClass or FromClaim");
  return {.from_class = source == "FromClass", .config = read_config(in)};
}

model::ConsumerReference read_consumer(const JsonValue& in) {
  return {.api_group = in["apiGroup"].text(),
          .resource = in["resource"].text(),
          .name = in["name"].text(),
          .uid = in["uid"].text()};
}

model::ResourceClaim read_claim(const JsonValue& in) {
  model::ResourceClaim claim;
  claim.meta = read_meta(in["metadata"]);
  claim.spec = read_claim_spec(in["spec"]);
  const JsonValue status = in["status"];
  if (const JsonValue allocation = status["allocation"]; allocation.present()) {
    claim.allocation = read_allocation(allocation);
  }
  claim.reserved_for = read_list(status["reservedFor"], read_consumer);
  return claim;
}

std::optional<int64_t> read_mebibytes(const JsonValue& in) {
  const std::optional<Quantity> quantity = in.quantity();
  if (!quantity) return std::nullopt;
  constexpr int64_t kMiB = int64_t{1} << 20;
  const std::optional<int64_t> bytes = quantity->value();
  constexpr int64_t kMost = int64_t{16} << 40;
  const bool good = bytes && *bytes >= kMiB && *bytes < kMost && *bytes % kMiB == 0 && quantity->is_integer();
  if (!good) in.wrong("must be a whole number of MiB above 0 and below 16Ti, such as 12Gi");
  return bytes;
}

model::ShareConfig read_share_config(const JsonValue& in) {
  model::ShareConfig config;
  config.memory_percent = in["memoryPercent"].integer();
  config.priority = in["priority"].integer();
  config.virtual_memory = read_mebibytes(in["virtualMemory"]);
  if (const JsonValue isolation = in["isolation"]; isolation.present()) {
    config.isolation = isolation.text();
    if (*config.isolation != model::kIsolationSoft && *config.isolation != model::kIsolationMps) {
      isolation.wrong("must be soft (launches are paced) or mps (a part of the SMs)");
    }
  }
  return config;
}

bool is_share_field(std::string_view key) {
  constexpr std::array kFields = {"apiVersion", "kind", "memoryPercent", "priority", "virtualMemory", "isolation"};
  return std::ranges::find(kFields, key) != kFields.end();
}

}  // namespace

model::ClaimSpec read_claim_spec(const JsonValue& in) {
  const JsonValue devices = in["devices"];
  return {.requests = read_list(devices["requests"], read_request),
          .constraints = read_list(devices["constraints"], read_constraint),
          .config = read_list(devices["config"], read_config)};
}

model::Allocation read_allocation(const JsonValue& in) {
  model::Allocation allocation;
  const JsonValue devices = in["devices"];
  allocation.results = read_list(devices["results"], read_result);
  allocation.config = read_list(devices["config"], read_allocated_config);
  if (const JsonValue selector = in["nodeSelector"]; selector.present()) {
    allocation.node_selector = read_node_selector(selector);
  }
  allocation.timestamp = in["allocationTimestamp"].time();
  return allocation;
}

Result<model::ResourceClaim> parse_claim(std::string_view json) {
  return read_document(json, read_claim);
}
Result<model::ClaimSpec> parse_claim_spec(std::string_view json) {
  return read_document(json, read_claim_spec);
}
Result<model::Allocation> parse_allocation(std::string_view json) {
  return read_document(json, read_allocation);
}

Result<std::optional<model::ShareConfig>> parse_share_config(std::string_view parameters_json) {
  HEDDLE_TRY(const auto document, Document::parse(parameters_json));
  const JsonValue root = document->root();
  const bool ours = root["kind"].text() == "ShareConfig" && root["apiVersion"].text().starts_with("heddle.dev/");
  std::optional<model::ShareConfig> config;
  if (ours) {
    if (root["apiVersion"].text() != "heddle.dev/v1alpha1") root["apiVersion"].wrong("must be heddle.dev/v1alpha1");
    root.each_member([](std::string_view key, const JsonValue& value) {
      if (!is_share_field(key)) value.wrong("is not a field of ShareConfig");
    });
    config = read_share_config(root);
    const auto percent = config->memory_percent;
    if (percent && (*percent < 1 || *percent > 100)) root["memoryPercent"].wrong("must be between 1 and 100");
    const auto priority = config->priority;
    if (priority && *priority != 0 && *priority != 1)
      root["priority"].wrong("must be 0 (comes first) or 1 (gives way)");
  }
  if (document->trouble()) return tl::unexpected<Error>(*document->trouble());
  return config;
}

}  // namespace heddle::codec
