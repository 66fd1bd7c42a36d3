// By what a program learns that the device is through, beside the waits that give memory back (pools.cc): queries, and
// copies to the host that wait. What the device is through with is charged then. Without a compute limit: one load.
#include "guard/preload/cuda/memory.h"
#include "guard/preload/cuda/stream_context.h"

namespace heddle::guard {
namespace {

// After a query that found it through.
CUresult after_query(const Entry& entry, CUresult result) {
  if (result == CUDA_SUCCESS) const DeviceWait over(entry, nullptr);
  return result;
}

}  // namespace
}  // namespace heddle::guard

using namespace heddle::guard;

extern "C" {

#define HEDDLE_QUERY(name, Handle)               \
  HEDDLE_EXPORT CUresult name(Handle handle) {   \
    const auto real = cuda().name;               \
    if (real == nullptr) return kNoSuchFunction; \
    const Entry entry;                           \
    return after_query(entry, real(handle));     \
  }
HEDDLE_QUERY(cuEventQuery, CUevent)
HEDDLE_QUERY(cuStreamQuery, CUstream)
HEDDLE_QUERY(cuStreamQuery_ptsz, CUstream)
#undef HEDDLE_QUERY

#define HEDDLE_COPY(name, To, From, Size)                    \
  HEDDLE_EXPORT CUresult name(To to, From from, Size size) { \
    const auto real = cuda().name;                           \
    if (real == nullptr) return kNoSuchFunction;             \
    const Entry entry;                                       \
    const DeviceWait waiting(entry, nullptr);                \
    return real(to, from, size);                             \
  }
HEDDLE_COPY(cuMemcpy, CUdeviceptr, CUdeviceptr, size_t)
HEDDLE_COPY(cuMemcpy_ptds, CUdeviceptr, CUdeviceptr, size_t)
HEDDLE_COPY(cuMemcpyDtoH, void*, CUdeviceptr_v1, unsigned int)
HEDDLE_COPY(cuMemcpyDtoH_v2, void*, CUdeviceptr, size_t)
HEDDLE_COPY(cuMemcpyDtoH_v2_ptds, void*, CUdeviceptr, size_t)
#undef HEDDLE_COPY
}
