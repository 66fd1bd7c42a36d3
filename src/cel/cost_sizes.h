// How large what is reached through `device` can be. Internal to the cost estimate.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "cel/cost_range.h"

namespace heddle::cel {

// How a value is reached: a variable, then names of fields or "@values", "@keys", "@items". Upstream appends to slices
// that may share their memory, so that a later step can replace the last step of an earlier path; what is refused
// depends on it, so a step appended here shares in the same way.
class AccessPath {
 public:
  AccessPath() = default;
  static AccessPath of(std::string_view variable) { return AccessPath().with(variable); }
  [[nodiscard]] AccessPath with(std::string_view step) const;
  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] std::string_view at(size_t index) const { return (*steps_)[index]; }

 private:
  std::shared_ptr<std::vector<std::string_view>> steps_;  // its size is the capacity of the slice
  size_t size_ = 0;
};

// Nothing: the path does not start at the device, or leaves what is known of it.
std::optional<Span> size_of_path(const AccessPath& path);

}  // namespace heddle::cel
