// Who is on a card, with how much memory and how much of its time.
#include <bit>

#include "nvml/library.h"
#include "state/schedule.h"

namespace nvsim {
namespace {

constexpr std::int64_t kWindowNs = 1'000'000'000;

// Calls `use(slot, pid)` for each process that the caller can see. Caller holds the card.
template <typename Use>
void for_each_process(Card& card, Use use) {
  for (std::uint64_t left = card.state().used_mask; left != 0; left &= left - 1) {
    const int index = std::countr_zero(left);
    if (const std::int64_t pid = card.pid_of(index); pid > 0) {
      use(card.state().slots[index], static_cast<unsigned int>(pid));
    }
  }
}

void fill(nvmlProcessInfo_v1_t& info, unsigned int pid, const ProcessSlot& slot) {
  info.pid = pid;
  info.usedGpuMemory = resident_bytes(slot);
}

void fill(nvmlProcessInfo_v2_t& info, unsigned int pid, const ProcessSlot& slot) {
  info.pid = pid;
  info.usedGpuMemory = resident_bytes(slot);
  info.gpuInstanceId = static_cast<unsigned int>(slot.gpu_instance);  // -1: all bits, which says none
  info.computeInstanceId = static_cast<unsigned int>(slot.compute_instance);
}

// The sizing protocol: too small a buffer gets the needed count and INSUFFICIENT_SIZE.
template <typename Info>
nvmlReturn_t compute_processes(nvmlDevice_t device, unsigned int* count, Info* infos) {
  const CardAnswer asked = nvml_card(device);  // of an instance: only its own
  return with_locked_card(device, [&](Card& card, std::int64_t) {
    if (count == nullptr || (*count > 0 && infos == nullptr)) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    unsigned int found = 0;
    for_each_process(card, [&](const ProcessSlot& slot, unsigned int pid) {
      if (asked.gpu >= 0 && (slot.gpu_instance != asked.gpu || slot.compute_instance != asked.compute)) {
        return;
      }
      if (found < *count) {
        fill(infos[found], pid, slot);
      }
      ++found;
    });
    const bool fits = found <= *count;
    *count = found;
    return fits ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
  });
}

nvmlReturn_t no_processes(nvmlDevice_t device, unsigned int* count) {
  return with_card(device, [&](Card&) {
    if (count == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    *count = 0;
    return NVML_SUCCESS;
  });
}

// The share of a process since `last_seen` (or over the last second), or -1 when it did nothing in that time.
int process_percent(const ProcessSlot& slot, std::int64_t now, unsigned long long last_seen) {
  const std::int64_t since = last_seen == 0 ? now - kWindowNs : monotonic_from_wall_us(last_seen);
  const unsigned int percent = busy_percent(slot.buckets, now, std::clamp(now - since, kBucketNs, kWindowNs));
  return now - since <= 0 || percent == 0 ? -1 : static_cast<int>(percent);
}

}  // namespace
}  // namespace nvsim

using nvsim::Card;
using nvsim::ProcessSlot;
using nvsim::with_locked_card;

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int* count,
                                                     nvmlProcessInfo_t* infos) {
  return nvsim::compute_processes(device, count, infos);
}
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int* count,
                                                     nvmlProcessInfo_v2_t* infos) {
  return nvsim::compute_processes(device, count, infos);
}
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int* count,
                                                  nvmlProcessInfo_v1_t* infos) {
  return nvsim::compute_processes(device, count, infos);
}
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int* count, nvmlProcessInfo_t*) {
  return nvsim::no_processes(device, count);
}
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned int* count, nvmlProcessInfo_v2_t*) {
  return nvsim::no_processes(device, count);
}
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device, unsigned int* count, nvmlProcessInfo_v1_t*) {
  return nvsim::no_processes(device, count);
}
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int* count, nvmlProcessInfo_t*) {
  return nvsim::no_processes(device, count);
}
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int* count,
                                                        nvmlProcessInfo_v2_t*) {
  return nvsim::no_processes(device, count);
}
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses(nvmlDevice_t device, unsigned int* count, nvmlProcessInfo_v1_t*) {
  return nvsim::no_processes(device, count);
}

nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, nvmlProcessDetailList_t* list) {
  return with_locked_card(device, [&](Card& card, std::int64_t) {
    if (list == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (list->version != nvsim::struct_version<nvmlProcessDetailList_v1_t>(1)) {
      return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    unsigned int found = 0;
    nvsim::for_each_process(card, [&](const ProcessSlot& slot, unsigned int pid) {
      if (list->mode == 0 && list->procArray != nullptr && found < list->numProcArrayEntries) {
        list->procArray[found] = {pid, resident_bytes(slot), static_cast<unsigned int>(slot.gpu_instance),
                                  static_cast<unsigned int>(slot.compute_instance), 0};
      }
      found += list->mode == 0 ? 1 : 0;
    });
    const bool fits = found <= list->numProcArrayEntries;
    list->numProcArrayEntries = found;
    return fits ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
  });
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t* samples,
                                             unsigned int* count, unsigned long long last_seen) {
  return with_locked_card(device, [&](Card& card, std::int64_t now) {
    if (card.state().mig.current != 0) {
      return NVML_ERROR_NOT_SUPPORTED;
    }
    if (count == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (samples == nullptr) {
      *count = nvsim::kMaxProcesses;
      return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    unsigned int found = 0;
    nvsim::for_each_process(card, [&](const ProcessSlot& slot, unsigned int pid) {
      const int percent = nvsim::process_percent(slot, now, last_seen);
      if (percent >= 0 && found < *count) {
        const auto share = static_cast<unsigned int>(percent);
        samples[found] = {pid, nvsim::wall_us(now), share, share / 2, 0, 0};
      }
      found += percent >= 0 ? 1 : 0;
    });
    const bool fits = found <= *count;
    *count = found;
    if (!fits) {
      return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    return found == 0 ? NVML_ERROR_NOT_FOUND : NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device, nvmlProcessesUtilizationInfo_t* info) {
  return with_locked_card(device, [&](Card& card, std::int64_t now) {
    if (info == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (info->version != nvsim::struct_version<nvmlProcessesUtilizationInfo_v1_t>(1)) {
      return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    if (info->procUtilArray == nullptr) {
      info->processSamplesCount = nvsim::kMaxProcesses;
      return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    unsigned int found = 0;
    nvsim::for_each_process(card, [&](const ProcessSlot& slot, unsigned int pid) {
      const int percent = nvsim::process_percent(slot, now, info->lastSeenTimeStamp);
      if (percent >= 0 && found < info->processSamplesCount) {
        const auto share = static_cast<unsigned int>(percent);
        info->procUtilArray[found] = {nvsim::wall_us(now), pid, share, share / 2, 0, 0, 0, 0};
      }
      found += percent >= 0 ? 1 : 0;
    });
    const bool fits = found <= info->processSamplesCount;
    info->processSamplesCount = found;
    if (!fits) {
      return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    return found == 0 ? NVML_ERROR_NOT_FOUND : NVML_SUCCESS;
  });
}
