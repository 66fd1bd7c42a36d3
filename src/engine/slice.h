// Gangs that are a slice of a torus: the hosts of one axis-aligned cuboid, all of them or none.
//
// A gang asks for it by the required level "slice-4x4x8": chips along each axis, in any orientation of whole hosts. Its
// members are as many as the slice has hosts, one a host; ranks follow the hosts, the last axis fastest. Members that
// are placed already keep their hosts, so the others go into what is missing of their cuboid.
//
// Where a host lies is said by labels of its node, else by attributes that all its devices agree on:
//   heddle.dev/torus           torus          which torus
//   heddle.dev/torus-shape     torusShape     chips along its axes, "16x16x16"
//   heddle.dev/torus-host      torusHost      chips of one host, "2x2x1"
//   heddle.dev/torus-position  torusPosition  of the host, counted in hosts from 0, "3-0-12"
//   heddle.dev/torus-wraps     torusWraps     "true": opposite faces are joined
//
// Of the cuboids that are free the one that leaves the largest free one (placement/cuboid.h), in the torus with the
// fewest free hosts that has one. Pure, deterministic.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "engine/eviction.h"
#include "engine/gang.h"
#include "placement/cuboid.h"

namespace heddle::engine {

[[nodiscard]] bool is_slice(std::string_view level);
// Its chips. Errors: kInvalidArgument for what is no slice, with the form to write.
[[nodiscard]] Result<placement::Extent> slice_shape(std::string_view level);

// For place_gang(). Errors: kInvalidArgument for a slice that cannot be read, and beside a preferred level.
Result<GangOutcome> place_slice(const State& state, const GangRequest& request, SeededRandom& random);
// The hosts that its members would take if these had gone; none: there is no room. Errors: as place_slice().
Result<std::set<std::string>> slice_without(const State& state, const GangRequest& request,
                                            const std::map<std::string, VictimHoldings>& victims,
                                            const std::vector<const queueing::Victim*>& gone);

}  // namespace heddle::engine
