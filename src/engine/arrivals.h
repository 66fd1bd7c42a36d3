// Which workloads came, and how often each: what packing takes its mix from. Kept as it was asked for, not as what it
// means on the fleet of the moment, since nodes may come later than the pods that want them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace heddle::engine {

class Arrivals {
 public:
  static constexpr int64_t kMemory = 65536;  // from twice as many arrivals on all counts are halved
  static constexpr size_t kKinds = 1024;     // beyond, the less frequent half is forgotten
  static constexpr int64_t kFirst = 4;

  struct Entry {
    model::Pod pod;  // what it needs of a node, and which nodes it may use
    std::vector<ClaimRequest> claims;
    int64_t count = 0;
  };

  void add(const PlacementRequest& request);
  // Enough came since the last call of learnt(): after 4 arrivals, then when they have grown by half.
  [[nodiscard]] bool due() const { return total_ >= next_; }
  void learnt();
  [[nodiscard]] int64_t seen() const { return seen_; }
  // By what was asked for.
  [[nodiscard]] const std::map<std::string, Entry>& entries() const { return entries_; }

 private:
  void halve();
  void forget_rare();

  std::map<std::string, Entry> entries_;
  int64_t total_ = 0;
  int64_t seen_ = 0;  // ever
  int64_t next_ = kFirst;
};

}  // namespace heddle::engine
