// What holds for this process of CUDA: the core's part, and pools, graphs, contexts and the vendor's account of it.
#pragma once

#include "guard/preload/cuda/hooks.h"
#include "guard/preload/state.h"

namespace heddle::guard {

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
  // Memory of destroyed pools that was freed since it was last measured: on which rules' devices (bits), and in the
  // order of which stream (~0: of several).
  uint32_t orphans_freed;
  uint64_t orphan_stream;
  uint32_t estimated;  // some of the remainder is an estimate (Growth)
  uint32_t waited;     // for the agent to tell our pid
  int64_t measured_ns[HEDDLE_GUARD_MAX_DEVICES];
};

struct CudaProcess : Process {
  uint64_t freed_in_order;     // how many were, ever
  uint32_t waiting_for_order;  // how many are not yet given back
  pthread_mutex_t pool_lock;
  Table pools;                 // stream-ordered ones that allocations came from: charged by what they have reserved
  uint32_t pools_charged;      // a hint: some pool holds a charge
  uint32_t graph_memory_seen;  // a graph with allocation nodes was made
  uint32_t graphs_seen;        // some executable graph allocates, or runs on several devices
  pthread_mutex_t graph_lock;
  Table graphs;  // what executable graphs allocate and where they run
  uint64_t graph_pages[HEDDLE_GUARD_MAX_DEVICES];
  pthread_mutex_t context_lock;
  pthread_mutex_t measuring_lock;
  uint64_t primary_pages[HEDDLE_GUARD_MAX_DEVICES];
  uint32_t primary_charged[HEDDLE_GUARD_MAX_DEVICES];
  uint64_t primary_context[HEDDLE_GUARD_MAX_DEVICES];
  uint64_t block_bytes[HEDDLE_GUARD_MAX_DEVICES];
  int8_t moves_pages[HEDDLE_GUARD_MAX_DEVICES];  // 0: not asked; 1: managed pages move by themselves; -1: they do not
  Account account;
};

inline CudaProcess& cuda_process() {
  return static_cast<CudaProcess&>(process());
}

// The rule of a CUDA device, of the current context's device, and of a device known by its UUID text. A device whose
// identity the driver does not tell is unlisted.
int rule_of(CUdevice device);
int current_rule();
int rule_of_uuid(const char* text);
// Some CUDA ordinal of the current context; -1 without one; kUntold: the driver cannot say.
CUdevice current_device();
inline constexpr CUdevice kUntold = -2;

// The answer of a hook whose real function the driver does not have.
inline constexpr CUresult kNoSuchFunction = CUDA_ERROR_NOT_SUPPORTED;

}  // namespace heddle::guard
