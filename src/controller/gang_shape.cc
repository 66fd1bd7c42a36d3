#include "controller/gang_shape.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <vector>

namespace heddle::controller {

using Part = MemberStanding::Part;

std::set<std::string> core_members(const Unit& unit, const StandingOf& standing_of) {
  std::set<std::string> chosen;
  std::set<std::string> ask_nothing;
  std::vector<std::tuple<int64_t, size_t, std::string>> others;  // since, rank
  for (size_t rank = 0; rank < unit.members.size(); ++rank) {
    const std::string& key = unit.members[rank];
    const MemberStanding standing = standing_of(key);
    if (standing.part == Part::kAsksNothing) ask_nothing.insert(key);
    if (standing.part == Part::kCore) chosen.insert(key);
    if (standing.part != Part::kOpen) continue;
    const int64_t since = standing.since ? standing.since->unix_nanos : std::numeric_limits<int64_t>::max();
    others.emplace_back(since, rank, key);
  }
  std::sort(others.begin(), others.end());
  const auto all = static_cast<int64_t>(chosen.size() + others.size());
  const int64_t outside = static_cast<int64_t>(unit.members.size()) - all;
  const bool unclear = unit.blocked && chosen.empty();
  const int64_t wanted =
      unclear ? all : std::clamp<int64_t>(unit.minimum - unit.succeeded - outside, std::min<int64_t>(all, 1), all);
  for (const Subgroup& subgroup : unit.subgroups) {
    const std::set<std::string> members(subgroup.members.begin(), subgroup.members.end());
    int64_t missing = subgroup.minimum - std::count_if(members.begin(), members.end(), [&](const std::string& key) {
                        return chosen.contains(key) || ask_nothing.contains(key);
                      });
    for (const auto& [since, rank, key] : others) {
      if (missing <= 0) break;
      if (members.contains(key) && chosen.insert(key).second) --missing;
    }
  }
  for (const auto& [since, rank, key] : others) {
    if (static_cast<int64_t>(chosen.size()) >= wanted) break;
    chosen.insert(key);
  }
  return chosen;
}

bool starts_one_by_one(const Unit& unit) {
  return !unit.blocked && unit.minimum <= 1 &&
         std::all_of(unit.subgroups.begin(), unit.subgroups.end(),
                     [](const Subgroup& subgroup) { return subgroup.minimum <= 1; });
}

engine::GangRequest gang_request_of(const Unit& unit, const std::function<bool(const std::string&)>& has_all,
                                    GangPart part) {
  engine::GangRequest request;
  request.name = unit.name;
  request.required = unit.required;
  request.preferred = unit.preferred;
  request.segment_level = unit.segment_level;
  request.segment_size = unit.segment_size;
  for (const Subgroup& subgroup : unit.subgroups) {
    const int64_t missing = subgroup.minimum - std::count_if(subgroup.members.begin(), subgroup.members.end(), has_all);
    if (missing > 0 && part == GangPart::kCore) request.subgroup_minimum[subgroup.name] = missing;
  }
  return request;
}

std::map<std::string, MemberMark> marks_of(const Unit& unit) {
  std::map<std::string, MemberMark> marks;
  for (const std::string& key : unit.members) marks[key];
  for (const auto& [key, segment] : unit.segment_numbers()) marks[key].segment = segment;
  for (const Subgroup& subgroup : unit.subgroups) {
    for (const std::string& key : subgroup.members) marks[key].subgroup = subgroup.name;
  }
  return marks;
}

}  // namespace heddle::controller
