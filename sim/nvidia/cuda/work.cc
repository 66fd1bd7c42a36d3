#include "cuda/work.h"

#include <algorithm>
#include <ctime>

#include "state/schedule.h"

namespace nvsim {
namespace {

constexpr std::int64_t kShortestSleep = 20'000;
constexpr std::int64_t kOthersSleep = 200'000;      // while another process has the card
constexpr std::int64_t kLongestSleep = 20'000'000;  // so that faults and lost cards are noticed
constexpr std::uint64_t kRoomForWaits = kMaxStreams + 1;

void sleep_ns(std::int64_t duration) {
  timespec time = {duration / 1'000'000'000, duration % 1'000'000'000};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
}

std::int64_t sleep_time(Card& card, int queue, std::uint64_t position, std::int64_t now) {
  const CardState& state = card.state();
  const std::int64_t work = earliest_end(state, card.slot_index(), queue, position) - now;
  const Schedule& schedule = card.gpu_instance() < 0 ? state.schedule : state.mig_schedules[card.gpu_instance()];
  const bool others = schedule.current >= 0 && schedule.current != card.slot_index();
  return std::clamp(work, others ? kOthersSleep : kShortestSleep, kLongestSleep);
}

Item wait_item(int queue, std::uint64_t position) {
  Item item = {};
  item.kind = ItemKind::kWait;
  item.target = static_cast<std::uint32_t>(queue);
  item.number = position;
  return item;
}

// The rules of the legacy default stream: it waits for all blocking streams, and they for it.
void push_default_stream_waits(Device& device, const Stream& stream) {
  Card& card = *device.card;
  const ProcessSlot& slot = card.slot();
  if (device.waited_serial != slot.serial) {
    std::fill(std::begin(device.waited_for_default), std::end(device.waited_for_default), 0);
    device.waited_serial = slot.serial;
  }
  if (stream.queue == 0) {
    for (int queue = 1; queue < kMaxStreams; ++queue) {
      if (device.blocking[queue] && slot.queues[queue].head < slot.queues[queue].tail) {
        push(card.state(), card.slot_index(), 0, wait_item(queue, slot.queues[queue].tail));
      }
    }
    return;
  }
  const Queue& first = slot.queues[0];
  if ((stream.flags & CU_STREAM_NON_BLOCKING) == 0 && first.head < first.tail &&
      device.waited_for_default[stream.queue] < first.tail) {
    push(card.state(), card.slot_index(), stream.queue, wait_item(0, first.tail));
    device.waited_for_default[stream.queue] = first.tail;
  }
}

// Queues an item once there is room; `after` reads the queue's position while the card is held.
CUresult queue_item(Stream& stream, const Item& item, std::uint64_t& position) {
  Device& device = *stream.context->device;
  Card& card = *device.card;
  while (true) {
    if (const CUresult code = check_card(device); code != CUDA_SUCCESS) {
      return code;
    }
    std::int64_t pause = 0;
    {
      const Card::Lock lock(card);
      if (!lock.ok() || !card.attach()) {
        return CUDA_ERROR_UNKNOWN;
      }
      if (has_room(card.slot(), stream.queue, kRoomForWaits)) {
        push_default_stream_waits(device, stream);
        push(card.state(), card.slot_index(), stream.queue, item);
        position = card.slot().queues[stream.queue].tail;
        return CUDA_SUCCESS;
      }
      pause = sleep_time(card, stream.queue, card.slot().queues[stream.queue].head + 1, lock.now());
    }
    sleep_ns(pause);
  }
}

}  // namespace

CUresult stream_of(Context& context, CUstream handle, Stream& stream) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY) {
    stream = {&context, 0, 0, 0, 1};
    return CUDA_SUCCESS;
  }
  if (handle == CU_STREAM_PER_THREAD) {
    // One queue a thread, taken in turn.
    thread_local std::map<Device*, int> queues;
    Device& device = *context.device;
    const std::lock_guard guard(driver().mutex);
    auto [entry, added] = queues.try_emplace(&device, 0);
    if (added) {
      entry->second = 1 + device.next_queue++ % (kMaxStreams - 1);
      device.blocking[entry->second] = true;
    }
    stream = {&context, entry->second, 0, 0, 2};
    return CUDA_SUCCESS;
  }
  stream = *reinterpret_cast<Stream*>(handle);
  const std::lock_guard guard(driver().mutex);
  return driver().contexts.contains(stream.context) ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult queue_kernel(Stream& stream, std::int64_t duration_ns, std::uint32_t sms) {
  Card& card = *stream.context->device->card;
  // A kernel touches all of the process's managed memory.
  if (card.slot_index() >= 0 && __atomic_load_n(&card.slot().managed_resident, __ATOMIC_RELAXED) <
                                    __atomic_load_n(&card.slot().managed_bytes, __ATOMIC_RELAXED)) {
    const Card::Lock lock(card);
    card.bring_in();
  }
  Item item = {};
  item.kind = ItemKind::kKernel;
  item.remaining_ns = std::max<std::int64_t>(1, duration_ns);
  item.sms = std::clamp(sms, 1U, device_sms(*stream.context->device));
  std::uint64_t position = 0;
  return queue_item(stream, item, position);
}

