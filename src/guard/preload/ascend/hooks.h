// Which entry points of ACL and of the runtime under it are interposed, and which others the guard calls itself.
#pragma once

#include <acl/acl.h>
#include <acl/acl_rt_memory_soma.h>
#include <ascend_abi/rt.h>

#define HEDDLE_ACL_HOOKS(ACL)            \
  ACL(aclrtMalloc)                       \
  ACL(aclrtMallocAlign32)                \
  ACL(aclrtMallocCached)                 \
  ACL(aclrtMallocWithCfg)                \
  ACL(aclrtMallocForTaskScheduler)       \
  ACL(aclrtMemAllocManaged)              \
  ACL(aclrtMallocPhysical)               \
  ACL(aclrtFree)                         \
  ACL(aclrtFreeWithDevSync)              \
  ACL(aclrtFreePhysical)                 \
  ACL(aclrtMapMem)                       \
  ACL(aclrtUnmapMem)                     \
  ACL(aclrtMemRetainAllocationHandle)    \
  ACL(aclrtMemPoolCreate)                \
  ACL(aclrtSetDevice)                    \
  ACL(aclrtResetDevice)                  \
  ACL(aclrtResetDeviceForce)             \
  ACL(aclrtLaunchKernel)                 \
  ACL(aclrtLaunchKernelV2)               \
  ACL(aclrtLaunchKernelWithConfig)       \
  ACL(aclrtLaunchKernelWithHostArgs)     \
  ACL(aclrtLaunchKernelWithArgsArray)    \
  ACL(aclmdlRIExecuteAsync)              \
  ACL(aclmdlRIExecute)                   \
  ACL(aclmdlExecute)                     \
  ACL(aclmdlExecuteV2)                   \
  ACL(aclmdlExecuteAsync)                \
  ACL(aclmdlExecuteAsyncV2)              \
  ACL(aclopExecute)                      \
  ACL(aclopExecuteV2)                    \
  ACL(aclopExecWithHandle)               \
  ACL(aclopCast)                         \
  ACL(aclrtGetMemInfo)                   \
  ACL(aclrtSynchronizeDevice)            \
  ACL(aclrtSynchronizeDeviceWithTimeout) \
  ACL(aclrtSynchronizeStream)            \
  ACL(aclrtSynchronizeStreamWithTimeout) \
  ACL(aclrtSynchronizeEvent)             \
  ACL(aclrtSynchronizeEventWithTimeout)  \
  ACL(aclrtMemcpy)                       \
  ACL(aclrtDestroyStream)                \
  ACL(aclrtDestroyStreamForce)           \
  ACL(aclrtDestroyContext)

// Called by the guard, never interposed.
#define HEDDLE_ACL_CALLS(CALL)        \
  CALL(aclrtGetDevice)                \
  CALL(aclrtGetCurrentContext)        \
  CALL(aclrtGetLogicDevIdByUserDevId) \
  CALL(aclrtGetPhyDevIdByLogicDevId)  \
  CALL(aclrtCreateEvent)              \
  CALL(aclrtRecordEvent)              \
  CALL(aclrtQueryEventStatus)         \
  CALL(aclrtEventElapsedTime)         \
  CALL(aclrtStreamQuery)              \
  CALL(aclmdlRICaptureGetInfo)

#define HEDDLE_RT_HOOKS(RT)         \
  RT(rtMalloc)                      \
  RT(rtMallocCached)                \
  RT(rtDvppMalloc)                  \
  RT(rtDvppMallocWithFlag)          \
  RT(rtMemAllocManaged)             \
  RT(rtMallocPhysical)              \
  RT(rtFree)                        \
  RT(rtFreeWithDevSync)             \
  RT(rtDvppFree)                    \
  RT(rtMemFreeManaged)              \
  RT(rtFreePhysical)                \
  RT(rtSetDevice)                   \
  RT(rtDeviceReset)                 \
  RT(rtKernelLaunch)                \
  RT(rtKernelLaunchWithFlag)        \
  RT(rtKernelLaunchWithFlagV2)      \
  RT(rtKernelLaunchWithHandle)      \
  RT(rtKernelLaunchWithHandleV2)    \
  RT(rtAicpuKernelLaunchWithFlag)   \
  RT(rtAicpuKernelLaunchExWithArgs) \
  RT(rtModelExecute)                \
  RT(rtMemGetInfo)                  \
  RT(rtMemGetInfoEx)                \
  RT(rtDeviceSynchronize)           \
  RT(rtStreamSynchronize)           \
  RT(rtEventSynchronize)            \
  RT(rtStreamDestroy)

#define HEDDLE_RT_CALLS(CALL) \
  CALL(rtGetDevice)           \
  CALL(rtGetDevicePhyIdByIndex)
