#include "controller/quota.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/quantity.h"
#include "codec/codec.h"
#include "dialects/wire_names.h"
#include "engine/demand.h"

namespace heddle::controller {
namespace {

using Json = nlohmann::json;

int64_t amount(const Amounts& amounts, dialects::Measure::Of of) {
  switch (of) {
    case dialects::Measure::Of::kDevices:
    case dialects::Measure::Of::kSlices:
      return amounts.devices;
    case dialects::Measure::Of::kMemory:
      return amounts.memory_mib;
    case dialects::Measure::Of::kCores:
      return amounts.cores;
    case dialects::Measure::Of::kPercent:
      return amounts.memory_percent;
  }
  return 0;
}

int64_t measured(const DeviceUsage& usage, const dialects::Measure& measure) {
  if (measure.of == dialects::Measure::Of::kSlices) {
    int64_t sum = 0;
    for (const auto& [kind, amounts] : usage.kinds) sum += amounts.devices * dialects::slices_of(measure, kind);
    return sum;
  }
  const auto it = usage.kinds.find(measure.kind);
  return it == usage.kinds.end() ? 0 : dialects::measured(measure, amount(it->second, measure.of));
}

// "node-1/nvidia" -> "nvidia"
void add(Amounts& sum, const Amounts& more) {
  sum.devices += more.devices;
  sum.memory_mib += more.memory_mib;
  sum.cores += more.cores;
  sum.memory_percent += more.memory_percent;
}

int64_t capacity_of(const std::map<std::string, Quantity>& capacity, const char* name) {
  const auto it = capacity.find(name);
  return it == capacity.end() ? 0 : it->second.value().value_or(0);
}

bool names_request(const model::OpaqueConfig& config, const std::string& request) {
  return config.requests.empty() ||
         std::find(config.requests.begin(), config.requests.end(), request) != config.requests.end();
}

int64_t asked_percent(const model::OpaqueConfig& config, std::string_view driver, const std::string& request) {
  if (config.driver != driver || !names_request(config, request)) return 0;
  const auto share = codec::parse_share_config(config.parameters_json);
  return share && *share ? (*share)->memory_percent.value_or(0) : 0;
}

Result<std::vector<QuotaTerm>> read_terms(const Json& spec) {
  std::vector<QuotaTerm> terms;
  if (const Json scopes = spec.value("scopes", Json::array()); scopes.is_array()) {
    for (const Json& scope : scopes) {
      if (!scope.is_string()) return fail(Code::kInvalidArgument, "must be strings", "spec.scopes");
      terms.push_back({scope.get<std::string>(), "Exists", {}});
    }
  }
  const Json selector = spec.value("scopeSelector", Json::object());
  if (!selector.is_object()) return fail(Code::kInvalidArgument, "must be an object", "spec.scopeSelector");
  for (const Json& entry : selector.value("matchExpressions", Json::array())) {
    const bool whole = entry.is_object() && entry.value("scopeName", Json()).is_string() &&
                       entry.value("operator", Json()).is_string();
    if (!whole) return fail(Code::kInvalidArgument, "needs scopeName and operator", "spec.scopeSelector");
    QuotaTerm term{entry["scopeName"].get<std::string>(), entry["operator"].get<std::string>(), {}};
    for (const Json& value : entry.value("values", Json::array())) {
      if (value.is_string()) term.values.push_back(value.get<std::string>());
    }
    terms.push_back(std::move(term));
  }
  return terms;
}

bool known(const QuotaTerm& term) {
  constexpr std::string_view kScopes[] = {"Terminating", "NotTerminating", "BestEffort", "NotBestEffort",
                                          "PriorityClass"};
  return std::find(std::begin(kScopes), std::end(kScopes), term.scope) != std::end(kScopes);
}

bool holds(const QuotaTerm& term, const PodScope& pod) {
  if (term.scope == "Terminating") return pod.terminating;
  if (term.scope == "NotTerminating") return !pod.terminating;
  if (term.scope == "BestEffort") return pod.best_effort;
  if (term.scope == "NotBestEffort") return !pod.best_effort;
  const bool set = !pod.priority_class.empty();
  const bool listed = set && std::find(term.values.begin(), term.values.end(), pod.priority_class) != term.values.end();
  if (term.op == "In") return listed;
  if (term.op == "NotIn") return !listed;
  return term.op == "DoesNotExist" ? !set : set;
}

}  // namespace

bool Quota::covers(const PodScope& pod) const {
  return std::all_of(terms.begin(), terms.end(), [&](const QuotaTerm& term) { return holds(term, pod); });
}

PodScope scope_of(const model::Pod& pod) {
  return {model::best_effort(pod), pod.terminating, pod.priority_class};
}

DeviceUsage& DeviceUsage::operator+=(const DeviceUsage& other) {
  for (const auto& [kind, more] : other.kinds) {
    Amounts& sum = kinds[kind];
    add(sum, more);
    if (sum == Amounts{}) kinds.erase(kind);
  }
  return *this;
}

DeviceUsage& DeviceUsage::operator-=(const DeviceUsage& other) {
  DeviceUsage negative;
  for (const auto& [kind, less] : other.kinds)
    negative.kinds[kind] = {-less.devices, -less.memory_mib, -less.cores, -less.memory_percent};
  return *this += negative;
}

DeviceUsage usage_of(const model::ClaimSpec& spec, const model::Allocation& allocation, std::string_view driver) {
  DeviceUsage out;
  for (const model::DeviceResult& result : allocation.results) {
    if (result.driver != driver || result.admin_access) continue;
    const model::DeviceSubRequest* request = engine::find_request(spec, result.request);
    std::string kind = request == nullptr ? std::string() : dialects::device_kind(*request);
    // A request for any device of ours is of the kind that it got.
    if (kind.empty()) kind = engine::vendor_of_pool(result.pool);
    // Of a device that is granted alone the claim says what it has.
    const bool consumed = !result.consumed_capacity.empty() || request == nullptr;
    const int64_t memory = capacity_of(consumed ? result.consumed_capacity : request->capacity, "memory");
    Amounts one{1, memory >> 20, capacity_of(result.consumed_capacity, "cores"), 0};
    for (const model::AllocatedConfig& entry : allocation.config) {
      if (!entry.from_class) one.memory_percent += asked_percent(entry.config, driver, result.request);
    }
    add(out.kinds[kind], one);
  }
  return out;
}

DeviceUsage least_usage(const model::ClaimSpec& spec) {
  DeviceUsage out;
  for (const model::DeviceRequest& request : spec.requests) {
    if (!request.exactly) continue;
    const auto& capacity = request.exactly->capacity;
    const int64_t count = request.exactly->count.value_or(1);
    int64_t percent = 0;
    for (const model::OpaqueConfig& config : spec.config)
      percent += asked_percent(config, dialects::kDriver, request.name);
    const int64_t memory = capacity_of(capacity, "memory") >> 20;
    // Not named, the device's default holds: all of them.
    const int64_t cores = capacity.contains("cores") ? capacity_of(capacity, "cores") : 100;
    add(out.kinds[dialects::device_kind(*request.exactly)], {count, count * memory, count * cores, count * percent});
  }
  return out;
}

Result<Quota> parse_quota(std::string_view json) {
  const Json object = parse_json(json);
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
  HEDDLE_TRY(quota.terms, read_terms(spec));
  if (!std::all_of(quota.terms.begin(), quota.terms.end(), known)) return quota;
  const Json hard = spec.value("hard", Json::object());
  if (!hard.is_object()) return fail(Code::kInvalidArgument, "must be an object", "spec.hard");
  for (const auto& [key, value] : hard.items()) {
    if (key.find('/') == std::string::npos) continue;
    const Result<Quantity> quantity = Quantity::parse(value.is_string() ? value.get<std::string>() : dump_json(value));
    if (!quantity) return fail(Code::kInvalidArgument, quantity.error().message, "spec.hard[" + key + "]");
    quota.hard.emplace(key, quantity->value().value_or(INT64_MAX));
  }
  return quota;
}

void QuotaTable::upsert(Quota quota) {
  ++version_;
  Entry entry{std::move(quota), {}};
  for (const auto& [key, hard] : entry.quota.hard) {
    if (const auto measure = dialects::measure_of(*rules_, key); measure) entry.measures.emplace(key, *measure);
  }
  auto& quotas = by_namespace_[entry.quota.name_space];
  const std::string name = entry.quota.name;
  quotas.insert_or_assign(name, std::move(entry));
}

void QuotaTable::remove(const std::string& key) {
  const size_t slash = key.find('/');
  const auto it = by_namespace_.find(key.substr(0, slash));
  if (it == by_namespace_.end() || slash == std::string::npos) return;
  it->second.erase(key.substr(slash + 1));
  ++version_;
}

std::optional<engine::Reason> QuotaTable::exceeded(const std::string& name_space, const PodScope& pod,
                                                   const std::function<DeviceUsage(const Quota&)>& used,
                                                   const DeviceUsage& ask) const {
  const auto it = by_namespace_.find(name_space);
  if (it == by_namespace_.end()) return std::nullopt;
  for (const auto& [name, entry] : it->second) {
    if (entry.measures.empty() || !entry.quota.covers(pod)) continue;
    const DeviceUsage in_use = used(entry.quota);
    for (const auto& [key, measure] : entry.measures) {
      const int64_t hard = entry.quota.hard.at(key);
      const int64_t more = measured(ask, measure);
      const int64_t now = measured(in_use, measure);
      if (more == 0 || more <= hard - now) continue;
      return engine::Reason{"Quota",
                            fmt::format("quota {}/{}: {} is {}, {} in use, {} more asked; it fits when {} of it end "
                                        "or the quota is raised to {}",
                                        name_space, name, key, hard, now, more, now + more - hard, now + more)};
    }
  }
  return std::nullopt;
}

std::optional<std::string> QuotaTable::forbidden(const std::string& name_space, const PodScope& pod,
                                                 const DeviceUsage& ask) const {
  const auto it = by_namespace_.find(name_space);
  if (it == by_namespace_.end()) return std::nullopt;
  // How much memory a whole card or a percentage is shows only on the device, but none it never is.
  DeviceUsage needs = ask;
  for (auto& [kind, amounts] : needs.kinds) amounts.memory_mib = std::max(amounts.memory_mib, amounts.devices);
  for (const auto& [name, entry] : it->second) {
    if (!entry.quota.covers(pod)) continue;
    for (const auto& [key, measure] : entry.measures) {
      if (entry.quota.hard.at(key) == 0 && measured(needs, measure) > 0)
        return fmt::format("quota {}/{} allows no {}", name_space, name, key);
    }
  }
  return std::nullopt;
}

}  // namespace heddle::controller
