// What holds for this process: the limits it was given, the tenant's usage, its own slot there, and the charge
// operations.
//
// Everything that a fork must not inherit lies in one region that the kernel wipes in the child (Process), so a child
// starts as a process without a slot, a lock or an allocation. Thread-safe.
#pragma once

#include <pthread.h>

#include "guard/layout.h"
#include "guard/ledger.h"
#include "guard/preload/hooks.h"
#include "guard/preload/table.h"

namespace heddle::guard {

// One device of the limits file.
struct DeviceRule {
  unsigned char uuid[16];
  uint64_t limit_pages;
  uint64_t limit_bytes;
  uint64_t context_bytes;  // 0: to be measured
  uint32_t cores_percent;
  bool whole_card;
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
  bool any_compute_limit;
  uint32_t device_count;
  DeviceRule devices[HEDDLE_GUARD_MAX_DEVICES];
  int64_t burst_ns, reopen_ns, outstanding_ns;
  heddle_guard_usage* usage;
  const uint64_t* hints;  // of the agent, by rule; null: there are none, or they do not count
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

// A stream-ordered pool that allocations came from: charged by what it has reserved, not by what is in use of it.
struct Pool {
  CUmemoryPool handle;  // null: the entry is free
  int rule;
  uint64_t pages;  // charged
};
inline constexpr uint32_t kMaxPools = 256;

struct Compute;

struct NvmlAccount {
  decltype(&::nvmlInit_v2) init;
  decltype(&::nvmlShutdown) shutdown;
  decltype(&::nvmlDeviceGetCount_v2) count;
  decltype(&::nvmlDeviceGetHandleByIndex_v2) device;
  decltype(&::nvmlDeviceGetUUID) uuid;
  decltype(&::nvmlDeviceGetComputeRunningProcesses_v3) processes;
};

// The vendor's account of this process, and what was charged because of it (residual.h). Pages.
struct Account {
  pthread_mutex_t lock;
  int32_t state;  // 0: not opened yet; 1: open; -1: there is none
  NvmlAccount nvml;
  nvmlDevice_t devices[HEDDLE_GUARD_MAX_DEVICES];
  uint64_t residual[HEDDLE_GUARD_MAX_DEVICES];
  uint32_t keeps;  // exported memory was kept charged
  int64_t measured_ns[HEDDLE_GUARD_MAX_DEVICES];
};

// Zero is its initial state.
struct Process {
  uint32_t slot_plus_one;
  pthread_mutex_t slot_lock;
  pthread_mutex_t charge_lock[HEDDLE_GUARD_MAX_DEVICES];
  pthread_mutex_t table_lock;  // allocations, blocks, handles, mappings
  Table allocations;
  Table blocks;
  Table handles;
  Table mappings;
  uint64_t freed_in_order;     // how many were, ever
  uint32_t waiting_for_order;  // how many are not yet given back
  pthread_mutex_t pool_lock;
  Pool pools[kMaxPools];
  uint32_t pool_count;
  uint32_t pools_charged;      // a hint: some pool holds a charge
  uint32_t graph_memory_seen;  // a graph with allocation nodes was made
  uint32_t graphs_seen;        // some executable graph allocates, or runs on several devices
  pthread_mutex_t graph_lock;
  Table graphs;  // what executable graphs allocate and where they run
  uint64_t graph_pages[HEDDLE_GUARD_MAX_DEVICES];
  pthread_mutex_t context_lock;
  uint64_t primary_pages[HEDDLE_GUARD_MAX_DEVICES];
  uint32_t primary_charged[HEDDLE_GUARD_MAX_DEVICES];
  uint64_t primary_context[HEDDLE_GUARD_MAX_DEVICES];
  uint64_t block_bytes[HEDDLE_GUARD_MAX_DEVICES];
  Account account;
  pthread_mutex_t compute_lock;
  Compute* compute;
};

// Loads limits and usage at the first call. Cost then: one load.
const Config& config();
Process& process();

// The slot of this process in `usage`; null when there is none (inert, damaged, or all slots are held by live
// processes).
heddle_guard_slot* own_slot();

// The rule of a CUDA device, of the current context's device, and of a device known by its UUID text.
int rule_of(CUdevice device);
int current_rule();
int rule_of_uuid(const char* text);
// Some CUDA ordinal of the current context; -1 without one.
CUdevice current_device();

// How a charge may be taken: kLimited refuses beyond the limit, kForced takes what the driver has already taken.
enum class Take { kLimited, kForced };

// Charges pages on a rule's device. False: refused. Devices that are not accounted always answer true. Before it
// refuses, it frees what dead processes hold and what our pools have given back; charge_once() does not (and enters no
// lock of pools).
bool charge(int rule, uint64_t pages, Take take = Take::kLimited);
bool charge_once(int rule, uint64_t pages, Take take = Take::kLimited);
void uncharge(int rule, uint64_t pages);

// True when this device's memory is accounted at all.
bool accounted(int rule);
// True when memory on it must be refused without asking anybody.
bool refused(int rule);

// Frees the slots of processes that are gone. True: at least one was freed.
bool sweep_dead();

// Marks a thread as being inside a hook: what the driver calls from there passes through uncounted.
class Entry {
 public:
  Entry() : outer_(inside_) { inside_ = true; }
  ~Entry() { inside_ = outer_; }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  [[nodiscard]] bool nested() const { return outer_; }

 private:
  static __thread bool inside_ __attribute__((tls_model("initial-exec")));  // NOLINT: of the thread, zero at its start
  bool outer_;
};

// The answer of a hook whose real function the driver does not have.
inline constexpr CUresult kNoSuchFunction = CUDA_ERROR_NOT_SUPPORTED;

}  // namespace heddle::guard
