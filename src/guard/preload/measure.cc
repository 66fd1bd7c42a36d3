#include "guard/preload/measure.h"

#include <dlfcn.h>

#include "guard/preload/driver.h"
#include "guard/preload/elf.h"

namespace heddle::guard {
namespace {

constexpr uint64_t kImplausible = uint64_t{4} << 30;
constexpr uint32_t kFirstPidNamespace = 4026531836u;

template <typename F>
bool resolve(const LoadedObject& library, const char* name, F& function) {
  function = reinterpret_cast<F>(find_symbol(library, name));
  return function != nullptr;
}

bool known(int rule) {
  return config().devices[rule].context_bytes != 0 ||
         ledger::load(config().usage->devices[rule].context_overhead_bytes) != 0;
}

}  // namespace

ContextMeasurement::ContextMeasurement(int rule) : rule_(rule) {
  if (known(rule) || !open() || nvml_.init() != NVML_SUCCESS) return;
  ready_ = true;
  nvmlProcessInfo_t list[kMost];
  unsigned count = kMost;
  if (!find_device() || nvml_.processes(device_, &count, list) != NVML_SUCCESS || count > kMost) {
    device_ = nullptr;
    return;
  }
  before_count_ = count;
  for (unsigned i = 0; i < count; ++i) before_[i] = list[i].pid;
}

ContextMeasurement::~ContextMeasurement() {
  if (ready_) nvml_.shutdown();
}

uint64_t ContextMeasurement::finish() {
  if (!ready_ || device_ == nullptr) return 0;
  nvmlProcessInfo_t list[kMost];
  unsigned count = kMost;
  if (nvml_.processes(device_, &count, list) != NVML_SUCCESS || count > kMost) return 0;
  // Elsewhere than in the first pid namespace an entry of our number may be a stranger's, unless it came just now.
  const bool ours = own_pid_namespace() == kFirstPidNamespace || (was_absent(own_pid()) && own_entry(list, count) != 0);
  const uint64_t bytes = ours ? own_entry(list, count) : least_new_entry(list, count);
  if (bytes == 0 || bytes >= kImplausible) return 0;
  ledger::exchange_if(config().usage->devices[rule_].context_overhead_bytes, 0, bytes);
  return bytes;
}

bool ContextMeasurement::open() {
  LoadedObject library;
  if (!find_object("libnvidia-ml.so", nullptr, &library)) {
    const auto open_library = real_dlopen();
    if (open_library == nullptr || open_library("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL) == nullptr) return false;
    if (!find_object("libnvidia-ml.so", nullptr, &library)) return false;
  }
  return resolve(library, "nvmlInit_v2", nvml_.init) && resolve(library, "nvmlShutdown", nvml_.shutdown) &&
         resolve(library, "nvmlDeviceGetCount_v2", nvml_.count) &&
         resolve(library, "nvmlDeviceGetHandleByIndex_v2", nvml_.device) &&
         resolve(library, "nvmlDeviceGetUUID", nvml_.uuid) &&
         resolve(library, "nvmlDeviceGetComputeRunningProcesses_v3", nvml_.processes);
}

bool ContextMeasurement::find_device() {
  unsigned count = 0;
  if (nvml_.count(&count) != NVML_SUCCESS) return false;
  for (unsigned i = 0; i < count; ++i) {
    char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE];
    if (nvml_.device(i, &device_) != NVML_SUCCESS) continue;
    if (nvml_.uuid(device_, uuid, sizeof(uuid)) == NVML_SUCCESS && rule_of_uuid(uuid) == rule_) return true;
  }
  return false;
}

uint64_t ContextMeasurement::own_entry(const nvmlProcessInfo_t* list, unsigned count) const {
  const heddle_guard_slot* slot = own_slot();
  if (slot == nullptr) return 0;
  const uint64_t charged = ledger::charge_pages(ledger::load(slot->devices[rule_].charge)) * kPageBytes;
  const uint32_t pid = own_pid();
  for (unsigned i = 0; i < count; ++i) {
    if (list[i].pid != pid || list[i].usedGpuMemory == ~0ull) continue;
    return list[i].usedGpuMemory > charged ? list[i].usedGpuMemory - charged : 0;
  }
  return 0;
}

bool ContextMeasurement::was_absent(uint32_t pid) const {
  for (unsigned k = 0; k < before_count_; ++k) {
    if (before_[k] == pid) return false;
  }
  return true;
}

uint64_t ContextMeasurement::least_new_entry(const nvmlProcessInfo_t* list, unsigned count) const {
  uint64_t least = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (list[i].usedGpuMemory == ~0ull || list[i].usedGpuMemory == 0 || !was_absent(list[i].pid)) continue;
    if (least == 0 || list[i].usedGpuMemory < least) least = list[i].usedGpuMemory;
  }
  return least;
}

}  // namespace heddle::guard
