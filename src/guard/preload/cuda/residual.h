// What the driver takes for this process that no call of ours could know beforehand: code and globals of modules, the
// device heap and local memory, contexts of other libraries, memory that an importer keeps alive. It is the difference
// between the vendor's own account of this process and what is charged, and is charged as one amount on each device.
//
// The vendor's account names processes by pid. Ours is known in the first pid namespace, and in others once the agent
// has written it into our slot; where the vendor shows pids as the namespace has them, by that. Until then what a call
// takes is what the driver's free memory became less by meanwhile (Growth): never less than the truth, unless a
// neighbour gives memory back in the same moment, and put right by the first measurement.
#pragma once

#include "guard/preload/cuda/memory.h"

namespace heddle::guard {

// Brings the remainder on a rule's device up or down to what the vendor says. False: the limit does not allow its
// growth, and nothing was charged. Cost: one call of NVML, the first time its start.
bool measure_residual(int rule, Take take);

// What one call of the driver takes on a rule's device, where that is the one of the current context. To be made before
// the call; settle() charges after it, as measure_residual() does, and shrink() gives back.
class Growth {
 public:
  explicit Growth(int rule);
  bool settle(Take take);
  void shrink();

 private:
  int rule_;
  bool estimates_;  // the vendor's account does not tell yet
  uint64_t free_;
};

// Waits for the agent to tell our pid, once a process and a few seconds at the most. True: the vendor's account tells
// what this process holds on a rule's device.
bool wait_until_told(int rule);

// Where some of the remainder is an estimate: waits so, and measures. True: it was measured.
bool confirm_residual();

// The same where anything of the remainder is charged: on every device once exported memory was kept charged, or on
// one; and on one at the most once a second, once something was measured there.
void measure_kept();
void measure_if_any(int rule);
void measure_now_and_then(int rule);

// Code was loaded that takes memory later, when contexts use it: from now on measure_now_and_then() looks for it.
void expect_residual();

// Pages that are charged already become part of the remainder, which the next measurement corrects.
void add_residual(int rule, uint64_t pages);

// Charged memory whose last known reference is gone while others may hold it (exported handles): becomes part of the
// remainder, until the vendor's account shows that it is free or the process ends. The caller may hold any lock but
// those of charges.
void keep_charged(int rule, uint64_t pages);

// Memory of a destroyed pool was freed in the order of a stream; measure_orphans() looks after it when the program has
// waited. Cost without: one load.
void orphan_was_freed(int rule, uint64_t stream);
void measure_orphans(Waited what, uint64_t handle);

}  // namespace heddle::guard
