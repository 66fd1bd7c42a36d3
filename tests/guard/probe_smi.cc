// What nvidia-smi asks NVML for when it shows a card and its processes.
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

#include <set>

#include "guard/probe.h"

namespace probe {
namespace {

void* nvml_library() {
  static void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  return library;
}

// NOLINTNEXTLINE(bugprone-macro-parentheses): the argument is a name
#define NVML(name) (reinterpret_cast<decltype(&name)>(dlsym(nvml_library(), #name)))

// What was seen: pids, and the largest amounts of memory.
struct Seen {
  std::set<unsigned> listed, sampled;
  unsigned long long most_total = 0, most_used = 0, process_bytes = 0;

  void memory(unsigned long long total, unsigned long long used) {
    if (total > most_total) most_total = total;
    if (used > most_used) most_used = used;
  }
};

template <typename List, typename Info>
void ask_list(List list, nvmlDevice_t device, Info (&room)[64], Seen& seen) {
  unsigned count = 64;
  if (list == nullptr || list(device, &count, room) != NVML_SUCCESS) return;
  for (unsigned i = 0; i < count; ++i) {
    seen.listed.insert(room[i].pid);
    seen.process_bytes = room[i].usedGpuMemory;
  }
}

void ask_lists(nvmlDevice_t device, Seen& seen) {
  nvmlProcessInfo_v1_t first[64];
  nvmlProcessInfo_v2_t second[64];
  nvmlProcessInfo_t third[64];
  ask_list(NVML(nvmlDeviceGetComputeRunningProcesses), device, first, seen);
  ask_list(NVML(nvmlDeviceGetComputeRunningProcesses_v2), device, second, seen);
  ask_list(NVML(nvmlDeviceGetComputeRunningProcesses_v3), device, third, seen);
  ask_list(NVML(nvmlDeviceGetGraphicsRunningProcesses_v3), device, third, seen);
  ask_list(NVML(nvmlDeviceGetMPSComputeRunningProcesses_v3), device, third, seen);
  for (const unsigned mode : {0U, 1U, 2U}) {
    nvmlProcessDetail_v1_t details[64];
    nvmlProcessDetailList_t list{NVML_STRUCT_VERSION(ProcessDetailList, 1), mode, 64, details};
    if (NVML(nvmlDeviceGetRunningProcessDetailList)(device, &list) != NVML_SUCCESS) continue;
    for (unsigned i = 0; i < list.numProcArrayEntries; ++i) seen.listed.insert(details[i].pid);
  }
  unsigned pids[64];
  unsigned count = 64;
  if (NVML(nvmlDeviceGetAccountingPids)(device, &count, pids) == NVML_SUCCESS) seen.listed.insert(pids, pids + count);
}

void ask_samples(nvmlDevice_t device, Seen& seen) {
  unsigned count = 0;
  const auto samples = NVML(nvmlDeviceGetProcessUtilization);
  nvmlProcessUtilizationSample_t room[128];
  if (samples(device, nullptr, &count, 0) == NVML_ERROR_INSUFFICIENT_SIZE) {
    count = 128;
    if (samples(device, room, &count, 0) != NVML_SUCCESS) count = 0;
    for (unsigned i = 0; i < count; ++i) seen.sampled.insert(room[i].pid);
  }
  nvmlProcessUtilizationInfo_v1_t entries[128];
  nvmlProcessesUtilizationInfo_t info{NVML_STRUCT_VERSION(ProcessesUtilizationInfo, 1), 128, 0, entries};
  if (NVML(nvmlDeviceGetProcessesUtilizationInfo)(device, &info) != NVML_SUCCESS) return;
  for (unsigned i = 0; i < info.processSamplesCount; ++i) seen.sampled.insert(entries[i].pid);
}

void ask_memory(nvmlDevice_t device, Seen& seen) {
  nvmlMemory_t first{};
  nvmlMemory_v2_t second{};
  second.version = nvmlMemory_v2;
  nvmlBAR1Memory_t window{};
  if (NVML(nvmlDeviceGetMemoryInfo)(device, &first) == NVML_SUCCESS) seen.memory(first.total, first.used);
  if (NVML(nvmlDeviceGetMemoryInfo_v2)(device, &second) == NVML_SUCCESS) seen.memory(second.total, second.used);
  if (NVML(nvmlDeviceGetBAR1MemoryInfo)(device, &window) == NVML_SUCCESS) {
    seen.memory(window.bar1Total, window.bar1Used);
  }
}

}  // namespace

// "smi <card>": the largest total and the largest use of memory in any answer, what the last listed process holds, how
// many processes were listed, their pids, how many were sampled, and theirs.
std::string smi(Words& words) {
  nvmlDevice_t device = nullptr;
  if (nvml_library() == nullptr || NVML(nvmlInit_v2)() != NVML_SUCCESS ||
      NVML(nvmlDeviceGetHandleByIndex_v2)(take<unsigned>(words), &device) != NVML_SUCCESS) {
    return "-1";
  }
  Seen seen;
  ask_memory(device, seen);
  ask_lists(device, seen);
  ask_samples(device, seen);
  std::string text =
      std::to_string(seen.most_total) + " " + std::to_string(seen.most_used) + " " + std::to_string(seen.process_bytes);
  for (const std::set<unsigned>& pids : {seen.listed, seen.sampled}) {
    text += " " + std::to_string(pids.size());
    for (const unsigned pid : pids) text += " " + std::to_string(pid);
  }
  return text;
}

}  // namespace probe
