#include "guard/share_broker.h"

#include <fcntl.h>

#include <algorithm>

#include "base/file.h"
#include "guard/files.h"

namespace heddle::guard {

Result<ShareBroker::Tenant> ShareBroker::open(const BrokeredClaim& claim) {
  HEDDLE_TRY(const std::string content, read_file(claim.limits_file));
  HEDDLE_TRY(const ClaimLimits limits, decode_limits(content));
  Tenant tenant{claim, UniqueFd(), UniqueFd(), {}};
  if (limits.flags.strict_share || !has_hints(content)) return tenant;
  for (size_t i = 0; i < limits.devices.size(); ++i) {
    const DeviceLimit& device = limits.devices[i];
    if (device.cores_percent <= 0 || device.cores_percent >= 100) continue;
    tenant.devices.push_back({device.uuid, static_cast<uint32_t>(i), device.cores_percent / 100.0});
  }
  if (tenant.devices.empty()) return tenant;
  // Not followed, not waited for: the tenant may have put anything in the place of its usage.
  tenant.limits = UniqueFd(::open(claim.limits_file.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  tenant.usage = UniqueFd(::open(claim.usage_file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!tenant.limits.valid() || !tenant.usage.valid()) {
    return fail(Code::kNotFound, "cannot open the guard's files of " + claim.id);
  }
  return tenant;
}

void ShareBroker::set_claims(const std::vector<BrokeredClaim>& claims) {
  std::vector<Tenant> next;
  for (const BrokeredClaim& claim : claims) {
    const auto known =
        std::find_if(tenants_.begin(), tenants_.end(), [&](const Tenant& tenant) { return tenant.claim == claim; });
    if (known != tenants_.end()) {
      next.push_back(std::move(*known));
      tenants_.erase(known);
    } else if (auto tenant = open(claim); tenant && !tenant->devices.empty()) {
      next.push_back(*std::move(tenant));
    }
  }
  tenants_ = std::move(next);
}

int ShareBroker::tick(int64_t now_ns, const VendorTime& vendor_time) {
  struct Place {
    const Tenant* tenant;
    uint32_t index;
  };
  std::map<std::string, std::pair<std::vector<TenantView>, std::vector<Place>>> cards;
  for (const Tenant& tenant : tenants_) {
    for (const Device& device : tenant.devices) {
      const auto activity = read_activity(tenant.usage.get(), device.index);
      if (!activity) continue;
      auto& [views, places] = cards[device.uuid];
      views.push_back({tenant.claim.id, device.share, true, activity->want_ns, activity->charged_ns,
                       vendor_time ? vendor_time(tenant.claim.id, device.uuid) : -1});
      places.push_back({&tenant, device.index});
    }
  }
  int written = 0;
  for (auto& [uuid, card] : cards) {
    const std::vector<TenantHint> hints = cards_[uuid].tick(now_ns, card.first);
    for (size_t i = 0; i < hints.size(); ++i) {
      const Place& place = card.second[i];
      if (write_hint(place.tenant->limits.get(), place.index, hints[i].rate, hints[i].charge, now_ns)) ++written;
    }
  }
  std::erase_if(cards_, [&](const auto& entry) { return !cards.contains(entry.first); });
  return written;
}

}  // namespace heddle::guard
