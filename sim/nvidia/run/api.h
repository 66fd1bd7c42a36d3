// The functions of libcuda and NVML that nvsim-run uses, found the way programs find them.
#pragma once

#define __CUDA_API_VERSION_INTERNAL
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <cuda.h>
#include <nvml.h>

#include <string>

namespace nvsim::run {

// Name as cuGetProcAddress takes it, exported symbol, CUDA version to ask for.
#define NVSIM_RUN_CUDA(X)                                            \
  X(cuInit, cuInit, 2000)                                            \
  X(cuDriverGetVersion, cuDriverGetVersion, 2020)                    \
  X(cuDeviceGetCount, cuDeviceGetCount, 2000)                        \
  X(cuDeviceGet, cuDeviceGet, 2000)                                  \
  X(cuDeviceGetName, cuDeviceGetName, 2000)                          \
  X(cuDeviceTotalMem, cuDeviceTotalMem_v2, 3020)                     \
  X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000)        \
  X(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2, 11000)      \
  X(cuCtxSetCurrent, cuCtxSetCurrent, 4000)                          \
  X(cuCtxCreate, cuCtxCreate_v2, 3020)                               \
  X(cuCtxDestroy, cuCtxDestroy_v2, 4000)                             \
  X(cuCtxSynchronize, cuCtxSynchronize, 2000)                        \
  X(cuMemGetInfo, cuMemGetInfo_v2, 3020)                             \
  X(cuMemAlloc, cuMemAlloc_v2, 3020)                                 \
  X(cuMemAllocPitch, cuMemAllocPitch_v2, 3020)                       \
  X(cuMemAllocManaged, cuMemAllocManaged, 6000)                      \
  X(cuMemAllocHost, cuMemAllocHost_v2, 3020)                         \
  X(cuMemFreeHost, cuMemFreeHost, 2000)                              \
  X(cuMemAllocAsync, cuMemAllocAsync, 11020)                         \
  X(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020)         \
  X(cuMemFree, cuMemFree_v2, 3020)                                   \
  X(cuMemFreeAsync, cuMemFreeAsync, 11020)                           \
  X(cuMemPoolCreate, cuMemPoolCreate, 11020)                         \
  X(cuMemPoolTrimTo, cuMemPoolTrimTo, 11020)                         \
  X(cuMemPoolSetAttribute, cuMemPoolSetAttribute, 11020)             \
  X(cuMemPoolGetAttribute, cuMemPoolGetAttribute, 11020)             \
  X(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, 11020)     \
  X(cuMemCreate, cuMemCreate, 10020)                                 \
  X(cuMemRelease, cuMemRelease, 10020)                               \
  X(cuMemAddressReserve, cuMemAddressReserve, 10020)                 \
  X(cuMemAddressFree, cuMemAddressFree, 10020)                       \
  X(cuMemMap, cuMemMap, 10020)                                       \
  X(cuMemUnmap, cuMemUnmap, 10020)                                   \
  X(cuMemSetAccess, cuMemSetAccess, 10020)                           \
  X(cuArray3DCreate, cuArray3DCreate_v2, 3020)                       \
  X(cuArrayDestroy, cuArrayDestroy, 2000)                            \
  X(cuMipmappedArrayCreate, cuMipmappedArrayCreate, 5000)            \
  X(cuMipmappedArrayDestroy, cuMipmappedArrayDestroy, 5000)          \
  X(cuMemcpyHtoD, cuMemcpyHtoD_v2, 3020)                             \
  X(cuMemcpyDtoH, cuMemcpyDtoH_v2, 3020)                             \
  X(cuMemsetD8, cuMemsetD8_v2, 3020)                                 \
  X(cuModuleLoadData, cuModuleLoadData, 2000)                        \
  X(cuModuleGetFunction, cuModuleGetFunction, 2000)                  \
  X(cuLaunchKernel, cuLaunchKernel, 4000)                            \
  X(cuLaunchKernelEx, cuLaunchKernelEx, 11060)                       \
  X(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, 9000)      \
  X(cuGraphCreate, cuGraphCreate, 10000)                             \
  X(cuGraphAddKernelNode, cuGraphAddKernelNode_v2, 12000)            \
  X(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 11040) \
  X(cuGraphLaunch, cuGraphLaunch, 10000)                             \
  X(cuGraphExecDestroy, cuGraphExecDestroy, 10000)                   \
  X(cuGraphDestroy, cuGraphDestroy, 10000)                           \
  X(cuStreamCreate, cuStreamCreate, 2000)                            \
  X(cuStreamSynchronize, cuStreamSynchronize, 2000)                  \
  X(cuStreamDestroy, cuStreamDestroy_v2, 4000)                       \
  X(cuEventCreate, cuEventCreate, 2000)                              \
  X(cuEventRecord, cuEventRecord, 2000)                              \
  X(cuEventSynchronize, cuEventSynchronize, 2000)                    \
  X(cuEventElapsedTime, cuEventElapsedTime, 2000)                    \
  X(cuEventDestroy, cuEventDestroy_v2, 4000)                         \
  X(cuGetErrorName, cuGetErrorName, 6000)

#define NVSIM_RUN_NVML(X)          \
  X(nvmlInit_v2)                   \
  X(nvmlDeviceGetCount_v2)         \
  X(nvmlDeviceGetHandleByIndex_v2) \
  X(nvmlDeviceGetUUID)             \
  X(nvmlDeviceGetMemoryInfo)       \
  X(nvmlDeviceGetMemoryInfo_v2)    \
  X(nvmlDeviceGetUtilizationRates) \
  X(nvmlDeviceGetComputeRunningProcesses_v3)

// NOLINTBEGIN(bugprone-macro-parentheses): the arguments are names
struct Cuda {
#define X(base, symbol, version) decltype(&::symbol) base = nullptr;
  NVSIM_RUN_CUDA(X)
#undef X
};

struct Nvml {
#define X(symbol) decltype(&::symbol) symbol = nullptr;
  NVSIM_RUN_NVML(X)
#undef X
};
// NOLINTEND(bugprone-macro-parentheses)

// How functions are found: as the CUDA runtime does, by dlsym alone, or by the linker (only in nvsim-run-linked).
// kDlmopen: by dlsym, in a namespace of its own, where nothing that was loaded before is seen.
enum class Via { kGetProc, kDlsym, kLink, kDlmopen };

struct Source {
  std::string cuda_library = "libcuda.so.1";
  std::string nvml_library = "libnvidia-ml.so.1";
  Via via = Via::kGetProc;
  bool per_thread = false;
};

// Empty, or what is missing. A function that the driver does not have stays null.
std::string load_cuda(const Source& source, Cuda& cuda);
std::string load_nvml(const Source& source, Nvml& nvml);

}  // namespace nvsim::run
