// Which entry points of the vendor's libraries are interposed, and which others the guard calls itself.
//
// CUDA(exported name, name as cuGetProcAddress is asked for it, CUDA version that introduced this form, per-thread
// form)
#pragma once

// The header's own switch for "every version of every name, no renaming macros": that is how hooks are checked against
// the vendor's prototypes.
#define __CUDA_API_VERSION_INTERNAL      // NOLINT
#define __CUDA_API_VERSION_INTERNAL_ODR  // NOLINT
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <cuda.h>
#include <nvml.h>
#undef cuGetProcAddress_v2  // the header makes it a static inline of its own in this mode

// What programs built for per-thread default streams call: exported, and in the header only under another name.

extern "C" CUresult cuGetProcAddress_ptsz(const char* symbol, void** function, int version, cuuint64_t flags);
extern "C" CUresult cuGetProcAddress_v2_ptsz(const char* symbol, void** function, int version, cuuint64_t flags,
                                             CUdriverProcAddressQueryResult* status);

#define HEDDLE_CUDA_HOOKS(CUDA)                                                            \
  CUDA(cuGetProcAddress, "cuGetProcAddress", 11030, 0)                                     \
  CUDA(cuGetProcAddress_v2, "cuGetProcAddress", 12000, 0)                                  \
  CUDA(cuGetProcAddress_ptsz, "cuGetProcAddress", 11030, 1)                                \
  CUDA(cuGetProcAddress_v2_ptsz, "cuGetProcAddress", 12000, 1)                             \
  CUDA(cuInit, "cuInit", 2000, 0)                                                          \
  CUDA(cuMemAlloc, "cuMemAlloc", 2000, 0)                                                  \
  CUDA(cuMemAlloc_v2, "cuMemAlloc", 3020, 0)                                               \
  CUDA(cuMemAllocPitch, "cuMemAllocPitch", 2000, 0)                                        \
  CUDA(cuMemAllocPitch_v2, "cuMemAllocPitch", 3020, 0)                                     \
  CUDA(cuMemAllocManaged, "cuMemAllocManaged", 6000, 0)                                    \
  CUDA(cuMemFree, "cuMemFree", 2000, 0)                                                    \
  CUDA(cuMemFree_v2, "cuMemFree", 3020, 0)                                                 \
  CUDA(cuMemGetInfo, "cuMemGetInfo", 2000, 0)                                              \
  CUDA(cuMemGetInfo_v2, "cuMemGetInfo", 3020, 0)                                           \
  CUDA(cuDeviceTotalMem, "cuDeviceTotalMem", 2000, 0)                                      \
  CUDA(cuDeviceTotalMem_v2, "cuDeviceTotalMem", 3020, 0)                                   \
  CUDA(cuMemAllocAsync, "cuMemAllocAsync", 11020, 0)                                       \
  CUDA(cuMemAllocAsync_ptsz, "cuMemAllocAsync", 11020, 1)                                  \
  CUDA(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 11020, 0)                       \
  CUDA(cuMemAllocFromPoolAsync_ptsz, "cuMemAllocFromPoolAsync", 11020, 1)                  \
  CUDA(cuMemFreeAsync, "cuMemFreeAsync", 11020, 0)                                         \
  CUDA(cuMemFreeAsync_ptsz, "cuMemFreeAsync", 11020, 1)                                    \
  CUDA(cuMemPoolCreate, "cuMemPoolCreate", 11020, 0)                                       \
  CUDA(cuMemPoolDestroy, "cuMemPoolDestroy", 11020, 0)                                     \
  CUDA(cuMemPoolTrimTo, "cuMemPoolTrimTo", 11020, 0)                                       \
  CUDA(cuMemPoolImportFromShareableHandle, "cuMemPoolImportFromShareableHandle", 11020, 0) \
  CUDA(cuMemCreate, "cuMemCreate", 10020, 0)                                               \
  CUDA(cuMemRelease, "cuMemRelease", 10020, 0)                                             \
  CUDA(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle", 11000, 0)               \
  CUDA(cuMemMap, "cuMemMap", 10020, 0)                                                     \
  CUDA(cuMemUnmap, "cuMemUnmap", 10020, 0)                                                 \
  CUDA(cuMemImportFromShareableHandle, "cuMemImportFromShareableHandle", 10020, 0)         \
  CUDA(cuArrayCreate, "cuArrayCreate", 2000, 0)                                            \
  CUDA(cuArrayCreate_v2, "cuArrayCreate", 3020, 0)                                         \
  CUDA(cuArray3DCreate, "cuArray3DCreate", 2000, 0)                                        \
  CUDA(cuArray3DCreate_v2, "cuArray3DCreate", 3020, 0)                                     \
  CUDA(cuMipmappedArrayCreate, "cuMipmappedArrayCreate", 5000, 0)                          \
  CUDA(cuArrayDestroy, "cuArrayDestroy", 2000, 0)                                          \
  CUDA(cuMipmappedArrayDestroy, "cuMipmappedArrayDestroy", 5000, 0)                        \
  CUDA(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000, 0)                      \
  CUDA(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease", 7000, 0)                    \
  CUDA(cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", 11000, 0)                \
  CUDA(cuDevicePrimaryCtxReset, "cuDevicePrimaryCtxReset", 7000, 0)                        \
  CUDA(cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", 11000, 0)                    \
  CUDA(cuCtxCreate, "cuCtxCreate", 2000, 0)                                                \
  CUDA(cuCtxCreate_v2, "cuCtxCreate", 3020, 0)                                             \
  CUDA(cuCtxCreate_v3, "cuCtxCreate", 11040, 0)                                            \
  CUDA(cuCtxCreate_v4, "cuCtxCreate", 12050, 0)                                            \
  CUDA(cuCtxDestroy, "cuCtxDestroy", 2000, 0)                                              \
  CUDA(cuCtxDestroy_v2, "cuCtxDestroy", 4000, 0)                                           \
  CUDA(cuCtxDetach, "cuCtxDetach", 2000, 0)                                                \
  CUDA(cuCtxSynchronize, "cuCtxSynchronize", 2000, 0)                                      \
  CUDA(cuStreamSynchronize, "cuStreamSynchronize", 2000, 0)                                \
  CUDA(cuStreamSynchronize_ptsz, "cuStreamSynchronize", 7000, 1)                           \
  CUDA(cuEventSynchronize, "cuEventSynchronize", 2000, 0)                                  \
  CUDA(cuEventQuery, "cuEventQuery", 2000, 0)                                              \
  CUDA(cuStreamQuery, "cuStreamQuery", 2000, 0)                                            \
  CUDA(cuStreamQuery_ptsz, "cuStreamQuery", 7000, 1)                                       \
  CUDA(cuMemcpy, "cuMemcpy", 4000, 0)                                                      \
  CUDA(cuMemcpy_ptds, "cuMemcpy", 7000, 1)                                                 \
  CUDA(cuMemcpyDtoH, "cuMemcpyDtoH", 2000, 0)                                              \
  CUDA(cuMemcpyDtoH_v2, "cuMemcpyDtoH", 3020, 0)                                           \
  CUDA(cuMemcpyDtoH_v2_ptds, "cuMemcpyDtoH", 7000, 1)                                      \
  CUDA(cuStreamDestroy, "cuStreamDestroy", 2000, 0)                                        \
  CUDA(cuStreamDestroy_v2, "cuStreamDestroy", 4000, 0)                                     \
  CUDA(cuGraphAddMemAllocNode, "cuGraphAddMemAllocNode", 11040, 0)                         \
  CUDA(cuGraphAddNode, "cuGraphAddNode", 12020, 0)                                         \
  CUDA(cuGraphAddNode_v2, "cuGraphAddNode", 12030, 0)                                      \
  CUDA(cuDeviceGraphMemTrim, "cuDeviceGraphMemTrim", 11040, 0)                             \
  CUDA(cuMemExportToShareableHandle, "cuMemExportToShareableHandle", 10020, 0)             \
  CUDA(cuMulticastBindMem, "cuMulticastBindMem", 12010, 0)                                 \
  CUDA(cuMemMapArrayAsync, "cuMemMapArrayAsync", 11010, 0)                                 \
  CUDA(cuMemMapArrayAsync_ptsz, "cuMemMapArrayAsync", 11010, 1)                            \
  CUDA(cuModuleLoad, "cuModuleLoad", 2000, 0)                                              \
  CUDA(cuModuleLoadData, "cuModuleLoadData", 2000, 0)                                      \
  CUDA(cuModuleLoadDataEx, "cuModuleLoadDataEx", 2010, 0)                                  \
  CUDA(cuModuleLoadFatBinary, "cuModuleLoadFatBinary", 2000, 0)                            \
  CUDA(cuModuleUnload, "cuModuleUnload", 2000, 0)                                          \
  CUDA(cuLibraryLoadData, "cuLibraryLoadData", 12000, 0)                                   \
  CUDA(cuLibraryLoadFromFile, "cuLibraryLoadFromFile", 12000, 0)                           \
  CUDA(cuLibraryUnload, "cuLibraryUnload", 12000, 0)                                       \
  CUDA(cuFuncLoad, "cuFuncLoad", 12040, 0)                                                 \
  CUDA(cuCtxSetLimit, "cuCtxSetLimit", 3010, 0)                                            \
  CUDA(cuGreenCtxCreate, "cuGreenCtxCreate", 12040, 0)                                     \
  CUDA(cuGreenCtxDestroy, "cuGreenCtxDestroy", 12040, 0)                                   \
  CUDA(cuGraphInstantiate, "cuGraphInstantiate", 10000, 0)                                 \
  CUDA(cuGraphInstantiate_v2, "cuGraphInstantiate", 11000, 0)                              \
  CUDA(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", 11040, 0)               \
  CUDA(cuGraphInstantiateWithParams, "cuGraphInstantiateWithParams", 12000, 0)             \
  CUDA(cuGraphInstantiateWithParams_ptsz, "cuGraphInstantiateWithParams", 12000, 1)        \
  CUDA(cuGraphExecDestroy, "cuGraphExecDestroy", 10000, 0)                                 \
  CUDA(cuGraphUpload, "cuGraphUpload", 11010, 0)                                           \
  CUDA(cuGraphUpload_ptsz, "cuGraphUpload", 11010, 1)                                      \
  CUDA(cuGraphLaunch, "cuGraphLaunch", 10000, 0)                                           \
  CUDA(cuGraphLaunch_ptsz, "cuGraphLaunch", 10000, 1)                                      \
  CUDA(cuLaunch, "cuLaunch", 2000, 0)                                                      \
  CUDA(cuLaunchGrid, "cuLaunchGrid", 2000, 0)                                              \
  CUDA(cuLaunchGridAsync, "cuLaunchGridAsync", 2000, 0)                                    \
  CUDA(cuLaunchKernel, "cuLaunchKernel", 4000, 0)                                          \
  CUDA(cuLaunchKernel_ptsz, "cuLaunchKernel", 7000, 1)                                     \
  CUDA(cuLaunchKernelEx, "cuLaunchKernelEx", 11060, 0)                                     \
  CUDA(cuLaunchKernelEx_ptsz, "cuLaunchKernelEx", 11060, 1)                                \
  CUDA(cuLaunchCooperativeKernel, "cuLaunchCooperativeKernel", 9000, 0)                    \
  CUDA(cuLaunchCooperativeKernel_ptsz, "cuLaunchCooperativeKernel", 9000, 1)               \
  CUDA(cuLaunchCooperativeKernelMultiDevice, "cuLaunchCooperativeKernelMultiDevice", 9000, 0)

// Called by the guard, never interposed.
#define HEDDLE_CUDA_CALLS(CALL)               \
  CALL(cuCtxGetCurrent)                       \
  CALL(cuCtxGetDevice)                        \
  CALL(cuCtxPopCurrent_v2)                    \
  CALL(cuCtxPushCurrent_v2)                   \
  CALL(cuCtxGetLimit)                         \
  CALL(cuGraphGetNodes)                       \
  CALL(cuGraphNodeGetType)                    \
  CALL(cuGraphMemAllocNodeGetParams)          \
  CALL(cuGraphKernelNodeGetParams_v2)         \
  CALL(cuGraphChildGraphNodeGetGraph)         \
  CALL(cuDeviceGetAttribute)                  \
  CALL(cuDeviceGetCount)                      \
  CALL(cuDeviceGetUuid)                       \
  CALL(cuDeviceGetUuid_v2)                    \
  CALL(cuDeviceGetMemPool)                    \
  CALL(cuDeviceGetDefaultMemPool)             \
  CALL(cuDeviceGetGraphMemAttribute)          \
  CALL(cuDevicePrimaryCtxGetState)            \
  CALL(cuDriverGetVersion)                    \
  CALL(cuMemAdvise)                           \
  CALL(cuMemGetAllocationGranularity)         \
  CALL(cuMemPoolGetAttribute)                 \
  CALL(cuArrayGetMemoryRequirements)          \
  CALL(cuMipmappedArrayGetMemoryRequirements) \
  CALL(cuStreamGetCtx)                        \
  CALL(cuStreamIsCapturing)                   \
  CALL(cuStreamIsCapturing_ptsz)              \
  CALL(cuThreadExchangeStreamCaptureMode)     \
  CALL(cuEventCreate)                         \
  CALL(cuEventRecord)                         \
  CALL(cuEventRecord_ptsz)                    \
  CALL(cuEventElapsedTime)

#define HEDDLE_NVML_HOOKS(NVML)                    \
  NVML(nvmlDeviceGetMemoryInfo)                    \
  NVML(nvmlDeviceGetMemoryInfo_v2)                 \
  NVML(nvmlDeviceGetComputeRunningProcesses)       \
  NVML(nvmlDeviceGetComputeRunningProcesses_v2)    \
  NVML(nvmlDeviceGetComputeRunningProcesses_v3)    \
  NVML(nvmlDeviceGetGraphicsRunningProcesses)      \
  NVML(nvmlDeviceGetGraphicsRunningProcesses_v2)   \
  NVML(nvmlDeviceGetGraphicsRunningProcesses_v3)   \
  NVML(nvmlDeviceGetMPSComputeRunningProcesses)    \
  NVML(nvmlDeviceGetMPSComputeRunningProcesses_v2) \
  NVML(nvmlDeviceGetMPSComputeRunningProcesses_v3) \
  NVML(nvmlDeviceGetRunningProcessDetailList)      \
  NVML(nvmlDeviceGetProcessUtilization)            \
  NVML(nvmlDeviceGetProcessesUtilizationInfo)      \
  NVML(nvmlDeviceGetAccountingPids)                \
  NVML(nvmlDeviceGetAccountingStats)               \
  NVML(nvmlDeviceGetBAR1MemoryInfo)

#define HEDDLE_NVML_CALLS(CALL) CALL(nvmlDeviceGetUUID)
