// Allocation of address ranges with the memory behind them.
#pragma once

#include "cuda/driver.h"

namespace nvsim {

struct Wish {
  std::uint64_t size = 0;
  unsigned flags = 0;
  Kind kind = Kind::kDevice;
  bool low = false;  // below 2 GiB
};

// kDevice is charged whole or refused, kManaged as far as the card has room, others not at all.
CUresult allocate_range(Context& context, const Wish& wish, CUdeviceptr* out);

}  // namespace nvsim
