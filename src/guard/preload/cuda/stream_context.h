// A stream belongs to a context, which need not be the current one: what is done in its order is done on the device of
// its own context.
#pragma once

#include "guard/preload/cuda/driver.h"
#include "guard/preload/launch.h"

namespace heddle::guard {

// Makes a context the current one for as long as it lives.
class InContext {
 public:
  explicit InContext(CUcontext context) {
    CUcontext current = nullptr;
    const CudaFunctions& driver = cuda();
    if (context == nullptr || driver.cuCtxGetCurrent == nullptr || driver.cuCtxPushCurrent_v2 == nullptr ||
        driver.cuCtxPopCurrent_v2 == nullptr || driver.cuCtxGetCurrent(&current) != CUDA_SUCCESS ||
        current == context) {
      return;
    }
    pushed_ = driver.cuCtxPushCurrent_v2(context) == CUDA_SUCCESS;
  }
  ~InContext() {
    CUcontext popped = nullptr;
    if (pushed_) cuda().cuCtxPopCurrent_v2(&popped);
  }
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;

 private:
  bool pushed_ = false;
};

// Makes the context of a stream the current one for as long as it lives. The default streams are those of the current
// context already. Cost: one query of the driver.
class StreamContext {
 public:
  explicit StreamContext(CUstream stream) : in_(context_of(stream)) {}

 private:
  // Null: the current one will do, or the driver does not say.
  static CUcontext context_of(CUstream stream) {
    if (stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD) return nullptr;
    const auto query = cuda().cuStreamGetCtx;
    CUcontext context = nullptr;
    return query != nullptr && query(stream, &context) == CUDA_SUCCESS ? context : nullptr;
  }

  InContext in_;
};

// Around a wait of the program for the device: of a stream, or without one of the current context.
class DeviceWait {
 public:
  DeviceWait(const Entry& entry, CUstream stream)
      : stream_(stream), on_(!entry.nested() && config().any_compute_limit) {
    if (!on_) return;
    const StreamContext there(stream_);
    before_wait();
  }
  ~DeviceWait() {
    if (!on_) return;
    const StreamContext there(stream_);
    after_wait();
  }
  DeviceWait(const DeviceWait&) = delete;
  DeviceWait& operator=(const DeviceWait&) = delete;

 private:
  CUstream stream_;
  bool on_;
};

}  // namespace heddle::guard
