// What the driver takes for a context, from its own accounting of processes.
#pragma once

#include <cstdint>

namespace heddle::guard {

// Bytes that NVML accounts to this process on a rule's device beyond what is charged for it; 0: NVML does not tell (in
// a pid namespace of its own a process cannot find itself there; then the agent's limits file has the value).
uint64_t measure_context_overhead(int rule);

}  // namespace heddle::guard
