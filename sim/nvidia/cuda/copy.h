// The content of modelled memory.
#pragma once

#include "cuda/driver.h"

namespace nvsim {

// Of one copy or fill only this much is carried out: enough for programs that check small data, without filling the
// host's memory with the content of a card.
inline constexpr std::uint64_t kContentLimit = 16ULL << 20U;

// True when [address, address + size) lies in one range that the driver gave out.
bool is_device_span(CUdeviceptr address, std::uint64_t size);

}  // namespace nvsim
