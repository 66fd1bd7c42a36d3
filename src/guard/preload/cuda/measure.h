// What the driver takes for a context, from its own accounting of processes.
#pragma once

#include "guard/preload/cuda/hooks.h"
#include "guard/preload/cuda/process.h"

namespace heddle::guard {

inline constexpr unsigned kMostProcesses = 128;

// NVML opened for good (in the account of the process). False: there is none.
bool open_account(Account& account);
// Its device of a rule. False: it does not see it.
bool account_device(Account& account, int rule);

// Our pid as the vendor's account has it, as far as that can be known here; 0: it cannot.
uint32_t host_pid();

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
  bool was_absent(uint32_t pid) const;
  uint64_t own_entry(const nvmlProcessInfo_t* list, unsigned count) const;
  uint64_t least_new_entry(const nvmlProcessInfo_t* list, unsigned count) const;

  int rule_;
  bool ready_ = false;
  NvmlAccount nvml_{};
  nvmlDevice_t device_ = nullptr;
  unsigned before_count_ = 0;
  uint32_t before_[kMostProcesses];
};

}  // namespace heddle::guard
