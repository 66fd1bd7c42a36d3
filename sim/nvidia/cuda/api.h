// cuda.h with every version and per-thread variant of every function declared, and these alone exported.
#pragma once

#define __CUDA_API_VERSION_INTERNAL
#pragma GCC visibility push(default)
#include <cuda.h>
extern "C" {
// Symbols of the real library that the header has only as inline functions.
// NOLINTBEGIN(readability-identifier-naming): the vendor's names
CUresult cuGetProcAddress_ptsz(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags);
CUresult cuGetProcAddress_v2_ptsz(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult* symbolStatus);
// NOLINTEND(readability-identifier-naming)
}
#pragma GCC visibility pop
