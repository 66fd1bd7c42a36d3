#include "nvml/library.h"

#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <ctime>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "state/fork_mark.h"
#include "state/mig.h"

namespace nvsim {
namespace {

// The library's own state. Views are never destroyed: other threads may still be in a call.
struct Library {
  std::mutex mutex;
  ForkMark mark;
  std::atomic<MachineView*> view{nullptr};
  MachineView* opened = nullptr;
  unsigned int references = 0;
  std::mutex handles_mutex;
  std::map<std::tuple<Card*, int, int>, std::unique_ptr<InstanceHandle>> handles;
};

Library& library() {
  static Library* instance = new Library();
  return *instance;
}

// A child starts over: it may call nvmlInit, with mappings and descriptors of its own.
void after_fork_in_child() {
  Library& old = library();
  if (old.opened != nullptr) {
    old.opened->close_in_child();
  }
  old.view = nullptr;
  old.opened = nullptr;
  old.references = 0;
  new (&old.mutex) std::mutex();
}

nvmlReturn_t code_of(int error) {
  switch (error) {
    case 0:
      return NVML_SUCCESS;
    case EACCES:
    case EPERM:
      return NVML_ERROR_NO_PERMISSION;
    case EPROTO:
      return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    default:
      return NVML_ERROR_DRIVER_NOT_LOADED;
  }
}

nvmlReturn_t open_machine(Library& self) {
  if (self.opened == nullptr) {
    auto* view = new MachineView();
    if (const nvmlReturn_t code = code_of(view->open()); code != NVML_SUCCESS) {
      return code;
    }
    self.mark.set();
    pthread_atfork(nullptr, nullptr, after_fork_in_child);
    self.opened = view;
  }
  const int fault = self.opened->machine().init_fault;
  return fault == 0 ? NVML_SUCCESS : static_cast<nvmlReturn_t>(fault);
}

nvmlReturn_t initialise() {
  Library& self = library();
  const std::lock_guard guard(self.mutex);
  if (self.mark.in_child()) {
    self.opened = nullptr;
    self.view = nullptr;
    self.references = 0;
  }
  if (self.references == 0) {
    if (const nvmlReturn_t code = open_machine(self); code != NVML_SUCCESS) {
      return code;
    }
    self.view = self.opened;
  }
  self.references += 1;
  return NVML_SUCCESS;
}

std::int64_t wall_offset_us() {
  timespec time = {};
  clock_gettime(CLOCK_REALTIME, &time);
  return time.tv_sec * 1'000'000 + time.tv_nsec / 1000 - monotonic_ns() / 1000;
}

}  // namespace

MachineView* nvml_machine() {
  Library& self = library();
  return self.mark.in_child() ? nullptr : self.view.load();
}

CardAnswer nvml_card(nvmlDevice_t device) {
  MachineView* view = nvml_machine();
  if (view == nullptr) {
    return {nullptr, NVML_ERROR_UNINITIALIZED};
  }
  for (const auto& card : view->cards()) {
    if (nvml_handle(*card) == device) {
      if (card->lost()) {
        return {nullptr, NVML_ERROR_GPU_IS_LOST};
      }
      return {card.get(), NVML_SUCCESS};
    }
  }
  if (const InstanceHandle* instance = find_instance_handle(device); instance != nullptr && instance->compute >= 0) {
    if (instance->card->lost()) {
      return {nullptr, NVML_ERROR_GPU_IS_LOST};
    }
    const Card::Lock lock(*instance->card);
    if (!has_compute_instance(instance->card->state(), instance->gpu, instance->compute)) {
      return {nullptr, NVML_ERROR_INVALID_ARGUMENT};
    }
    return {instance->card, NVML_SUCCESS, instance->gpu, instance->compute};
  }
  return {nullptr, NVML_ERROR_INVALID_ARGUMENT};
}

InstanceHandle* instance_handle(Card& card, int gpu, int compute) {
  Library& self = library();
  const std::lock_guard guard(self.handles_mutex);
  auto& handle = self.handles[{&card, gpu, compute}];
  if (handle == nullptr) {
    handle = std::make_unique<InstanceHandle>(InstanceHandle{&card, gpu, compute});
  }
  return handle.get();
}

const InstanceHandle* find_instance_handle(const void* handle) {
  Library& self = library();
  const std::lock_guard guard(self.handles_mutex);
  for (const auto& [place, known] : self.handles) {
    if (known.get() == handle) {
      return known.get();
    }
  }
  return nullptr;
}

nvmlDevice_t nvml_handle(const Card& card) {
  // An opaque handle; it is only ever compared.
  return reinterpret_cast<nvmlDevice_t>(const_cast<Card*>(&card));
}

unsigned long long wall_us(std::int64_t monotonic) {
  const std::int64_t microseconds = monotonic / 1000 + wall_offset_us();
  return static_cast<unsigned long long>(microseconds);
}

std::int64_t monotonic_from_wall_us(unsigned long long microseconds) {
  return (static_cast<std::int64_t>(microseconds) - wall_offset_us()) * 1000;
}

}  // namespace nvsim

using nvsim::library;

nvmlReturn_t nvmlInit_v2() {
  return nvsim::initialise();
}
nvmlReturn_t nvmlInit() {
  return nvsim::initialise();
}
nvmlReturn_t nvmlInitWithFlags(unsigned int) {
  return nvsim::initialise();
}

nvmlReturn_t nvmlShutdown() {
  nvsim::Library& self = library();
  const std::lock_guard guard(self.mutex);
  if (self.references == 0) {
    return NVML_ERROR_UNINITIALIZED;
  }
  if (--self.references == 0) {
    self.view = nullptr;
  }
  return NVML_SUCCESS;
}

const char* nvmlErrorString(nvmlReturn_t result) {
  switch (result) {
    case NVML_SUCCESS:
      return "Success";
    case NVML_ERROR_UNINITIALIZED:
      return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT:
      return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED:
      return "Not Supported";
    case NVML_ERROR_NO_PERMISSION:
      return "Insufficient Permissions";
    case NVML_ERROR_NOT_FOUND:
      return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE:
      return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED:
      return "Driver Not Loaded";
    case NVML_ERROR_TIMEOUT:
      return "Timeout";
    case NVML_ERROR_GPU_IS_LOST:
      return "GPU is lost";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH:
      return "Driver/library version mismatch";
    case NVML_ERROR_RESET_REQUIRED:
      return "GPU requires reset";
    case NVML_ERROR_INSUFFICIENT_RESOURCES:
      return "Insufficient Resources";
    case NVML_ERROR_IN_USE:
      return "In use by another client";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
      return "Argument version mismatch";
    default:
      return "Unknown Error";
  }
}
