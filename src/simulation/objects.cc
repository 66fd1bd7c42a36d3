#include "simulation/objects.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "base/key_text.h"
#include "codec/codec.h"
#include "simulation/tally.h"

namespace heddle::simulation {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kAllCores = 100;

model::Device device_object(const DeviceGroup& group, const std::string& node, int64_t index) {
  const Quantity memory = Quantity::bytes(group.memory_bytes);
  const Quantity cores = Quantity::from_int(kAllCores);
  model::Device device;
  device.name = fmt::format("card-{}", index);
  device.attributes = {{"vendor", group.vendor},
                       {"model", group.model},
                       {"type", std::string("card")},
                       {"index", index},
                       {"uuid", fmt::format("{}-{}-{}", node, group.vendor, index)}};
  model::RequestPolicy memory_policy;
  memory_policy.default_value = memory;
  memory_policy.valid_range = model::RequestPolicy::Range{Quantity::bytes(kMiB), memory, Quantity::bytes(kMiB)};
  model::RequestPolicy cores_policy;
  cores_policy.default_value = cores;
  cores_policy.valid_range = model::RequestPolicy::Range{Quantity::from_int(0), cores, Quantity::from_int(1)};
  device.capacity["memory"] = {memory, memory_policy};
  device.capacity["cores"] = {cores, cores_policy};
  device.taints.push_back({.key = "heddle.dev/managed", .value = {}, .effect = "NoSchedule", .added = {}});
  device.allow_multiple_allocations = true;
  return device;
}

}  // namespace

model::Node node_object(const SimulatedNode& node) {
  model::Node object;
  object.meta.name = node.name;
  object.meta.labels = node.labels;
  object.meta.labels.emplace("kubernetes.io/hostname", node.name);
  constexpr int64_t kMostPods = 1000;
  object.allocatable = {{"cpu", node.cpu}, {"memory", node.memory}, {"pods", Quantity::from_int(kMostPods)}};
  return object;
}

std::vector<model::ResourceSlice> slices_of(const SimulatedNode& node) {
  std::map<std::string, model::ResourceSlice> by_vendor;
  for (const DeviceGroup& group : node.devices) {
    model::ResourceSlice& slice = by_vendor[group.vendor];
    slice.meta.name = fmt::format("{}-heddle-{}-0", node.name, group.vendor);
    slice.driver = kDriver;
    slice.pool = fmt::format("{}/{}", node.name, group.vendor);
    slice.generation = 1;
    slice.scope.kind = model::NodeScope::Kind::kNode;
    slice.scope.node = node.name;
    for (int64_t i = 0; i < group.count; ++i) {
      slice.devices.push_back(device_object(group, node.name, static_cast<int64_t>(slice.devices.size())));
    }
  }
  std::vector<model::ResourceSlice> slices;
  slices.reserve(by_vendor.size());
  for (auto& [vendor, slice] : by_vendor) slices.push_back(std::move(slice));
  return slices;
}

std::string class_name(const std::string& vendor) {
  return vendor.empty() ? "heddle" : "heddle-" + vendor;
}

model::DeviceClass class_of(const std::string& vendor) {
  model::DeviceClass object;
  object.meta.name = class_name(vendor);
  std::string selector = fmt::format(R"(device.driver == "{}")", kDriver);
  if (!vendor.empty()) selector += fmt::format(R"( && device.attributes["{}"].vendor == "{}")", kDriver, vendor);
  object.selectors.push_back(std::move(selector));
  return object;
}

