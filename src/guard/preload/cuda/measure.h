// What the driver takes for a context, from its own accounting of processes.
#pragma once

#include "guard/preload/cuda/hooks.h"
#include "guard/preload/cuda/process.h"

namespace heddle::guard {

// The processes that NVML sees on a device, however many.
class ProcessList {
 public:
  ProcessList() = default;
  ~ProcessList();
  ProcessList(const ProcessList&) = delete;
  ProcessList& operator=(const ProcessList&) = delete;

  // False: NVML does not say.
  bool read(const NvmlAccount& nvml, nvmlDevice_t device);
  [[nodiscard]] const nvmlProcessInfo_t* begin() const { return list_; }
  [[nodiscard]] const nvmlProcessInfo_t* end() const { return list_ + count_; }

 private:
  bool make_room(unsigned count);

  static constexpr unsigned kUsual = 128;
  nvmlProcessInfo_t usual_[kUsual];
  nvmlProcessInfo_t* list_ = usual_;
  unsigned room_ = kUsual;
  unsigned count_ = 0;
};

// NVML opened for good (in the account of the process). False: there is none.
bool open_account(Account& account);
// Its device of a rule. False: it does not see it.
bool account_device(Account& account, int rule);

// Our pid as the vendor's account has it, as far as that can be known here; 0: it cannot.
uint32_t host_pid();
// That of the process that a slot belongs to.
uint32_t host_pid_of(const heddle_guard_slot& slot);

// The turn of one process of the tenant at a time, and of one thread of it, to make a context on a rule's device while
// nobody knows what one takes there; the others wait, and know it then. Ends with the object, and with its process: who
// waits takes the turn over from a dead one, and from one that keeps it for long.
class MeasuringTurn {
 public:
  explicit MeasuringTurn(int rule);
  ~MeasuringTurn();
  MeasuringTurn(const MeasuringTurn&) = delete;
  MeasuringTurn& operator=(const MeasuringTurn&) = delete;

 private:
  bool take(uint64_t& word);

  int rule_;
  uint64_t mine_ = 0;  // 0: no turn was needed
};

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
  uint64_t own_entry(const ProcessList& list) const;
  uint64_t least_new_entry(const ProcessList& list) const;

  int rule_;
  bool ready_ = false;
  NvmlAccount nvml_{};
  nvmlDevice_t device_ = nullptr;
  ProcessList before_;
};

}  // namespace heddle::guard
