// Gangs in segments: members of consecutive ranks that lie in one domain of a level each, whole segments or none.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "engine/gang_fill.h"
#include "engine/gang_place.h"

namespace heddle::engine {
namespace {

// Segments of one shape take the same from a domain.
std::map<size_t, int64_t> shape_of(const GangSegment& segment) {
  std::map<size_t, int64_t> shape;
  for (const auto& [group, members] : segment.parts) shape[group] = static_cast<int64_t>(members.size());
  return shape;
}

}  // namespace

Result<void> GangSearch::check_segments() const {
  const bool any = std::any_of(request_.members.begin(), request_.members.end(),
                               [](const GangMember& member) { return member.segment >= 0; });
  if (any && request_.segment_level.empty())
    return fail(Code::kInvalidArgument, "members of segments need a level for them", "segment_level");
  return {};
}

// A domain of the level of segments, or of a narrower one, holds all of them by itself.
bool GangSearch::segmented_in(const GangDomain& domain) const {
  if (request_.segment_level.empty()) return false;
  return !domain.level || *domain.level > topology_.level_of(request_.segment_level);
}

// By number; only those members that are wanted.
std::vector<GangSegment> GangSearch::segments_of(const std::vector<bool>& wanted) const {
  std::map<int64_t, GangSegment> found;
  for (size_t group = 0; group < groups_.size(); ++group) {
    for (const size_t member : groups_[group]->members) {
      const int64_t number = request_.members[member].segment;
      if (!wanted[member] || number < 0) continue;
      GangSegment& segment = found[number];
      segment.number = number;
      segment.parts[group].push_back(member);
    }
  }
  std::vector<GangSegment> out;
  out.reserve(found.size());
  for (auto& [number, segment] : found) out.push_back(std::move(segment));
  return out;
}

// The domains of the level of segments among these nodes.
std::vector<GangDomain> GangSearch::segment_domains(const std::vector<size_t>& nodes) const {
  const size_t level = topology_.level_of(request_.segment_level);
  std::map<std::string, GangDomain> found;
  for (const size_t node : nodes) {
    const std::string& name = topology_.domain(level, node);
    if (name.empty()) continue;
    GangDomain& domain = found[name];
    domain.level = level;
    domain.name = name;
    domain.nodes.push_back(node);
    domain.free += free_on(node);
  }
  std::vector<GangDomain> out;
  out.reserve(found.size());
  for (auto& [name, domain] : found) out.push_back(std::move(domain));
  return out;
}

// Where members of the segment are already; empty: nowhere.
std::string GangSearch::home_of(int64_t segment) const {
  const auto fixed = request_.fixed_segments.find(segment);
  if (fixed == request_.fixed_segments.end()) return {};
  const size_t level = topology_.level_of(request_.segment_level);
  std::map<std::string, int64_t> members;
  for (const std::string& node : fixed->second) {
    const auto at = std::lower_bound(topology_.nodes().begin(), topology_.nodes().end(), node);
    if (at == topology_.nodes().end() || *at != node) continue;
    const std::string& name = topology_.domain(level, static_cast<size_t>(at - topology_.nodes().begin()));
    if (!name.empty()) ++members[name];
  }
  const auto most = std::max_element(members.begin(), members.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == members.end() ? std::string() : most->first;
}

Result<void> GangSearch::take_segment(const GangSegment& segment, const GangDomain& domain, GangAttempt& made) {
  const size_t level = std::max<size_t>(*domain.level, 1) - 1;
  for (const auto& [group, members] : segment.parts) {
    HEDDLE_CHECK_OK(take_members(group, level, domain.nodes, members, made));
  }
  return {};
}

// How many segments like this one the domain takes, of what is left of it.
Result<int64_t> GangSearch::segments_in(const GangDomain& domain, const GangSegment& like, int64_t limit) {
  if (like.parts.size() == 1) {
    const auto& [group, members] = *like.parts.begin();
    int64_t room = 0;
    for (const size_t node : domain.nodes) {
      HEDDLE_TRY(const int64_t here, room_on(node, group));
      room += here;
    }
    return std::min(limit, room / static_cast<int64_t>(members.size()));
  }
  // Members of several shapes are tried, and taken back.
  const auto taken = taken_;
  const auto rations = rations_;
  GangAttempt trial;
  trial.members.resize(request_.members.size());
  const auto all = std::accumulate(like.parts.begin(), like.parts.end(), int64_t{0}, [](int64_t sum, const auto& part) {
    return sum + static_cast<int64_t>(part.second.size());
  });
  int64_t fit = 0;
  Result<void> done;
  while (fit < limit) {
    trial.placed = 0;
    done = take_segment(like, domain, trial);
    if (!done || trial.placed < all) break;
    ++fit;
  }
  taken_ = taken;
  rations_ = rations;
  HEDDLE_CHECK_OK(done);
  return fit;
}

// Which domains take how many of so many segments: as few domains of each wider level as can be, neighbours together.
std::vector<std::pair<size_t, int64_t>> GangSearch::spread(size_t level, const std::vector<GangDomain>& domains,
                                                           const std::vector<int64_t>& rooms,
                                                           const std::vector<size_t>& among, int64_t wanted) const {
  std::vector<std::pair<size_t, int64_t>> out;
  std::map<std::string, size_t> by_name;
  std::vector<GangBin> bins;
  const bool narrowest = level <= *domains[among.front()].level;
  for (const size_t i : among) {
    if (rooms[i] == 0) continue;
    const std::string& name = narrowest ? std::string() : topology_.domain(level, domains[i].nodes.front());
    size_t at = bins.size();
    if (!name.empty()) at = by_name.emplace(name, at).first->second;
    if (at == bins.size()) bins.emplace_back();
    bins[at].room += rooms[i];
    bins[at].free += domains[i].free;
    bins[at].parts.push_back(i);
  }
  for (const auto& [bin, here] : fill_bins(bins, wanted)) {
    if (narrowest) {
      out.emplace_back(bins[bin].parts.front(), here);
      continue;
    }
    const auto inside = spread(level - 1, domains, rooms, bins[bin].parts, here);
    out.insert(out.end(), inside.begin(), inside.end());
  }
  return out;
}

// Segments of one shape.
Result<void> GangSearch::place_alike(const GangDomain& domain, const std::vector<GangDomain>& parts,
                                     const std::vector<const GangSegment*>& segments, GangAttempt& made) {
  if (parts.empty()) return {};
  const auto wanted = static_cast<int64_t>(segments.size());
  std::vector<int64_t> rooms(parts.size(), 0);
  for (size_t i = 0; i < parts.size(); ++i) {
    HEDDLE_TRY(rooms[i], segments_in(parts[i], *segments.front(), wanted));
  }
  std::vector<size_t> all(parts.size());
  std::iota(all.begin(), all.end(), size_t{0});
  const size_t level = domain.level ? std::max<size_t>(*domain.level, 1) - 1 : topology_.levels().size() - 1;
  size_t next = 0;
  for (const auto& [part, count] : spread(level, parts, rooms, all, wanted)) {
    for (int64_t i = 0; i < count; ++i) HEDDLE_CHECK_OK(take_segment(*segments[next++], parts[part], made));
  }
  return {};
}

Result<void> GangSearch::fill_segments(const GangDomain& domain, const std::vector<bool>& wanted, GangAttempt& made) {
  const std::vector<GangSegment> segments = segments_of(wanted);
  const std::vector<GangDomain> parts = segment_domains(domain.nodes);
  // Large ones first, those that are alike together.
  std::map<std::pair<int64_t, std::map<size_t, int64_t>>, std::vector<const GangSegment*>> by_shape;
  for (const GangSegment& segment : segments) {
    const std::string home = home_of(segment.number);
    if (home.empty()) {
      int64_t size = 0;
      for (const auto& [group, members] : segment.parts)
        size += static_cast<int64_t>(members.size()) * std::max<int64_t>(groups_[group]->devices(), 1);
      by_shape[{-size, shape_of(segment)}].push_back(&segment);
      continue;
    }
    for (const GangDomain& part : parts) {
      if (part.name != home) continue;
      HEDDLE_TRY(const int64_t room, segments_in(part, segment, 1));
      if (room > 0) HEDDLE_CHECK_OK(take_segment(segment, part, made));
    }
  }
  for (const auto& [shape, alike] : by_shape) HEDDLE_CHECK_OK(place_alike(domain, parts, alike, made));
  return {};
}

// --- explanations ---

std::string GangSearch::segments_text() const {
  if (request_.segment_level.empty()) return {};
  return fmt::format(", in segments of {} that lie in one {} each", request_.segment_size,
                     topology_.levels()[topology_.level_of(request_.segment_level)]);
}

// Not even with nothing else running; of segments whose members are alike.
Result<std::optional<Reason>> GangSearch::segments_never() {
  if (request_.segment_level.empty()) return std::optional<Reason>();
  const std::vector<GangSegment> segments = segments_of(the_minimum());
  const auto size_of = [](const GangSegment& segment) {
    return segment.parts.size() == 1 ? segment.parts.begin()->second.size() : size_t{0};
  };
  const auto largest = std::max_element(segments.begin(), segments.end(),
                                        [&](const auto& a, const auto& b) { return size_of(a) < size_of(b); });
  if (largest == segments.end() || size_of(*largest) == 0) return std::optional<Reason>();
  const auto wanted = static_cast<int64_t>(size_of(*largest));
  const auto alike = std::count_if(segments.begin(), segments.end(),
                                   [&](const GangSegment& segment) { return shape_of(segment) == shape_of(*largest); });
  const size_t group = largest->parts.begin()->first;
  const std::string& level = topology_.levels()[topology_.level_of(request_.segment_level)];
  int64_t best = -1;  // members that one domain takes
  int64_t most = 0;   // segments that fit together
  std::string where;
  for (const GangDomain& domain : domains_of(levels_to_try().back())) {
    int64_t together = 0;
    for (const GangDomain& part : segment_domains(domain.nodes)) {
      HEDDLE_TRY(const int64_t room, count(part, group, Leave::kTaken));
      together += room / wanted;
      if (room <= best) continue;
      best = room;
      where = part.name;
    }
    most = std::max(most, together);
  }
  if (best == 0 || most >= alike) return std::optional<Reason>();  // a member alone has nowhere to go; or it may fit
  if (best < 0) {
    return std::optional(
        Reason{"Topology", fmt::format("{}, but no node says in which {} it is; label the nodes", ask_text(), level)});
  }
  if (best < wanted) {
    return std::optional(
        Reason{"Gang", fmt::format("{}; {} {}, the largest, has room for {} even when nothing else runs", ask_text(),
                                   level, where, best)});
  }
  return std::optional(Reason{
      "Gang",
      fmt::format("{}; there is room for {} of its {} segments even when nothing else runs", ask_text(), most, alike)});
}

// Where its members would fit if they had no segments.
Result<std::optional<Reason>> GangSearch::segments_short(const GangDomain& domain) {
  if (!segmented_in(domain)) return std::optional<Reason>();
  const std::vector<bool> wanted = the_minimum();
  HEDDLE_TRY(const int64_t room, bound_of(domain));
  if (room < request_.minimum) return std::optional<Reason>();
  HEDDLE_TRY(const GangAttempt made, fill_domain(domain, wanted, Boxes::kForgotten));
  const std::vector<GangSegment> segments = segments_of(wanted);
  const GangSegment* next = nullptr;
  int64_t placed = 0;
  for (const GangSegment& segment : segments) {
    const bool whole = std::all_of(segment.parts.begin(), segment.parts.end(), [&](const auto& part) {
      return std::all_of(part.second.begin(), part.second.end(),
                         [&](size_t member) { return made.members[member].has_value(); });
    });
    placed += whole ? 1 : 0;
    if (!whole && next == nullptr) next = &segment;
  }
  if (next == nullptr) return std::optional<Reason>();
  const std::string home = home_of(next->number);
  int64_t most = -1;
  std::string where;
  for (const GangDomain& part : segment_domains(domain.nodes)) {
    if (!home.empty() && part.name != home) continue;
    int64_t takes = 0;
    for (const auto& [group, members] : next->parts) {
      int64_t here = 0;
      for (const size_t node : part.nodes) {
        HEDDLE_TRY(const int64_t room_here, room_on(node, group));
        here += room_here;
      }
      takes += std::min(here, static_cast<int64_t>(members.size()));
    }
    if (takes <= most) continue;
    most = takes;
    where = place_text(part);
  }
  int64_t size = 0;
  for (const auto& [group, members] : next->parts) size += static_cast<int64_t>(members.size());
  return std::optional(
      Reason{"Capacity",
             fmt::format("{}; {} has room for {} of its {} segments: of the next one {} takes {} of {} members; it "
                         "would fit without segments",
                         ask_text(), place_text(domain), placed, segments.size(), where, most, size)});
}
}  // namespace heddle::engine
