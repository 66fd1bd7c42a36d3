#include "engine/box_map.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/demand.h"
#include "placement/grid.h"

namespace heddle::engine {
namespace {

int64_t amount_on(const NodeDevices& devices, const std::string& node) {
  const auto found = devices.find(node);
  return found == devices.end() ? 0 : found->second;
}

std::map<std::string, std::string> domains(const State& state, const std::vector<TopologyLevel>& levels,
                                           const std::string& level) {
  std::map<std::string, std::string> out;
  const auto topology = Topology::make(state, levels, {level});
  if (!topology) return out;
  const size_t at = topology->level_of(level);
  for (size_t node = 0; node < topology->nodes().size(); ++node) {
    const std::string& domain = topology->domain(at, node);
    if (!domain.empty()) out[topology->nodes()[node]] = domain;
  }
  return out;
}

}  // namespace

BoxMap BoxMap::make(const State& state, const std::vector<TopologyLevel>& levels, const model::QuotaMeter& meter) {
  BoxMap map;
  map.box_devices_ = std::max<int64_t>(meter.box_devices, 1);
  for (const FleetPart& part : fleet_of(state, meter.device_class)) {
    if (part.node.empty() || (!meter.vendor.empty() && meter.vendor != part.vendor)) continue;
    if (!meter.model.empty() && meter.model != part.model) continue;
    map.devices_[part.node] += part.devices;
    map.free_[part.node] += part.free;
  }
  if (!meter.box_shape.empty()) {
    map.slices_ = true;
    const auto shape = placement::parse_extent(meter.box_shape);
    auto tori = find_tori(state);
    if (!shape || !tori) return map;
    map.shape_ = *shape;
    map.tori_ = std::move(*tori);
  } else if (!meter.box_level.empty()) {
    map.level_ = meter.box_level;
    map.domain_of_ = domains(state, levels, meter.box_level);
  } else {
    for (const auto& [node, devices] : map.devices_) map.domain_of_[node] = node;
  }
  return map;
}

placement::Torus BoxMap::usable(const NamedTorus& torus, const NodeDevices& available) const {
  placement::Torus out = torus.torus;
  out.usable.assign(torus.there.size(), false);
  const int64_t chips = placement::volume_of(torus.host);
  for (const TorusHost& host : torus.hosts)
    out.usable[placement::index_of(out.size, host.at)] = amount_on(available, host.node) >= chips;
  return out;
}

std::map<std::string, int64_t> BoxMap::by_domain(const NodeDevices& available) const {
  std::map<std::string, int64_t> out;
  for (const auto& [node, devices] : available) {
    if (const auto domain = domain_of_.find(node); domain != domain_of_.end()) out[domain->second] += devices;
  }
  return out;
}

int64_t BoxMap::count(const NodeDevices& available) const {
  int64_t boxes = 0;
  if (slices_) {
    for (const NamedTorus& torus : tori_) {
      const auto found =
          placement::count_on_grid(usable(torus, available), placement::orientations(shape_, torus.host));
      boxes += found ? found->cuboids : 0;
    }
    return boxes;
  }
  for (const auto& [domain, devices] : by_domain(available)) boxes += devices / box_devices_;
  return boxes;
}

NodeDevices BoxMap::lost(const NodeDevices& available, int64_t devices) const {
  NodeDevices out;
  if (devices <= 0) return out;
  if (slices_) {
    for (const NamedTorus& torus : tori_) {
      const auto found =
          placement::count_on_grid(usable(torus, available), placement::orientations(shape_, torus.host));
      const int64_t chips = placement::volume_of(torus.host);
      for (const TorusHost& host : torus.hosts) {
        // A host with more devices than chips in the torus keeps its part while enough are left.
        const bool out_of_it = amount_on(available, host.node) - devices < chips;
        if (found && out_of_it && found->needed[placement::index_of(torus.torus.size, host.at)]) out[host.node] = 1;
      }
    }
    return out;
  }
  const std::map<std::string, int64_t> in_domain = by_domain(available);
  for (const auto& [node, amount] : available) {
    const auto domain = domain_of_.find(node);
    if (domain == domain_of_.end()) continue;
    const int64_t before = in_domain.at(domain->second);
    const int64_t boxes = before / box_devices_ - (before - std::min(amount, devices)) / box_devices_;
    if (boxes > 0) out[node] = boxes;
  }
  return out;
}

int64_t boxes_of_fleet(const State& state, const std::vector<TopologyLevel>& levels, const model::QuotaMeter& meter) {
  const BoxMap map = BoxMap::make(state, levels, meter);
  return map.count(map.devices());
}

std::string BoxMap::text(int64_t boxes) const {
  if (slices_)
    return fmt::format("{} slice{} of {} devices", boxes, boxes == 1 ? "" : "s", placement::extent_text(shape_));
  return fmt::format("{} box{} of {} devices{}", boxes, boxes == 1 ? "" : "es", box_devices_,
                     level_.empty() ? std::string() : " of one " + level_);
}

}  // namespace heddle::engine
