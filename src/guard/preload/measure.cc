#include "guard/preload/measure.h"

#include <dlfcn.h>

#include "guard/preload/driver.h"
#include "guard/preload/elf.h"
#include "guard/preload/state.h"

namespace heddle::guard {
namespace {

constexpr uint64_t kImplausible = uint64_t{8} << 30;

struct Nvml {
  decltype(&::nvmlInit_v2) init;
  decltype(&::nvmlShutdown) shutdown;
  decltype(&::nvmlDeviceGetCount_v2) count;
  decltype(&::nvmlDeviceGetHandleByIndex_v2) device;
  decltype(&::nvmlDeviceGetUUID) uuid;
  decltype(&::nvmlDeviceGetComputeRunningProcesses_v3) processes;
};

template <typename F>
bool resolve(const LoadedObject& library, const char* name, F& function) {
  function = reinterpret_cast<F>(find_symbol(library, name));
  return function != nullptr;
}

bool open_nvml(Nvml& nvml) {
  LoadedObject library;
  if (!find_object("libnvidia-ml.so", nullptr, &library)) {
    const auto open = real_dlopen();
    if (open == nullptr || open("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL) == nullptr) return false;
    if (!find_object("libnvidia-ml.so", nullptr, &library)) return false;
  }
  return resolve(library, "nvmlInit_v2", nvml.init) && resolve(library, "nvmlShutdown", nvml.shutdown) &&
         resolve(library, "nvmlDeviceGetCount_v2", nvml.count) &&
         resolve(library, "nvmlDeviceGetHandleByIndex_v2", nvml.device) &&
         resolve(library, "nvmlDeviceGetUUID", nvml.uuid) &&
         resolve(library, "nvmlDeviceGetComputeRunningProcesses_v3", nvml.processes);
}

uint64_t own_memory(const Nvml& nvml, nvmlDevice_t device) {
  nvmlProcessInfo_t list[128];
  unsigned int count = 128;
  if (nvml.processes(device, &count, list) != NVML_SUCCESS) return 0;
  const uint32_t pid = own_pid();
  for (unsigned int i = 0; i < count && i < 128; ++i) {
    if (list[i].pid == pid && list[i].usedGpuMemory != ~0ull) return list[i].usedGpuMemory;
  }
  return 0;
}

uint64_t own_memory_on(const Nvml& nvml, int rule) {
  unsigned int count = 0;
  if (nvml.count(&count) != NVML_SUCCESS) return 0;
  for (unsigned int i = 0; i < count; ++i) {
    nvmlDevice_t device = nullptr;
    char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE];
    if (nvml.device(i, &device) != NVML_SUCCESS || nvml.uuid(device, uuid, sizeof(uuid)) != NVML_SUCCESS) continue;
    if (rule_of_uuid(uuid) == rule) return own_memory(nvml, device);
  }
  return 0;
}

}  // namespace

uint64_t measure_context_overhead(int rule) {
  // The pids of NVML are those of the first pid namespace.
  constexpr uint32_t kFirstPidNamespace = 4026531836u;
  if (own_pid_namespace() != kFirstPidNamespace) return 0;
  Nvml nvml{};
  if (!open_nvml(nvml) || nvml.init() != NVML_SUCCESS) return 0;
  const uint64_t used = own_memory_on(nvml, rule);
  nvml.shutdown();
  const heddle_guard_slot* slot = own_slot();
  if (slot == nullptr) return 0;
  const uint64_t charged = ledger::charge_pages(ledger::load(slot->devices[rule].charge)) * kPageBytes;
  return used > charged && used - charged < kImplausible ? used - charged : 0;
}

}  // namespace heddle::guard
