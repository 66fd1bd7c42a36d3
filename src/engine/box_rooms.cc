#include "engine/box_rooms.h"

#include <algorithm>

#include "engine/cards.h"
#include "engine/demand.h"
#include "engine/state_impl.h"

namespace heddle::engine {

bool counts(const model::QuotaMeter& meter, const std::string& vendor, const std::string& model) {
  return (meter.vendor.empty() || meter.vendor == vendor) && (meter.model.empty() || meter.model == model);
}

BoxRooms BoxRooms::look(const State& state, const std::vector<TopologyLevel>& levels,
                        const std::vector<model::QuotaMeter>& meters, const std::vector<BoxHolder>& holders) {
  std::map<std::string, std::set<DeviceKey>> borrowed;  // by node
  std::set<DeviceKey> entitled;
  for (const BoxHolder& holder : holders) {
    if (!holder.entitled && !holder.boxes) continue;
    const std::string node = model::allocated_node(*holder.allocation).value_or("");
    for (const model::DeviceResult& result : holder.allocation->results) {
      DeviceKey device{result.driver, result.pool, result.device};
      (holder.entitled ? entitled : borrowed[node]).insert(std::move(device));
    }
  }
  BoxRooms out;
  out.rooms_.resize(meters.size());
  for (size_t m = 0; m < meters.size(); ++m) {
    if (meters[m].counts != model::QuotaMeter::Counts::kBoxes) continue;
    Room& room = out.rooms_[m];
    room.size = meters[m].box_devices;
    const auto map = std::make_shared<const BoxMap>(BoxMap::make(state, levels, meters[m]));
    room.available = map->free();
    for (auto& [node, available] : room.available) {
      if (const auto lent = borrowed.find(node); lent != borrowed.end()) {
        available += std::count_if(lent->second.begin(), lent->second.end(), [&](const DeviceKey& key) {
          const allocator::DeviceInfo* device = state.inside().inventory.find(key);
          return device != nullptr && !entitled.contains(key) &&
                 counts(meters[m], attribute_text(*device, "vendor"), attribute_text(*device, "model"));
        });
      }
    }
    room.intact = map->count(room.available);
    if (model::wider_than_a_node(meters[m])) room.map = map;
  }
  return out;
}

int64_t BoxRooms::may_open(size_t meter, const std::string& node, int64_t keep) const {
  const Room& room = rooms_.at(meter);
  const auto found = room.available.find(node);
  if (room.size == 0 || room.map != nullptr || found == room.available.end()) return INT64_MAX;
  const int64_t spare = std::max<int64_t>(room.intact - keep, 0);  // boxes that may be broken
  const int64_t stay = std::max<int64_t>(found->second / room.size - spare, 0);
  return stay == 0 ? INT64_MAX : found->second - stay * room.size;
}

std::vector<BoxBudget> BoxRooms::budgets(const std::vector<model::QuotaMeter>& meters,
                                         const queueing::Amounts& keep) const {
  std::vector<BoxBudget> out;
  for (size_t m = 0; m < keep.size(); ++m) {
    if (keep[m] == 0 || rooms_[m].size == 0) continue;
    out.push_back({.box_devices = rooms_[m].size,
                   .device_class = meters[m].device_class,
                   .vendor = meters[m].vendor,
                   .model = meters[m].model,
                   .available = rooms_[m].available,
                   .spare = std::max<int64_t>(rooms_[m].intact - keep[m], 0),
                   .map = rooms_[m].map});
  }
  return out;
}

std::set<std::string> BoxRooms::nodes_kept(const queueing::Amounts& keep, int64_t devices) const {
  std::set<std::string> nodes;
  for (size_t m = 0; m < keep.size(); ++m) {
    if (keep[m] == 0) continue;
    if (rooms_[m].map != nullptr) {
      for (const auto& [node, lost] : rooms_[m].map->lost(rooms_[m].available, devices)) {
        if (lost > std::max<int64_t>(rooms_[m].intact - keep[m], 0)) nodes.insert(node);
      }
      continue;
    }
    for (const auto& [node, available] : rooms_[m].available) {
      if (devices > may_open(m, node, keep[m])) nodes.insert(node);
    }
  }
  return nodes;
}

}  // namespace heddle::engine
