// What the guard knows of the driver's entry points: every name of the vendor's header, classified at build time by
// coverage/cuda.rules. A driver may be newer than that header.
#pragma once

#include "guard/preload/elf.h"

namespace heddle::guard {

// True for a name that the header had, and for families that other headers of the vendor declare.
bool is_known_cuda(const char* name);

// True when a name that is not known speaks of memory, contexts or work: what such an entry point does cannot be held.
bool speaks_of_resources(const char* name);

// Compares the driver's exports with what is known: how many CUDA entry points are not, and the first such names with
// blanks between, cut to the room. Cost: some microseconds.
uint32_t count_unknown(const LoadedObject& driver, char* names, uint32_t room);

}  // namespace heddle::guard
