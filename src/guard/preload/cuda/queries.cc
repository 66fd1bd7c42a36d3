// What a program is told: the share instead of the card. Totals and free memory never underflow.
#include <string.h>

#include "guard/preload/cuda/measure.h"
#include "guard/preload/cuda/memory.h"
#include "guard/preload/cuda/pools.h"
#include "guard/preload/cuda/residual.h"

namespace heddle::guard {
namespace {

struct Share {
  uint64_t total;
  uint64_t charged;  // at most total
};

// CUDA's answers are what programs size themselves by: what they may address. NVML's are what is looked at from
// outside: the memory of the device.
enum class Shown { kAddressable, kCharged };

// False: the device is shown as it is.
bool share_of(int rule, Shown shown, Share* share) {
  if (!accounted(rule) || config().devices[rule].whole_card) return false;
  sweep_dead();
  refresh_pools_if_any();
  measure_now_and_then(rule);
  const bool beyond = shown == Shown::kAddressable;
  const uint32_t account = static_cast<uint32_t>(rule) + (beyond ? ledger::kAddressed : 0);
  const uint64_t charged = ledger::total_pages(*config().usage, account) * kPageBytes;
  share->total = beyond ? config().devices[rule].virtual_pages * kPageBytes : config().devices[rule].limit_bytes;
  share->charged = charged < share->total ? charged : share->total;
  return true;
}

uint64_t smaller(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

// A size in the type of the caller, which may be too small for it.
template <typename T>
T fitting(uint64_t value) {
  const uint64_t most = static_cast<T>(~T{0});
  return static_cast<T>(smaller(value, most));
}

template <typename Real, typename T>
CUresult memory_info(Real real, T* free, T* total) {
  const CUresult result = real(free, total);
  Share share{};
  if (result != CUDA_SUCCESS) return result;
  const int rule = current_rule();
  if (refused(rule)) {
    if (free != nullptr) *free = 0;
    return result;
  }
  const bool beyond = goes_beyond(rule, current_device());
  if (!share_of(rule, beyond ? Shown::kAddressable : Shown::kCharged, &share)) return result;
  // The card may be fuller than the share says: what is not there is not promised. Managed memory needs no room there.
  if (free != nullptr) *free = fitting<T>(smaller(share.total - share.charged, beyond ? share.total : *free));
  if (total != nullptr) *total = fitting<T>(share.total);
  return result;
}

template <typename Real, typename T>
CUresult total_memory(Real real, T* bytes, CUdevice device) {
  const CUresult result = real(bytes, device);
  if (result != CUDA_SUCCESS || bytes == nullptr) return result;
  const int rule = rule_of(device);
  if (!accounted(rule) || config().devices[rule].whole_card) return result;
  const DeviceRule& limits = config().devices[rule];
  *bytes = goes_beyond(rule, device) ? fitting<T>(limits.virtual_pages * kPageBytes)
                                     : fitting<T>(smaller(limits.limit_bytes, *bytes));
  return result;
}

int rule_of_nvml(nvmlDevice_t device) {
  char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE];
  const auto query = nvml().nvmlDeviceGetUUID;
  if (query == nullptr || query(device, uuid, sizeof(uuid)) != NVML_SUCCESS) return kNoDevice;
  uuid[sizeof(uuid) - 1] = '\0';
  return rule_of_uuid(uuid);
}

// Calls use(pid, pages) for each process of this tenant that holds memory on the device and that this pid namespace
// knows, and gives their number.
template <typename Use>
unsigned int for_each_own(int rule, Use use) {
  const heddle_guard_usage& usage = *config().usage;
  const uint32_t own_namespace = own_pid_namespace();
  unsigned int found = 0;
  for (uint32_t i = 0; i < ledger::load(usage.header.slots_used) && i < HEDDLE_GUARD_SLOTS; ++i) {
    const heddle_guard_slot& slot = usage.slots[i];
    const uint64_t owner = ledger::load(slot.owner);
    const uint64_t pages = ledger::charge_pages(ledger::load(slot.devices[rule].charge));
    if (owner == 0 || pages == 0 || ledger::owner_namespace(owner) != own_namespace) continue;
    use(ledger::owner_pid(owner), pages);
    ++found;
  }
  return found;
}

template <typename Info>
nvmlReturn_t list_processes(int rule, unsigned int* count, Info* list) {
  const unsigned int room = *count;
  unsigned int at = 0;
  const unsigned int found = for_each_own(rule, [&](uint32_t pid, uint64_t pages) {
    if (at >= room || list == nullptr) return;
    Info& info = list[at++];
    memset(&info, 0, sizeof(info));
    info.pid = pid;
    info.usedGpuMemory = pages * kPageBytes;
    if constexpr (sizeof(Info) > sizeof(nvmlProcessInfo_v1_t)) {
      info.gpuInstanceId = 0xffffffffu;
      info.computeInstanceId = 0xffffffffu;
    }
  });
  *count = found;
  // A caller that asks for the number with no room is told so in the driver's own way.
  return found > room || (found != 0 && list == nullptr) ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

// The pid that this namespace has for a process of this tenant which the vendor's account names so; 0: it is none.
uint32_t own_pid_of(uint32_t vendor_pid) {
  const heddle_guard_usage& usage = *config().usage;
  const uint32_t own_namespace = own_pid_namespace();
  uint32_t by_own = 0;
  for (uint32_t i = 0; i < ledger::load(usage.header.slots_used) && i < HEDDLE_GUARD_SLOTS; ++i) {
    const heddle_guard_slot& slot = usage.slots[i];
    const uint64_t owner = ledger::load(slot.owner);
    if (owner == 0 || ledger::owner_namespace(owner) != own_namespace) continue;
    const uint32_t host = host_pid_of(slot);
    if (host != 0 && host == vendor_pid) return ledger::owner_pid(owner);
    // As in residual.cc: where the account has pids as this namespace has them.
    if (host != 0 && ledger::owner_pid(owner) == vendor_pid) by_own = vendor_pid;
  }
  return by_own;
}

// Keeps of samples those of this tenant's processes; gives how many.
template <typename Sample>
unsigned int keep_own(Sample* samples, unsigned int count) {
  unsigned int kept = 0;
  for (unsigned int i = 0; i < count; ++i) {
    const uint32_t pid = own_pid_of(samples[i].pid);
    if (pid == 0) continue;
    samples[kept] = samples[i];
    samples[kept++].pid = pid;
  }
  return kept;
}

// Asks for as many samples as there are, `ask(count, samples)`, and hands out this tenant's.
template <typename Sample, typename Ask>
nvmlReturn_t own_samples(unsigned int* count, Sample* out, Ask ask) {
  unsigned int all = 0;
  const nvmlReturn_t sized = ask(&all, static_cast<Sample*>(nullptr));
  if (out == nullptr || all == 0) {
    *count = all;
    return sized;
  }
  const size_t bytes = size_t{all} * sizeof(Sample);
  auto* samples = static_cast<Sample*>(map_private(bytes, OnFork::kDrop));
  if (samples == nullptr) return NVML_ERROR_MEMORY;
  nvmlReturn_t result = ask(&all, samples);
  const unsigned int own = result == NVML_SUCCESS ? keep_own(samples, all) : 0;
  if (result == NVML_SUCCESS && own == 0) result = NVML_ERROR_NOT_FOUND;
  if (own > *count) result = NVML_ERROR_INSUFFICIENT_SIZE;
  if (result == NVML_SUCCESS) memcpy(out, samples, own * sizeof(Sample));
  if (result == NVML_SUCCESS || result == NVML_ERROR_INSUFFICIENT_SIZE) *count = own;
  unmap(samples, bytes);
  return result;
}

template <typename Real, typename Info>
[[gnu::always_inline]] inline nvmlReturn_t compute_processes(Real real, nvmlDevice_t device, unsigned int* count,
                                                             Info* list) {
  if (real == nullptr) return NVML_ERROR_FUNCTION_NOT_FOUND;
  const Entry entry;
  const int rule = entry.nested() || count == nullptr ? kNoDevice : rule_of_nvml(device);
  if (!accounted(rule)) return real(device, count, list);
  sweep_dead();
  return list_processes(rule, count, list);
}

// Processes of other kinds hold nothing that is charged: on a shared device none of them is the tenant's.
template <typename Real, typename Info>
[[gnu::always_inline]] inline nvmlReturn_t other_processes(Real real, nvmlDevice_t device, unsigned int* count,
                                                           Info* list) {
  if (real == nullptr) return NVML_ERROR_FUNCTION_NOT_FOUND;
  const Entry entry;
  const int rule = entry.nested() || count == nullptr ? kNoDevice : rule_of_nvml(device);
  if (!accounted(rule)) return real(device, count, list);
  *count = 0;
  return NVML_SUCCESS;
}

}  // namespace
}  // namespace heddle::guard

using namespace heddle::guard;

extern "C" {

#define HEDDLE_MEMORY_INFO(name, T)                \
  HEDDLE_EXPORT CUresult name(T* free, T* total) { \
    const auto real = cuda().name;                 \
    if (real == nullptr) return kNoSuchFunction;   \
    const Entry entry;                             \
    if (entry.nested()) return real(free, total);  \
    return memory_info(real, free, total);         \
  }
HEDDLE_MEMORY_INFO(cuMemGetInfo, unsigned int)
HEDDLE_MEMORY_INFO(cuMemGetInfo_v2, size_t)
#undef HEDDLE_MEMORY_INFO

#define HEDDLE_TOTAL_MEMORY(name, T)                       \
  HEDDLE_EXPORT CUresult name(T* bytes, CUdevice device) { \
    const auto real = cuda().name;                         \
    if (real == nullptr) return kNoSuchFunction;           \
    const Entry entry;                                     \
    if (entry.nested()) return real(bytes, device);        \
    return total_memory(real, bytes, device);              \
  }
HEDDLE_TOTAL_MEMORY(cuDeviceTotalMem, unsigned int)
HEDDLE_TOTAL_MEMORY(cuDeviceTotalMem_v2, size_t)
#undef HEDDLE_TOTAL_MEMORY

HEDDLE_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  const auto real = nvml().nvmlDeviceGetMemoryInfo;
  if (real == nullptr) return NVML_ERROR_FUNCTION_NOT_FOUND;
  const Entry entry;
  const nvmlReturn_t result = real(device, memory);
  Share share{};
  if (entry.nested() || result != NVML_SUCCESS || memory == nullptr) return result;
  if (!share_of(rule_of_nvml(device), Shown::kCharged, &share)) return result;
  *memory = nvmlMemory_t{share.total, share.total - share.charged, share.charged};
  return result;
}

HEDDLE_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t* memory) {
  const auto real = nvml().nvmlDeviceGetMemoryInfo_v2;
  if (real == nullptr) return NVML_ERROR_FUNCTION_NOT_FOUND;
  const Entry entry;
  const nvmlReturn_t result = real(device, memory);
  Share share{};
  if (entry.nested() || result != NVML_SUCCESS || memory == nullptr) return result;
  if (!share_of(rule_of_nvml(device), Shown::kCharged, &share)) return result;
  memory->total = share.total;
  memory->reserved = 0;
  memory->free = share.total - share.charged;
  memory->used = share.charged;
  return result;
}

