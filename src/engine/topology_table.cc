#include "engine/topology_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "codec/codec.h"

namespace heddle::engine {
namespace {

std::vector<model::TopologyLevel>::const_iterator after_node(const std::vector<model::TopologyLevel>& levels) {
  const auto node =
      std::find_if(levels.begin(), levels.end(), [](const auto& level) { return level.name == kNodeLevel; });
  return node == levels.end() ? levels.begin() : std::next(node);
}

}  // namespace

Result<TopologyObject> read_topology_object(std::string_view json) {
  auto topology = codec::parse_topology(json);
  HEDDLE_TRY(const codec::AnyObject any, codec::parse_any(json));
  return TopologyObject{any.meta, 0, std::move(topology)};
}

bool TopologyTable::upsert(TopologyObject object) {
  std::string name = object.meta.name;
  objects_.insert_or_assign(std::move(name), std::move(object));
  return settle();
}

bool TopologyTable::remove(const std::string& name) {
  return objects_.erase(name) > 0 && settle();
}

bool TopologyTable::settle() {
  const TopologyObject* oldest = nullptr;
  for (const auto& [name, object] : objects_) {
    if (!object.topology) continue;
    if (oldest == nullptr || object.meta.created < oldest->meta.created) oldest = &object;
  }
  in_force_ = oldest == nullptr ? "" : oldest->meta.name;
  std::vector<model::TopologyLevel> levels;
  if (oldest != nullptr) levels = oldest->topology->levels;
  return std::exchange(levels_, std::move(levels)) != levels_;
}

std::vector<TopologyLevel> TopologyTable::levels() const {
  if (in_force_.empty()) return default_topology();
  std::vector<TopologyLevel> out;
  for (auto level = after_node(levels_); level != levels_.end(); ++level) {
    TopologyLevel& made = out.emplace_back();
    made.name = level->name;
    if (!level->node_label.empty()) made.labels.push_back(level->node_label);
    if (!level->device_attribute.empty()) made.attributes.push_back(level->device_attribute);
    made.reserve_nodes = level->reserve_nodes;
    made.reserve_use = level->reserve_use;
  }
  return out;
}

const TopologyObject* TopologyTable::in_force() const {
  const auto it = objects_.find(in_force_);
  return it == objects_.end() ? nullptr : &it->second;
}

std::map<std::string, TopologyTable::Standing> TopologyTable::standings() const {
  std::map<std::string, Standing> out;
  for (const auto& [name, object] : objects_) {
    Standing& standing = out[name];
    if (!object.topology) {
      standing = {false, "Invalid", object.topology.error().text()};
    } else if (name != in_force_) {
      standing = {false, "NotInForce",
                  fmt::format("{} is in force, the oldest one; delete it to have this one instead", in_force_)};
    } else {
      std::vector<std::string> narrower;
      for (auto level = levels_.begin(); level != after_node(levels_); ++level) {
        if (level->name != kNodeLevel) narrower.push_back(level->name);
      }
      standing = {true, "InForce", {}};
      if (!narrower.empty()) {
        standing.message =
            fmt::format("narrower than a node, and without a part in placement: {}", fmt::join(narrower, ", "));
      }
    }
  }
  return out;
}

}  // namespace heddle::engine
