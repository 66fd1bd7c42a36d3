#include "engine/tori.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>

#include "engine/topology.h"

namespace heddle::engine {
namespace {

using placement::Extent;

constexpr const char* kTorusLabel = "heddle.dev/torus";
constexpr const char* kShapeLabel = "heddle.dev/torus-shape";
constexpr const char* kHostLabel = "heddle.dev/torus-host";
constexpr const char* kPositionLabel = "heddle.dev/torus-position";
constexpr const char* kWrapsLabel = "heddle.dev/torus-wraps";

std::vector<TopologyLevel> torus_levels() {
  return {
      {"torus", {kTorusLabel}, {"torus"}},           {"torusShape", {kShapeLabel}, {"torusShape"}},
      {"torusHost", {kHostLabel}, {"torusHost"}},    {"torusPosition", {kPositionLabel}, {"torusPosition"}},
      {"torusWraps", {kWrapsLabel}, {"torusWraps"}},
  };
}

// "3-0-12"; fewer numbers: the other axes are 0.
std::optional<Extent> parse_position(std::string_view text) {
  Extent at = {0, 0, 0};
  const char* from = text.data();
  const char* const end = from + text.size();
  for (int& axis : at) {
    const auto [next, error] = std::from_chars(from, end, axis);
    if (error != std::errc() || axis < 0) return std::nullopt;
    if (next == end) return at;
    if (*next != '-') return std::nullopt;
    from = next + 1;
  }
  return std::nullopt;
}

}  // namespace

const TorusHost* NamedTorus::find(const Extent& at) const {
  const auto found = std::find_if(hosts.begin(), hosts.end(), [&](const TorusHost& one) { return one.at == at; });
  return found == hosts.end() ? nullptr : &*found;
}

Result<std::vector<std::map<std::string, std::string>>> torus_labels(const TorusPlan& plan) {
  const auto shape = placement::parse_extent(plan.shape);
  const auto host = placement::parse_extent(plan.host);
  if (!shape) return fail(shape.error().code, shape.error().message, "shape");
  if (!host) return fail(host.error().code, host.error().message, "host");
  placement::Torus torus;
  for (size_t axis = 0; axis < 3; ++axis) {
    if ((*shape)[axis] % (*host)[axis] != 0)
      return fail(Code::kInvalidArgument, fmt::format("{} is not made of whole hosts of {}", plan.shape, plan.host));
    torus.size[axis] = (*shape)[axis] / (*host)[axis];
  }
  if (placement::volume_of(torus.size) > placement::kMostHosts)
    return fail(Code::kInvalidArgument, fmt::format("has more than {} hosts", placement::kMostHosts), "shape");
  std::vector<std::map<std::string, std::string>> labels;
  for (const Extent& at : placement::hosts_of(torus, {{0, 0, 0}, torus.size})) {
    labels.push_back({{kTorusLabel, plan.name},
                      {kShapeLabel, plan.shape},
                      {kHostLabel, plan.host},
                      {kPositionLabel, fmt::format("{}-{}-{}", at[0], at[1], at[2])}});
    if (plan.wraps) labels.back()[kWrapsLabel] = "true";
  }
  return labels;
}

Result<std::vector<NamedTorus>> find_tori(const State& state) {
  HEDDLE_TRY(const Topology topology, Topology::make(state, torus_levels(), {}));
  std::map<std::string, NamedTorus> by_name;
  for (size_t node = 0; node < topology.nodes().size(); ++node) {
    const auto said = [&](const char* level) { return topology.domain(topology.level_of(level), node); };
    const auto shape = placement::parse_extent(said("torusShape"));
    const auto host = placement::parse_extent(said("torusHost"));
    const auto at = parse_position(said("torusPosition"));
    if (said("torus").empty() || !shape || !host || !at) continue;
    NamedTorus& torus = by_name[said("torus")];
    const bool first = torus.name.empty();
    if (first) {
      torus.name = said("torus");
      torus.host = *host;
      torus.torus.wraps = said("torusWraps") == "true";
      bool whole = true;
      for (size_t axis = 0; axis < 3; ++axis) {
        whole = whole && (*shape)[axis] % (*host)[axis] == 0;
        torus.torus.size[axis] = (*shape)[axis] / (*host)[axis];
      }
      const int64_t hosts = placement::volume_of(torus.torus.size);
      if (!whole || hosts > placement::kMostHosts) torus.torus.size = {0, 0, 0};
      torus.there.assign(static_cast<size_t>(placement::volume_of(torus.torus.size)), false);
    }
    bool inside = true;
    for (size_t axis = 0; axis < 3; ++axis) inside = inside && (*at)[axis] < torus.torus.size[axis];
    // Two hosts at one place: the first by name counts, the other has none.
    if (!inside || torus.there[placement::index_of(torus.torus.size, *at)]) continue;
    torus.there[placement::index_of(torus.torus.size, *at)] = true;
    torus.hosts.push_back({topology.nodes()[node], *at});
  }
  std::vector<NamedTorus> tori;
  for (auto& [name, torus] : by_name) {
    if (!torus.hosts.empty()) tori.push_back(std::move(torus));
  }
  return tori;
}

}  // namespace heddle::engine