#define HEDDLE_PROCESSES(name, Info, function)                                            \
  HEDDLE_EXPORT nvmlReturn_t name(nvmlDevice_t device, unsigned int* count, Info* list) { \
    return function(nvml().name, device, count, list);                                    \
  }
HEDDLE_PROCESSES(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t, compute_processes)
HEDDLE_PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_v2_t, compute_processes)
HEDDLE_PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_t, compute_processes)
HEDDLE_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t, other_processes)
HEDDLE_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t, other_processes)
HEDDLE_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_t, other_processes)
HEDDLE_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t, other_processes)
HEDDLE_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t, other_processes)
HEDDLE_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_t, other_processes)
#undef HEDDLE_PROCESSES

HEDDLE_EXPORT nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, nvmlProcessDetailList_t* list) {
  const auto real = nvml().nvmlDeviceGetRunningProcessDetailList;
  if (real == nullptr) return NVML_ERROR_FUNCTION_NOT_FOUND;
  const Entry entry;
  const int rule = entry.nested() || list == nullptr ? kNoDevice : rule_of_nvml(device);
  if (!accounted(rule)) return real(device, list);
  if (list->version != NVML_STRUCT_VERSION(ProcessDetailList, 1)) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  sweep_dead();
  // Those that run graphics, or are clients of MPS, hold nothing that is charged.
  if (list->mode == 0) return list_processes(rule, &list->numProcArrayEntries, list->procArray);
  list->numProcArrayEntries = 0;
  return NVML_SUCCESS;
}

