#include <algorithm>
#include <utility>

#include "engine/state_impl.h"

namespace heddle::engine {

State::Impl::Impl(std::string driver) : managed_driver(std::move(driver)), inventory(managed_driver, ledger, cache) {
  options.own_tolerations.push_back(
      {.key = "heddle.dev/managed", .op = "Exists", .value = {}, .effect = "NoSchedule", .seconds = {}});
  options.forbidden_taints.emplace_back("heddle.dev/foreign-owner");
}

void State::Impl::index_extended_resources() {
  extended_resources.clear();
  for (const auto& [name, device_class] : classes) {
    extended_resources.insert("deviceclass.resource.kubernetes.io/" + name);
    if (!device_class.extended_resource_name.empty()) extended_resources.insert(device_class.extended_resource_name);
  }
}

void State::Impl::leave_node(const std::string& uid, const std::string& node) {
  const auto known = pods_of_node.find(node);
  if (known == pods_of_node.end()) return;
  known->second.erase(uid);
  if (known->second.empty()) pods_of_node.erase(known);
}

void State::Impl::charge_pod(const std::string& uid, const PodUsage& usage, int64_t sign) {
  const auto node = inventory.nodes().find(usage.node);
  if (node == inventory.nodes().end()) return;
  inventory.touch(node->second);
  node->second.pods += sign * usage.pods;
  for (const auto& [resource, amount] : usage.usage) node->second.used[resource] += sign * amount;
  if (usage.ports.empty()) return;
  if (sign > 0) node->second.ports[uid] = usage.ports;
  if (sign < 0) node->second.ports.erase(uid);
}

void State::Impl::put_pod(const std::string& uid, PodUsage usage) {
  drop_pod(uid);
  pods_of_node[usage.node].insert(uid);
  charge_pod(uid, pods[uid] = std::move(usage), 1);
}

void State::Impl::drop_pod(const std::string& uid) {
  const auto known = pods.find(uid);
  if (known == pods.end()) return;
  charge_pod(uid, known->second, -1);
  leave_node(uid, known->second.node);
  pods.erase(known);
}

State::State(std::string managed_driver) : impl_(std::make_unique<Impl>(std::move(managed_driver))) {}
State::~State() = default;
State::State(State&&) noexcept = default;
State& State::operator=(State&&) noexcept = default;

void State::upsert_node(model::Node node) {
  const std::string name = node.meta.name;
  const bool is_new = !impl_->inventory.nodes().contains(name);
  if (!impl_->inventory.upsert_node(std::move(node))) return;
  ++impl_->generation;
  if (!is_new) return;
  const auto pods = impl_->pods_of_node.find(name);
  if (pods == impl_->pods_of_node.end()) return;
  for (const std::string& uid : pods->second) impl_->charge_pod(uid, impl_->pods.at(uid), 1);
}

void State::remove_node(const std::string& name) {
  if (impl_->inventory.remove_node(name)) ++impl_->generation;
}

void State::upsert_slice(model::ResourceSlice slice) {
  impl_->inventory.upsert_slice(std::move(slice));
  ++impl_->generation;
}

void State::remove_slice(const std::string& name) {
  if (impl_->inventory.remove_slice(name)) ++impl_->generation;
}

void State::upsert_taint_rule(model::DeviceTaintRule rule) {
  if (impl_->inventory.upsert_taint_rule(std::move(rule))) ++impl_->generation;
}

void State::remove_taint_rule(const std::string& name) {
  if (impl_->inventory.remove_taint_rule(name)) ++impl_->generation;
}

void State::upsert_class(model::DeviceClass device_class) {
  const std::string name = device_class.meta.name;
  impl_->classes.insert_or_assign(name, std::move(device_class));
  impl_->index_extended_resources();
  impl_->cache.clear();
  ++impl_->generation;
}

void State::remove_class(const std::string& name) {
  if (impl_->classes.erase(name) == 0) return;
  impl_->index_extended_resources();
  impl_->cache.clear();
  ++impl_->generation;
}

void State::upsert_claim(const model::ResourceClaim& claim) {
  const bool held_before = impl_->ledger.find(claim.meta.uid) != nullptr;
  const std::vector<DeviceKey> changed = impl_->ledger.upsert(claim);
  for (const DeviceKey& device : changed) impl_->inventory.refresh(device);
  if (held_before && !changed.empty()) ++impl_->generation;
}

void State::remove_claim(const std::string& uid) {
  const std::vector<DeviceKey> changed = impl_->ledger.remove(uid);
  for (const DeviceKey& device : changed) impl_->inventory.refresh(device);
  if (!changed.empty()) ++impl_->generation;
}

void State::keep_reserve(const std::vector<TopologyLevel>& levels) {
  impl_->reserve.set(levels);
  ++impl_->generation;
}

void State::upsert_pod_usage(const std::string& pod_uid, const std::string& node, std::map<std::string, int64_t> usage,
                             std::vector<model::HostPort> ports) {
  const auto known = impl_->pods.find(pod_uid);
  if (known != impl_->pods.end()) {
    const PodUsage& before = known->second;
    if (before.node == node && before.usage == usage && before.ports == ports) return;
    ++impl_->generation;
  }
  impl_->put_pod(pod_uid, {node, std::move(usage), std::move(ports)});
  impl_->settle_rooms_of(pod_uid);
}

void State::remove_pod_usage(const std::string& pod_uid) {
  if (!impl_->pods.contains(pod_uid)) return;
  impl_->drop_pod(pod_uid);
  impl_->settle_rooms_of(pod_uid);
  ++impl_->generation;
}

uint64_t State::generation() const {
  return impl_->generation;
}

}  // namespace heddle::engine
