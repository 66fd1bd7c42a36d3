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

uint32_t host_pid_of(const heddle_guard_slot& slot) {
  const uint64_t owner = ledger::load(slot.owner);
  if (ledger::owner_namespace(owner) == kFirstPidNamespace) return ledger::owner_pid(owner);
  // Of this process only: the agent writes it together with the start time that it meant.
  const uint64_t written = ledger::load(slot.host_pid);
  return static_cast<uint32_t>(written) == static_cast<uint32_t>(ledger::load(slot.start_time))
             ? static_cast<uint32_t>(written >> 32)
             : 0;
}

uint32_t host_pid() {
  if (own_pid_namespace() == kFirstPidNamespace) return own_pid();
  const heddle_guard_slot* slot = own_slot();
  return slot != nullptr ? host_pid_of(*slot) : 0;
}

ProcessList::~ProcessList() {
  if (list_ != usual_) unmap(list_, room_ * sizeof(*list_));
}

bool ProcessList::make_room(unsigned count) {
  constexpr unsigned kMost = 1U << 20;
  if (count > kMost) return false;
  auto* list = static_cast<nvmlProcessInfo_t*>(map_private(count * sizeof(nvmlProcessInfo_t), OnFork::kDrop));
  if (list == nullptr) return false;
  if (list_ != usual_) unmap(list_, room_ * sizeof(*list_));
  list_ = list;
  room_ = count;
  return true;
}

bool ProcessList::read(const NvmlAccount& nvml, nvmlDevice_t device) {
  constexpr int kTries = 8;
  for (int i = 0; i < kTries; ++i) {
    unsigned count = room_;
    const nvmlReturn_t result = nvml.processes(device, &count, list_);
    count_ = result == NVML_SUCCESS && count <= room_ ? count : 0;
    if (result == NVML_SUCCESS) return count <= room_;
    // Others may come meanwhile.
    if (result != NVML_ERROR_INSUFFICIENT_SIZE || !make_room((count > room_ ? count : room_) * 2)) return false;
  }
  return false;
}

MeasuringTurn::MeasuringTurn(int rule) : rule_(rule) {
  const heddle_guard_slot* slot = known(rule) ? nullptr : own_slot();
  if (slot == nullptr) return;
  CudaProcess& own = cuda_process();
  pthread_mutex_lock(&own.measuring_lock);
  mine_ = uint64_t{own.slot_plus_one} << 32 | static_cast<uint32_t>(ledger::load(slot->generation));
  if (!take(config().usage->devices[rule].measuring)) {
    mine_ = 0;
    pthread_mutex_unlock(&own.measuring_lock);
  }
}

MeasuringTurn::~MeasuringTurn() {
  if (mine_ == 0) return;
  ledger::exchange_if(config().usage->devices[rule_].measuring, mine_, 0);
  pthread_mutex_unlock(&cuda_process().measuring_lock);
}

// False: it is known by now.
bool MeasuringTurn::take(uint64_t& word) {
  constexpr int64_t kStep = 1000000;
  constexpr int64_t kLong = 10000000000;
  const int64_t start = now_ns();
  for (uint64_t first = 0;;) {
    if (known(rule_)) return false;
    const uint64_t seen = ledger::load(word);
    const uint64_t slot = (seen >> 32) - 1;
    const bool held =
        seen != 0 && seen != mine_ && slot < HEDDLE_GUARD_SLOTS &&
        static_cast<uint32_t>(ledger::load(config().usage->slots[slot].generation)) == static_cast<uint32_t>(seen);
    if (first == 0) first = seen;
    // One and the same all the time: it hangs, or died where nobody here can see that.
    const bool given_up = seen == first && now_ns() - start > kLong;
    if ((!held || given_up) && ledger::exchange_if(word, seen, mine_)) return true;
    if (!held) continue;
    sweep_dead();
    sleep_ns(kStep);
  }
}

ContextMeasurement::ContextMeasurement(int rule) : rule_(rule) {
  if (known(rule) || !open_nvml(nvml_) || nvml_.init() != NVML_SUCCESS) return;
  ready_ = true;
  device_ = device_of_rule(nvml_, rule);
  if (device_ != nullptr && !before_.read(nvml_, device_)) device_ = nullptr;
}

ContextMeasurement::~ContextMeasurement() {
  if (ready_) nvml_.shutdown();
}

uint64_t ContextMeasurement::finish() {
  if (!ready_ || device_ == nullptr) return 0;
  ProcessList list;
  if (!list.read(nvml_, device_)) return 0;
  // Elsewhere than in the first pid namespace an entry of our number may be a stranger's, unless it came just now.
  const bool ours = own_pid_namespace() == kFirstPidNamespace || (was_absent(own_pid()) && own_entry(list) != 0);
  const uint64_t bytes = ours ? own_entry(list) : least_new_entry(list);
  if (bytes == 0 || bytes >= kImplausible) return 0;
  ledger::exchange_if(config().usage->devices[rule_].context_overhead_bytes, 0, bytes);
  return bytes;
}

uint64_t ContextMeasurement::own_entry(const ProcessList& list) const {
  const heddle_guard_slot* slot = own_slot();
  if (slot == nullptr) return 0;
  const uint64_t charged = ledger::charge_pages(ledger::load(slot->devices[rule_].charge)) * kPageBytes;
  const uint32_t pid = own_pid();
  for (const nvmlProcessInfo_t& entry : list) {
    if (entry.pid != pid || entry.usedGpuMemory == ~0ull) continue;
    return entry.usedGpuMemory > charged ? entry.usedGpuMemory - charged : 0;
  }
  return 0;
}

bool ContextMeasurement::was_absent(uint32_t pid) const {
  for (const nvmlProcessInfo_t& entry : before_) {
    if (entry.pid == pid) return false;
  }
  return true;
}

uint64_t ContextMeasurement::least_new_entry(const ProcessList& list) const {
  uint64_t least = 0;
  for (const nvmlProcessInfo_t& entry : list) {
    if (entry.usedGpuMemory == ~0ull || entry.usedGpuMemory == 0 || !was_absent(entry.pid)) continue;
    if (least == 0 || entry.usedGpuMemory < least) least = entry.usedGpuMemory;
  }
  return least;
}

}  // namespace heddle::guard
