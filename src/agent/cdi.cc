#include "agent/cdi.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "agent/names.h"
#include "base/json.h"

namespace heddle::agent {
namespace {

using json = nlohmann::ordered_json;

// The first version with every field used here.
constexpr std::string_view kCdiVersion = "0.6.0";

json mount_json(const std::string& host, std::string_view container, bool read_only) {
  return {{"hostPath", host},
          {"containerPath", container},
          {"options", json::array({read_only ? "ro" : "rw", "nosuid", "nodev", "rbind", "rprivate"})}};
}

void add(json& edits, const vendors::Injection& injection) {
  for (const auto& [name, value] : injection.environment) edits["env"].push_back(fmt::format("{}={}", name, value));
  for (const auto& node : injection.nodes) {
    json entry = {{"path", node.container_path}};
    if (node.host_path != node.container_path) entry["hostPath"] = node.host_path;
    entry["permissions"] = "rw";
    edits["deviceNodes"].push_back(std::move(entry));
  }
  for (const auto& mount : injection.mounts) {
    edits["mounts"].push_back(mount_json(mount.host_path, mount.container_path, mount.read_only));
  }
}

void add(json& edits, const CdiGuard& guard) {
  edits["mounts"].push_back(mount_json(guard.limits, kLimitsInContainer, true));
  edits["mounts"].push_back(mount_json(guard.usage, kUsageInContainer, false));
  edits["mounts"].push_back(mount_json(guard.library_dir, kLibraryDirInContainer, true));
  edits["mounts"].push_back(mount_json(guard.preload_file, kPreloadInContainer, true));
  if (guard.hook.empty()) return;
  edits["hooks"].push_back(
      {{"hookName", "createContainer"},
       {"path", guard.hook},
       {"args", json::array({"heddle-oci-hook", "merge-preload", guard.preload_file, guard.work_dir})}});
}

}  // namespace

std::string cdi_device_name(const std::string& claim_uid, const std::string& request) {
  std::string name = claim_uid + "-" + request;
  for (char& c : name) {
    if (c == '/' || c == '.') c = '-';
  }
  return name;
}

std::string cdi_device_id(const std::string& claim_uid, const std::string& request) {
  return fmt::format("{}={}", kCdiKind, cdi_device_name(claim_uid, request));
}

std::string cdi_file(const std::string& cdi_root, const std::string& claim_uid) {
  return fmt::format("{}/{}{}.json", cdi_root, kCdiFilePrefix, claim_uid);
}

std::string cdi_json(const CdiClaim& claim) {
  json devices = json::array();
  for (const CdiRequest& request : claim.requests) {
    json edits = json::object();
    add(edits, request.injection);
    devices.push_back({{"name", cdi_device_name(claim.uid, request.name)}, {"containerEdits", std::move(edits)}});
  }
  json common = json::object();
  add(common, claim.common);
  if (claim.guard) add(common, *claim.guard);
  const json spec = {{"cdiVersion", kCdiVersion},
                     {"kind", kCdiKind},
                     {"devices", std::move(devices)},
                     {"containerEdits", std::move(common)}};
  return dump_json(spec, 2) + "\n";
}

}  // namespace heddle::agent
