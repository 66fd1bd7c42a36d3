// The limit of the compute share: a launch is admitted by the tenant's virtual clock on the device, charged at once
// with its predicted cost, and trued up with the time that the device's own events tell.
//
// The law (single tenant form of the credit law, strict about the wall time that a context holds the device):
//   gate    admit while V <= now; once closed, reopen at now >= V + reopen. On launch V = max(V, now - burst) + c /
//   share. cap     admit while nothing of this process is outstanding, or outstanding + c <= the cap; a kernel never
//   measured runs
//           alone. One launch more when the only outstanding one is about to end.
//   settle  a segment (launches of one stream between two events) that took m: V += (m - charged) / share. Time that
//   the
//           tenant was already charged for is not charged again (watermark in `usage`).
// V and the watermark are shared by the processes of the tenant; segments, events and estimates are the process's own.
// Overshoot over any window: burst * share + cap of each process + twice the longest kernel.
//
// Never waits for a foreign process, never records into a capturing stream. Cost: the device lock, a clock read and a
// compare-and-swap; two events for every 32 launches or 0.5 ms of predicted work.
#pragma once

#include "guard/preload/state.h"

namespace heddle::guard {

struct Launch {
  uint64_t key;     // what is launched, in which shape: launches of equal key cost about the same
  void* stream;     // the vendor's handle
  bool per_thread;  // a null stream means the calling thread's
};

// What after_launch() needs; zero: nothing was charged.
struct Ticket {
  int device_plus_one;
  uint32_t segment;
  double charged;
  double cost;
};

// Waits until the launch is admitted. `rule` has a compute limit.
Ticket admit(int rule, const Launch& launch);
void after_launch(const Ticket& ticket, bool launched);

// Before the driver forgets the handle: what is open on it is closed.
void before_stream_ends(void* stream);
void before_context_ends(uint64_t context);

}  // namespace heddle::guard
