// Streams, events and kernels. A registered code is either a text of the simulator's own or any other image, whose
// kernels take the card's usual time:
//   .ascendsim kernel matmul us=2000       duration of a launch; it fills as many AI cores as it has blocks
#include <algorithm>
#include <charconv>
#include <ctime>
#include <string_view>

#include "runtime/device.h"
#include "state/schedule.h"

namespace ascendsim {
namespace {

constexpr std::int64_t kShortestSleep = 20'000;
constexpr std::int64_t kOthersSleep = 200'000;      // while another process has the card
constexpr std::int64_t kLongestSleep = 20'000'000;  // so that faults and lost cards are noticed

void sleep_ns(std::int64_t duration) {
  timespec time = {duration / 1'000'000'000, duration % 1'000'000'000};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
}

std::int64_t sleep_time(Card& card, int queue, std::uint64_t position, std::int64_t now) {
  const nvsim::CardState& state = card.state();
  const std::int64_t work = nvsim::earliest_end(state, card.slot_index(), queue, position) - now;
  const bool others = state.schedule.current >= 0 && state.schedule.current != card.slot_index();
  return std::clamp(work, others ? kOthersSleep : kShortestSleep, kLongestSleep);
}

// Queues an item once there is room; `position` is where the queue stands behind it.
rtError_t queue_item(Stream stream, const nvsim::Item& item, std::uint64_t& position) {
  Card& card = *stream.device->npu.card;
  while (true) {
    if (const rtError_t code = check_card(*stream.device); code != 0) {
      return code;
    }
    std::int64_t pause = 0;
    {
      const Card::Lock lock(card);
      if (!lock.ok() || !card.attach()) {
        return ACL_ERROR_RT_DRV_INTERNAL_ERROR;
      }
      if (nvsim::has_room(card.slot(), stream.queue, 1)) {
        nvsim::push(card.state(), card.slot_index(), stream.queue, item);
        position = card.slot().queues[stream.queue].tail;
        return 0;
      }
      pause = sleep_time(card, stream.queue, card.slot().queues[stream.queue].head + 1, lock.now());
    }
    sleep_ns(pause);
  }
}

void read_kernels(std::string_view text, Binary& binary) {
  constexpr std::string_view kMark = ".ascendsim kernel ";
  for (std::size_t at = text.find(kMark); at != std::string_view::npos; at = text.find(kMark, at + 1)) {
    std::string_view line = text.substr(at + kMark.size());
    line = line.substr(0, line.find('\n'));
    const std::string name(line.substr(0, line.find(' ')));
    const std::size_t value = line.find("us=");
    std::int64_t us = 0;
    if (value != std::string_view::npos) {
      std::from_chars(line.data() + value + 3, line.data() + line.size(), us);
    }
    binary.kernels[name] = us * 1000;
  }
}

rtError_t launch(const void* stub, std::uint32_t blocks, rtStream_t handle) {
  return with_device([&](Device& device) -> rtError_t {
    std::int64_t duration = device.npu.card->config().default_kernel_ns;
    {
      const std::lock_guard guard(runtime().mutex);
      const auto found = runtime().stubs.find(stub);
      if (found != runtime().stubs.end()) {
        duration = found->second;
      }
    }
    return queue_kernel(stream_of(device, handle), duration, blocks);
  });
}

}  // namespace

Stream stream_of(Device& device, rtStream_t handle) {
  return handle == nullptr ? Stream{&device, 0} : *static_cast<Stream*>(handle);
}

rtError_t queue_kernel(Stream stream, std::int64_t duration_ns, std::uint32_t cores) {
  nvsim::Item item = {};
  item.kind = nvsim::ItemKind::kKernel;
  item.remaining_ns = std::max<std::int64_t>(1, duration_ns);
  item.sms = std::clamp(cores, 1U, stream.device->npu.card->config().sms);
  std::uint64_t position = 0;
  return queue_item(stream, item, position);
}

rtError_t wait_for(Device& device, int queue, std::uint64_t position) {
  Card& card = *device.npu.card;
  while (true) {
    if (const rtError_t code = check_card(device); code != 0) {
      return code;
    }
    std::int64_t pause = 0;
    {
      const Card::Lock lock(card);
      if (!lock.ok()) {
        return ACL_ERROR_RT_DRV_INTERNAL_ERROR;
      }
      if (card.slot_index() < 0 || card.slot().queues[queue].head >= position) {
        return 0;
      }
      pause = sleep_time(card, queue, position, lock.now());
    }
    sleep_ns(pause);
  }
}

rtError_t wait_for_stream(Stream stream) {
  Card& card = *stream.device->npu.card;
  std::uint64_t position = 0;
  {
    const Card::Lock lock(card);
    if (!lock.ok()) {
      return ACL_ERROR_RT_DRV_INTERNAL_ERROR;
    }
    if (card.slot_index() < 0) {
      return 0;
    }
    position = card.slot().queues[stream.queue].tail;
  }
  return wait_for(*stream.device, stream.queue, position);
}

rtError_t wait_for_all(Device& device) {
  for (int queue = 0; queue < nvsim::kMaxStreams; ++queue) {
    if (const rtError_t code = wait_for_stream({&device, queue}); code != 0) {
      return code;
    }
  }
  return 0;
}

}  // namespace ascendsim

