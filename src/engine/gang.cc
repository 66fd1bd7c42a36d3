#include "engine/gang.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/key_text.h"
#include "engine/boxes.h"
#include "engine/gang_fill.h"
#include "engine/gang_place.h"
#include "engine/slice.h"

namespace heddle::engine {
namespace {

constexpr int64_t kAsManyAsFit = int64_t{1} << 40;

Result<void> check(const GangRequest& request) {
  if (request.members.empty()) return fail(Code::kInvalidArgument, "a gang needs members", "members");
  if (request.minimum < 1 || request.minimum > static_cast<int64_t>(request.members.size())) {
    return fail(Code::kInvalidArgument, fmt::format("is {} of {}", request.minimum, request.members.size()), "minimum");
  }
  return {};
}

}  // namespace

std::string alike_key(const GangMember& member) {
  std::string key;
  append_part(key, member.shape);
  append_part(key, member.request.pinned_node.value_or(""));
  append_parts(key, member.request.excluded_nodes);
  append_parts(key, member.request.held_nodes);
  append_parts(key, member.request.whole_nodes);
  return key;
}

GangSearch::GangSearch(const State& state, std::vector<TopologyLevel> levels, const GangRequest& request,
                       Topology topology, BoxKeeper boxes)
    : state_(state),
      levels_(std::move(levels)),
      request_(request),
      topology_(std::move(topology)),
      boxes_(std::move(boxes)) {
  for (const auto& [name, node] : state_.inside().inventory.nodes()) nodes_.push_back(&node);
}

Result<std::unique_ptr<GangSearch>> GangSearch::make(const State& state, const std::vector<TopologyLevel>& levels,
                                                     const GangRequest& request, Doors doors) {
  HEDDLE_CHECK_OK(check(request));
  HEDDLE_TRY(Topology topology,
             Topology::make(state, levels, {request.segment_level, request.preferred, request.required}));
  HEDDLE_TRY(BoxKeeper boxes, BoxKeeper::make(state.inside(), request.boxes));
  std::unique_ptr<GangSearch> search(new GangSearch(state, levels, request, std::move(topology), std::move(boxes)));
  if (!request.required.empty() && !request.preferred.empty() &&
      search->topology_.level_of(request.required) < search->topology_.level_of(request.preferred)) {
    return fail(Code::kInvalidArgument,
                fmt::format("the required level {} is narrower than the preferred one, {}", request.required,
                            request.preferred),
                "required");
  }
  HEDDLE_CHECK_OK(search->check_segments());
  HEDDLE_CHECK_OK(search->make_groups(doors));
  return search;
}

Result<void> GangSearch::make_groups(Doors doors) {
  std::map<std::string, size_t> known;
  for (size_t i = 0; i < request_.members.size(); ++i) {
    const GangMember& member = request_.members[i];
    const auto [at, added] = known.emplace(alike_key(member), groups_.size());
    if (added) {
      HEDDLE_TRY(auto group, GangGroup::make(state_.inside(), member.request, doors));
      groups_.push_back(std::move(group));
    }
    groups_[at->second]->members.push_back(i);
  }
  // Those that are tied to a node have no choice at all.
  const auto tied = [&](const std::unique_ptr<GangGroup>& group) {
    return request_.members[group->members.front()].request.pinned_node.has_value();
  };
  std::stable_sort(groups_.begin(), groups_.end(), [&](const auto& a, const auto& b) {
    return tied(a) != tied(b) ? tied(a) : a->devices() > b->devices();
  });
  return {};
}

std::vector<std::optional<size_t>> GangSearch::levels_to_try() const {
  std::vector<std::optional<size_t>> levels;
  const bool required = !request_.required.empty();
  if (!request_.preferred.empty()) {
    const size_t last = required ? topology_.level_of(request_.required) : topology_.levels().size() - 1;
    for (size_t level = topology_.level_of(request_.preferred); level <= last; ++level) levels.emplace_back(level);
  } else if (required) {
    levels.emplace_back(topology_.level_of(request_.required));
  }
  if (!required) levels.emplace_back(std::nullopt);
  return levels;
}

// Those that hold the members that are placed already, by how little is free.
std::vector<GangDomain> GangSearch::domains_of(std::optional<size_t> level) const {
  std::map<std::string, GangDomain> found;
  std::map<std::string, int64_t> fixed;
  for (size_t node = 0; node < nodes_.size(); ++node) {
    const std::string& name = level ? topology_.domain(*level, node) : std::string();
    if (level && name.empty()) continue;
    GangDomain& domain = found[name];
    domain.level = level;
    domain.name = name;
    if (!reserved_.contains(node)) {
      domain.nodes.push_back(node);
      domain.free += free_on(node);
    }
    const auto here = std::count(request_.fixed_nodes.begin(), request_.fixed_nodes.end(), nodes_[node]->view.node);
    if (here > 0) fixed[name] += here;
  }
  std::vector<GangDomain> domains;
  if (!fixed.empty()) {
    // Where most of them are: a domain may have been left by force, and the gang is to come together again.
    const auto most =
        std::max_element(fixed.begin(), fixed.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    domains.push_back(std::move(found.at(most->first)));
    return domains;
  }
  domains.reserve(found.size());
  for (auto& [name, domain] : found) domains.push_back(std::move(domain));
  std::stable_sort(domains.begin(), domains.end(),
                   [](const GangDomain& a, const GangDomain& b) { return a.free < b.free; });
  return domains;
}

// At least as many as an attempt can place.
Result<int64_t> GangSearch::bound_of(const GangDomain& domain) {
  taken_ = freed_;
  int64_t sum = 0;
  for (size_t group = 0; group < groups_.size(); ++group) {
    int64_t room = 0;
    for (const size_t node : domain.nodes) {
      HEDDLE_TRY(const int64_t here, room_on(node, group));
      room += here;
    }
    sum += std::min(room, static_cast<int64_t>(groups_[group]->members.size()));
  }
  return sum;
}

int64_t GangSearch::free_on(size_t node) const {
  const auto freed = freed_.find(node);
  return freed == freed_.end() ? free_millionths(*nodes_[node])
                               : free_millionths(*nodes_[node], freed->second.assumption);
}

Result<int64_t> GangSearch::room_on(size_t node, size_t group) {
  const auto limit = static_cast<int64_t>(groups_[group]->members.size());
  int64_t bound = limit;
  if (const auto rations = rations_.find(group); rations != rations_.end()) {
    const auto ration = rations->second.find(node);
    bound = ration == rations->second.end() ? 0 : ration->second;
  }
  if (bound <= 0) return 0;
  const auto taken = taken_.find(node);
  if (taken == taken_.end()) {
    HEDDLE_TRY(const int64_t room, groups_[group]->room(*nodes_[node]));
    return std::min(room, bound);
  }
  if (!groups_[group]->open(*nodes_[node], Leave::kNothing)) return 0;
  Overlay trial = taken->second;
  HEDDLE_TRY(const auto copies, groups_[group]->take(*nodes_[node], trial, std::min(limit, bound), Leave::kNothing));
  return static_cast<int64_t>(copies.size());
}

// Which nodes take how many, in an order in which neighbours follow each other. level: the one whose domains the nodes
// are divided by; 0 is the node.
Result<std::vector<std::pair<size_t, int64_t>>> GangSearch::distribute(size_t level, size_t group,
                                                                       const std::vector<size_t>& nodes,
                                                                       int64_t wanted) {
  std::vector<std::pair<size_t, int64_t>> out;
  std::map<std::string, size_t> by_domain;
  std::vector<GangBin> bins;
  for (const size_t node : nodes) {
    HEDDLE_TRY(const int64_t room, room_on(node, group));
    if (room == 0) continue;
    const std::string& name = topology_.domain(level, node);
    size_t at = bins.size();
    if (!name.empty()) at = by_domain.emplace(name, at).first->second;
    if (at == bins.size()) bins.emplace_back();
    bins[at].room += room;
    bins[at].free += free_on(node);
    bins[at].parts.push_back(node);
  }
  for (const auto& [bin, here] : fill_bins(bins, wanted)) {
    if (level == 0) {
      out.emplace_back(bins[bin].parts.front(), here);
      continue;
    }
    HEDDLE_TRY(const auto inside, distribute(level - 1, group, bins[bin].parts, here));
    out.insert(out.end(), inside.begin(), inside.end());
  }
  return out;
}

// With as few nodes as can be; where that breaks more boxes than may be broken, with as few boxes.
Result<GangAttempt> GangSearch::attempt(const GangDomain& domain, const std::vector<bool>& wanted) {
  HEDDLE_TRY(GangAttempt made, fill_domain(domain, wanted, Boxes::kForgotten));
  if (!boxes_.any() || boxes_.affordable(broken_so_far())) return made;
  HEDDLE_TRY(made, fill_domain(domain, wanted, Boxes::kKept));
  if (boxes_.affordable(broken_so_far())) return made;
  GangAttempt none;
  none.members.resize(request_.members.size());
  return none;
}

Result<GangAttempt> GangSearch::fill_domain(const GangDomain& domain, const std::vector<bool>& wanted, Boxes boxes) {
  GangAttempt made;
  made.members.resize(request_.members.size());
  taken_ = freed_;
  rations_.clear();
  const bool segmented = segmented_in(domain);
  if (segmented) {
    // Segments go where they break no box at all, if boxes are short.
    for (size_t group = 0; group < groups_.size() && boxes == Boxes::kKept; ++group) {
      HEDDLE_CHECK_OK(ration(group, domain.nodes, kAsManyAsFit, Spare::kLeft));
    }
    HEDDLE_CHECK_OK(fill_segments(domain, wanted, made));
    rations_.clear();
  }
  const size_t level = domain.level ? std::max<size_t>(*domain.level, 1) - 1 : topology_.levels().size() - 1;
  for (size_t group = 0; group < groups_.size(); ++group) {
    std::vector<size_t> members;
    for (const size_t member : groups_[group]->members) {
      if (wanted[member] && !(segmented && request_.members[member].segment >= 0)) members.push_back(member);
    }
    if (members.empty()) continue;
    const auto count = static_cast<int64_t>(members.size());
    if (boxes == Boxes::kKept) HEDDLE_CHECK_OK(ration(group, domain.nodes, count, Spare::kUsed));
    HEDDLE_CHECK_OK(take_members(group, level, domain.nodes, members, made));
    rations_.erase(group);
  }
  made.enough = enough(made);
  return made;
}

// These members of a group, in rank order; as many as there is room for.
Result<void> GangSearch::take_members(size_t group, size_t level, const std::vector<size_t>& nodes,
                                      const std::vector<size_t>& members, GangAttempt& made) {
  HEDDLE_TRY(const auto shares, distribute(level, group, nodes, static_cast<int64_t>(members.size())));
  size_t next = 0;
  for (const auto& [node, copies] : shares) {
    HEDDLE_TRY(auto solutions, groups_[group]->take(*nodes_[node], taken_[node], copies, Leave::kNothing));
    if (const auto rations = rations_.find(group); rations != rations_.end())
      rations->second[node] -= static_cast<int64_t>(solutions.size());
    for (allocator::Solution& solution : solutions) {
      made.members[members[next++]] = GangSpot{node, group, std::move(solution)};
      ++made.placed;
    }
  }
  return {};
}

bool GangSearch::enough(const GangAttempt& made) const {
  std::map<std::string, int64_t> missing = request_.subgroup_minimum;
  for (size_t i = 0; i < made.members.size(); ++i) {
    if (made.members[i]) --missing[request_.members[i].subgroup];
  }
  return made.placed >= request_.minimum &&
         std::all_of(missing.begin(), missing.end(), [](const auto& entry) { return entry.second <= 0; });
}

// The members that have to start at least: what the subgroups need, then the first by rank.
std::vector<bool> GangSearch::the_minimum() const {
  std::vector<bool> chosen(request_.members.size(), false);
  std::map<std::string, int64_t> missing = request_.subgroup_minimum;
  int64_t left = request_.minimum;
  for (size_t i = 0; i < chosen.size(); ++i) {
    const auto need = missing.find(request_.members[i].subgroup);
    if (need == missing.end() || need->second-- <= 0) continue;
    chosen[i] = true;
    --left;
  }
  for (size_t i = 0; i < chosen.size() && left > 0; ++i) {
    if (chosen[i]) continue;
    chosen[i] = true;
    --left;
  }
  return chosen;
}

Result<GangAttempt> GangSearch::best_attempt(const GangDomain& domain) {
  HEDDLE_TRY(GangAttempt made, attempt(domain, std::vector<bool>(request_.members.size(), true)));
  const bool elastic = request_.minimum < static_cast<int64_t>(request_.members.size());
  if (made.enough || !elastic || groups_.size() < 2) return made;
  HEDDLE_TRY(GangAttempt least, attempt(domain, the_minimum()));
  if (least.enough) return least;
  return made;
}

Result<GangOutcome> GangSearch::assigned(const GangDomain& domain, GangAttempt made, SeededRandom& random) {
  HEDDLE_CHECK_OK(bring_together(made));
  GangAssigned out;
  out.level = domain.level ? topology_.levels()[*domain.level] : std::string();
  out.domain = domain.name;
  for (const std::optional<GangSpot>& spot : made.members) {
    if (!spot) {
      out.members.emplace_back();
      continue;
    }
    Placement& placement = groups_[spot->group]->placement();
    Assigned one{.node = nodes_[spot->node]->view.node, .allocations = {}};
    for (size_t i = 0; i < placement.claims.size(); ++i) {
      HEDDLE_TRY(model::Allocation allocation, allocator::make_allocation(placement.claims[i], spot->solution, i,
                                                                          one.node, random, state_.inside().options));
      one.allocations.push_back(std::move(allocation));
    }
    out.members.emplace_back(std::move(one));
  }
  return GangOutcome(std::move(out));
}

Result<GangFound> GangSearch::find_among() {
  const auto all = static_cast<int64_t>(request_.members.size());
  GangFound found;
  for (const std::optional<size_t> level : levels_to_try()) {
    int64_t closest = -1;  // of the widest level that was tried
    for (const GangDomain& domain : domains_of(level)) {
      HEDDLE_TRY(const int64_t bound, bound_of(domain));
      if (bound > closest) {
        closest = bound;
        found.closest = domain;
      }
      if (bound < request_.minimum || (found.best && bound <= found.best->second.placed)) continue;
      HEDDLE_TRY(GangAttempt made, best_attempt(domain));
      if (!made.enough || (found.best && made.placed <= found.best->second.placed)) continue;
      const bool complete = made.placed == all;
      found.best.emplace(domain, std::move(made));
      if (complete) return found;
    }
  }
  return found;
}

Result<GangOutcome> GangSearch::run(SeededRandom& random, const std::optional<GangDomain>& first) {
  if (first) {
    HEDDLE_TRY(GangAttempt made, best_attempt(*first));
    if (made.enough) return assigned(*first, std::move(made), random);
  }
  HEDDLE_TRY(GangFound found, find());
  if (found.best) return assigned(found.best->first, std::move(found.best->second), random);
  HEDDLE_TRY(std::optional<Reason> reserved, reserve_short());
  if (reserved) return GangOutcome(Waiting{{*std::move(reserved)}});
  return explain(found.closest.value_or(GangDomain{}));
}

namespace {

// The domain that the gang would have with those that come later. Nothing: they make no difference.
Result<std::optional<GangDomain>> domain_of_all(const State& state, const std::vector<TopologyLevel>& levels,
                                                const GangRequest& request) {
  const bool anywhere = request.required.empty() && request.preferred.empty();
  if (request.later.empty() || anywhere || !request.fixed_nodes.empty()) return std::optional<GangDomain>();
  GangRequest all = request;
  all.members.insert(all.members.end(), all.later.begin(), all.later.end());
  all.later.clear();
  HEDDLE_TRY(const auto search, GangSearch::make(state, levels, all));
  HEDDLE_TRY(const GangFound found, search->find());
  if (!found.best) return std::optional<GangDomain>();
  return std::optional(found.best->first);
}

}  // namespace

Result<GangOutcome> place_gang(const State& state, const std::vector<TopologyLevel>& levels, const GangRequest& request,
                               SeededRandom& random) {
  HEDDLE_CHECK_OK(check(request));
  if (is_slice(request.required) && !request.segment_level.empty())
    return fail(Code::kInvalidArgument, "a slice is one shape: leave the segments out", "segment_level");
  if (is_slice(request.required)) return place_slice(state, request, random);
  HEDDLE_TRY(const auto search, GangSearch::make(state, levels, request));
  HEDDLE_TRY(const std::optional<GangDomain> first, domain_of_all(state, levels, request));
  return search->run(random, first);
}

}  // namespace heddle::engine
