// The vendor's real functions, and the way from a name or an address to our hook.
//
// Nothing is loaded here that the program did not load itself: a driver is taken into use when the program asks dlsym
// for one of its functions or calls a hook that it was linked to, and is found among the objects that are loaded by
// then.
#pragma once

#include "guard/preload/cuda/hooks.h"
#include "guard/preload/libc.h"

namespace heddle::guard {

// Null members: the driver has no such function.
struct CudaFunctions {
#define HEDDLE_MEMBER(name, ...) decltype(&::name) name;
  HEDDLE_CUDA_HOOKS(HEDDLE_MEMBER)
  HEDDLE_CUDA_CALLS(HEDDLE_MEMBER)
};

struct NvmlFunctions {
  HEDDLE_NVML_HOOKS(HEDDLE_MEMBER)
  HEDDLE_NVML_CALLS(HEDDLE_MEMBER)
#undef HEDDLE_MEMBER
};

// The functions of the driver that is loaded; all null while there is none. Cost after the first call: one load.
const CudaFunctions& cuda();
const NvmlFunctions& nvml();
bool cuda_loaded();
bool nvml_loaded();

// What a program that asked cuGetProcAddress for (symbol, version, flags) and would get `real` shall get. Null:
// nothing, because the limits forbid what is not known.
void* hook_of_proc_address(const char* symbol, int version, unsigned long long flags, void* real);

}  // namespace heddle::guard
