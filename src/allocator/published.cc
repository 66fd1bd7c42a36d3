#include "allocator/published.h"

#include <algorithm>
#include <string_view>

namespace heddle::allocator {
namespace {

// The other way to write the name of an attribute of the driver's own domain: "d/x" for "x", and the reverse.
std::string other_name(const std::string& driver, const std::string& name) {
  const size_t slash = name.find('/');
  if (slash == std::string::npos) return driver + "/" + name;
  return std::string_view(name).substr(0, slash) == driver ? name.substr(slash + 1) : std::string();
}

}  // namespace

const model::AttributeValue* PublishedDevice::exact(const std::string& attribute) const {
  const std::vector<std::string>& names = shared->own_names;
  const auto place = std::lower_bound(names.begin(), names.end(), attribute);
  if (place != names.end() && *place == attribute) return &own[static_cast<size_t>(place - names.begin())];
  const auto found = shared->common.attributes.find(attribute);
  return found == shared->common.attributes.end() ? nullptr : &found->second;
}

const model::AttributeValue* PublishedDevice::find_attribute(const std::string& driver,
                                                             const std::string& attribute) const {
  if (const model::AttributeValue* value = exact(attribute)) return value;
  const std::string other = other_name(driver, attribute);
  return other.empty() ? nullptr : exact(other);
}

}  // namespace heddle::allocator
