// How a unit is asked for, of the queues and of the engine, whoever asks: which members it cannot start without, and
// what is said of a gang besides its members. Pure; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/clock.h"
#include "controller/units.h"
#include "engine/gang.h"

namespace heddle::controller {

// What a member is to its gang just now.
struct MemberStanding {
  enum class Part {
    kAsksNothing,  // a launcher
    kLeaving,      // on its way out: no part of what starts
    kOpen,
    kCore,  // one of those that it started with
  };
  Part part = Part::kOpen;
  std::optional<Time> since;  // it has had devices; nothing: it has none
};
using StandingOf = std::function<MemberStanding(const std::string& pod_key)>;

// The members that the gang cannot start without: those of the core, then those with devices, oldest first, then rank.
// Of a blocked one nothing is tried, and all belong together.
std::set<std::string> core_members(const Unit& unit, const StandingOf& standing_of);

// As frameworks do whose sizes are not known, and gangs with a minimum of one: nobody waits for the others.
bool starts_one_by_one(const Unit& unit);

// A request without members: name, levels and segments. has_all: the member asks for no more. What the subgroups still
// need is said where the gang starts as one.
enum class GangPart { kCore, kOneMember };
engine::GangRequest gang_request_of(const Unit& unit, const std::function<bool(const std::string& pod_key)>& has_all,
                                    GangPart part);

struct MemberMark {
  std::string subgroup;
  int64_t segment = -1;
};
// By pod key.
std::map<std::string, MemberMark> marks_of(const Unit& unit);

}  // namespace heddle::controller
