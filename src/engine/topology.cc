#include "engine/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

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

std::vector<std::string> domains_of(const State& state, const TopologyLevel& level) {
  std::vector<std::string> domains;
  domains.reserve(state.inside().inventory.nodes().size());
  for (const auto& [name, node] : state.inside().inventory.nodes())
    domains.push_back(level.name == kNodeLevel ? name : domain_of(node, level));
  return domains;
}

// A domain that lies in two of another level.
struct Crossing {
  std::string domain;
  std::string in_one;
  std::string in_another;
};

// Nothing: each of these domains lies in one of the others, as far as nodes are in both levels.
std::optional<Crossing> crossing(const std::vector<std::string>& domains, const std::vector<std::string>& others) {
  std::map<std::string_view, std::string_view> lies_in;
  for (size_t node = 0; node < domains.size(); ++node) {
    if (domains[node].empty() || others[node].empty()) continue;
    const auto [known, fresh] = lies_in.emplace(domains[node], others[node]);
    if (known->second != others[node]) return Crossing{domains[node], std::string(known->second), others[node]};
  }
  return std::nullopt;
}

}  // namespace

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

std::vector<TopologyLevel> default_topology() {
  return {
      {"linkDomain", {"heddle.dev/link-domain", "nvidia.com/gpu.clique"}, {"linkDomain"}},
      {"rack", {"heddle.dev/rack", "topology.kubernetes.io/rack"}, {"rack"}},
      {"superNode", {"heddle.dev/super-node"}, {"superNode"}},
      {"zone", {"topology.kubernetes.io/zone"}, {}},
      {"region", {"topology.kubernetes.io/region"}, {}},
  };
}

void Topology::add(const State& state, TopologyLevel level, size_t at) {
  const auto place = static_cast<std::ptrdiff_t>(at);
  names_.insert(names_.begin() + place, level.name);
  domains_.insert(domains_.begin() + place, domains_of(state, level));
  levels_.insert(levels_.begin() + place, std::move(level));
}

Result<size_t> Topology::place_of(const TopologyLevel& level, const std::vector<std::string>& domains,
                                  const std::vector<std::string>& wanted, size_t meant) const {
  size_t above = 1;               // the nodes, and what is wanted and lies in it
  size_t below = levels_.size();  // the first level that it lies in
  for (size_t other = 1; other < levels_.size(); ++other) {
    const auto named = std::find_if(wanted.begin(), wanted.end(),
                                    [&](const std::string& want) { return goes_by(levels_[other], want); });
    const bool also_wanted = named != wanted.end();
    const bool meant_wider = also_wanted && static_cast<size_t>(named - wanted.begin()) > meant;
    const std::optional<Crossing> out = crossing(domains, domains_[other]);
    const std::optional<Crossing> in = crossing(domains_[other], domains);
    if (out && in) {
      if (!also_wanted) continue;
      return fail(
          Code::kInvalidArgument,
          fmt::format("the levels {} and {} cut across each other: {} lies in {} and {} of {}, and {} in {} and "
                      "{} of {}; name levels of which one holds the other's domains whole",
                      level.name, names_[other], out->domain, out->in_one, out->in_another, names_[other], in->domain,
                      in->in_one, in->in_another, level.name));
    }
    const bool equal = !out && !in;
    if (equal && !also_wanted) continue;
    const bool wider = equal ? meant_wider : in.has_value();  // the other one
    if (wider) below = std::min(below, other);
    if (!wider && also_wanted) above = std::max(above, other + 1);
  }
  return std::max(above, below);
}

std::string level_name(const std::vector<TopologyLevel>& levels, const std::string& wanted) {
  const auto known =
      std::find_if(levels.begin(), levels.end(), [&](const TopologyLevel& level) { return goes_by(level, wanted); });
  return known == levels.end() ? wanted : known->name;
}

Result<Topology> Topology::make(const State& state, const std::vector<TopologyLevel>& levels,
                                const std::vector<std::string>& wanted) {
  Topology made;
  made.add(state, {kNodeLevel, {"kubernetes.io/hostname"}, {}}, 0);
  for (const TopologyLevel& level : levels) made.add(state, level, made.levels_.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    const std::string& want = wanted[i];
    const auto known = [&](const TopologyLevel& level) { return goes_by(level, want); };
    if (want.empty() || std::any_of(made.levels_.begin(), made.levels_.end(), known)) continue;
    if (want.find('/') == std::string::npos) {
      return fail(Code::kInvalidArgument,
                  fmt::format("no topology level is called {}; write one of {}, or a node label", want,
                              fmt::join(made.names_, ", ")));
    }
    TopologyLevel own{want, {want}, {}};
    HEDDLE_TRY(const size_t place, made.place_of(own, domains_of(state, own), wanted, i));
    made.add(state, std::move(own), place);
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
