// Whether tenants used more of a card's time than they were given, by the vendor's account of their processes. What a
// tenant writes of itself is not looked at: one that clears the preload, calls the driver past it or lies about what it
// was charged uses time all the same. Pure: no clock, no I/O.
//
// Over the last kWindow a claim may have used of a card what it was told at the most (its share, or what it was lent),
// and kSlack of the window more: a running kernel cannot be stopped, and the vendor rounds. It lasts when the same
// holds for kLong; then a long kernel is no excuse.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace heddle::agent {

// Of one claim on one card, since the look before.
struct ComputeUse {
  std::string claim;
  std::string card_uuid;
  double allowed = 1;    // of the card's time: the most that it was told
  int64_t busy_ns = -1;  // device time since some fixed moment; -1: not known
  int64_t at_ns = 0;     // up to when; CLOCK_MONOTONIC
};

struct Overuse {
  std::string claim;
  std::string card_uuid;
  double used = 0;  // of the card's time, over the window
  double allowed = 0;
  bool lasting = false;
  int64_t pid = 0;  // of the claim's process that used most of it just now; 0: not known

  friend bool operator==(const Overuse&, const Overuse&) = default;
};

// Thread rule: one thread. Cost of a look: linear in the claims.
class ComputeAudit {
 public:
  static constexpr int64_t kWindow = 3000000000;
  static constexpr int64_t kLong = 20000000000;
  static constexpr double kSlack = 0.15;

  // Every claim with a limit, each time; those that are left out are forgotten, and so is one whose time is not known.
  std::vector<Overuse> look(const std::vector<ComputeUse>& uses);

 private:
  struct Step {
    int64_t at_ns;
    double busy_ns;  // both ever, since the first step
    double allowed_ns;
  };
  using History = std::deque<Step>;
  static bool is_over(const History& history, int64_t window, Overuse& found);

  std::map<std::pair<std::string, std::string>, History> histories_;
  std::map<std::pair<std::string, std::string>, double> allowed_before_;
};

}  // namespace heddle::agent
