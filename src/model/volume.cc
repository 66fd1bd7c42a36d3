#include "model/volume.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace heddle::model {
namespace {

constexpr std::string_view kZone = "topology.kubernetes.io/zone";
constexpr std::string_view kRegion = "topology.kubernetes.io/region";
constexpr std::string_view kOldZone = "failure-domain.beta.kubernetes.io/zone";
constexpr std::string_view kOldRegion = "failure-domain.beta.kubernetes.io/region";
constexpr std::array<std::string_view, 4> kTopologyLabels = {kOldZone, kOldRegion, kZone, kRegion};

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t");
  return begin == std::string::npos ? std::string() : text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// A volume of several zones names them in one label: "a__b". Nothing for a label that Kubernetes ignores.
std::set<std::string> split_zones(const std::string& text) {
  std::set<std::string> zones;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find("__", begin), text.size());
    std::string zone = trimmed(text.substr(begin, end - begin));
    if (zone.empty()) return {};
    zones.insert(std::move(zone));
    begin = end + 2;
  }
  return zones;
}

const std::string* label_of(const Node& node, std::string_view key) {
  const auto found = node.meta.labels.find(std::string(key));
  return found == node.meta.labels.end() ? nullptr : &found->second;
}

std::string_view new_name(std::string_view key) {
  if (key == kOldZone) return kZone;
  return key == kOldRegion ? kRegion : key;
}

}  // namespace

VolumeReach reach_of(const PersistentVolume& volume, const std::string& claim) {
  VolumeReach reach{.claim = claim, .volume = volume.meta.name, .affinity = volume.node_affinity, .zones = {}};
  for (const std::string_view key : kTopologyLabels) {
    const auto label = volume.meta.labels.find(std::string(key));
    if (label == volume.meta.labels.end()) continue;
    if (std::set<std::string> zones = split_zones(label->second); !zones.empty()) {
      reach.zones.emplace(key, std::move(zones));
    }
  }
  return reach;
}

bool reachable(const VolumeReach& volume, const Node& node) {
  if (volume.affinity && !matches(*volume.affinity, node)) return false;
  const bool zoned = std::any_of(kTopologyLabels.begin(), kTopologyLabels.end(),
                                 [&](std::string_view key) { return label_of(node, key) != nullptr; });
  if (!zoned) return true;
  return std::all_of(volume.zones.begin(), volume.zones.end(), [&](const auto& zone) {
    const std::string* value = label_of(node, zone.first);
    if (value == nullptr) value = label_of(node, new_name(zone.first));
    return value != nullptr && zone.second.contains(*value);
  });
}

}  // namespace heddle::model
