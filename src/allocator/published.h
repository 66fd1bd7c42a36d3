// A device as it is kept: what equal devices have in common once for all of them, and the few attributes of its own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/device.h"

namespace heddle::allocator {

struct DeviceTemplate {
  model::Device common;                // without a name, and without the attributes of own_names
  std::vector<std::string> own_names;  // sorted: attributes of which each device has a value of its own
};

struct PublishedDevice {
  std::string name;
  std::shared_ptr<const DeviceTemplate> shared;
  std::vector<model::AttributeValue> own = {};  // as own_names

  // As model::find_attribute().
  [[nodiscard]] const model::AttributeValue* find_attribute(const std::string& driver,
                                                            const std::string& attribute) const;

 private:
  [[nodiscard]] const model::AttributeValue* exact(const std::string& attribute) const;
};

}  // namespace heddle::allocator
