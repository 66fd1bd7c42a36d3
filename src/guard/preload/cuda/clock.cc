// The compute law's clock: CUDA's events.
#include "guard/preload/cuda/driver.h"
#include "guard/preload/cuda/memory.h"
#include "guard/preload/device_clock.h"

namespace heddle::guard::device_clock {
namespace {

// While the guard calls the driver on its own account: a capture that some thread does in global mode must not be
// broken.
class RelaxedCapture {
 public:
  RelaxedCapture() {
    if (cuda().cuThreadExchangeStreamCaptureMode != nullptr) cuda().cuThreadExchangeStreamCaptureMode(&mode_);
  }
  ~RelaxedCapture() {
    if (cuda().cuThreadExchangeStreamCaptureMode != nullptr) cuda().cuThreadExchangeStreamCaptureMode(&mode_);
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

CUstream stream_of(void* handle) {
  return static_cast<CUstream>(handle);
}
CUevent event_of(void* handle) {
  return static_cast<CUevent>(handle);
}

Reached said(CUresult result) {
  if (result == CUDA_ERROR_NOT_READY) return Reached::kNo;
  return result == CUDA_SUCCESS ? Reached::kYes : Reached::kUnknown;
}

}  // namespace

bool capturing(void* stream, bool per_thread) {
  const auto query = per_thread ? cuda().cuStreamIsCapturing_ptsz : cuda().cuStreamIsCapturing;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (query == nullptr) return false;
  return query(stream_of(stream), &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

void* create_event() {
  CUevent event = nullptr;
  const RelaxedCapture relaxed;
  if (cuda().cuEventCreate == nullptr || cuda().cuEventCreate(&event, CU_EVENT_DEFAULT) != CUDA_SUCCESS) return nullptr;
  return event;
}

bool record(void* event, void* stream, bool per_thread) {
  const auto function = per_thread ? cuda().cuEventRecord_ptsz : cuda().cuEventRecord;
  return function != nullptr && function(event_of(event), stream_of(stream)) == CUDA_SUCCESS;
}

Reached query(void* event) {
  return cuda().cuEventQuery != nullptr ? said(cuda().cuEventQuery(event_of(event))) : Reached::kUnknown;
}

bool elapsed(void* start, void* end, double* nanoseconds) {
  float milliseconds = 0;
  const auto function = cuda().cuEventElapsedTime;
  if (function == nullptr || function(&milliseconds, event_of(start), event_of(end)) != CUDA_SUCCESS) return false;
  *nanoseconds = static_cast<double>(milliseconds) * 1e6;
  return true;
}

Reached query_stream(void* stream, bool per_thread) {
  const auto function = per_thread ? cuda().cuStreamQuery_ptsz : cuda().cuStreamQuery;
  return function != nullptr ? said(function(stream_of(stream))) : Reached::kUnknown;
}

uint64_t current_context() {
  return guard::current_context();
}

}  // namespace heddle::guard::device_clock
