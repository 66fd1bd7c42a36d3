// The compute law's clock: ACL's events.
#include "guard/preload/ascend/driver.h"
#include "guard/preload/device_clock.h"

namespace heddle::guard::device_clock {

bool capturing(void* stream, bool) {
  aclmdlRICaptureStatus status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
  aclmdlRI model = nullptr;
  const auto query = acl().aclmdlRICaptureGetInfo;
  // Runtimes that cannot capture, and the default stream, answer with an error.
  if (query == nullptr || query(stream, &status, &model) != ACL_SUCCESS) return false;
  return status != ACL_MODEL_RI_CAPTURE_STATUS_NONE;
}

void* create_event() {
  aclrtEvent event = nullptr;
  const auto function = acl().aclrtCreateEvent;
  return function != nullptr && function(&event) == ACL_SUCCESS ? event : nullptr;
}

bool record(void* event, void* stream, bool) {
  const auto function = acl().aclrtRecordEvent;
  return function != nullptr && function(event, stream) == ACL_SUCCESS;
}

Reached query(void* event) {
  aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
  const auto function = acl().aclrtQueryEventStatus;
  if (function == nullptr || function(event, &status) != ACL_SUCCESS) return Reached::kUnknown;
  return status == ACL_EVENT_RECORDED_STATUS_COMPLETE ? Reached::kYes : Reached::kNo;
}

bool elapsed(void* start, void* end, double* nanoseconds) {
  float milliseconds = 0;
  const auto function = acl().aclrtEventElapsedTime;
  if (function == nullptr || function(&milliseconds, start, end) != ACL_SUCCESS) return false;
  *nanoseconds = static_cast<double>(milliseconds) * 1e6;
  return true;
}

Reached query_stream(void* stream, bool) {
  aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
  const auto function = acl().aclrtStreamQuery;
  if (function == nullptr || function(stream, &status) != ACL_SUCCESS) return Reached::kUnknown;
  return status == ACL_STREAM_STATUS_COMPLETE ? Reached::kYes : Reached::kNo;
}

uint64_t current_context() {
  aclrtContext context = nullptr;
  const auto function = acl().aclrtGetCurrentContext;
  if (function == nullptr || function(&context) != ACL_SUCCESS) return 0;
  return reinterpret_cast<uint64_t>(context);
}

}  // namespace heddle::guard::device_clock
