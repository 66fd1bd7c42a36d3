// A fleet as Kubernetes objects, as `kubectl get -o yaml` prints them. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "controller/gangs.h"
#include "controller/quota.h"
#include "engine/queue_table.h"
#include "engine/topology_table.h"
#include "model/claim.h"
#include "model/device.h"
#include "model/pod.h"
#include "model/volume.h"

namespace heddle::cli {

struct FleetText {
  std::string name;  // of the file, for errors
  std::string text;  // JSON or YAML; one or more objects or Lists
};

struct FleetPod {
  model::Pod pod;
  std::string json;  // of pods without a node
};

// Namespaced objects are keyed by namespace/name ("default" where none is said), others by name. An object that comes
// twice counts as it came last.
struct Fleet {
  std::map<std::string, model::Node> nodes;
  std::map<std::string, model::ResourceSlice> slices;
  std::map<std::string, model::DeviceClass> classes;
  std::map<std::string, model::ResourceClaim> claims;
  std::map<std::string, model::ClaimSpec> templates;
  std::map<std::string, FleetPod> pods;
  std::map<std::string, controller::Quota> quotas;
  std::map<std::string, model::PersistentVolume> volumes;
  std::map<std::string, model::PersistentVolumeClaim> volume_claims;
  engine::QueueTable queues;                         // with reservations and namespaces
  std::vector<controller::GangObject> gang_objects;  // PodGroups, JobSets and the like
  std::map<std::string, int64_t> ignored;            // other kinds: how many
  std::map<std::string, engine::TopologyObject> topologies;
  std::map<std::string, model::DeviceTaintRule> taint_rules;
};

// Errors: kInvalidArgument; names the file, the object and the field.
Result<Fleet> read_fleet(const std::vector<FleetText>& texts);

}  // namespace heddle::cli