using ascendsim::Binary;
using ascendsim::Device;
using ascendsim::Event;
using ascendsim::runtime;
using ascendsim::Stream;

ASCENDSIM_API rtError_t rtDeviceSynchronize() {
  return ascendsim::with_device([](Device& device) { return ascendsim::wait_for_all(device); });
}

ASCENDSIM_API rtError_t rtStreamCreate(rtStream_t* stream, int32_t) {
  if (stream == nullptr) {
    return ACL_ERROR_RT_PARAM_INVALID;
  }
  return ascendsim::with_device([&](Device& device) -> rtError_t {
    const std::lock_guard guard(runtime().mutex);
    *stream = new Stream{&device, 1 + device.next_queue++ % (nvsim::kMaxStreams - 1)};
    return 0;
  });
}

ASCENDSIM_API rtError_t rtStreamDestroy(rtStream_t stream) {
  if (stream == nullptr) {
    return ACL_ERROR_RT_PARAM_INVALID;
  }
  ascendsim::wait_for_stream(*static_cast<Stream*>(stream));
  delete static_cast<Stream*>(stream);
  return 0;
}

ASCENDSIM_API rtError_t rtStreamSynchronize(rtStream_t stream) {
  return ascendsim::with_device(
      [&](Device& device) { return ascendsim::wait_for_stream(ascendsim::stream_of(device, stream)); });
}

ASCENDSIM_API rtError_t rtStreamQuery(rtStream_t handle) {
  return ascendsim::with_device([&](Device& device) -> rtError_t {
    const Stream stream = ascendsim::stream_of(device, handle);
    ascendsim::Card& card = *device.npu.card;
    const ascendsim::Card::Lock lock(card);
    if (!lock.ok()) {
      return ACL_ERROR_RT_DRV_INTERNAL_ERROR;
    }
    if (card.slot_index() < 0) {
      return 0;
    }
    const nvsim::Queue& queue = card.slot().queues[stream.queue];
    return queue.head < queue.tail ? ACL_ERROR_RT_STREAM_NOT_COMPLETE : 0;
  });
}

ASCENDSIM_API rtError_t rtEventCreate(rtEvent_t* event) {
  if (event == nullptr) {
    return ACL_ERROR_RT_PARAM_INVALID;
  }
  return ascendsim::with_device([&](Device& device) -> rtError_t {
    const std::lock_guard guard(runtime().mutex);
    std::uint32_t index = 0;
    if (!device.free_events.empty()) {
      index = device.free_events.back();
      device.free_events.pop_back();
    } else if (device.next_event < nvsim::kMaxEvents) {
      index = device.next_event++;
    } else {
      return ACL_ERROR_RT_NO_EVENT_RESOURCE;
    }
    *event = new Event{&device, index, 0, 0, 0};
    return 0;
  });
}

ASCENDSIM_API rtError_t rtEventDestroy(rtEvent_t handle) {
  auto* event = static_cast<Event*>(handle);
  if (event == nullptr) {
    return ACL_ERROR_RT_PARAM_INVALID;
  }
  const std::lock_guard guard(runtime().mutex);
  event->device->free_events.push_back(event->index);
  delete event;
  return 0;
}

ASCENDSIM_API rtError_t rtEventRecord(rtEvent_t handle, rtStream_t stream_handle) {
  auto* event = static_cast<Event*>(handle);
  if (event == nullptr) {
    return ACL_ERROR_RT_PARAM_INVALID;
  }
  return ascendsim::with_device([&](Device& device) -> rtError_t {
    const Stream stream = ascendsim::stream_of(device, stream_handle);
    nvsim::Item item = {};
    item.kind = nvsim::ItemKind::kEvent;
    item.target = event->index;
    {
      // One number a card, so that an event that takes an old one's place is not reached before it is recorded.
      static std::uint64_t next_number = 0;
      const std::lock_guard guard(runtime().mutex);
      item.number = event->number = ++next_number;
      event->queue = stream.queue;
    }
    return ascendsim::queue_item(stream, item, event->position);
  });
}

namespace {

// 0: reached or never recorded. Its time, when asked for.
bool is_reached(Event& event, std::int64_t* time) {
  ascendsim::Card& card = *event.device->npu.card;
  const ascendsim::Card::Lock lock(card);
  if (!lock.ok() || card.slot_index() < 0) {
    return true;
  }
  const nvsim::Event& state = card.slot().events[event.index];
  if (time != nullptr) {
    *time = state.time_ns;
  }
  return state.done >= event.number;
}

}  // namespace

// How the runtime says whether an event is reached: 0 not yet, 1 reached.
ASCENDSIM_API rtError_t rtEventQueryStatus(rtEvent_t handle, int32_t* status) {
  auto* event = static_cast<Event*>(handle);
  if (event == nullptr || status == nullptr) {
    return ACL_ERROR_RT_PARAM_INVALID;
  }
  if (const rtError_t code = ascendsim::check_card(*event->device); code != 0) {
    return code;
  }
  *status = is_reached(*event, nullptr) ? 1 : 0;
  return 0;
}

