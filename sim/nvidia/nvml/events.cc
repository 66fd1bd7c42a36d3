// Event sets: XIDs and uncorrectable ECC errors, each delivered once to every set that asked for them.
#include <unistd.h>

#include <map>
#include <mutex>

#include "nvml/library.h"

namespace nvsim {
namespace {

constexpr unsigned long long kSupported =
    nvmlEventTypeXidCriticalError | nvmlEventTypeDoubleBitEccError | nvmlEventTypeSingleBitEccError;
constexpr useconds_t kPollUs = 5000;

struct Watch {
  unsigned long long types = 0;
  std::uint64_t seen = 0;  // sequence of the newest event that was delivered or came before the registration
};

struct EventSet {
  std::mutex mutex;
  std::map<Card*, Watch> watches;
};

EventSet* set_of(nvmlEventSet_t set) {
  return reinterpret_cast<EventSet*>(set);
}

// Takes the oldest undelivered event of one card.
bool take_event(Card& card, Watch& watch, nvmlEventData_t& data) {
  const Faults& faults = card.state().faults;
  const std::uint64_t newest = __atomic_load_n(&faults.next_event, __ATOMIC_ACQUIRE);
  if (newest > watch.seen + kFaultEvents) {
    watch.seen = newest - kFaultEvents;  // older ones are overwritten
  }
  while (watch.seen < newest) {
    const FaultEvent& event = faults.events[++watch.seen % kFaultEvents];
    if (event.sequence == watch.seen && (event.type & watch.types) != 0) {
      data = {nvml_handle(card), event.type, event.data, 0xffffffffU, 0xffffffffU};
      return true;
    }
  }
  return false;
}

nvmlReturn_t wait_event(nvmlEventSet_t handle, nvmlEventData_t* data, unsigned int timeout_ms) {
  if (nvml_machine() == nullptr) {
    return NVML_ERROR_UNINITIALIZED;
  }
  if (handle == nullptr || data == nullptr) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  EventSet& set = *set_of(handle);
  const std::int64_t deadline = monotonic_ns() + static_cast<std::int64_t>(timeout_ms) * 1'000'000;
  while (true) {
    {
      const std::lock_guard guard(set.mutex);
      for (auto& [card, watch] : set.watches) {
        if (take_event(*card, watch, *data)) {
          return NVML_SUCCESS;
        }
      }
    }
    const std::int64_t left = deadline - monotonic_ns();
    if (left <= 0) {
      return NVML_ERROR_TIMEOUT;
    }
    usleep(static_cast<useconds_t>(std::min<std::int64_t>(kPollUs, left / 1000 + 1)));
  }
}

}  // namespace
}  // namespace nvsim

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t* set) {
  if (nvsim::nvml_machine() == nullptr) {
    return NVML_ERROR_UNINITIALIZED;
  }
  if (set == nullptr) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  *set = reinterpret_cast<nvmlEventSet_t>(new nvsim::EventSet());
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
  if (nvsim::nvml_machine() == nullptr) {
    return NVML_ERROR_UNINITIALIZED;
  }
  delete nvsim::set_of(set);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long* types) {
  return nvsim::answer_value(device, types, [](nvsim::Card&) { return nvsim::kSupported; });
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set) {
  return nvsim::with_card(device, [&](nvsim::Card& card) {
    if (set == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    if ((types & ~nvsim::kSupported) != 0) {
      return NVML_ERROR_NOT_SUPPORTED;
    }
    nvsim::EventSet& events = *nvsim::set_of(set);
    const std::lock_guard guard(events.mutex);
    auto [entry, added] = events.watches.try_emplace(&card);
    entry->second.types |= types;
    if (added) {
      entry->second.seen = __atomic_load_n(&card.state().faults.next_event, __ATOMIC_ACQUIRE);
    }
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t* data, unsigned int timeout_ms) {
  return nvsim::wait_event(set, data, timeout_ms);
}
nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t* data, unsigned int timeout_ms) {
  // The first form's structure ends before the instance ids.
  nvmlEventData_t full = {};
  const nvmlReturn_t code = nvsim::wait_event(set, data == nullptr ? nullptr : &full, timeout_ms);
  if (code == NVML_SUCCESS) {
    std::memcpy(data, &full, offsetof(nvmlEventData_t, gpuInstanceId));
  }
  return code;
}
