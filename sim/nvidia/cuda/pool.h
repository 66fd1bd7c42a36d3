// Stream-ordered memory pools: what is reserved on the card, and how much of it is in use.
#pragma once

#include "cuda/driver.h"

namespace nvsim {

struct Pool {
  Device* device = nullptr;  // null: a pool of host memory
  bool is_default = false;
  std::uint64_t reserved = 0, reserved_high = 0;
  std::uint64_t used = 0, used_high = 0;
  std::uint64_t threshold = 0;  // kept reserved at a synchronisation
  std::uint64_t maximum = 0;    // 0: the card
  int reuse[3] = {1, 1, 1};
  CUmemPoolProps properties = {};
};

Pool& default_pool(Device& device);
// Takes `bytes` out of the pool, which grows on the card when it must.
CUresult pool_take(Pool& pool, std::uint64_t bytes);
void pool_give_back(Pool& pool, std::uint64_t bytes);
// What every synchronisation does: reserved memory beyond the threshold goes back to the card.
void trim_pools(Device& device);

}  // namespace nvsim
