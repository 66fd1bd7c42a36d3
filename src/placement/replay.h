// Replays a trace: pods arrive one at a time, nobody leaves, nobody is tried twice. The protocol in which results on
// openb are published: shuffle the pods, append random re-samples until what was asked for reaches the load.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "placement/placer.h"
#include "placement/trace.h"

namespace heddle::placement {

// Indices of pods in the order in which they arrive, until they ask for `load_percent` of all cards (the last one may
// go past it). The stream of a lower load is a prefix of that of a higher one. Errors: kInvalidArgument when no node
// has a card or no pod asks for one; kExhausted beyond 50 million arrivals.
Result<std::vector<uint32_t>> arrival_stream(const Trace& trace, int64_t load_percent, uint64_t seed);

// The mix of all pods of a trace, as the order of its pods gives it.
Mix mix_of(const Trace& trace);

struct ReplayResult {
  int64_t decisions = 0;
  int64_t placed = 0;
  int64_t card_milli_allocated = 0;
  int64_t card_milli_total = 0;

  [[nodiscard]] double allocated_percent() const;
};

class Replay {
 public:
  // An empty fleet with the trace's nodes. Errors: as Placer's nodes.
  static Result<Replay> start(const Trace& trace, PlacerOptions options);

  // Decides about these arrivals, in order. Errors: kInternal when the placer chose what is not free.
  Result<void> run(const std::vector<uint32_t>& arrivals, size_t from, size_t to);
  // Takes everything back; what was learnt and remembered stays.
  Result<void> clear();

  [[nodiscard]] const ReplayResult& result() const { return result_; }
  [[nodiscard]] const Placer& placer() const { return placer_; }

 private:
  struct Granted {
    RequestId request = 0;
    Choice choice;
  };

  explicit Replay(PlacerOptions options) : placer_(std::move(options)) {}

  Placer placer_;
  std::vector<RequestId> requests_;  // by pod of the trace
  std::vector<Granted> granted_;
  ReplayResult result_;
};

}  // namespace heddle::placement
