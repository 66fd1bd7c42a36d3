// Who is on a card already, and how much he and a share that comes would disturb each other: which of the cards that a
// policy values alike a share goes to.
//
// A tenant has a priority (ShareConfig.priority: 0, or 1 for one that gives way) and a cap of compute (cores; 0: none).
// docs/guard.md says what follows: a cap is a promise that is kept, who has none takes what it can, and who gives way
// without a cap has what the others leave. From the best to the worst card for a share
// - of the first priority without a cap: only tenants that give way or nobody; tenants with caps, the fewest promised
//   cores first; last, another one without a cap;
// - with a cap: any without such a one of the first priority without a cap; last, beside one;
// - that gives way without a cap: no tenants of the first priority; then those with caps, each by the fewest promised
//   cores; last, beside one without a cap, which leaves it nothing.
// How many of a kind there are makes no difference. So where all tenants of a fleet are alike nothing is told apart,
// and every choice is what it would be without this file.
//
// Only shares are ranked so, by what claims hold when they are placed; members of a gang do not see each other.
// Pure. Cost: O(1).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "allocator/device.h"
#include "model/claim.h"

namespace heddle::engine {

// How a holder of a share stands to the others of its card.
struct Tenant {
  bool gives_way = false;
  int64_t cores = 0;  // percent of the card; 0: no cap
  friend bool operator==(const Tenant&, const Tenant&) = default;
};
// Of an allocation, by result; what is not a share is left as it is. A configuration that cannot be read says nothing.
std::vector<Tenant> tenants_of(const model::Allocation& allocation);
void add(const Tenant& tenant, allocator::Sharers& sharers);

// A pod with shares that waits.
struct Newcomer {
  bool gives_way = false;  // each of its shares
  bool limited = false;    // each of its shares
  bool single = true;      // it asks for one card
};
// Of the claims of one pod; nothing: it asks for no share.
std::optional<Newcomer> newcomer_of(const std::vector<const model::ClaimSpec*>& claims);

inline constexpr int64_t kBesideUnlimited = 800;
inline constexpr int64_t kMostDisturbed = 1023;
// What a card that nobody is on counts as where it is worth more whole: no better than the worst kind of neighbour, so
// that none is begun for the sake of peace.
inline constexpr int64_t kUnusedCard = kBesideUnlimited;
// 0 to kMostDisturbed; 0 for a card without shares.
int64_t disturbance(const Newcomer& newcomer, const allocator::Sharers& sharers);

// Who has shares in the whole fleet, by kind.
struct Crowd {
  int64_t unlimited = 0;
  int64_t limited = 0;
  int64_t giving_way = 0;   // without a cap
  int64_t kept_behind = 0;  // give way, with a cap
};
void count(const Tenant& tenant, int64_t sign, Crowd& crowd);
// Whether disturbance() can differ between two cards of the crowd that have shares.
bool tells_apart(const Newcomer& newcomer, const Crowd& crowd);

// Two cards that would be left with so many millionths of themselves are alike for a single share: in the same
// sixteenth.
inline constexpr int64_t kAlikeParts = 16;
constexpr int64_t alike_part(int64_t left_millionths) {
  return left_millionths * kAlikeParts / 1'000'000;
}

}  // namespace heddle::engine
