// What loads code onto a device, and the sizes that a context keeps for kernels. The driver alone knows what these
// take, so it is measured around the call (residual.h) and a load that passes the limit is undone.
#include "guard/preload/cuda/memory.h"
#include "guard/preload/cuda/pools.h"
#include "guard/preload/cuda/residual.h"

namespace heddle::guard {
namespace {

// False: what this process has taken passes the limit, also after the dead and the pools have given back.
bool fits(int rule, Growth& growth) {
  if (growth.settle(Take::kLimited)) return true;
  sweep_dead();
  refresh_pools();
  if (growth.settle(Take::kLimited)) return true;
  // An estimate may be of what a neighbour took in the same moment.
  return wait_until_told(rule) && measure_residual(rule, Take::kLimited);
}

template <typename Call, typename Undo>
CUresult load(Call call, Undo undo) {
  const int rule = current_rule();
  Growth growth(rule);
  const CUresult result = call();
  if (result != CUDA_SUCCESS) return result;
  if (rule == kNoDevice) expect_residual();  // loaded later, in the contexts that use it
  if (!accounted(rule) || fits(rule, growth)) return result;
  undo();
  measure_residual(rule, Take::kForced);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

template <typename Call>
CUresult unload(Call call) {
  const int here = current_rule();
  Growth growth(here);
  const CUresult result = call();
  if (result != CUDA_SUCCESS) return result;
  growth.shrink();
  // It may have been loaded on any device.
  for (uint32_t rule = 0; rule < config().device_count; ++rule) {
    if (static_cast<int>(rule) != here) measure_if_any(static_cast<int>(rule));
  }
  return result;
}

CUresult set_heap(CUlimit limit, size_t bytes) {
  const auto real = cuda().cuCtxSetLimit;
  const int rule = current_rule();
  size_t before = 0;
  if (!accounted(rule) || cuda().cuCtxGetLimit == nullptr || cuda().cuCtxGetLimit(&before, limit) != CUDA_SUCCESS) {
    return real(limit, bytes);
  }
  const uint64_t pages = bytes > before ? pages_of(round_up(bytes - before, block_bytes(rule, current_device()))) : 0;
  if (!charge(rule, pages)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = real(limit, bytes);
  if (result != CUDA_SUCCESS) {
    uncharge(rule, pages);
    return result;
  }
  add_residual(rule, pages);
  measure_residual(rule, Take::kForced);
  return result;
}

}  // namespace
}  // namespace heddle::guard

using namespace heddle::guard;

extern "C" {

#define HEDDLE_MODULE_LOAD(name, parameters, arguments)                                 \
  HEDDLE_EXPORT CUresult name parameters {                                              \
    const auto real = cuda().name;                                                      \
    if (real == nullptr) return kNoSuchFunction;                                        \
    const Entry entry;                                                                  \
    if (entry.nested() || module == nullptr) return real arguments;                     \
    return load([&] { return real arguments; },                                         \
                [&] {                                                                   \
                  if (cuda().cuModuleUnload != nullptr) cuda().cuModuleUnload(*module); \
                });                                                                     \
  }
HEDDLE_MODULE_LOAD(cuModuleLoad, (CUmodule * module, const char* path), (module, path))
HEDDLE_MODULE_LOAD(cuModuleLoadData, (CUmodule * module, const void* image), (module, image))
HEDDLE_MODULE_LOAD(cuModuleLoadDataEx,
                   (CUmodule * module, const void* image, unsigned int count, CUjit_option* options, void** values),
                   (module, image, count, options, values))
HEDDLE_MODULE_LOAD(cuModuleLoadFatBinary, (CUmodule * module, const void* image), (module, image))
#undef HEDDLE_MODULE_LOAD

#define HEDDLE_LIBRARY_LOAD(name, source)                                                                            \
  HEDDLE_EXPORT CUresult name(CUlibrary* library, source from, CUjit_option* jit, void** jit_values, unsigned int n, \
                              CUlibraryOption* options, void** values, unsigned int m) {                             \
    const auto real = cuda().name;                                                                                   \
    if (real == nullptr) return kNoSuchFunction;                                                                     \
    const Entry entry;                                                                                               \
    if (entry.nested() || library == nullptr) return real(library, from, jit, jit_values, n, options, values, m);    \
    return load([&] { return real(library, from, jit, jit_values, n, options, values, m); },                         \
                [&] {                                                                                                \
                  if (cuda().cuLibraryUnload != nullptr) cuda().cuLibraryUnload(*library);                           \
                });                                                                                                  \
  }
HEDDLE_LIBRARY_LOAD(cuLibraryLoadData, const void*)
HEDDLE_LIBRARY_LOAD(cuLibraryLoadFromFile, const char*)
#undef HEDDLE_LIBRARY_LOAD

HEDDLE_EXPORT CUresult cuModuleUnload(CUmodule module) {
  const auto real = cuda().cuModuleUnload;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  return entry.nested() ? real(module) : unload([&] { return real(module); });
}

HEDDLE_EXPORT CUresult cuLibraryUnload(CUlibrary library) {
  const auto real = cuda().cuLibraryUnload;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  return entry.nested() ? real(library) : unload([&] { return real(library); });
}

HEDDLE_EXPORT CUresult cuFuncLoad(CUfunction function) {
  const auto real = cuda().cuFuncLoad;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (entry.nested()) return real(function);
  Growth growth(current_rule());
  const CUresult result = real(function);
  if (result == CUDA_SUCCESS) growth.settle(Take::kForced);
  return result;
}

HEDDLE_EXPORT CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  const auto real = cuda().cuCtxSetLimit;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (entry.nested()) return real(limit, value);
  if (limit == CU_LIMIT_MALLOC_HEAP_SIZE || limit == CU_LIMIT_PRINTF_FIFO_SIZE) return set_heap(limit, value);
  if (limit != CU_LIMIT_STACK_SIZE) return real(limit, value);
  // The stack of every thread that the device can run: how much that is the driver alone knows.
  Growth growth(current_rule());
  const CUresult result = real(limit, value);
  if (result == CUDA_SUCCESS) growth.settle(Take::kForced);
  return result;
}

HEDDLE_EXPORT CUresult cuGreenCtxCreate(CUgreenCtx* context, CUdevResourceDesc resources, CUdevice device,
                                        unsigned int flags) {
  const auto real = cuda().cuGreenCtxCreate;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  const int rule = entry.nested() ? kNoDevice : rule_of(device);
  if (!entry.nested() && refused(rule)) return CUDA_ERROR_OUT_OF_MEMORY;
  Growth growth(rule);
  const CUresult result = real(context, resources, device, flags);
  if (!accounted(rule) || result != CUDA_SUCCESS || fits(rule, growth)) return result;
  if (cuda().cuGreenCtxDestroy != nullptr) cuda().cuGreenCtxDestroy(*context);
  measure_residual(rule, Take::kForced);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

HEDDLE_EXPORT CUresult cuGreenCtxDestroy(CUgreenCtx context) {
  const auto real = cuda().cuGreenCtxDestroy;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  return entry.nested() ? real(context) : unload([&] { return real(context); });
}
}
