// What runs, as that which would have to end for others to start. Pure; one owner thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "controller/units.h"
#include "engine/eviction.h"
#include "model/claim.h"
#include "model/pod.h"
#include "queueing/remedy.h"

namespace heddle::controller {

// A claim that a running pod uses.
struct HeldClaim {
  std::string key;  // as the State knows it
  const model::Allocation* allocation = nullptr;
  bool shared = false;  // other pods use it, too: it stays when this one ends
};

// Steps of a search, so that it takes milliseconds: looks at one node, or at all of them.
inline constexpr size_t kPodSteps = 2048;
inline constexpr size_t kGangSteps = 128;

class RunningTable {
 public:
  // A pod that has devices. unit: its gang; null for a pod alone. work: what its queue knows it by; empty: no queues.
  void add(const model::Pod& pod, const Unit* unit, const std::string& work, const std::vector<HeldClaim>& claims);

  struct Found {
    std::string text;                // "training/job-7 (4 devices on node-3) ends"
    std::vector<std::string> units;  // pod keys, and ids of gangs
  };
  struct Limits {
    std::string except;  // a unit that is not looked at: the one that waits
    size_t steps = 256;
  };
  // Which of them have to end; nothing where that was not found. Looked at first is what leaves already, then those
  // that declare when they end (activeDeadlineSeconds), then by rising priority and falling age. allowed: what quota
  // says when these works have ended. Cost: queueing/remedy.h.
  using Allowed = std::function<bool(const std::vector<std::string>& works)>;
  [[nodiscard]] std::optional<Found> who_has_to_end(queueing::FitOracle& oracle, const Allowed& allowed,
                                                    const Limits& limits) const;

  // The same in words, where no queue has a say.
  [[nodiscard]] std::optional<std::string> ends(queueing::FitOracle& oracle, const Limits& limits) const;

  [[nodiscard]] const std::map<std::string, engine::VictimHoldings>& holdings() const { return holdings_; }
  [[nodiscard]] bool empty() const { return units_.empty(); }

 private:
  struct Entry {
    std::string name;
    std::vector<std::string> works;
    std::set<std::string> nodes;
    int64_t devices = 0;
    std::string device;        // the last of them
    std::optional<Time> ends;  // of those that have been seen the last
    bool endless = false;      // one of its pods does not declare it
    Time since;
    int32_t priority = 0;
    bool leaving = false;
  };
  [[nodiscard]] static std::string text_of(const Entry& entry);

  std::map<std::string, Entry> units_;
  std::map<std::string, engine::VictimHoldings> holdings_;  // by unit
};

}  // namespace heddle::controller
