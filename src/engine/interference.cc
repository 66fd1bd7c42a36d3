#include "engine/interference.h"

#include <algorithm>

#include "codec/codec.h"

namespace heddle::engine {
namespace {

constexpr int64_t kAllCores = 100;
// What stands first counts more than any promise, which is at most kAllCores.
constexpr int64_t kBesidePromises = 200;
constexpr int64_t kBesideFirst = 400;

bool names(const model::OpaqueConfig& config, const std::string& result_name) {
  if (config.requests.empty()) return true;
  const std::string request = result_name.substr(0, result_name.find('/'));
  return std::any_of(config.requests.begin(), config.requests.end(),
                     [&](const std::string& name) { return name == result_name || name == request; });
}

bool says_low(const model::OpaqueConfig& config) {
  const auto share = codec::parse_share_config(config.parameters_json);
  return share && *share && (*share)->priority.value_or(0) > 0;
}

int64_t cores_in(const std::map<std::string, Quantity>& amounts) {
  const auto cores = amounts.find("cores");
  return cores == amounts.end() ? 0 : std::max<int64_t>(cores->second.value().value_or(0), 0);
}

bool has_percent(const model::OpaqueConfig& config) {
  const auto share = codec::parse_share_config(config.parameters_json);
  return share && *share && (*share)->memory_percent;
}

}  // namespace

std::vector<Tenant> tenants_of(const model::Allocation& allocation) {
  std::vector<Tenant> tenants;
  tenants.reserve(allocation.results.size());
  for (const model::DeviceResult& result : allocation.results) {
    tenants.push_back({.gives_way = false, .cores = cores_in(result.consumed_capacity)});
  }
  for (const model::AllocatedConfig& entry : allocation.config) {
    if (entry.from_class || !says_low(entry.config)) continue;
    for (size_t i = 0; i < tenants.size(); ++i) {
      tenants[i].gives_way = tenants[i].gives_way || names(entry.config, allocation.results[i].request);
    }
  }
  return tenants;
}

void add(const Tenant& tenant, allocator::Sharers& sharers) {
  sharers.promised += tenant.cores;
  if (tenant.gives_way) return;
  ++(tenant.cores > 0 ? sharers.limited : sharers.unlimited);
}

std::optional<Newcomer> newcomer_of(const std::vector<const model::ClaimSpec*>& claims) {
  Newcomer newcomer{.gives_way = true, .limited = true};
  bool any = false;
  int64_t cards = 0;
  for (const model::ClaimSpec* claim : claims) {
    for (const model::DeviceRequest& request : claim->requests) {
      if (!request.exactly && request.first_available.empty()) continue;
      // Of alternatives the first: they differ in the device, not in who asks.
      const model::DeviceSubRequest& asked = request.exactly ? *request.exactly : request.first_available.front();
      cards += asked.count.value_or(1);
      bool low = false;
      bool share = !asked.capacity.empty();
      for (const model::OpaqueConfig& config : claim->config) {
        if (!names(config, request.name)) continue;
        low = low || says_low(config);
        share = share || has_percent(config);
      }
      if (!share) continue;
      any = true;
      newcomer.gives_way = newcomer.gives_way && low;
      newcomer.limited = newcomer.limited && cores_in(asked.capacity) > 0;
    }
  }
  newcomer.single = cards == 1;
  return any ? std::optional(newcomer) : std::nullopt;
}

int64_t disturbance(const Newcomer& newcomer, const allocator::Sharers& sharers) {
  if (newcomer.limited) return sharers.unlimited > 0 ? kBesideUnlimited : 0;
  const int64_t promised = std::clamp<int64_t>(sharers.promised, 0, kAllCores);
  if (sharers.unlimited > 0) return kBesideUnlimited + promised;
  if (newcomer.gives_way) return (sharers.limited > 0 ? kBesideFirst : 0) + promised;
  return (promised > 0 ? kBesidePromises : 0) + promised;
}

void count(const Tenant& tenant, int64_t sign, Crowd& crowd) {
  if (tenant.gives_way) {
    (tenant.cores > 0 ? crowd.kept_behind : crowd.giving_way) += sign;
  } else {
    (tenant.cores > 0 ? crowd.limited : crowd.unlimited) += sign;
  }
}

bool tells_apart(const Newcomer& newcomer, const Crowd& crowd) {
  const int64_t others = crowd.limited + crowd.giving_way + crowd.kept_behind;
  if (crowd.unlimited > 0 && others > 0) return true;
  return !newcomer.limited && crowd.limited + crowd.kept_behind > 0;
}

}  // namespace heddle::engine
