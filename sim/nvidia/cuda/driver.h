// The driver's state in one process: devices, contexts, and what the other files share. Everything is reached through
// driver(); objects behind handles live until they are destroyed by their API call.
#pragma once

#include <bit>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "cuda/api.h"
#include "state/fork_mark.h"
#include "state/machine.h"

namespace nvsim {

inline constexpr std::uint64_t kGranularity = 2ULL << 20U;

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t step) {
  return (value + step - 1) / step * step;
}

// A device address as the host's, which it also is.
inline void* host_pointer(CUdeviceptr address) {
  return std::bit_cast<void*>(address);
}

struct Context;
struct Pool;

struct Device {
  Card* card = nullptr;
  int ordinal = 0;
  Context* primary = nullptr;  // while retained
  unsigned primary_references = 0;
  unsigned primary_flags = 0;
  Pool* default_pool = nullptr;
  Pool* current_pool = nullptr;
  std::set<Pool*> pools;
  std::uint64_t graph_memory = 0;  // what instantiated graphs hold
  std::uint64_t graph_memory_high = 0;
  int next_queue = 1;  // queue 0 is the legacy default stream
  bool blocking[kMaxStreams] = {true};
  std::uint64_t waited_for_default[kMaxStreams] = {};
  std::uint64_t waited_serial = 0;
  std::vector<std::uint32_t> free_events;
  std::uint32_t next_event = 0;
};

inline constexpr std::uint64_t kUsualHeap = 8ULL << 20U;

struct Context {
  Device* device = nullptr;
  unsigned flags = 0;
  bool primary = false;
  unsigned long long id = 0;
  unsigned api_version = 3020;
  std::uint64_t heap_bytes = kUsualHeap;
  std::uint64_t heap_charged = 0;
  std::uint64_t code_charged = 0;   // of loaded modules
  std::uint64_t array_charged = 0;  // of arrays
};

enum class Kind { kDevice, kManaged, kAsync, kHost, kRegistered, kIpc, kReserved, kMapped };

// A range of addresses that the driver has given out.
struct Range {
  CUdeviceptr base = 0;
  std::uint64_t size = 0;     // as asked for
  std::uint64_t span = 0;     // of the host mapping behind it
  std::uint64_t charged = 0;  // on the card, or of managed memory
  Kind kind = Kind::kDevice;
  Device* device = nullptr;
  Context* context = nullptr;
  Pool* pool = nullptr;
  void* handle = nullptr;  // kMapped: the physical allocation
  unsigned flags = 0;
  unsigned long long id = 0;
};

struct Driver {
  std::mutex mutex;  // guards everything below; never held while a call sleeps
  ForkMark mark;
  MachineView view;
  bool opened = false;
  bool ready = false;
  std::vector<std::unique_ptr<Device>> devices;
  std::set<Context*> contexts;
  std::map<CUdeviceptr, Range> ranges;
  std::map<CUdeviceptr, std::uint64_t> reservations;  // of cuMemAddressReserve: address to size
  unsigned long long next_id = 1;
};

Driver& driver();

// NOT_INITIALIZED before cuInit and in a forked child.
CUresult check_ready();
// The device of an ordinal, null: there is none.
Device* device_at(CUdevice ordinal);
// Waits while the card hangs; UNKNOWN when it has fallen off the bus.
CUresult check_card(Device& device);

// The calling thread's stack of contexts; the last one is current.
std::vector<Context*>& context_stack();
// The current context of the calling thread, checked.
CUresult current_context(Context*& context);

// Runs `body(Context&)` with the current context after all checks.
template <typename Body>
CUresult with_context(Body body) {
  if (const CUresult code = check_ready(); code != CUDA_SUCCESS) {
    return code;
  }
  Context* context = nullptr;
  if (const CUresult code = current_context(context); code != CUDA_SUCCESS) {
    return code;
  }
  if (const CUresult code = check_card(*context->device); code != CUDA_SUCCESS) {
    return code;
  }
  return body(*context);
}

// Takes `bytes` of the card for this process, or OUT_OF_MEMORY with nothing taken.
CUresult charge(Device& device, std::uint64_t bytes);
void uncharge(Device& device, std::uint64_t bytes);
// Managed memory lives on the card as far as there is room, else on the host.
CUresult charge_managed(Device& device, std::uint64_t bytes);
void uncharge_managed(Device& device, std::uint64_t bytes);
// What a range took.
void uncharge_range(const Range& range);
// Free and total as cuMemGetInfo has them.
CUresult memory_info(Device& device, std::uint64_t& free, std::uint64_t& total);
// What programs can have of a device at most, and its multiprocessors: of the card, or of the instance of it.
std::uint64_t usable_bytes(Device& device);
std::uint32_t device_sms(Device& device);

// Host memory behind a range of device addresses; pages exist only once written. 0: none left.
CUdeviceptr map_addresses(std::uint64_t span, bool low);
void unmap_addresses(CUdeviceptr base, std::uint64_t span);
// The range that holds an address, null: none. Caller holds driver().mutex.
Range* find_range(CUdeviceptr address);
void add_range(Range range);

// Frees what a context or process-wide reset leaves behind on a device. Caller does not hold the mutex.
void drop_ranges_of(Context& context);

}  // namespace nvsim
