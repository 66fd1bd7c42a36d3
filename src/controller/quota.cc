#include "controller/quota.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/quantity.h"

namespace heddle::controller {
namespace {

using Json = nlohmann::json;

// "requests.nvidia.com/gpumem" -> "nvidia.com/gpumem"
std::string_view resource_of(std::string_view key) {
  for (const std::string_view prefix : {"requests.", "limits."}) {
    if (key.starts_with(prefix)) return key.substr(prefix.size());
  }
  return key;
}

const int64_t* amount(const DeviceUsage& usage, std::string_view key) {
  const std::string_view resource = resource_of(key);
  if (resource == "nvidia.com/gpu") return &usage.devices;
  if (resource == "nvidia.com/gpumem") return &usage.memory_mib;
  if (resource == "nvidia.com/gpucores") return &usage.cores;
  return nullptr;
}

int64_t capacity_of(const std::map<std::string, Quantity>& capacity, const char* name) {
  const auto it = capacity.find(name);
  return it == capacity.end() ? 0 : it->second.value().value_or(0);
}

}  // namespace

DeviceUsage& DeviceUsage::operator+=(const DeviceUsage& other) {
  devices += other.devices;
  memory_mib += other.memory_mib;
  cores += other.cores;
  return *this;
}

DeviceUsage& DeviceUsage::operator-=(const DeviceUsage& other) {
  devices -= other.devices;
  memory_mib -= other.memory_mib;
  cores -= other.cores;
  return *this;
}

DeviceUsage usage_of(const model::Allocation& allocation, std::string_view driver) {
  DeviceUsage out;
  for (const model::DeviceResult& result : allocation.results) {
    if (result.driver != driver || result.admin_access) continue;
    out += {1, capacity_of(result.consumed_capacity, "memory") >> 20, capacity_of(result.consumed_capacity, "cores")};
  }
  return out;
}

DeviceUsage least_usage(const model::ClaimSpec& spec) {
  DeviceUsage out;
  for (const model::DeviceRequest& request : spec.requests) {
    if (!request.exactly) continue;
    const int64_t count = request.exactly->count.value_or(1);
    out.devices += count;
    out.memory_mib += count * (capacity_of(request.exactly->capacity, "memory") >> 20);
    out.cores += count * capacity_of(request.exactly->capacity, "cores");
  }
  return out;
}

Result<Quota> parse_quota(std::string_view json) {
  const Json object = Json::parse(json, nullptr, false);
  if (!object.is_object()) return fail(Code::kInvalidArgument, "not a JSON object");
  const Json meta = object.value("metadata", Json::object());
  const Json spec = object.value("spec", Json::object());
  if (!meta.is_object() || !spec.is_object()) return fail(Code::kInvalidArgument, "not a ResourceQuota");
  Quota quota;
  const auto text = [&](const char* name) {
    const auto it = meta.find(name);
    return it != meta.end() && it->is_string() ? it->get<std::string>() : std::string();
  };
  quota.name = text("name");
  quota.name_space = text("namespace");
  if (spec.contains("scopes") || spec.contains("scopeSelector")) return quota;
  const Json hard = spec.value("hard", Json::object());
  if (!hard.is_object()) return fail(Code::kInvalidArgument, "must be an object", "spec.hard");
  for (const auto& [key, value] : hard.items()) {
    if (amount(DeviceUsage{}, key) == nullptr) continue;
    const Result<Quantity> quantity = Quantity::parse(value.is_string() ? value.get<std::string>() : value.dump());
    if (!quantity) return fail(Code::kInvalidArgument, quantity.error().message, "spec.hard[" + key + "]");
    quota.hard.emplace(key, quantity->value().value_or(INT64_MAX));
  }
  return quota;
}

void QuotaTable::upsert(Quota quota) {
  ++version_;
  auto& quotas = by_namespace_[quota.name_space];
  const std::string name = quota.name;
  quotas.insert_or_assign(name, std::move(quota));
}

void QuotaTable::remove(const std::string& key) {
  const size_t slash = key.find('/');
  const auto it = by_namespace_.find(key.substr(0, slash));
  if (it == by_namespace_.end() || slash == std::string::npos) return;
  it->second.erase(key.substr(slash + 1));
  ++version_;
}

std::optional<engine::Reason> QuotaTable::exceeded(const std::string& name_space, const DeviceUsage& used,
                                                   const DeviceUsage& ask) const {
  const auto it = by_namespace_.find(name_space);
  if (it == by_namespace_.end()) return std::nullopt;
  for (const auto& [name, quota] : it->second) {
    for (const auto& [key, hard] : quota.hard) {
      const int64_t more = *amount(ask, key);
      const int64_t now = *amount(used, key);
      if (more == 0 || more <= hard - now) continue;
      return engine::Reason{"Quota",
                            fmt::format("quota {}/{}: {} is {}, {} in use, {} more asked; it fits when {} of it end "
                                        "or the quota is raised to {}",
                                        name_space, name, key, hard, now, more, now + more - hard, now + more)};
    }
  }
  return std::nullopt;
}

std::optional<std::string> QuotaTable::forbidden(const std::string& name_space, const DeviceUsage& ask) const {
  const auto it = by_namespace_.find(name_space);
  if (it == by_namespace_.end()) return std::nullopt;
  for (const auto& [name, quota] : it->second) {
    for (const auto& [key, hard] : quota.hard) {
      if (hard == 0 && *amount(ask, key) > 0) return fmt::format("quota {}/{} allows no {}", name_space, name, key);
    }
  }
  return std::nullopt;
}

}  // namespace heddle::controller
