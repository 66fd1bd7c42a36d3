// What holds for this process: the limits it was given, the tenant's usage, its own slot there, and the charge
// operations.
//
// Everything that a fork must not inherit lies in one region that the kernel wipes in the child (Process), so a child
// starts as a process without a slot, a lock or an allocation. Thread-safe.
#pragma once

#include <pthread.h>

#include "guard/layout.h"
#include "guard/ledger.h"
#include "guard/preload/table.h"

namespace heddle::guard {

// One device of the limits file.
struct DeviceRule {
  unsigned char uuid[16];
  uint64_t limit_pages;
  uint64_t limit_bytes;
  uint64_t virtual_pages;  // what may be addressed, managed memory beyond the limit included; 0: the limit
  uint64_t context_bytes;  // 0: to be measured
  uint32_t cores_percent;
  uint32_t number_plus_one;
  bool whole_card;
  bool gives_way;  // no compute limit of its own, but the agent's hints
  [[nodiscard]] bool paced() const { return cores_percent != 0 || gives_way; }
};

struct Config {
  enum class Mode {
    kInert,   // no limits file: everything passes
    kActive,  // limits and usage are good
    kClosed,  // damaged: memory is refused
    kOpen,    // usage is damaged and the limits say to go on without
  };
  Mode mode;
  bool deny_unlisted;
  bool deny_unknown;
  bool any_compute_limit;  // some device is paced
  uint32_t device_count;
  DeviceRule devices[HEDDLE_GUARD_MAX_DEVICES];
  int64_t burst_ns, reopen_ns, outstanding_ns;
  heddle_guard_usage* usage;
  bool announces;         // some device is not paced: that work goes there is said now and then
  const uint64_t* hints;  // of the agent, by rule; null: there are none, or they do not count
  uint32_t mask_percent;  // of the multiprocessors, held by MPS; 0: no mask
  char mask_pipe[HEDDLE_GUARD_PATH_BYTES];
  bool keeps_to_share;  // of the environment: nothing is borrowed
};

// Index into Config::devices, or one of these.
inline constexpr int kUnlisted = -1;  // a device without an entry
inline constexpr int kNoDevice = -2;  // no current context, or the driver does not say

class Lock {
 public:
  explicit Lock(pthread_mutex_t& mutex) : mutex_(mutex) { pthread_mutex_lock(&mutex_); }
  ~Lock() { pthread_mutex_unlock(&mutex_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

struct Compute;

// Zero is its initial state. The vendor's table has one that begins with this (vendor.h).
struct Process {
  uint32_t slot_plus_one;
  pthread_mutex_t slot_lock;
  pthread_mutex_t charge_lock[HEDDLE_GUARD_MAX_DEVICES];
  pthread_mutex_t table_lock;  // the tables
  Table allocations;
  Table blocks;
  Table handles;
  Table mappings;
  uint64_t announced;  // ticks(), see launch.h
  pthread_mutex_t compute_lock;
  Compute* compute;
};

// Loads limits and usage at the first call. Cost then: one load.
const Config& config();
Process& process();

// The slot of this process in `usage`; null when there is none (inert, damaged, or all slots are held by live
// processes).
heddle_guard_slot* own_slot();

// Where this process says since when it has work on a rule's device that is not charged yet; null: it has no slot.
heddle_guard_unsettled* own_unsettled(int rule);

// The rule of a device by its identity (16 bytes of its uuid) and by the number that the limits have for it; kUnlisted:
// none.
int rule_of_identity(const void* identity);
int rule_of_number(uint32_t number);
// What is known of the vendor's ordinal of a device, so that the driver is asked once. False: nothing yet.
bool known_rule(int ordinal, int* rule);
void keep_rule(int ordinal, int rule);

// How a charge may be taken: kLimited refuses beyond the limit, kForced takes what the driver has already taken.
enum class Take { kLimited, kForced };

// Charges pages on a rule's device. False: refused. Devices that are not accounted always answer true. Before it
// refuses, it frees what dead processes hold and what the vendor's table can give back; charge_once() does not (and
// enters no lock of that table).
bool charge(int rule, uint64_t pages, Take take = Take::kLimited);
bool charge_once(int rule, uint64_t pages, Take take = Take::kLimited);
void uncharge(int rule, uint64_t pages);

// The same for managed memory beyond the limit: only what is addressed grows, up to the virtual limit. False: refused,
// or the device has none.
bool charge_beyond(int rule, uint64_t pages);
void uncharge_beyond(int rule, uint64_t pages);

// True when this device's memory is accounted at all.
bool accounted(int rule);
// True when memory on it must be refused without asking anybody.
bool refused(int rule);

// Frees the slots of processes that are gone. True: at least one was freed.
bool sweep_dead();

// True when who returns to this address is the vendor's driver, which may end in a jump to another of its functions:
// then it is the driver's own caller, which is us. Cost: a few comparisons once an object of the driver is known.
bool is_in_driver(const void* address);

// Marks a thread as being inside a hook: what the driver itself calls from there passes through uncounted. What anybody
// else calls meanwhile does not: a handler of a signal that came while a launch is held, or a callback of the program.
// To be made in the exported function itself, whose return address says who calls.
class Entry {
 public:
  [[gnu::always_inline]] Entry() : outer_(inside_), nested_(false) {
    inside_ = true;
    if (outer_) nested_ = is_in_driver(__builtin_return_address(0));
  }
  ~Entry() { inside_ = outer_; }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  [[nodiscard]] bool nested() const { return nested_; }

 private:
  static __thread bool inside_ __attribute__((tls_model("initial-exec")));  // NOLINT: of the thread, zero at its start
  bool outer_;
  bool nested_;
};

}  // namespace heddle::guard
