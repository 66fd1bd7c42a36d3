// A fleet in steady state: pods of a trace arrive at random, run as long as the trace says, leave, and wait in between
// when there is no room. What counts is how much of the fleet is in use at a load, and how long pods wait.
//
// Waiting pods are tried again when a pod leaves, the one that came first before others; one that does not fit is
// passed by those behind it.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "placement/placer.h"
#include "placement/trace.h"

namespace heddle::placement {

struct SteadyOptions {
  int64_t load_percent = 100;        // of all cards, asked for at the same time on average
  int64_t pods = 20'000;             // arrivals; the first half fills the fleet, the second half is measured
  int64_t longest_seconds = 21'600;  // runs are cut to this, so that a steady state is reached
  uint64_t seed = 42;
};

struct SteadyResult {
  // Over the second half of the arrivals, means over time.
  double allocated_percent = 0;   // of all card milli
  double fragmented_percent = 0;  // of all card milli: free, but not for a pod drawn from the trace's mix
  // Of pods that came in the second half and were placed before the last arrival.
  double mean_wait_seconds = 0;
  double p99_wait_seconds = 0;
  double waited_percent = 0;  // how many of them waited at all
  // When the last pod has come.
  int64_t waiting = 0;
  int64_t waiting_card_milli = 0;
  int64_t decisions = 0;  // tries
};

// Errors: kInvalidArgument when the trace has no times, no cards, or no pod that asks for a card and runs; kInternal as
// Replay.
Result<SteadyResult> run_steady(const Trace& trace, PlacerOptions options, const SteadyOptions& steady);

}  // namespace heddle::placement
