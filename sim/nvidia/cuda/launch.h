// What a launch costs: how long it runs and how many SMs it can fill.
#pragma once

#include "cuda/module.h"

namespace nvsim {

struct Shape {
  std::uint64_t grid = 1;   // blocks
  std::uint64_t block = 1;  // threads a block
};

struct Cost {
  std::int64_t duration_ns = 0;
  std::uint32_t sms = 1;
};

// INVALID_VALUE for an empty or impossible shape.
CUresult launch_cost(const Kernel* kernel, const unsigned grid[3], const unsigned block[3], const Card& card,
                     Cost& cost);

}  // namespace nvsim