ASCENDSIM_API rtError_t rtEventSynchronize(rtEvent_t handle) {
  auto* event = static_cast<Event*>(handle);
  if (event == nullptr) {
    return ACL_ERROR_RT_PARAM_INVALID;
  }
  return event->number == 0 ? 0 : ascendsim::wait_for(*event->device, event->queue, event->position);
}

ASCENDSIM_API rtError_t rtEventElapsedTime(float* milliseconds, rtEvent_t start, rtEvent_t end) {
  if (milliseconds == nullptr || start == nullptr || end == nullptr) {
    return ACL_ERROR_RT_PARAM_INVALID;
  }
  std::int64_t from = 0, to = 0;
  const bool started = is_reached(*static_cast<Event*>(start), &from);
  const bool ended = is_reached(*static_cast<Event*>(end), &to);
  if (!started || !ended) {
    return ACL_ERROR_RT_EVENT_NOT_COMPLETE;
  }
  *milliseconds = static_cast<float>(static_cast<double>(to - from) / 1e6);
  return 0;
}

ASCENDSIM_API rtError_t rtDevBinaryRegister(const rtDevBinary_t* code, void** handle) {
  if (code == nullptr || handle == nullptr || code->data == nullptr) {
    return ACL_ERROR_RT_PARAM_INVALID;
  }
  auto binary = std::make_unique<Binary>();
  ascendsim::read_kernels({static_cast<const char*>(code->data), code->length}, *binary);
  *handle = binary.get();
  const std::lock_guard guard(runtime().mutex);
  runtime().binaries[binary.get()] = std::move(binary);
  return 0;
}

ASCENDSIM_API rtError_t rtDevBinaryUnRegister(void* handle) {
  const std::lock_guard guard(runtime().mutex);
  return runtime().binaries.erase(static_cast<Binary*>(handle)) != 0 ? 0 : ACL_ERROR_RT_INVALID_HANDLE;
}

// A name that the simulator's text does not have belongs to another image: its kernels take the usual time.
ASCENDSIM_API rtError_t rtFunctionRegister(void* handle, const void* stub, const char* name, const void*, uint32_t) {
  const std::lock_guard guard(runtime().mutex);
  const auto binary = runtime().binaries.find(static_cast<Binary*>(handle));
  if (binary == runtime().binaries.end() || name == nullptr) {
    return ACL_ERROR_RT_INVALID_HANDLE;
  }
  const auto found = binary->second->kernels.find(name);
  if (found != binary->second->kernels.end()) {
    runtime().stubs[stub] = found->second;
  } else if (!binary->second->kernels.empty()) {
    return ACL_ERROR_RT_KERNEL_LOOKUP;
  }
  return 0;
}

ASCENDSIM_API rtError_t rtKernelLaunch(const void* stub, uint32_t blocks, void*, uint32_t, rtSmDesc_t*,
                                       rtStream_t stream) {
  return ascendsim::launch(stub, blocks, stream);
}
ASCENDSIM_API rtError_t rtKernelLaunchWithFlag(const void* stub, uint32_t blocks, rtArgsEx_t*, rtSmDesc_t*,
                                               rtStream_t stream, uint32_t) {
  return ascendsim::launch(stub, blocks, stream);
}
ASCENDSIM_API rtError_t rtKernelLaunchWithFlagV2(const void* stub, uint32_t blocks, rtArgsEx_t*, rtSmDesc_t*,
                                                 rtStream_t stream, uint32_t, const rtTaskCfgInfo_t*) {
  return ascendsim::launch(stub, blocks, stream);
}
ASCENDSIM_API rtError_t rtKernelLaunchWithHandle(void* handle, uint64_t, uint32_t blocks, rtArgsEx_t*, rtSmDesc_t*,
                                                 rtStream_t stream, const void*) {
  return ascendsim::launch(handle, blocks, stream);
}
ASCENDSIM_API rtError_t rtKernelLaunchWithHandleV2(void* handle, uint64_t, uint32_t blocks, rtArgsEx_t*, rtSmDesc_t*,
                                                   rtStream_t stream, const rtTaskCfgInfo_t*) {
  return ascendsim::launch(handle, blocks, stream);
}
ASCENDSIM_API rtError_t rtAicpuKernelLaunchWithFlag(const rtKernelLaunchNames_t* names, uint32_t, const rtArgsEx_t*,
                                                    rtSmDesc_t*, rtStream_t stream, uint32_t) {
  return ascendsim::launch(names, 1, stream);
}
ASCENDSIM_API rtError_t rtAicpuKernelLaunchExWithArgs(uint32_t, const char* name, uint32_t, const rtAicpuArgsEx_t*,
                                                      rtSmDesc_t*, rtStream_t stream, uint32_t) {
  return ascendsim::launch(name, 1, stream);
}
ASCENDSIM_API rtError_t rtModelExecute(rtModel_t model, rtStream_t stream, uint32_t) {
  return ascendsim::launch(model, UINT32_MAX, stream);
}
