// Contexts: what the driver takes for one is charged on its device, on every device. The amount is what the limits say
// or what the first process could measure; a context that is gone gives back its own charge and that of all it owned.
#include "guard/preload/cuda/mask.h"
#include "guard/preload/cuda/measure.h"
#include "guard/preload/cuda/memory.h"
#include "guard/preload/cuda/pools.h"
#include "guard/preload/cuda/residual.h"
#include "guard/preload/cuda/stream_context.h"
#include "guard/preload/launch.h"

namespace heddle::guard {
namespace {

uint64_t overhead_pages(int rule) {
  const DeviceRule& limits = config().devices[rule];
  if (limits.context_bytes != 0) return pages_of(limits.context_bytes);
  return pages_of(ledger::load(config().usage->devices[rule].context_overhead_bytes));
}

// After the first context on a device for which nobody had said what one takes. False: the limit has no room for it,
// so it has to go again.
bool charge_measured(int rule, ContextMeasurement& measurement, uint64_t* charged) {
  const uint64_t bytes = *charged == 0 ? measurement.finish() : 0;
  if (bytes == 0) return true;
  if (!charge(rule, pages_of(bytes))) return false;
  *charged = pages_of(bytes);
  return true;
}

bool primary_is_active(CUdevice device, bool otherwise) {
  unsigned int flags = 0;
  int active = 0;
  const auto query = cuda().cuDevicePrimaryCtxGetState;
  if (query == nullptr || query(device, &flags, &active) != CUDA_SUCCESS) return otherwise;
  return active != 0;
}

CUresult retain_primary(CUcontext* context, CUdevice device) {
  const auto real = cuda().cuDevicePrimaryCtxRetain;
  const int rule = rule_of(device);
  if (refused(rule)) return CUDA_ERROR_OUT_OF_MEMORY;
  if (const CUresult masked = check_mask(device); masked != CUDA_SUCCESS) return masked;
  if (!accounted(rule)) return real(context, device);
  CudaProcess& own = cuda_process();
  const Lock lock(own.context_lock);
  if (own.primary_charged[rule] != 0) return real(context, device);
  const MeasuringTurn turn(rule);
  uint64_t pages = overhead_pages(rule);
  if (!charge(rule, pages)) return CUDA_ERROR_OUT_OF_MEMORY;
  ContextMeasurement measurement(rule);
  const CUresult result = real(context, device);
  if (result != CUDA_SUCCESS) {
    uncharge(rule, pages);
    return result;
  }
  if (!charge_measured(rule, measurement, &pages)) {
    const auto release = cuda().cuDevicePrimaryCtxRelease_v2 != nullptr ? cuda().cuDevicePrimaryCtxRelease_v2
                                                                        : cuda().cuDevicePrimaryCtxRelease;
    if (release != nullptr) release(device);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  own.primary_charged[rule] = 1;
  own.primary_pages[rule] = pages;
  own.primary_context[rule] = context != nullptr ? reinterpret_cast<uint64_t>(*context) : 0;
  return result;
}

// After the primary context was released or reset: gone when the driver says that it is no longer active.
template <typename Call>
CUresult release_primary(CUdevice device, Call call) {
  const int rule = rule_of(device);
  if (!accounted(rule)) return call();
  CudaProcess& own = cuda_process();
  const Lock lock(own.context_lock);
  const uint64_t context = own.primary_context[rule];
  const bool charged = own.primary_charged[rule] != 0;
  if (charged) {
    const InContext there(reinterpret_cast<CUcontext>(context));
    before_context_ends(context);
  }
  const CUresult result = call();
  const bool ended = charged && result == CUDA_SUCCESS && !primary_is_active(device, true);
  if (charged) after_context_ended(context, ended);
  if (!ended) return result;
  drop_context(context);
  uncharge(rule, own.primary_pages[rule]);
  own.primary_charged[rule] = 0;
  own.primary_pages[rule] = 0;
  refresh_pools_if_any();
  measure_if_any(rule);
  return result;
}

template <typename Call>
CUresult create_context(CUcontext* context, CUdevice device, Call call) {
  const int rule = rule_of(device);
  if (refused(rule)) return CUDA_ERROR_OUT_OF_MEMORY;
  if (const CUresult masked = check_mask(device); masked != CUDA_SUCCESS) return masked;
  if (!accounted(rule) || context == nullptr) return call();
  const MeasuringTurn turn(rule);
  uint64_t pages = overhead_pages(rule);
  if (!charge(rule, pages)) return CUDA_ERROR_OUT_OF_MEMORY;
  ContextMeasurement measurement(rule);
  const CUresult result = call();
  if (result != CUDA_SUCCESS) {
    uncharge(rule, pages);
    return result;
  }
  const bool fits = charge_measured(rule, measurement, &pages);
  const auto key = reinterpret_cast<uint64_t>(*context);
  if (fits && remember(Record{key, 0, key, pages, rule, static_cast<uint32_t>(Kind::kContext), 0, 0, 0})) return result;
  if (cuda().cuCtxDestroy_v2 != nullptr) cuda().cuCtxDestroy_v2(*context);
  uncharge(rule, pages);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

template <typename Call>
CUresult destroy_context(CUcontext context, Call call) {
  Record record{};
  const auto key = reinterpret_cast<uint64_t>(context);
  const bool known = forget(key, Kind::kContext, &record);
  {
    const InContext there(known ? context : nullptr);
    before_context_ends(key);
  }
  const CUresult result = call();
  after_context_ended(key, result == CUDA_SUCCESS);
  if (known && result != CUDA_SUCCESS) remember(record);
  if (result != CUDA_SUCCESS) return result;
  drop_context(key);
  if (known) uncharge(record.device, record.pages);
  refresh_pools_if_any();
  if (known) measure_if_any(record.device);
  return result;
}

}  // namespace
}  // namespace heddle::guard

using namespace heddle::guard;

extern "C" {

HEDDLE_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  const auto real = cuda().cuDevicePrimaryCtxRetain;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  return entry.nested() ? real(context, device) : retain_primary(context, device);
}

#define HEDDLE_PRIMARY_END(name)                                  \
  HEDDLE_EXPORT CUresult name(CUdevice device) {                  \
    const auto real = cuda().name;                                \
    if (real == nullptr) return kNoSuchFunction;                  \
    const Entry entry;                                            \
    if (entry.nested()) return real(device);                      \
    return release_primary(device, [&] { return real(device); }); \
  }
HEDDLE_PRIMARY_END(cuDevicePrimaryCtxRelease)
HEDDLE_PRIMARY_END(cuDevicePrimaryCtxRelease_v2)
HEDDLE_PRIMARY_END(cuDevicePrimaryCtxReset)
HEDDLE_PRIMARY_END(cuDevicePrimaryCtxReset_v2)
#undef HEDDLE_PRIMARY_END

HEDDLE_EXPORT CUresult cuCtxCreate(CUcontext* context, unsigned int flags, CUdevice device) {
  const auto real = cuda().cuCtxCreate;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (entry.nested()) return real(context, flags, device);
  return create_context(context, device, [&] { return real(context, flags, device); });
}

HEDDLE_EXPORT CUresult cuCtxCreate_v2(CUcontext* context, unsigned int flags, CUdevice device) {
  const auto real = cuda().cuCtxCreate_v2;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (entry.nested()) return real(context, flags, device);
  return create_context(context, device, [&] { return real(context, flags, device); });
}

HEDDLE_EXPORT CUresult cuCtxCreate_v3(CUcontext* context, CUexecAffinityParam* affinity, int count, unsigned int flags,
                                      CUdevice device) {
  const auto real = cuda().cuCtxCreate_v3;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (entry.nested()) return real(context, affinity, count, flags, device);
  return create_context(context, device, [&] { return real(context, affinity, count, flags, device); });
}

HEDDLE_EXPORT CUresult cuCtxCreate_v4(CUcontext* context, CUctxCreateParams* wanted, unsigned int flags,
                                      CUdevice device) {
  const auto real = cuda().cuCtxCreate_v4;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (entry.nested()) return real(context, wanted, flags, device);
  return create_context(context, device, [&] { return real(context, wanted, flags, device); });
}

#define HEDDLE_CONTEXT_END(name)                                    \
  HEDDLE_EXPORT CUresult name(CUcontext context) {                  \
    const auto real = cuda().name;                                  \
    if (real == nullptr) return kNoSuchFunction;                    \
    const Entry entry;                                              \
    if (entry.nested()) return real(context);                       \
    return destroy_context(context, [&] { return real(context); }); \
  }
HEDDLE_CONTEXT_END(cuCtxDestroy)
HEDDLE_CONTEXT_END(cuCtxDestroy_v2)
#undef HEDDLE_CONTEXT_END

// Detaching ends a context only when it was attached once; the driver does not tell, so the charge stays until the
// process ends: the safe side for a call that is deprecated since CUDA 4.
HEDDLE_EXPORT CUresult cuCtxDetach(CUcontext context) {
  const auto real = cuda().cuCtxDetach;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  return real(context);
}
}
