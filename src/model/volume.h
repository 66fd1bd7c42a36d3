// PersistentVolumes and their claims, as far as they tie a pod to nodes.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "model/meta.h"
#include "model/pod.h"

namespace heddle::model {

struct PersistentVolume {
  ObjectMeta meta;
  std::optional<NodeSelector> node_affinity;  // spec.nodeAffinity.required
};

struct PersistentVolumeClaim {
  ObjectMeta meta;
  std::string volume_name;  // empty: not bound yet
};

// Where a bound volume of a pod can be reached from.
struct VolumeReach {
  std::string claim;   // PersistentVolumeClaim, for explanations
  std::string volume;  // PersistentVolume
  std::optional<NodeSelector> affinity;
  std::map<std::string, std::set<std::string>> zones;  // zone and region labels of the volume: the values that serve
  friend bool operator==(const VolumeReach&, const VolumeReach&) = default;
};

VolumeReach reach_of(const PersistentVolume& volume, const std::string& claim);

// As kube-scheduler 1.37 decides (plugins volumebinding and volumezone): node affinity always holds; zone labels only
// on nodes that carry any, the old label names standing for the new ones.
[[nodiscard]] bool reachable(const VolumeReach& volume, const Node& node);

}  // namespace heddle::model
