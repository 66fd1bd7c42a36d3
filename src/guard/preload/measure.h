// What the driver takes for a context, from its own accounting of processes.
#pragma once

#include "guard/preload/hooks.h"
#include "guard/preload/state.h"

namespace heddle::guard {

// Looks at the processes that NVML sees on a rule's device, before and after a context is made. Does nothing where the
// limits or an earlier measurement of the tenant already say what a context takes.
class ContextMeasurement {
 public:
  explicit ContextMeasurement(int rule);
  ~ContextMeasurement();
  ContextMeasurement(const ContextMeasurement&) = delete;
  ContextMeasurement& operator=(const ContextMeasurement&) = delete;

  // After the context was made: the bytes it took, now also written into `usage`; 0: known before, or NVML does not
  // tell.
  //
  // In the first pid namespace that is what NVML has for our pid beyond what is charged. In another one a process
  // cannot recognise itself: then it is the least of the entries that are new since the constructor, which is our own
  // context or that of another process that just started on the device.
  uint64_t finish();

 private:
  static constexpr unsigned kMost = 128;
  struct Nvml {
    decltype(&::nvmlInit_v2) init;
    decltype(&::nvmlShutdown) shutdown;
    decltype(&::nvmlDeviceGetCount_v2) count;
    decltype(&::nvmlDeviceGetHandleByIndex_v2) device;
    decltype(&::nvmlDeviceGetUUID) uuid;
    decltype(&::nvmlDeviceGetComputeRunningProcesses_v3) processes;
  };

  bool open();
  bool find_device();
  bool was_absent(uint32_t pid) const;
  uint64_t own_entry(const nvmlProcessInfo_t* list, unsigned count) const;
  uint64_t least_new_entry(const nvmlProcessInfo_t* list, unsigned count) const;

  int rule_;
  bool ready_ = false;
  Nvml nvml_{};
  nvmlDevice_t device_ = nullptr;
  unsigned before_count_ = 0;
  uint32_t before_[kMost];
};

}  // namespace heddle::guard
