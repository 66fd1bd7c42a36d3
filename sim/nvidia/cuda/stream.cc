// Streams and events.
#include <algorithm>

#include "cuda/pool.h"
#include "cuda/work.h"
#include "state/schedule.h"

namespace nvsim {
namespace {

struct EventObject {
  Context* context = nullptr;
  std::uint32_t index = 0;
  unsigned flags = 0;
  std::uint64_t number = 0;  // of the newest record; 0: never recorded
  std::uint64_t serial = 0;  // registration on the card that the record belongs to
  int queue = 0;
  std::uint64_t position = 0;
};

EventObject* object(CUevent handle) {
  return reinterpret_cast<EventObject*>(handle);
}

// Runs `body(Stream&)` with the stream of a handle.
template <typename Body>
CUresult with_stream(CUstream handle, Body body) {
  return with_context([&](Context& context) {
    Stream stream;
    const CUresult code = stream_of(context, handle, stream);
    return code == CUDA_SUCCESS ? body(stream) : code;
  });
}

CUresult create_stream(CUstream* out, unsigned int flags, int priority) {
  return with_context([&](Context& context) {
    if (out == nullptr || (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)) != 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    Device& device = *context.device;
    const std::lock_guard guard(driver().mutex);
    const int queue = 1 + device.next_queue++ % (kMaxStreams - 1);
    device.blocking[queue] = device.blocking[queue] || (flags & CU_STREAM_NON_BLOCKING) == 0;
    *out =
        reinterpret_cast<CUstream>(new Stream{&context, queue, flags, std::clamp(priority, -5, 0), driver().next_id++});
    return CUDA_SUCCESS;
  });
}

CUresult destroy_stream(CUstream handle) {
  return with_context([&](Context&) {
    if (handle == nullptr || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
      return CUDA_ERROR_INVALID_HANDLE;
    }
    delete reinterpret_cast<Stream*>(handle);
    return CUDA_SUCCESS;
  });
}

CUresult create_event(CUevent* out, unsigned int flags) {
  return with_context([&](Context& context) {
    if (out == nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    Device& device = *context.device;
    const std::lock_guard guard(driver().mutex);
    if (device.free_events.empty() && device.next_event == kMaxEvents) {
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    auto* event = new EventObject();
    event->context = &context;
    event->flags = flags;
    if (device.free_events.empty()) {
      event->index = device.next_event++;
    } else {
      event->index = device.free_events.back();
      device.free_events.pop_back();
    }
    *out = reinterpret_cast<CUevent>(event);
    return CUDA_SUCCESS;
  });
}

CUresult destroy_event(CUevent handle) {
  return with_context([&](Context&) {
    if (handle == nullptr) {
      return CUDA_ERROR_INVALID_HANDLE;
    }
    EventObject* event = object(handle);
    Device& device = *event->context->device;
    const std::lock_guard guard(driver().mutex);
    // An event whose record is still queued keeps its entry; the queue will write there.
    const bool idle = event->number == 0 || device.card->slot_index() < 0 ||
                      device.card->slot().queues[event->queue].head >= event->position;
    if (idle) {
      device.free_events.push_back(event->index);
    }
    delete event;
    return CUDA_SUCCESS;
  });
}

// Numbers rise over all events, so a record of an earlier owner of an entry never looks like one of the present.
std::uint64_t next_number() {
  const std::lock_guard guard(driver().mutex);
  return driver().next_id++;
}

CUresult record(CUevent handle, CUstream stream_handle) {
  return with_stream(stream_handle, [&](Stream& stream) {
    if (handle == nullptr) {
      return CUDA_ERROR_INVALID_HANDLE;
    }
    EventObject& event = *object(handle);
    if (event.context->device != stream.context->device) {
      return CUDA_ERROR_INVALID_HANDLE;
    }
    const std::uint64_t number = next_number();
    std::uint64_t position = 0;
    const CUresult code = queue_event(stream, event.index, number, position);
    if (code == CUDA_SUCCESS) {
      event.number = number;
      event.queue = stream.queue;
      event.position = position;
      event.serial = stream.context->device->card->slot().serial;
    }
    return code;
  });
}

// True, with the time, once the newest record has been reached. Caller holds the card.
bool reached(const EventObject& event, std::int64_t& time) {
  Card& card = *event.context->device->card;
  if (card.slot_index() < 0 || card.slot().serial != event.serial) {
    return true;
  }
  const Event& entry = card.slot().events[event.index];
  time = entry.time_ns;
  return entry.done >= event.number;
}

template <typename Body>
CUresult with_event(CUevent handle, Body body) {
  return with_context([&](Context&) { return handle == nullptr ? CUDA_ERROR_INVALID_HANDLE : body(*object(handle)); });
}

CUresult elapsed(float* milliseconds, CUevent start, CUevent end) {
  return with_context([&](Context&) {
    if (milliseconds == nullptr || start == nullptr || end == nullptr) {
      return CUDA_ERROR_INVALID_HANDLE;
    }
    const EventObject &first = *object(start), &second = *object(end);
    const bool timed = ((first.flags | second.flags) & CU_EVENT_DISABLE_TIMING) == 0;
    if (!timed || first.number == 0 || second.number == 0 || first.context->device != second.context->device) {
      return CUDA_ERROR_INVALID_HANDLE;
    }
    std::int64_t from = 0, to = 0;
    const Card::Lock lock(*first.context->device->card);
    if (!reached(first, from) || !reached(second, to)) {
      return CUDA_ERROR_NOT_READY;
    }
    *milliseconds = static_cast<float>(static_cast<double>(to - from) / 1e6);
    return CUDA_SUCCESS;
  });
}

template <typename Value, typename Read>
CUresult stream_value(CUstream handle, Value* out, Read read) {
  return with_stream(handle, [&](Stream& stream) {
    if (out == nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *out = read(stream);
    return CUDA_SUCCESS;
  });
}

}  // namespace
}  // namespace nvsim

using nvsim::EventObject;
using nvsim::Stream;
using nvsim::with_stream;

CUresult cuStreamCreate(CUstream* stream, unsigned int flags) {
  return nvsim::create_stream(stream, flags, 0);
}
CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned int flags, int priority) {
  return nvsim::create_stream(stream, flags, priority);
}
CUresult cuStreamDestroy(CUstream stream) {
  return nvsim::destroy_stream(stream);
}
CUresult cuStreamDestroy_v2(CUstream stream) {
  return nvsim::destroy_stream(stream);
}

CUresult cuStreamSynchronize(CUstream handle) {
  return with_stream(handle, [](Stream& stream) {
    const CUresult code = nvsim::wait_for_stream(stream);
    nvsim::trim_pools(*stream.context->device);
    return code;
  });
}
CUresult cuStreamQuery(CUstream handle) {
  return with_stream(handle, [](Stream& stream) { return nvsim::query_stream(stream); });
}
CUresult cuStreamGetPriority(CUstream handle, int* priority) {
  return nvsim::stream_value(handle, priority, [](Stream& stream) { return stream.priority; });
}
CUresult cuStreamGetFlags(CUstream handle, unsigned int* flags) {
  return nvsim::stream_value(handle, flags, [](Stream& stream) { return stream.flags; });
}
CUresult cuStreamGetId(CUstream handle, unsigned long long* id) {
  return nvsim::stream_value(handle, id, [](Stream& stream) { return stream.id; });
}
CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) {
  return nvsim::stream_value(handle, context,
                             [](Stream& stream) { return reinterpret_cast<CUcontext>(stream.context); });
}
CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext* context, CUgreenCtx* green) {
  if (green != nullptr) {
    *green = nullptr;
  }
  return cuStreamGetCtx(handle, context);
}
CUresult cuStreamGetDevice(CUstream handle, CUdevice* device) {
  return nvsim::stream_value(handle, device, [](Stream& stream) { return stream.context->device->ordinal; });
}