HEDDLE_EXPORT nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t* samples,
                                                           unsigned int* count, unsigned long long last_seen) {
  const auto real = nvml().nvmlDeviceGetProcessUtilization;
  if (real == nullptr) return NVML_ERROR_FUNCTION_NOT_FOUND;
  const Entry entry;
  if (entry.nested() || count == nullptr || !accounted(rule_of_nvml(device))) {
    return real(device, samples, count, last_seen);
  }
  return own_samples(count, samples, [&](unsigned int* all, nvmlProcessUtilizationSample_t* out) {
    return real(device, out, all, last_seen);
  });
}

HEDDLE_EXPORT nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device,
                                                                 nvmlProcessesUtilizationInfo_t* info) {
  const auto real = nvml().nvmlDeviceGetProcessesUtilizationInfo;
  if (real == nullptr) return NVML_ERROR_FUNCTION_NOT_FOUND;
  const Entry entry;
  if (entry.nested() || info == nullptr || !accounted(rule_of_nvml(device))) return real(device, info);
  if (info->version != NVML_STRUCT_VERSION(ProcessesUtilizationInfo, 1)) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  const auto ask = [&](unsigned int* all, nvmlProcessUtilizationInfo_v1_t* out) {
    nvmlProcessesUtilizationInfo_t asked = *info;
    asked.processSamplesCount = *all;
    asked.procUtilArray = out;
    const nvmlReturn_t result = real(device, &asked);
    *all = asked.processSamplesCount;
    return result;
  };
  return own_samples(&info->processSamplesCount, info->procUtilArray, ask);
}

