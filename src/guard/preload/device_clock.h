// What the compute law asks of the vendor's table: events in the order of a stream. Handles are the vendor's.
#pragma once

#include <cstdint>

namespace heddle::guard::device_clock {

// True while the stream records its work instead of doing it, or when the driver does not say.
bool capturing(void* stream, bool per_thread);

// An event that tells its time; null: there is none. Does not break a capture of another thread.
void* create_event();
bool record(void* event, void* stream, bool per_thread);

enum class Reached { kYes, kNo, kUnknown };
Reached query(void* event);
// Between two events that were reached.
bool elapsed(void* start, void* end, double* nanoseconds);

// kYes when the stream has nothing left to do.
Reached query_stream(void* stream, bool per_thread);

// The calling thread's context as a number; 0: none.
uint64_t current_context();

}  // namespace heddle::guard::device_clock
