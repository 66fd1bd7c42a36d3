// F, the fragmentation of a node: the part of its free card milli that a pod drawn from the mix could not use there.
// After "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent" (ATC 2023),
// with memory: for one class, all of the node when CPU, memory, kind or number of cards do not fit, else its cards that
// are too small for the class. Classes without cards do not count.
#pragma once

#include <cstdint>
#include <vector>

#include "placement/mix.h"
#include "placement/types.h"

namespace heddle::placement {

// F for a fixed mix. Not thread-safe: it fills a cache.
class Fragmentation {
 public:
  // What fits into some CPU and memory of some kind: per number of cards asked, the weight of the classes whose milli
  // has at most a rank. Valid until the next call of room().
  using Room = const int64_t*;

  Fragmentation() = default;
  explicit Fragmentation(const Mix& mix);

  // O(log classes); O(classes) the first time for a node with this much, as far as the classes tell apart.
  [[nodiscard]] Room room(Kind kind, int64_t cpu_milli, int64_t memory_bytes);
  // Sum over the classes of weight * unusable milli: F times the mix's total. cards: sorted descending, `total` is
  // their sum. O(cards * distinct numbers of cards asked).
  [[nodiscard]] int64_t weighted(Room room, const uint16_t* cards, int count, int64_t total) const;
  [[nodiscard]] int64_t weighted(const StateView& state);

 private:
  struct Class {
    uint32_t cpu_level = 0;
    uint32_t memory_level = 0;
    uint32_t column = 0;  // in a row: demand * ranks_ + rank of its milli
    int64_t weight = 0;
    std::vector<Kind> kinds;
  };
  void fill_row(Kind kind, size_t cpu_level, size_t memory_level, int64_t* row) const;

  std::vector<int64_t> cpu_levels_;      // ascending, distinct
  std::vector<int64_t> memory_levels_;   // ascending, distinct
  std::vector<int> demands_;             // ascending, distinct numbers of cards
  std::vector<uint16_t> rank_of_milli_;  // [0, 1000] -> how many distinct millis of the mix are at most that
  size_t ranks_ = 1;
  std::vector<Class> classes_;
  int64_t weight_ = 0;
  std::vector<int64_t> rows_;
  std::vector<std::vector<uint32_t>> row_index_;  // [kind][cpu level * (memory levels + 1) + memory level], 0: not yet
};

}  // namespace heddle::placement
