// The canonical form of heddle.dev/request.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "codec/codec.h"
#include "dialects/names.h"
#include "dialects/translate.h"
#include "dialects/wire_names.h"

namespace heddle::dialects {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxDevices = 32;

Result<std::string> read_text(const Json& object, const char* name, const std::string& path) {
  const auto it = object.find(name);
  if (it == object.end() || !it->is_string())
    return fail(Code::kInvalidArgument, "must be a string", path + "." + name);
  return it->get<std::string>();
}

Result<void> check_capacity(const model::DeviceSubRequest& exactly, const std::string& path) {
  for (const auto& [name, quantity] : exactly.capacity) {
    const std::optional<int64_t> value = quantity.value();
    const bool memory = name == kMemoryCapacity;
    if (!memory && name != kCoresCapacity) return fail(Code::kInvalidArgument, "unknown capacity " + name, path);
    const int64_t least = memory ? 1 : 0;
    if (!quantity.is_integer() || !value || *value < least || (!memory && *value > 100)) {
      return fail(Code::kInvalidArgument, "capacity " + name + " is out of range: " + quantity.to_string(), path);
    }
  }
  return {};
}

Result<void> check_config(const model::OpaqueConfig& config, const std::string& path) {
  const Json parameters = Json::parse(config.parameters_json, nullptr, false);
  const bool ours = config.driver == kDriver && parameters.is_object() &&
                    parameters.value("apiVersion", Json()) == kShareConfigVersion &&
                    parameters.value("kind", Json()) == "ShareConfig";
  if (!ours) return fail(Code::kInvalidArgument, "not a ShareConfig of this driver", path);
  const Json percent = parameters.value("memoryPercent", Json());
  if (!percent.is_number_integer() || percent.get<int64_t>() < 1 || percent.get<int64_t>() > 100) {
    return fail(Code::kInvalidArgument, "memoryPercent must be 1 to 100", path);
  }
  return {};
}

// Only what a translation can have written: what the annotation says must never be worth more than the resources that a
// user may write in a container.
Result<void> check_spec(const model::ClaimSpec& spec, const std::string& path) {
  if (spec.requests.size() != 1) return fail(Code::kInvalidArgument, "must have exactly one request", path);
  const model::DeviceRequest& request = spec.requests.front();
  if (!is_dns_label(request.name)) return fail(Code::kInvalidArgument, "the request's name is no DNS label", path);
  if (!request.exactly || !request.first_available.empty())
    return fail(Code::kInvalidArgument, "must use exactly", path);
  const model::DeviceSubRequest& exactly = *request.exactly;
  const bool plain = !exactly.admin_access && exactly.tolerations.empty() && exactly.selectors.empty() &&
                     exactly.derived_attributes.empty() && exactly.allocation_mode != "All";
  if (!plain) return fail(Code::kInvalidArgument, "has fields that no translation writes", path);
  if (exactly.device_class != kNvidiaClass) {
    return fail(Code::kInvalidArgument, "unknown device class " + exactly.device_class, path);
  }
  const int64_t count = exactly.count.value_or(1);
  if (count < 1 || count > kMaxDevices) return fail(Code::kInvalidArgument, "count must be 1 to 32", path);
  HEDDLE_CHECK_OK(check_capacity(exactly, path));
  for (const model::DeviceConstraint& constraint : spec.constraints) {
    if (constraint.distinct_attribute != kUuidAttribute || !constraint.match_attribute.empty()) {
      return fail(Code::kInvalidArgument, "has a constraint that no translation writes", path);
    }
  }
  for (const model::OpaqueConfig& config : spec.config) HEDDLE_CHECK_OK(check_config(config, path));
  return {};
}

Result<ContainerRequest> parse_one(const Json& object, const std::string& path) {
  if (!object.is_object()) return fail(Code::kInvalidArgument, "must be an object", path);
  ContainerRequest request;
  HEDDLE_TRY(request.container, read_text(object, "container", path));
  HEDDLE_TRY(request.claim_ref, read_text(object, "claimRef", path));
  HEDDLE_TRY(request.claim_name, read_text(object, "claimName", path));
  if (const auto it = object.find("init"); it != object.end()) {
    if (!it->is_boolean()) return fail(Code::kInvalidArgument, "must be true or false", path + ".init");
    request.init = it->get<bool>();
  }
  for (const std::string* name : {&request.container, &request.claim_ref, &request.claim_name}) {
    if (!is_dns_label(*name)) return fail(Code::kInvalidArgument, "\"" + *name + "\" is no DNS label", path);
  }
  const auto spec = object.find("spec");
  if (spec == object.end() || !spec->is_object())
    return fail(Code::kInvalidArgument, "must be an object", path + ".spec");
  HEDDLE_TRY(request.spec, codec::parse_claim_spec(spec->dump()));
  HEDDLE_CHECK_OK(check_spec(request.spec, path + ".spec"));
  return request;
}

// One claim may serve several containers (init steps that ask for the same), then all its entries are the same claim.
Result<void> check_together(const std::vector<ContainerRequest>& requests) {
  std::set<std::string> containers;
  std::map<std::string, const ContainerRequest*> refs;
  std::map<std::string, const ContainerRequest*> names;
  for (const ContainerRequest& request : requests) {
    if (!containers.insert(request.container).second) {
      return fail(Code::kInvalidArgument, "container " + request.container + " appears twice");
    }
    const ContainerRequest* by_ref = refs.emplace(request.claim_ref, &request).first->second;
    const ContainerRequest* by_name = names.emplace(request.claim_name, &request).first->second;
    const bool same = by_ref->claim_name == request.claim_name && by_name->claim_ref == request.claim_ref &&
                      by_ref->spec == request.spec;
    if (!same) return fail(Code::kInvalidArgument, "claim " + request.claim_name + " is described in two ways");
  }
  return {};
}

}  // namespace

std::string requests_json(const std::vector<ContainerRequest>& requests) {
  Json out = Json::array();
  for (const ContainerRequest& request : requests) {
    Json entry{{"container", request.container}, {"claimRef", request.claim_ref}, {"claimName", request.claim_name}};
    if (request.init) entry["init"] = true;
    entry["spec"] = Json::parse(codec::claim_spec_json(request.spec), nullptr, false);
    out.push_back(std::move(entry));
  }
  return out.dump();
}

Result<std::vector<ContainerRequest>> parse_requests(std::string_view json) {
  const Json document = Json::parse(json, nullptr, false);
  if (!document.is_array())
    return fail(Code::kInvalidArgument, "must be a JSON array", std::string(kRequestAnnotation));
  if (document.empty()) return fail(Code::kInvalidArgument, "is empty", std::string(kRequestAnnotation));
  std::vector<ContainerRequest> requests;
  for (size_t i = 0; i < document.size(); ++i) {
    HEDDLE_TRY(ContainerRequest request, parse_one(document[i], fmt::format("{}[{}]", kRequestAnnotation, i)));
    requests.push_back(std::move(request));
  }
  HEDDLE_CHECK_OK(check_together(requests));
  return requests;
}

}  // namespace heddle::dialects
