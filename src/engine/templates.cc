#include "engine/templates.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>

#include "codec/codec.h"

namespace heddle::engine {
namespace {

using allocator::DeviceTemplate;
using allocator::PublishedDevice;

// Names that all devices have, with values that are not all the same; of a device alone in its slice, all names.
std::vector<std::string> own_names_of(const std::vector<model::Device>& devices) {
  std::vector<std::string> names;
  for (const auto& [name, value] : devices.front().attributes) {
    bool everywhere = true;
    bool differs = devices.size() == 1;
    for (const model::Device& device : devices) {
      const auto found = device.attributes.find(name);
      everywhere = everywhere && found != device.attributes.end();
      differs = differs || (everywhere && found->second != value);
    }
    if (everywhere && differs) names.push_back(name);
  }
  return names;
}

}  // namespace

std::vector<PublishedDevice> Templates::take(std::vector<model::Device> devices) {
  std::vector<PublishedDevice> result;
  if (devices.empty()) return result;
  result.reserve(devices.size());
  const std::vector<std::string> names = own_names_of(devices);
  for (model::Device& device : devices) {
    PublishedDevice published{.name = std::move(device.name), .shared = nullptr};
    device.name.clear();
    published.own.reserve(names.size());
    for (const std::string& name : names) {
      const auto found = device.attributes.find(name);
      published.own.push_back(std::move(found->second));
      device.attributes.erase(found);
    }
    published.shared = intern({.common = std::move(device), .own_names = names});
    result.push_back(std::move(published));
  }
  return result;
}

std::shared_ptr<const DeviceTemplate> Templates::with_taints(const DeviceTemplate& device,
                                                             const std::vector<model::Taint>& taints) {
  DeviceTemplate made = device;
  made.common.taints.insert(made.common.taints.end(), taints.begin(), taints.end());
  return intern(std::move(made));
}

std::shared_ptr<const DeviceTemplate> Templates::intern(DeviceTemplate made) {
  std::string text = codec::device_json(made.common);
  for (const std::string& name : made.own_names) text += "\n" + name;
  const size_t hash = std::hash<std::string>{}(text);
  const auto [begin, end] = known_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    auto known = it->second.lock();
    if (known && known->common == made.common && known->own_names == made.own_names) return known;
  }
  if (known_.size() >= sweep_at_) {
    std::erase_if(known_, [](const auto& entry) { return entry.second.expired(); });
    constexpr size_t kLeast = 256;
    sweep_at_ = std::max(kLeast, known_.size() * 2);
  }
  auto kept = std::make_shared<const DeviceTemplate>(std::move(made));
  known_.emplace(hash, kept);
  return kept;
}

}  // namespace heddle::engine