CUresult queue_event(Stream& stream, std::uint32_t index, std::uint64_t number, std::uint64_t& position) {
  Item item = {};
  item.kind = ItemKind::kEvent;
  item.target = index;
  item.number = number;
  return queue_item(stream, item, position);
}

CUresult queue_wait(Stream& stream, int other, std::uint64_t position) {
  if (stream.queue == other) {
    return CUDA_SUCCESS;  // in order already
  }
  std::uint64_t unused = 0;
  return queue_item(stream, wait_item(other, position), unused);
}

CUresult wait_for(Device& device, int queue, std::uint64_t position) {
  Card& card = *device.card;
  while (true) {
    if (const CUresult code = check_card(device); code != CUDA_SUCCESS) {
      return code;
    }
    std::int64_t pause = 0;
    {
      const Card::Lock lock(card);
      if (!lock.ok()) {
        return CUDA_ERROR_UNKNOWN;
      }
      if (card.slot_index() < 0 || card.slot().queues[queue].head >= position) {
        return CUDA_SUCCESS;
      }
      pause = sleep_time(card, queue, position, lock.now());
    }
    sleep_ns(pause);
  }
}

CUresult wait_for_stream(Stream& stream) {
  Device& device = *stream.context->device;
  if (device.card->slot_index() < 0) {
    return CUDA_SUCCESS;
  }
  std::uint64_t position = 0;
  {
    const Card::Lock lock(*device.card);
    position = device.card->slot().queues[stream.queue].tail;
  }
  const CUresult code = wait_for(device, stream.queue, position);
  // The default stream stands for all blocking ones.
  for (int queue = 1; queue < kMaxStreams && stream.queue == 0 && code == CUDA_SUCCESS; ++queue) {
    if (device.blocking[queue]) {
      wait_for(device, queue, device.card->slot().queues[queue].tail);
    }
  }
  return code;
}

CUresult wait_for_all(Device& device) {
  for (int queue = 0; queue < kMaxStreams && device.card->slot_index() >= 0; ++queue) {
    const CUresult code = wait_for(device, queue, device.card->slot().queues[queue].tail);
    if (code != CUDA_SUCCESS) {
      return code;
    }
  }
  return CUDA_SUCCESS;
}

CUresult query_stream(Stream& stream) {
  Card& card = *stream.context->device->card;
  const Card::Lock lock(card);
  if (!lock.ok()) {
    return CUDA_ERROR_UNKNOWN;
  }
  if (card.slot_index() < 0) {
    return CUDA_SUCCESS;
  }
  const Queue& queue = card.slot().queues[stream.queue];
  return queue.head < queue.tail ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

}  // namespace nvsim