HEDDLE_EXPORT nvmlReturn_t nvmlDeviceGetAccountingPids(nvmlDevice_t device, unsigned int* count, unsigned int* pids) {
  const auto real = nvml().nvmlDeviceGetAccountingPids;
  if (real == nullptr) return NVML_ERROR_FUNCTION_NOT_FOUND;
  const Entry entry;
  const nvmlReturn_t result = real(device, count, pids);
  if (entry.nested() || result != NVML_SUCCESS || count == nullptr || pids == nullptr) return result;
  if (!accounted(rule_of_nvml(device))) return result;
  unsigned int kept = 0;
  for (unsigned int i = 0; i < *count; ++i) {
    if (own_pid_of(pids[i]) != 0) pids[kept++] = pids[i];
  }
  *count = kept;
  return result;
}

HEDDLE_EXPORT nvmlReturn_t nvmlDeviceGetAccountingStats(nvmlDevice_t device, unsigned int pid,
                                                        nvmlAccountingStats_t* stats) {
  const auto real = nvml().nvmlDeviceGetAccountingStats;
  if (real == nullptr) return NVML_ERROR_FUNCTION_NOT_FOUND;
  const Entry entry;
  const bool strange = !entry.nested() && accounted(rule_of_nvml(device)) && own_pid_of(pid) == 0;
  return strange ? NVML_ERROR_NOT_FOUND : real(device, pid, stats);
}

// What of the window into the card's memory is in use says what all tenants have mapped: a share has a window no larger
// than itself, and nobody else in it. How much of it is the tenant's own nobody tells.
HEDDLE_EXPORT nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t* memory) {
  const auto real = nvml().nvmlDeviceGetBAR1MemoryInfo;
  if (real == nullptr) return NVML_ERROR_FUNCTION_NOT_FOUND;
  const Entry entry;
  const nvmlReturn_t result = real(device, memory);
  if (entry.nested() || result != NVML_SUCCESS || memory == nullptr) return result;
  const int rule = rule_of_nvml(device);
  if (!accounted(rule) || config().devices[rule].whole_card) return result;
  const uint64_t window = smaller(memory->bar1Total, config().devices[rule].limit_bytes);
  *memory = nvmlBAR1Memory_t{window, window, 0};
  return result;
}

// The real function's answer, with ours in the place of what is interposed.
#define HEDDLE_HAND_OUT(symbol, function, version, flags, result)                                                \
  if (result != CUDA_SUCCESS || symbol == nullptr || function == nullptr || *function == nullptr) return result; \
  *function = hook_of_proc_address(symbol, version, flags, *function)

#define HEDDLE_PROC_ADDRESS(name, extra)                                                                         \
  HEDDLE_EXPORT CUresult name(const char* symbol, void** function, int version, cuuint64_t flags) {              \
    const auto real = cuda().name;                                                                               \
    if (real == nullptr) return kNoSuchFunction;                                                                 \
    const Entry entry;                                                                                           \
    const CUresult result = real(symbol, function, version, flags);                                              \
    HEDDLE_HAND_OUT(symbol, function, version, flags | (extra), result);                                         \
    return *function != nullptr ? result : CUDA_ERROR_NOT_FOUND;                                                 \
  }                                                                                                              \
  HEDDLE_EXPORT CUresult HEDDLE_SECOND(name)(const char* symbol, void** function, int version, cuuint64_t flags, \
                                             CUdriverProcAddressQueryResult* status) {                           \
    const auto real = cuda().HEDDLE_SECOND(name);                                                                \
    if (real == nullptr) return kNoSuchFunction;                                                                 \
    const Entry entry;                                                                                           \
    const CUresult result = real(symbol, function, version, flags, status);                                      \
    HEDDLE_HAND_OUT(symbol, function, version, flags | (extra), result);                                         \
    if (*function != nullptr) return result;                                                                     \
    if (status != nullptr) *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;                                       \
    return CUDA_ERROR_NOT_FOUND;                                                                                 \
  }
#define HEDDLE_SECOND(name) HEDDLE_SECOND_OF_##name
#define HEDDLE_SECOND_OF_cuGetProcAddress cuGetProcAddress_v2
#define HEDDLE_SECOND_OF_cuGetProcAddress_ptsz cuGetProcAddress_v2_ptsz
HEDDLE_PROC_ADDRESS(cuGetProcAddress, 0)
HEDDLE_PROC_ADDRESS(cuGetProcAddress_ptsz, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
}