model::ClaimSpec claim_spec(const DeviceAsk& ask) {
  model::DeviceSubRequest exactly;
  exactly.device_class = class_name(ask.vendor);
  exactly.count = ask.devices;
  if (!ask.model.empty()) {
    exactly.selectors.push_back(fmt::format(R"(device.attributes["{}"].model == "{}")", kDriver, ask.model));
  }
  const bool share = ask.memory || ask.memory_percent || ask.cores;
  if (ask.memory) exactly.capacity["memory"] = *ask.memory;
  if (share) exactly.capacity["cores"] = Quantity::from_int(ask.cores.value_or(0));
  model::ClaimSpec spec;
  spec.requests.push_back({"devices", exactly, {}});
  if (ask.memory_percent) {
    spec.config.push_back({{}, kDriver, codec::share_config_json({.memory_percent = ask.memory_percent})});
  }
  // Shares of one member lie on different devices.
  if (share && ask.devices > 1) spec.constraints.push_back({{}, "", std::string(kDriver) + "/uuid"});
  return spec;
}

model::Pod pod_object(const SimulatedWorkload& workload) {
  model::Pod pod;
  pod.meta.name_space = "default";
  pod.meta.name = workload.name;
  pod.meta.uid = workload.name;
  pod.priority = workload.priority;
  pod.never_preempts = workload.never_preempts;
  pod.node_selector = workload.node_selector;
  model::Container container;
  container.name = "main";
  if (workload.cpu.sign() > 0) container.requests["cpu"] = workload.cpu;
  if (workload.memory.sign() > 0) container.requests["memory"] = workload.memory;
  pod.containers.push_back(std::move(container));
  return pod;
}

std::string shape_of(const SimulatedWorkload& workload, const model::Pod& pod, const model::ClaimSpec& spec,
                     model::PlacementPolicy policy) {
  std::string key;
  append_part(key, static_cast<int64_t>(policy));
  append_part(key, engine::fit_signature(pod));
  append_part(key, codec::claim_spec_json(spec));
  for (const int64_t part : {workload.members, workload.minimum, workload.segment_size}) append_part(key, part);
  for (const auto* part : {&workload.required, &workload.preferred, &workload.segment_level}) append_part(key, *part);
  return key;
}

model::ResourceClaim claim_object(const Unit& unit, int64_t member, const model::Allocation& allocation) {
  model::ResourceClaim claim;
  claim.meta.name_space = "default";
  claim.meta.name = fmt::format("{}-{}", unit.workload->name, member);
  claim.meta.uid = claim.meta.name;
  claim.spec = unit.spec;
  claim.allocation = allocation;
  claim.reserved_for.push_back({"", "pods", claim.meta.name, claim.meta.uid});
  return claim;
}

queueing::Victim victim_of(const Unit& unit, const std::string& queue) {
  std::set<std::string> nodes;
  for (const Granted& member : unit.granted) nodes.insert(member.node);
  queueing::Victim victim;
  victim.id = unit.workload->name;
  victim.queue = queue;
  victim.priority = unit.workload->priority;
  victim.started = unit.started;
  victim.cost = milli_of(unit.holds);
  victim.site = nodes.size() == 1 ? *nodes.begin() : std::string();
  if (nodes.size() > 1) victim.sites.assign(nodes.begin(), nodes.end());
  return victim;
}

std::string plan_key(const SimulatedWorkload& workload, const std::string& queue, const std::string& shape) {
  std::string key;
  append_part(key, queue);
  append_part(key, int64_t{workload.priority});
  append_part(key, int64_t{workload.never_preempts});
  append_part(key, workload.reservation);
  append_part(key, shape);
  return key;
}

engine::GangRequest gang_request(const SimulatedWorkload& workload, std::vector<engine::PlacementRequest> members,
                                 const std::string& shape) {
  engine::GangRequest gang;
  gang.name = workload.name;
  gang.minimum = workload.minimum;
  gang.required = workload.required;
  gang.preferred = workload.preferred;
  gang.segment_level = workload.segment_level;
  gang.segment_size = workload.segment_size;
  for (engine::PlacementRequest& request : members) {
    const auto rank = static_cast<int64_t>(gang.members.size());
    gang.members.push_back({std::move(request), shape});
    if (workload.segment_size > 0) gang.members.back().segment = rank / workload.segment_size;
  }
  return gang;
}

}  // namespace heddle::simulation
