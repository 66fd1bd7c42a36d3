#include "cel/cost_sizes.h"

#include <algorithm>

namespace heddle::cel {
namespace {

// What the API allows (k8s.io/api v0.37.2 resource/v1/types.go).
enum class Place : uint8_t {
  kDevice,
  kDriver,
  kShared,  // allowMultipleAllocations
  kDomains,
  kAttributes,
  kAttribute,
  kCapacityDomains,
  kCapacities,
  kCapacity,
  kDomain,
  kId,
};

uint64_t largest(Place place) {
  switch (place) {
    case Place::kDevice:
    case Place::kCapacity:
      return 0;
    case Place::kShared:
      return 1;
    case Place::kDomains:
    case Place::kAttributes:
    case Place::kCapacityDomains:
    case Place::kCapacities:
    case Place::kId:
      return 32;
    case Place::kDriver:
    case Place::kDomain:
      return 63;
    case Place::kAttribute:
      return 64;
  }
  return 0;
}

std::optional<Place> element_of(Place place) {
  switch (place) {
    case Place::kDomains:
      return Place::kAttributes;
    case Place::kAttributes:
      return Place::kAttribute;
    case Place::kCapacityDomains:
      return Place::kCapacities;
    case Place::kCapacities:
      return Place::kCapacity;
    default:
      return std::nullopt;
  }
}

std::optional<Place> key_of(Place place) {
  if (place == Place::kDomains || place == Place::kCapacityDomains) return Place::kDomain;
  if (place == Place::kAttributes || place == Place::kCapacities) return Place::kId;
  return std::nullopt;
}

std::optional<Place> step_from(Place place, std::string_view step) {
  if (step == "@items" || step == "@values") return element_of(place);
  if (step == "@keys") return key_of(place);
  if (place == Place::kAttributes) return Place::kAttribute;  // whatever its name
  if (place != Place::kDevice) return std::nullopt;
  if (step == "driver") return Place::kDriver;
  if (step == "attributes") return Place::kDomains;
  if (step == "capacity") return Place::kCapacityDomains;
  if (step == "allowMultipleAllocations") return Place::kShared;
  return std::nullopt;
}

}  // namespace

AccessPath AccessPath::with(std::string_view step) const {
  AccessPath longer;
  longer.size_ = size_ + 1;
  const size_t capacity = steps_ ? steps_->size() : 0;
  if (size_ < capacity) {
    longer.steps_ = steps_;
  } else {
    longer.steps_ = std::make_shared<std::vector<std::string_view>>(std::max<size_t>(1, capacity * 2));
    if (steps_) std::copy_n(steps_->begin(), size_, longer.steps_->begin());
  }
  (*longer.steps_)[size_] = step;
  return longer;
}

std::optional<Span> size_of_path(const AccessPath& path) {
  if (path.size() == 0 || path.at(0) != "device") return std::nullopt;
  Place place = Place::kDevice;
  for (size_t i = 1; i < path.size(); ++i) {
    const auto next = step_from(place, path.at(i));
    if (!next) return std::nullopt;
    place = *next;
  }
  return Span{0, largest(place)};
}

}  // namespace heddle::cel
