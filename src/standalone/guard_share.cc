#include "standalone/guard_share.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/file.h"
#include "guard/files.h"

namespace heddle::standalone {
namespace {

std::string limits_file(const std::string& folder) { return folder + "/limits"; }

guard::ClaimLimits to_limits(const std::string& claim_uid, const std::vector<CardShare>& shares) {
  guard::ClaimLimits limits;
  limits.claim_uid = claim_uid;
  limits.request = std::string(kClaimRequest);
  for (const auto& share : shares) {
    guard::DeviceLimit device;
    device.uuid = share.uuid;
    device.memory_bytes = share.memory_bytes;
    device.cores_percent = static_cast<int>(share.cores);
    device.whole_card = share.whole;
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

Result<void> prepare_guard(const std::string& folder, const std::string& claim_uid, const std::vector<CardShare>& shares,
                           const Owner& owner) {
  const auto limits = to_limits(claim_uid, shares);
  HEDDLE_TRY(const std::string content, guard::encode_limits(limits));
  HEDDLE_CHECK_OK(make_directories(folder, 0711));
  HEDDLE_CHECK_OK(write_file_atomic(limits_file(folder), content, 0444));
  HEDDLE_CHECK_OK(guard::create_usage(guard_usage_file(folder), limits));
  return give_usage_to(guard_usage_file(folder), owner);
}

std::map<std::string, std::string> guard_environment(const GuardFiles& files, const std::string& folder,
                                                     const std::vector<CardShare>& shares) {
  std::vector<std::string> uuids;
  uuids.reserve(shares.size());
  for (const auto& share : shares) uuids.push_back(share.uuid);
  const std::string list = fmt::format("{}", fmt::join(uuids, ","));
  return {{"LD_PRELOAD", files.library}, {"HEDDLE_GUARD_DIR", folder}, {"CUDA_VISIBLE_DEVICES", list}};
}

std::map<std::string, int64_t> guard_usage(const std::string& folder) {
  std::map<std::string, int64_t> used;
  const auto report = guard::read_usage(guard_usage_file(folder));
  if (!report) return used;
  for (const auto& device : report->devices) used[device.uuid] = device.charged_bytes;
  return used;
}

std::string guard_usage_file(const std::string& folder) { return folder + "/usage"; }

Result<std::string> keep_guard_library(const std::string& library, const std::string& state_dir) {
  auto content = read_file(library);
  if (!content) {
    return fail(Code::kNotFound, fmt::format("the guard's library is missing: {}", content.error().message));
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (EVP_Digest(content->data(), content->size(), digest.data(), &size, EVP_sha256(), nullptr) != 1) {
    return fail(Code::kInternal, "SHA-256 is not available");
  }
  std::string name;
  for (unsigned int i = 0; i < 8; ++i) name += fmt::format("{:02x}", digest.at(i));
  const std::string folder = fmt::format("{}/guard/{}", state_dir, name);
  const std::string copy = folder + "/libheddle_guard.so";
  if (file_exists(copy)) return copy;
  HEDDLE_CHECK_OK(make_directories(folder, 0755));
  HEDDLE_CHECK_OK(write_file_atomic(copy, *content, 0555));
  return copy;
}

}  // namespace heddle::standalone
