#include "guard/share_broker.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/file.h"
#include "guard/files.h"

namespace heddle::guard {
namespace {

bool same_file(const UniqueFd& fd, const std::string& path) {
  struct stat open{};
  struct stat there{};
  return ::fstat(fd.get(), &open) == 0 && ::lstat(path.c_str(), &there) == 0 && open.st_dev == there.st_dev &&
         open.st_ino == there.st_ino;
}

}  // namespace

Result<ShareBroker::Tenant> ShareBroker::open(const BrokeredClaim& claim) {
  HEDDLE_TRY(const std::string content, read_file(claim.limits_file));
  HEDDLE_TRY(const ClaimLimits limits, decode_limits(content));
  Tenant tenant{claim, UniqueFd(), UniqueFd(), {}, limits.priority, has_hints(content)};
  for (size_t i = 0; i < limits.devices.size(); ++i) {
    const DeviceLimit& device = limits.devices[i];
    if (device.whole_card || device.cores_percent >= 100) continue;
    tenant.devices.push_back({device.uuid, static_cast<uint32_t>(i), std::max(device.cores_percent, 0) / 100.0,
                              device.gives_way && device.cores_percent == 0});
  }
  if (tenant.devices.empty()) return tenant;
  // Not followed, not waited for: the tenant may have put anything in the place of its usage.
  tenant.usage = UniqueFd(::open(claim.usage_file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (limits.flags.strict_share || !tenant.tells) return tenant;
  tenant.limits = UniqueFd(::open(claim.limits_file.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  return tenant;
}

bool ShareBroker::is_current(const Tenant& tenant) {
  return tenant.usage.valid() && same_file(tenant.usage, tenant.claim.usage_file) &&
         (!tenant.limits.valid() || same_file(tenant.limits, tenant.claim.limits_file));
}

void ShareBroker::set_claims(const std::vector<BrokeredClaim>& claims) {
  std::vector<Tenant> next;
  for (const BrokeredClaim& claim : claims) {
    const auto known = std::find_if(tenants_.begin(), tenants_.end(),
                                    [&](const Tenant& tenant) { return tenant.claim == claim && is_current(tenant); });
    if (known != tenants_.end()) {
      next.push_back(std::move(*known));
      tenants_.erase(known);
    } else if (auto tenant = open(claim); tenant && !tenant->devices.empty()) {
      next.push_back(*std::move(tenant));
    }
  }
  tenants_ = std::move(next);
  shared_.clear();
  for (const Tenant& tenant : tenants_) {
    for (const Device& device : tenant.devices) shared_[device.uuid].push_back({&tenant, &device});
  }
  // Who has no limit matters to those alone that give way.
  for (auto& [uuid, places] : shared_) {
    if (std::ranges::any_of(places, [](const Place& place) { return place.device->gives_way; })) continue;
    std::erase_if(places, [](const Place& place) { return place.device->unlimited(); });
  }
  std::erase_if(shared_, [](const auto& card) {
    return card.second.size() < 2 || std::ranges::none_of(card.second, &Place::is_told);
  });
  std::erase_if(cards_, [this](const auto& card) { return !shared_.contains(card.first); });
}

TenantView ShareBroker::look(const Place& place, int64_t now_ns, const VendorTime& vendor_time) {
  const Tenant& tenant = *place.tenant;
  const bool borrows = place.is_told() && !place.device->gives_way;
  TenantView view{tenant.claim.id, place.device->share, borrows, 0, 0, -1, 0, tenant.priority};
  view.gives_way = place.device->gives_way;
  view.unlimited = place.device->unlimited();
  const auto activity = tenant.tells ? read_activity(tenant.usage.get(), place.device->index)
                                     : fail(Code::kUnsupported, "version 1 does not say when it asks");
  // Who cannot be asked may be using all of its share. One without a limit has none, and by damaging its own file would
  // stop those that give way.
  if (!activity) {
    view.may_borrow = false;
    if (!view.unlimited) view.want_ns = now_ns;
    return view;
  }
  view.want_ns = activity->want_ns;
  view.charged_ns = activity->charged_ns;
  if (!vendor_time) return view;
  const VendorAccount account = vendor_time(tenant.claim.id, place.device->uuid);
  view.vendor_ns = account.busy_ns;
  view.vendor_at_ns = account.at_ns;
  return view;
}

ShareBroker::Outcome ShareBroker::tick(int64_t now_ns, const VendorTime& vendor_time) {
  Outcome outcome;
  for (const auto& [uuid, places] : shared_) {
    std::vector<TenantView> views;
    for (const Place& place : places) views.push_back(look(place, now_ns, vendor_time));
    const std::vector<TenantHint> hints = cards_[uuid].tick(now_ns, views);
    for (size_t i = 0; i < hints.size(); ++i) {
      outcome.active = outcome.active || CardBroker::is_active(views[i], now_ns);
      if (!places[i].is_told() || !(views[i].may_borrow || views[i].gives_way)) continue;
      if (write_hint(places[i].tenant->limits.get(), places[i].device->index, hints[i].rate, hints[i].charge, now_ns)) {
        ++outcome.written;
        double& most = told_[{views[i].id, uuid}];
        most = std::max(most, hints[i].rate);
      }
    }
  }
  return outcome;
}

}  // namespace heddle::guard
