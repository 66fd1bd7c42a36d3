// Work on a card's queues: putting it there and waiting for it.
#pragma once

#include "cuda/driver.h"

namespace nvsim {

struct Stream {
  Context* context = nullptr;
  int queue = 0;
  unsigned flags = 0;
  int priority = 0;
  unsigned long long id = 0;
};

// The stream of a handle as the current context has it; null, legacy and per-thread handles included.
CUresult stream_of(Context& context, CUstream handle, Stream& stream);

// Queues a kernel behind what its stream has to wait for; sleeps while the queue is full. `position` is where the queue
// stands once it is done.
CUresult queue_kernel(Stream& stream, std::int64_t duration_ns, std::uint32_t sms);
// Queues the record `number` of event `index`.
CUresult queue_event(Stream& stream, std::uint32_t index, std::uint64_t number, std::uint64_t& position);
// Makes the stream wait until queue `other` has come to `position`.
CUresult queue_wait(Stream& stream, int other, std::uint64_t position);

// Sleeps until the queue has come to `position`, or to the end of what it holds now.
CUresult wait_for(Device& device, int queue, std::uint64_t position);
CUresult wait_for_stream(Stream& stream);
CUresult wait_for_all(Device& device);
// NOT_READY while the stream has work.
CUresult query_stream(Stream& stream);

}  // namespace nvsim
