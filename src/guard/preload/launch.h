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
// A device that gives way has no share of its own: its share is what the agent's hint says, with the same law, and
// where that is nothing no launch is admitted until it says something else or grows old. Overshoot over any window:
// burst * share + cap of each process + twice the longest kernel.
//
// What a process could not settle when it ends is charged from its launch to its end (ledger.h, charge_unsettled());
// what has no events, from its launch until its stream is through.
//
// Never waits for a foreign process, never waits long for work that waits for something else, never records into a
// capturing stream. Cost: the device lock, a clock read and a compare-and-swap; two events for every 32 launches or 0.5
// ms of predicted work.
#pragma once

#include "guard/preload/state.h"
#include "guard/preload/sys.h"

namespace heddle::guard {

// A counter of the machine: cheaper to read than a clock.
inline uint64_t ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  uint64_t count = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(count));
  return count;
#endif
}

// Says that work goes to a device that is not paced, so that tenants of lower priority can give way to it: about once a
// millisecond, whatever is launched in between. `rule_of_work()` is asked then. Cost else: two loads and a counter.
template <typename RuleOfWork>
inline void announce(RuleOfWork rule_of_work) {
#if defined(__x86_64__)
  constexpr uint64_t kDistance = uint64_t{1} << 21;  // at 1 to 5 GHz
#else
  constexpr uint64_t kDistance = uint64_t{1} << 14;  // at 25 MHz to 1 GHz
#endif
  if (!config().announces) return;
  uint64_t& last = process().announced;
  const uint64_t now = ticks();
  const uint64_t seen = __atomic_load_n(&last, __ATOMIC_RELAXED);
  if (seen != 0 && now - seen < kDistance) return;
  __atomic_store_n(&last, now, __ATOMIC_RELAXED);
  const int rule = rule_of_work();
  if (!accounted(rule) || config().devices[rule].paced()) return;
  __atomic_store_n(&config().usage->devices[rule].want_ns, now_ns(), __ATOMIC_RELAXED);
}

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

// Waits until the launch is admitted. `rule` is paced.
Ticket admit(int rule, const Launch& launch);
void after_launch(const Ticket& ticket, bool launched);

// Around a wait of the program for the device: what is open in the calling thread's context gets its end before, and
// what the device is through with is charged after. Cost without a limit: one load; else an event where something is
// open, and a query of each that is not charged.
void before_wait();
void after_wait();

// Before the driver forgets the handle: what is open on it is closed.
void before_stream_ends(void* stream);
// Around the end of a context, which may be the calling thread's. `ended`: it is gone, and what the device was not
// through with has taken it until now; else all is as it was.
void before_context_ends(uint64_t context);
void after_context_ended(uint64_t context, bool ended);

}  // namespace heddle::guard
