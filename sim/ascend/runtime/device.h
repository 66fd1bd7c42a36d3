// The runtime's state in one process: devices, what was allocated on them, and what the other files share. Everything
// is reached through runtime(); objects behind handles live until they are destroyed by their call.
#pragma once

#include <acl/error_codes/rt_error_codes.h>
#include <ascend_abi/rt.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "state/fork_mark.h"
#include "state/npu.h"

#define ASCENDSIM_API extern "C" __attribute__((visibility("default")))

namespace ascendsim {

inline constexpr std::uint64_t kSmallPage = 4096;
inline constexpr std::uint64_t kHugePage = 2ULL << 20U;
inline constexpr std::uint64_t kGiantPage = 1ULL << 30U;

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t step) {
  return (value + step - 1) / step * step;
}

struct Device {
  NpuCard npu;
  int index = 0;
  int users = 0;  // calls of rtSetDevice that were not reset
  int next_queue = 1;
  std::vector<std::uint32_t> free_events;
  std::uint32_t next_event = 0;
};

struct Stream {
  Device* device = nullptr;
  int queue = 0;
};

struct Event {
  Device* device = nullptr;
  std::uint32_t index = 0;
  int queue = 0;
  std::uint64_t number = 0;    // of the newest record
  std::uint64_t position = 0;  // in the queue
};

// Addresses that were given out.
struct Range {
  std::uint64_t span = 0;     // of the host mapping behind it
  std::uint64_t charged = 0;  // on the card
  Device* device = nullptr;   // null: the host's
};

// Memory without an address (rtMallocPhysical).
struct Physical {
  Device* device = nullptr;
  std::uint64_t bytes = 0;
};

struct Binary {
  std::map<std::string, std::int64_t> kernels;  // name -> duration
};

struct Runtime {
  std::mutex mutex;  // guards everything below; never held while a call sleeps
  nvsim::ForkMark mark;
  NpuView view;
  bool opened = false;
  int open_error = 0;
  std::vector<std::unique_ptr<Device>> devices;
  std::map<std::uint64_t, Range> ranges;
  std::map<Physical*, std::unique_ptr<Physical>> physical;
  std::map<Binary*, std::unique_ptr<Binary>> binaries;
  std::map<const void*, std::int64_t> stubs;  // duration of a registered function
};

Runtime& runtime();

// Opens the machine at the first call. Not 0: there is no device, or a forked child asks.
rtError_t check_ready();
Device* device_at(std::int32_t index);
// The calling thread's device, null: none was set.
Device*& current_device();
// Waits while the card hangs; an error when it is lost.
rtError_t check_card(Device& device);

// Runs `body(Device&)` with the thread's device after all checks.
template <typename Body>
rtError_t with_device(Body body) {
  if (const rtError_t code = check_ready(); code != 0) {
    return code;
  }
  Device* device = current_device();
  if (device == nullptr) {
    return ACL_ERROR_RT_CONTEXT_NULL;
  }
  if (const rtError_t code = check_card(*device); code != 0) {
    return code;
  }
  return body(*device);
}

// Takes `bytes` of the card for this process, or an error with nothing taken.
rtError_t charge(Device& device, std::uint64_t bytes);
void uncharge(Device& device, std::uint64_t bytes);
std::uint64_t usable_bytes(const nvsim::CardConfig& config);
void free_everything_of(Device& device);

// The queue of a handle; null is the device's default stream.
Stream stream_of(Device& device, rtStream_t handle);
rtError_t queue_kernel(Stream stream, std::int64_t duration_ns, std::uint32_t cores);
rtError_t wait_for(Device& device, int queue, std::uint64_t position);
rtError_t wait_for_stream(Stream stream);
rtError_t wait_for_all(Device& device);

}  // namespace ascendsim
