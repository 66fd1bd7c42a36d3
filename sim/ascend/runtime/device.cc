// Devices: which there are, which one a thread works on, and what a process takes of a card by using it.
#include "runtime/device.h"

#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <string_view>

namespace ascendsim {
namespace {

void after_fork_in_child() {
  runtime().view.close_in_child();
}

// ASCEND_RT_VISIBLE_DEVICES: indices in the driver's order; the list ends at the first that names no card.
std::vector<NpuCard> visible_cards(const std::vector<NpuCard>& cards) {
  const char* variable = getenv("ASCEND_RT_VISIBLE_DEVICES");
  if (variable == nullptr) {
    return cards;
  }
  std::vector<NpuCard> visible;
  std::string_view rest = variable;
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    std::size_t index = 0;
    const std::string entry(rest.substr(0, comma));
    const char* end = entry.data() + entry.size();
    const auto result = std::from_chars(entry.data(), end, index);
    if (result.ec != std::errc() || result.ptr != end || index >= cards.size()) {
      break;
    }
    visible.push_back(cards[index]);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return visible;
}

void open_machine(Runtime& self) {
  self.opened = true;
  self.open_error = self.view.open();
  if (self.open_error != 0) {
    return;
  }
  self.mark.set();
  pthread_atfork(nullptr, nullptr, after_fork_in_child);
  for (const NpuCard& npu : visible_cards(self.view.cards())) {
    auto device = std::make_unique<Device>();
    device->npu = npu;
    device->index = static_cast<int>(self.devices.size());
    self.devices.push_back(std::move(device));
  }
}

}  // namespace

Runtime& runtime() {
  // Never destroyed: other threads may still be in a call when the process ends.
  static Runtime* instance = new Runtime();
  return *instance;
}

rtError_t check_ready() {
  Runtime& self = runtime();
  if (self.mark.in_child()) {
    return ACL_ERROR_RT_DRV_INTERNAL_ERROR;
  }
  const std::lock_guard guard(self.mutex);
  if (!self.opened) {
    open_machine(self);
  }
  if (self.open_error != 0 || self.devices.empty()) {
    return ACL_ERROR_RT_NO_DEVICE;
  }
  return self.view.machine().machine.init_fault != 0 ? ACL_ERROR_RT_DRV_INTERNAL_ERROR : 0;
}

Device* device_at(std::int32_t index) {
  const auto& devices = runtime().devices;
  return index >= 0 && static_cast<std::size_t>(index) < devices.size() ? devices[static_cast<std::size_t>(index)].get()
                                                                        : nullptr;
}

Device*& current_device() {
  thread_local Device* current = nullptr;
  return current;
}

rtError_t check_card(Device& device) {
  return device.npu.card->lost() ? ACL_ERROR_RT_LOST_HEARTBEAT : 0;
}

std::uint64_t usable_bytes(const nvsim::CardConfig& config) {
  return config.memory_bytes - config.memory_reserved_bytes;
}

rtError_t charge(Device& device, std::uint64_t bytes) {
  Card& card = *device.npu.card;
  const Card::Lock lock(card);
  if (!lock.ok() || !card.attach()) {
    return ACL_ERROR_RT_RESOURCE_ALLOC_FAIL;
  }
  const std::uint64_t used = card.used_bytes();
  const std::uint64_t usable = usable_bytes(card.config());
  if (used > usable || bytes > usable - used) {
    return ACL_ERROR_RT_MEMORY_ALLOCATION;
  }
  card.slot().memory_bytes += bytes;
  return 0;
}

void uncharge(Device& device, std::uint64_t bytes) {
  Card& card = *device.npu.card;
  const Card::Lock lock(card);
  if (lock.ok() && card.slot_index() >= 0) {
    card.slot().memory_bytes -= std::min(bytes, card.slot().memory_bytes);
  }
}

}  // namespace ascendsim

using ascendsim::Device;

ASCENDSIM_API rtError_t rtGetDeviceCount(int32_t* count) {
  if (count == nullptr) {
    return ACL_ERROR_RT_PARAM_INVALID;
  }
  if (const rtError_t code = ascendsim::check_ready(); code != 0) {
    return code;
  }
  *count = static_cast<int32_t>(ascendsim::runtime().devices.size());
  return 0;
}

ASCENDSIM_API rtError_t rtGetDevice(int32_t* device) {
  if (device == nullptr) {
    return ACL_ERROR_RT_PARAM_INVALID;
  }
  const Device* current = ascendsim::current_device();
  if (current == nullptr) {
    return ACL_ERROR_RT_CONTEXT_NULL;
  }
  *device = current->index;
  return 0;
}

// A device has one context in a process.
ASCENDSIM_API rtError_t rtCtxGetCurrent(void** context) {
  if (context == nullptr) {
    return ACL_ERROR_RT_PARAM_INVALID;
  }
  *context = ascendsim::current_device();
  return *context != nullptr ? 0 : ACL_ERROR_RT_CONTEXT_NULL;
}

// The first use of a card by a process makes its context, which takes memory of the card.
ASCENDSIM_API rtError_t rtSetDevice(int32_t index) {
  if (const rtError_t code = ascendsim::check_ready(); code != 0) {
    return code;
  }
  Device* device = ascendsim::device_at(index);
  if (device == nullptr) {
    return ACL_ERROR_RT_INVALID_DEVICEID;
  }
  if (const rtError_t code = ascendsim::check_card(*device); code != 0) {
    return code;
  }
  bool first = false;
  {
    const std::lock_guard guard(ascendsim::runtime().mutex);
    first = device->users++ == 0;
  }
  if (first) {
    if (const rtError_t code = ascendsim::charge(*device, device->npu.card->config().context_bytes); code != 0) {
      const std::lock_guard guard(ascendsim::runtime().mutex);
      --device->users;
      return code;
    }
  }
  ascendsim::current_device() = device;
  return 0;
}

ASCENDSIM_API rtError_t rtDeviceReset(int32_t index) {
  if (const rtError_t code = ascendsim::check_ready(); code != 0) {
    return code;
  }
  Device* device = ascendsim::device_at(index);
  if (device == nullptr) {
    return ACL_ERROR_RT_INVALID_DEVICEID;
  }
  bool last = false;
  {
    const std::lock_guard guard(ascendsim::runtime().mutex);
    last = device->users == 1;
    if (device->users > 0) --device->users;
  }
  if (last) {
    ascendsim::wait_for_all(*device);
    ascendsim::free_everything_of(*device);
    ascendsim::uncharge(*device, device->npu.card->config().context_bytes);
  }
  if (ascendsim::current_device() == device) {
    ascendsim::current_device() = nullptr;
  }
  return 0;
}

ASCENDSIM_API rtError_t rtGetDevicePhyIdByIndex(uint32_t index, uint32_t* physical) {
  if (const rtError_t code = ascendsim::check_ready(); code != 0) {
    return code;
  }
  const Device* device = ascendsim::device_at(static_cast<int32_t>(index));
  if (device == nullptr || physical == nullptr) {
    return ACL_ERROR_RT_INVALID_DEVICEID;
  }
  *physical = device->npu.card->config().minor;
  return 0;
}
