#include "guard/preload/cuda/measure.h"

#include <dlfcn.h>

#include "guard/preload/cuda/driver.h"
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

bool open_nvml(NvmlAccount& nvml) {
  LoadedObject library;
  if (!find_object("libnvidia-ml.so", nullptr, &library)) {
    const auto open_library = real_dlopen();
    if (open_library == nullptr || open_library("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL) == nullptr) return false;
    if (!find_object("libnvidia-ml.so", nullptr, &library)) return false;
  }
  return resolve(library, "nvmlInit_v2", nvml.init) && resolve(library, "nvmlShutdown", nvml.shutdown) &&
         resolve(library, "nvmlDeviceGetCount_v2", nvml.count) &&
         resolve(library, "nvmlDeviceGetHandleByIndex_v2", nvml.device) &&
         resolve(library, "nvmlDeviceGetUUID", nvml.uuid) &&
         resolve(library, "nvmlDeviceGetComputeRunningProcesses_v3", nvml.processes);
}

nvmlDevice_t device_of_rule(const NvmlAccount& nvml, int rule) {
  unsigned count = 0;
  if (nvml.count(&count) != NVML_SUCCESS) return nullptr;
  for (unsigned i = 0; i < count; ++i) {
    char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE];
    nvmlDevice_t device = nullptr;
    if (nvml.device(i, &device) != NVML_SUCCESS) continue;
    if (nvml.uuid(device, uuid, sizeof(uuid)) == NVML_SUCCESS && rule_of_uuid(uuid) == rule) return device;
  }
  return nullptr;
}

bool known(int rule) {
  return config().devices[rule].context_bytes != 0 ||
         ledger::load(config().usage->devices[rule].context_overhead_bytes) != 0;
}

}  // namespace

bool open_account(Account& account) {
  if (account.state == 0) {
    const bool ready = open_nvml(account.nvml) && account.nvml.init() == NVML_SUCCESS;
    account.state = ready ? 1 : -1;
  }
  return account.state > 0;
}

bool account_device(Account& account, int rule) {
  if (account.devices[rule] == nullptr) account.devices[rule] = device_of_rule(account.nvml, rule);
  return account.devices[rule] != nullptr;
}

uint32_t host_pid() {
  if (own_pid_namespace() == kFirstPidNamespace) return own_pid();
  const heddle_guard_slot* slot = own_slot();
  if (slot == nullptr) return 0;
  // Of this process only: the agent writes it together with the start time that it meant.
  const uint64_t written = ledger::load(slot->host_pid);
  return static_cast<uint32_t>(written) == static_cast<uint32_t>(ledger::load(slot->start_time))
             ? static_cast<uint32_t>(written >> 32)
             : 0;
}

ContextMeasurement::ContextMeasurement(int rule) : rule_(rule) {
  if (known(rule) || !open_nvml(nvml_) || nvml_.init() != NVML_SUCCESS) return;
  ready_ = true;
  nvmlProcessInfo_t list[kMostProcesses];
  unsigned count = kMostProcesses;
  device_ = device_of_rule(nvml_, rule);
  if (device_ == nullptr || nvml_.processes(device_, &count, list) != NVML_SUCCESS || count > kMostProcesses) {
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
  nvmlProcessInfo_t list[kMostProcesses];
  unsigned count = kMostProcesses;
  if (nvml_.processes(device_, &count, list) != NVML_SUCCESS || count > kMostProcesses) return 0;
  // Elsewhere than in the first pid namespace an entry of our number may be a stranger's, unless it came just now.
  const bool ours = own_pid_namespace() == kFirstPidNamespace || (was_absent(own_pid()) && own_entry(list, count) != 0);
  const uint64_t bytes = ours ? own_entry(list, count) : least_new_entry(list, count);
  if (bytes == 0 || bytes >= kImplausible) return 0;
  ledger::exchange_if(config().usage->devices[rule_].context_overhead_bytes, 0, bytes);
  return bytes;
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
