// The guard's own compute limiter (preload/compute.cc, unchanged) in virtual time, on the simulated card's schedule:
// processes are fibers, a sleep is a jump, and a run of seconds takes a moment and is the same every time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace heddle::guard::test {

// What a process does, over and over.
struct Work {
  double kernel_us = 200;
  double sigma = 0;           // of a lognormal factor around the mean
  double rare_ms = 0;         // one kernel in a thousand is this long
  int streams = 1;            // used in turn
  int sms = 0;                // that a kernel fills; 0: all of the card
  int synchronise_after = 0;  // launches; 0: as far ahead as it goes
  double think_us = 0;        // after each synchronisation
  double pause_after_ms = 0;  // busy for so long,
  double pause_ms = 0;        // then idle for so long
  double late_ms = 0;         // the first process does not run for so long when its first wait for the card is over
  // Requests that come at random instead: so many a second, each of synchronise_after kernels, answered in turn.
  double requests_per_s = 0;
};

struct Tenant {
  double percent = 100;  // of the card's time; 100: not limited
  Work work;
  int processes = 1;
  bool strict = false;  // the agent's hints do not count
  int priority = 0;
  bool gives_way = false;  // instead of a percentage
  int64_t lies = 1;        // so many times what it was charged is what it writes
};

struct CardShape {
  int sms = 64;
  int64_t slice_ns = 2000000;
  int64_t switch_ns = 50000;
  bool gated_events = true;  // a start event of a context that is not on the card waits until it is
};

struct RunOptions {
  CardShape card;
  bool broker = true;
  bool lending = false;
  double warm_up_s = 2;
  double measured_s = 10;
  uint64_t seed = 1;
};

struct Outcome {
  std::vector<double> percent;                // of the card's time, by tenant, over the measured time
  std::vector<double> worst_window;           // the largest share of any 100 ms
  double used_percent = 0;                    // by all
  std::vector<std::vector<double>> timeline;  // by tenant: share of each 10 ms of the measured time
  // By tenant: how long each request took from its coming to its answer, in ms and ascending; those of the measured
  // time.
  std::vector<std::vector<double>> answers = {};
};

Outcome run(const std::vector<Tenant>& tenants, const RunOptions& options);

}  // namespace heddle::guard::test
