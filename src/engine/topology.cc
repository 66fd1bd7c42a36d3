#include "engine/topology.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/state_impl.h"

namespace heddle::engine {
namespace {

bool goes_by(const TopologyLevel& level, const std::string& wanted) {
  return level.name == wanted || std::find(level.labels.begin(), level.labels.end(), wanted) != level.labels.end();
}

std::string text_of(const model::AttributeValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* number = std::get_if<int64_t>(&value)) return std::to_string(*number);
  return {};
}

// Nothing where the devices of the node do not agree: then the node is in no one domain.
std::string by_attribute(const NodeEntry& node, const std::string& attribute) {
  std::string found;
  for (const allocator::PoolView& view : node.view.pools) {
    for (const allocator::DeviceInfo* device : view.devices) {
      if (Inventory::node_of(*device).empty()) continue;
      const model::AttributeValue* value = device->published->find_attribute(view.pool->driver, attribute);
      if (value == nullptr) continue;
      std::string text = text_of(*value);
      if (!found.empty() && text != found) return {};
      found = std::move(text);
    }
  }
  return found;
}

std::string domain_of(const NodeEntry& node, const TopologyLevel& level) {
  for (const std::string& label : level.labels) {
    const auto found = node.node.meta.labels.find(label);
    if (found != node.node.meta.labels.end() && !found->second.empty()) return found->second;
  }
  for (const std::string& attribute : level.attributes) {
    std::string found = by_attribute(node, attribute);
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace

std::vector<TopologyLevel> default_topology() {
  return {
      {"linkDomain", {"heddle.dev/link-domain", "nvidia.com/gpu.clique"}, {"linkDomain"}},
      {"rack", {"heddle.dev/rack", "topology.kubernetes.io/rack"}, {"rack"}},
      {"superNode", {"heddle.dev/super-node"}, {"superNode"}},
      {"zone", {"topology.kubernetes.io/zone"}, {}},
      {"region", {"topology.kubernetes.io/region"}, {}},
  };
}

Result<Topology> Topology::make(const State& state, const std::vector<TopologyLevel>& levels,
                                const std::vector<std::string>& wanted) {
  Topology made;
  made.levels_.push_back({kNodeLevel, {"kubernetes.io/hostname"}, {}});
  made.levels_.insert(made.levels_.end(), levels.begin(), levels.end());
  for (const std::string& want : wanted) {
    const auto known = [&](const TopologyLevel& level) { return goes_by(level, want); };
    if (want.empty() || std::any_of(made.levels_.begin(), made.levels_.end(), known)) continue;
    if (want.find('/') == std::string::npos) {
      std::vector<std::string> names;
      for (const TopologyLevel& level : made.levels_) names.push_back(level.name);
      return fail(Code::kInvalidArgument,
                  fmt::format("no topology level is called {}; write one of {}, or a node label", want,
                              fmt::join(names, ", ")));
    }
    made.levels_.push_back({want, {want}, {}});
  }
  for (const TopologyLevel& level : made.levels_) {
    made.names_.push_back(level.name);
    std::vector<std::string> domains;
    domains.reserve(state.inside().inventory.nodes().size());
    for (const auto& [name, node] : state.inside().inventory.nodes()) {
      domains.push_back(level.name == kNodeLevel ? name : domain_of(node, level));
    }
    made.domains_.push_back(std::move(domains));
  }
  return made;
}

size_t Topology::level_of(const std::string& wanted) const {
  for (size_t i = 0; i < levels_.size(); ++i) {
    if (goes_by(levels_[i], wanted)) return i;
  }
  return 0;
}

}  // namespace heddle::engine
