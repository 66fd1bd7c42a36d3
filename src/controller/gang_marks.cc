#include "controller/gang_marks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

#include "controller/gangs.h"
#include "dialects/container.h"
#include "dialects/wire_names.h"
#include "engine/slice.h"

namespace heddle::controller {
namespace {

using Sides = std::array<int, 3>;  // chips along each axis

constexpr int64_t kCube = 4;  // chips along each side of what large slices are made of

struct Mark {
  std::string field;
  std::string value;
};

// An annotation before a label of the same name, as gang_of() reads them.
std::optional<Mark> mark_of(const model::Pod& pod, std::string_view key) {
  for (const bool annotation : {true, false}) {
    const auto& marks = annotation ? pod.meta.annotations : pod.meta.labels;
    const auto found = marks.find(std::string(key));
    if (found != marks.end() && !found->second.empty())
      return Mark{fmt::format("metadata.{}[{}]", annotation ? "annotations" : "labels", key), found->second};
  }
  return std::nullopt;
}

std::vector<std::string> check_lone(const model::Pod& pod) {
  std::vector<std::string> lines;
  for (const std::string_view key :
       {dialects::kGangSizeKey, dialects::kGangMinimumKey, dialects::kTopologyRequiredKey,
        dialects::kTopologyPreferredKey, dialects::kGangSegmentSizeKey, dialects::kGangSegmentTopologyKey}) {
    const auto mark = mark_of(pod, key);
    if (!mark || (key == dialects::kGangSizeKey && mark->value == "1")) continue;
    lines.push_back(
        fmt::format("{}: {} says something of a gang, and this pod is in none: write {} with the gang's name "
                    "and {} beside it, or leave it out",
                    mark->field, mark->value, dialects::kGangKey, dialects::kGangSizeKey));
  }
  return lines;
}

// A slice may be turned.
Sides falling(Sides sides) {
  std::sort(sides.begin(), sides.end(), std::greater<>());
  return sides;
}

bool sold(const catalog::System& system, const Sides& wanted) {
  const bool named = std::any_of(system.shapes.begin(), system.shapes.end(), [&](const std::vector<int64_t>& shape) {
    Sides sides = {1, 1, 1};
    std::copy_n(shape.begin(), std::min(shape.size(), sides.size()), sides.begin());
    return falling(sides) == falling(wanted);
  });
  // Of three axes also whatever is made of whole cubes, up to the largest (the system's notes).
  const bool of_cubes = system.host.size() == 3 &&
                        std::all_of(wanted.begin(), wanted.end(), [](const auto side) { return side % kCube == 0; });
  return named || (of_cubes && int64_t{wanted[0]} * wanted[1] * wanted[2] <= system.devices.value_or(0));
}

bool asks_for_vendor(const std::vector<dialects::ContainerRequest>& requests, const std::string& vendor) {
  const std::string wanted = fmt::format("{}-{}", dialects::kAnyClass, vendor);
  return std::any_of(requests.begin(), requests.end(), [&](const dialects::ContainerRequest& request) {
    return std::any_of(request.spec.requests.begin(), request.spec.requests.end(),
                       [&](const auto& asked) { return asked.exactly && asked.exactly->device_class == wanted; });
  });
}

std::vector<std::string> check_slice(const Mark& level, const std::vector<dialects::ContainerRequest>& requests,
                                     const catalog::Catalog& hardware) {
  const auto wanted = engine::slice_shape(level.value);
  if (!wanted) return {};  // the engine says what is wrong with it
  for (const catalog::Vendor& vendor : hardware.vendors()) {
    if (!asks_for_vendor(requests, vendor.name)) continue;
    const auto has_shapes = [](const catalog::System& system) { return !system.shapes.empty(); };
    if (std::none_of(vendor.systems.begin(), vendor.systems.end(), has_shapes)) continue;
    if (std::any_of(vendor.systems.begin(), vendor.systems.end(),
                    [&](const catalog::System& system) { return has_shapes(system) && sold(system, *wanted); }))
      continue;
    return {fmt::format("{}: {} is no shape in which {} sells slices: `heddle catalog show {}` has them", level.field,
                        level.value, vendor.title, vendor.name)};
  }
  return {};
}

}  // namespace

std::vector<std::string> check_gang_marks(const model::Pod& pod,
                                          const std::vector<dialects::ContainerRequest>& requests,
                                          const catalog::Catalog* hardware) {
  if (requests.empty() && pod.resource_claims.empty()) return {};
  if (!gang_of(pod)) return check_lone(pod);
  const auto level = mark_of(pod, dialects::kTopologyRequiredKey);
  if (hardware == nullptr || !level || !engine::is_slice(level->value)) return {};
  return check_slice(*level, requests, *hardware);
}

}  // namespace heddle::controller
