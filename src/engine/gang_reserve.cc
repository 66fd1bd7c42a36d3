// Gangs beside nodes that levels reserve (reserve.h): those that are empty when what is assumed to end has ended.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/gang_place.h"
#include "engine/reserve.h"

namespace heddle::engine {

void GangSearch::keep_reserve() {
  reserved_.clear();
  if (request_.reserve == Reserve::kOpen) return;
  const auto empty = [&](size_t node) {
    const auto freed = freed_.find(node);
    return freed == freed_.end() ? is_empty(*nodes_[node]) : is_empty(*nodes_[node], freed->second.assumption);
  };
  for (size_t level = 1; level < topology_.levels().size(); ++level) {
    const TopologyLevel& spec = topology_.spec(level);
    if (spec.reserve_nodes <= 0) continue;
    std::map<std::string, int64_t> kept;
    for (size_t node = nodes_.size(); node-- > 0;) {
      const std::string& domain = topology_.domain(level, node);
      if (domain.empty() || kept[domain] == spec.reserve_nodes) continue;
      if (!empty(node) || !may_be_spare(*nodes_[node], state_.inside().options)) continue;
      ++kept[domain];
      ReserveUse& use = reserved_.emplace(node, spec.reserve_use).first->second;
      use = std::max(use, spec.reserve_use);
    }
  }
}

// First as if the reserve were not there, then with what of it is for those that fit nowhere else.
Result<GangFound> GangSearch::find() {
  keep_reserve();
  HEDDLE_TRY(GangFound found, find_among());
  if (found.best || reserved_.empty()) return found;
  const auto lent = [](const auto& node) { return node.second == ReserveUse::kWhenNeeded; };
  if (std::erase_if(reserved_, lent) == 0) return found;
  return find_among();
}

// With nothing found: whether that is for the reserve alone.
Result<std::optional<Reason>> GangSearch::reserve_short() {
  if (reserved_.empty()) return std::optional<Reason>();
  const auto reserved = std::exchange(reserved_, {});
  HEDDLE_TRY(const GangFound found, find_among());
  reserved_ = reserved;
  if (!found.best) return std::optional<Reason>();
  std::string kept;
  for (size_t level = 1; level < topology_.levels().size(); ++level) {
    const TopologyLevel& spec = topology_.spec(level);
    if (spec.reserve_nodes <= 0 || spec.reserve_use == ReserveUse::kWhenNeeded) continue;
    kept += fmt::format("{}{} empty node{} of each {}", kept.empty() ? "" : " and ", spec.reserve_nodes,
                        spec.reserve_nodes == 1 ? "" : "s", spec.name);
  }
  return std::optional(
      Reason{"Reserve", fmt::format("{}; {} has room, but not beside what is kept for nodes that fail: {}", ask_text(),
                                    place_text(found.best->first), kept)});
}

}  // namespace heddle::engine
