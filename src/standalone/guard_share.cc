#include "standalone/guard_share.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "agent/guard_folder.h"
#include "base/file.h"
#include "guard/files.h"

namespace heddle::standalone {
namespace {

guard::ClaimLimits to_limits(const Tenant& tenant, const std::vector<CardShare>& shares) {
  guard::ClaimLimits limits;
  limits.claim_uid = tenant.claim_uid;
  // There, 0 is the best and 1000 the last.
  constexpr int64_t kMiddle = 500;
  limits.priority = static_cast<int>(kMiddle - std::clamp(tenant.priority, -kMiddle, kMiddle));
  limits.request = std::string(kClaimRequest);
  for (const auto& share : shares) {
    guard::DeviceLimit device;
    device.uuid = share.uuid;
    device.memory_bytes = share.memory_bytes;
    device.cores_percent = static_cast<int>(share.cores);
    device.whole_card = share.whole && share.virtual_bytes == 0;
    device.virtual_bytes = share.virtual_bytes;
    device.gives_way = tenant.priority < 0 && share.cores == 0;
    if (!tenant.mps_pipe.empty()) {
      limits.mask_percent = static_cast<int>(share.cores);
      limits.mask_pipe = tenant.mps_pipe;
      device.cores_percent = 0;
    }
    if (share.vendor == "ascend") device.number = share.minor;
    limits.devices.push_back(std::move(device));
  }
  return limits;
}

// The tenant may write its usage, and nothing else in the folder.
Result<void> give_usage_to(const std::string& path, const Owner& owner) {
  if (chmod(path.c_str(), 0600) != 0) return fail_errno(fmt::format("cannot set the mode of {}", path), errno);
  if (static_cast<uid_t>(owner.uid) == geteuid()) return {};
  if (chown(path.c_str(), static_cast<uid_t>(owner.uid), static_cast<gid_t>(owner.gid)) != 0) {
    return fail_errno(fmt::format("cannot give {} to user {}", path, owner.uid), errno);
  }
  return {};
}

}  // namespace

Result<void> prepare_guard(const std::string& folder, const Tenant& tenant, const std::vector<CardShare>& shares) {
  const auto limits = to_limits(tenant, shares);
  HEDDLE_CHECK_OK(make_directories(folder, 0711));
  HEDDLE_CHECK_OK(agent::write_guard_folder(folder, limits, agent::UsageKind::kPlain));
  // Written by this daemon alone, when it lends; the tenant is another user or could change the mode itself.
  const std::string limits_file = guard_limits_file(folder);
  if (chmod(limits_file.c_str(), 0644) != 0) return fail_errno("cannot set the mode of " + limits_file, errno);
  return give_usage_to(guard_usage_file(folder), tenant.owner);
}

std::map<std::string, std::string> guard_environment(const GuardFiles& files, const std::string& folder,
                                                     const std::vector<CardShare>& shares) {
  const bool npus = !shares.empty() && shares.front().vendor == "ascend";
  std::vector<std::string> names;
  names.reserve(shares.size());
  for (const auto& share : shares) names.push_back(npus ? std::to_string(share.index) : share.uuid);
  return {{"LD_PRELOAD", npus ? files.ascend_library : files.library},
          {"HEDDLE_GUARD_DIR", folder},
          {npus ? "ASCEND_RT_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES", fmt::format("{}", fmt::join(names, ","))}};
}

std::map<std::string, int64_t> guard_usage(const std::string& folder) {
  std::map<std::string, int64_t> used;
  const auto report = guard::read_usage(guard_usage_file(folder));
  if (!report) return used;
  for (const auto& device : report->devices) used[device.uuid] = device.charged_bytes;
  return used;
}

std::string guard_usage_file(const std::string& folder) {
  return folder + "/usage";
}

std::string guard_limits_file(const std::string& folder) {
  return folder + "/limits";
}

}  // namespace heddle::standalone
