// Arrays and mipmapped arrays: memory with a shape.
#pragma once

#include <vector>

#include "cuda/driver.h"

namespace nvsim {

struct Array {
  Device* device = nullptr;
  CUDA_ARRAY3D_DESCRIPTOR shape = {};
  std::uint64_t row_bytes = 0;  // a row with its padding
  std::uint64_t rows = 0;       // over all layers
  std::uint64_t span = 0;       // of the mapping; 0: a level of a mipmapped array, which owns the memory
  std::uint64_t needed = 0;     // what it takes with memory behind it
  std::uint64_t charged = 0;    // 0: its memory is mapped later
  Context* context = nullptr;   // that owns it
  CUdeviceptr base = 0;
};

Array* array_of(CUarray handle);

}  // namespace nvsim