// Nothing is ever captured: cuStreamBeginCapture is not supported.
CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  return nvsim::stream_value(handle, status, [](Stream&) { return CU_STREAM_CAPTURE_STATUS_NONE; });
}
CUresult cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t*) {
  return cuStreamIsCapturing(handle, status);
}
CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t*, CUgraph*,
                                   const CUgraphNode**, size_t*) {
  return cuStreamIsCapturing(handle, status);
}
CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t*, CUgraph*,
                                   const CUgraphNode**, const CUgraphEdgeData**, size_t*) {
  return cuStreamIsCapturing(handle, status);
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode*) {
  return nvsim::check_ready();
}
CUresult cuStreamAttachMemAsync(CUstream handle, CUdeviceptr, size_t, unsigned int) {
  return with_stream(handle, [](Stream&) { return CUDA_SUCCESS; });
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event_handle, unsigned int) {
  return with_stream(handle, [&](Stream& stream) {
    if (event_handle == nullptr) {
      return CUDA_ERROR_INVALID_HANDLE;
    }
    const EventObject& event = *nvsim::object(event_handle);
    if (event.number == 0) {
      return CUDA_SUCCESS;
    }
    if (event.context->device != stream.context->device) {
      // Another card's clock: the calling thread waits in the stream's place.
      return nvsim::wait_for(*event.context->device, event.queue, event.position);
    }
    return nvsim::queue_wait(stream, event.queue, event.position);
  });
}

CUresult cuEventCreate(CUevent* event, unsigned int flags) {
  return nvsim::create_event(event, flags);
}
CUresult cuEventDestroy(CUevent event) {
  return nvsim::destroy_event(event);
}
CUresult cuEventDestroy_v2(CUevent event) {
  return nvsim::destroy_event(event);
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
  return nvsim::record(event, stream);
}
CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int) {
  return nvsim::record(event, stream);
}

CUresult cuEventQuery(CUevent handle) {
  return nvsim::with_event(handle, [](EventObject& event) {
    std::int64_t time = 0;
    const nvsim::Card::Lock lock(*event.context->device->card);
    return event.number == 0 || nvsim::reached(event, time) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}
CUresult cuEventSynchronize(CUevent handle) {
  return nvsim::with_event(handle, [](EventObject& event) {
    if (event.number == 0) {
      return CUDA_SUCCESS;
    }
    const CUresult code = nvsim::wait_for(*event.context->device, event.queue, event.position);
    nvsim::trim_pools(*event.context->device);
    return code;
  });
}
CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  return nvsim::elapsed(milliseconds, start, end);
}
CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
  return nvsim::elapsed(milliseconds, start, end);
}
