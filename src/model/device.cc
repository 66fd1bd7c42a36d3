#include "model/device.h"

#include <string_view>

namespace heddle::model {

const AttributeValue* find_attribute(const Device& device, const std::string& driver, const std::string& name) {
  const auto exact = device.attributes.find(name);
  if (exact != device.attributes.end()) return &exact->second;
  const size_t slash = name.find('/');
  if (slash == std::string::npos) {
    const auto qualified = device.attributes.find(driver + "/" + name);
    return qualified == device.attributes.end() ? nullptr : &qualified->second;
  }
  if (std::string_view(name).substr(0, slash) != driver) return nullptr;
  const auto bare = device.attributes.find(name.substr(slash + 1));
  return bare == device.attributes.end() ? nullptr : &bare->second;
}

}  // namespace heddle::model
