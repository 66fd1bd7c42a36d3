// A stream belongs to a context, which need not be the current one: what is done in its order is done on the device of
// its own context.
#pragma once

#include "guard/preload/cuda/driver.h"

namespace heddle::guard {

// Makes the context of a stream the current one for as long as it lives. The default streams are those of the current
// context already. Cost: one query of the driver.
class StreamContext {
 public:
  explicit StreamContext(CUstream stream) {
    if (stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD) return;
    CUcontext its = nullptr;
    CUcontext current = nullptr;
    const CudaFunctions& driver = cuda();
    if (driver.cuStreamGetCtx == nullptr || driver.cuCtxGetCurrent == nullptr ||
        driver.cuCtxPushCurrent_v2 == nullptr || driver.cuCtxPopCurrent_v2 == nullptr) {
      return;
    }
    if (driver.cuStreamGetCtx(stream, &its) != CUDA_SUCCESS || its == nullptr) return;
    if (driver.cuCtxGetCurrent(&current) != CUDA_SUCCESS || its == current) return;
    pushed_ = driver.cuCtxPushCurrent_v2(its) == CUDA_SUCCESS;
  }
  ~StreamContext() {
    CUcontext popped = nullptr;
    if (pushed_) cuda().cuCtxPopCurrent_v2(&popped);
  }
  StreamContext(const StreamContext&) = delete;
  StreamContext& operator=(const StreamContext&) = delete;

 private:
  bool pushed_ = false;
};

}  // namespace heddle::guard
