// The part of the Ascend runtime (libruntime.so) under ACL that takes memory or runs work, which frameworks call
// directly: our own declarations of the vendor's ABI, since no package carries its headers. Signatures are those of the
// runtime's headers in the open source of CANN (rt/mem.h, rt/kernel.h, rt/rt_model.h, rt/dev.h; CANN Open Software
// License 2.0) and agree with what torch_npu and hami-vnpu-core call. Structures that nobody here looks into stay
// incomplete. A call that grew an argument (the module id) takes it in a register, so a caller of the older form is
// served as well.
#pragma once
/* NOLINTBEGIN(readability-identifier-naming): the vendor's names */

#include <cstddef>
#include <cstdint>

using rtError_t = int32_t;
using rtStream_t = void*;
using rtEvent_t = void*;
using rtModel_t = void*;
using rtMemType_t = uint32_t;
struct rtSmDesc_t;
struct rtTaskCfgInfo_t;
struct rtKernelLaunchNames_t;
struct rtAicpuArgsEx_t;
// Where memory without an address lies.
struct rtDrvMemProp_t {
  uint32_t side;  // RT_DRV_MEM_SIDE_*
  uint32_t devid;
  uint32_t module_id;
  uint32_t pg_type;
  uint32_t mem_type;
  uint64_t reserve;
};
inline constexpr uint32_t RT_DRV_MEM_SIDE_HOST = 0;
inline constexpr uint32_t RT_DRV_MEM_SIDE_DEVICE = 1;
struct rtDrvMemHandle_t;
using rtDrvMemHandle = rtDrvMemHandle_t*;

// What a launch with a handle is told about its arguments.
struct rtHostInputInfo_t {
  uint16_t addrOffset;
  uint16_t dataOffset;
};
struct rtArgsEx_t {
  void* args;
  rtHostInputInfo_t* hostInputInfoPtr;
  uint32_t argsSize;
  uint16_t tilingAddrOffset;
  uint16_t tilingDataOffset;
  uint16_t hostInputInfoNum;
  uint8_t hasTiling;
  uint8_t isNoNeedH2DCopy;
  uint8_t reserved[4];
};
static_assert(sizeof(rtArgsEx_t) == 32 && offsetof(rtArgsEx_t, argsSize) == 16);

// rtDevBinaryRegister: code of kernels; RT_DEV_BINARY_MAGIC_ELF.
struct rtDevBinary_t {
  uint32_t magic;
  uint32_t version;
  const void* data;
  uint64_t length;
};
static_assert(sizeof(rtDevBinary_t) == 24);
inline constexpr uint32_t RT_DEV_BINARY_MAGIC_ELF = 0x43554245;

// rtMalloc: kinds of memory, and the bits for its pages.
inline constexpr uint32_t RT_MEMORY_DEFAULT = 0x0;
inline constexpr uint32_t RT_MEMORY_HBM = 0x2;
inline constexpr uint32_t RT_MEMORY_POLICY_HUGE_PAGE_FIRST = 0x400;
inline constexpr uint32_t RT_MEMORY_POLICY_HUGE_PAGE_ONLY = 0x800;
inline constexpr uint32_t RT_MEMORY_POLICY_DEFAULT_PAGE_ONLY = 0x1000;
inline constexpr uint32_t RT_MEMORY_POLICY_HUGE_PAGE_FIRST_P2P = 0x2000;
inline constexpr uint32_t RT_MEMORY_POLICY_HUGE_PAGE_ONLY_P2P = 0x4000;
inline constexpr uint32_t RT_MEMORY_POLICY_DEFAULT_PAGE_ONLY_P2P = 0x8000;
inline constexpr uint32_t RT_MEMORY_POLICY_HUGE1G_PAGE_ONLY = 0x10000;
inline constexpr uint32_t RT_MEMORY_POLICY_HUGE1G_PAGE_ONLY_P2P = 0x20000;

extern "C" {
rtError_t rtGetDeviceCount(int32_t* count);
rtError_t rtGetDevice(int32_t* device);
rtError_t rtSetDevice(int32_t device);
rtError_t rtDeviceReset(int32_t device);
rtError_t rtDeviceSynchronize(void);
rtError_t rtGetDevicePhyIdByIndex(uint32_t index, uint32_t* physical);

rtError_t rtMalloc(void** pointer, uint64_t size, rtMemType_t type, uint16_t module);
rtError_t rtMallocCached(void** pointer, uint64_t size, rtMemType_t type, uint16_t module);
rtError_t rtFree(void* pointer);
rtError_t rtFreeWithDevSync(void* pointer);
rtError_t rtDvppMalloc(void** pointer, uint64_t size, uint16_t module);
rtError_t rtDvppMallocWithFlag(void** pointer, uint64_t size, uint32_t flag, uint16_t module);
rtError_t rtDvppFree(void* pointer);
rtError_t rtMemAllocManaged(void** pointer, uint64_t size, uint32_t flag, uint16_t module);
rtError_t rtMemFreeManaged(void* pointer);
rtError_t rtMallocPhysical(rtDrvMemHandle* handle, size_t size, rtDrvMemProp_t* prop, uint64_t flags);
rtError_t rtFreePhysical(rtDrvMemHandle handle);
rtError_t rtMallocHost(void** pointer, uint64_t size, uint16_t module);
rtError_t rtFreeHost(void* pointer);
rtError_t rtMemGetInfo(size_t* free, size_t* total);
rtError_t rtMemGetInfoEx(uint32_t kind, size_t* free, size_t* total);

rtError_t rtStreamCreate(rtStream_t* stream, int32_t priority);
rtError_t rtStreamDestroy(rtStream_t stream);
rtError_t rtStreamSynchronize(rtStream_t stream);
rtError_t rtStreamQuery(rtStream_t stream);
rtError_t rtCtxGetCurrent(void** context);
rtError_t rtEventCreate(rtEvent_t* event);
rtError_t rtEventDestroy(rtEvent_t event);
rtError_t rtEventRecord(rtEvent_t event, rtStream_t stream);
rtError_t rtEventQueryStatus(rtEvent_t event, int32_t* status);
rtError_t rtEventSynchronize(rtEvent_t event);
rtError_t rtEventElapsedTime(float* milliseconds, rtEvent_t start, rtEvent_t end);

rtError_t rtDevBinaryRegister(const rtDevBinary_t* binary, void** handle);
rtError_t rtDevBinaryUnRegister(void* handle);
rtError_t rtFunctionRegister(void* handle, const void* stub, const char* stub_name, const void* info, uint32_t mode);
rtError_t rtKernelLaunch(const void* stub, uint32_t blocks, void* args, uint32_t args_size, rtSmDesc_t* desc,
                         rtStream_t stream);
rtError_t rtKernelLaunchWithFlag(const void* stub, uint32_t blocks, rtArgsEx_t* args, rtSmDesc_t* desc,
                                 rtStream_t stream, uint32_t flags);
rtError_t rtKernelLaunchWithFlagV2(const void* stub, uint32_t blocks, rtArgsEx_t* args, rtSmDesc_t* desc,
                                   rtStream_t stream, uint32_t flags, const rtTaskCfgInfo_t* config);
rtError_t rtKernelLaunchWithHandle(void* handle, uint64_t tiling_key, uint32_t blocks, rtArgsEx_t* args,
                                   rtSmDesc_t* desc, rtStream_t stream, const void* info);
rtError_t rtKernelLaunchWithHandleV2(void* handle, uint64_t tiling_key, uint32_t blocks, rtArgsEx_t* args,
                                     rtSmDesc_t* desc, rtStream_t stream, const rtTaskCfgInfo_t* config);
rtError_t rtAicpuKernelLaunchWithFlag(const rtKernelLaunchNames_t* names, uint32_t blocks, const rtArgsEx_t* args,
                                      rtSmDesc_t* desc, rtStream_t stream, uint32_t flags);
rtError_t rtAicpuKernelLaunchExWithArgs(uint32_t kind, const char* name, uint32_t blocks, const rtAicpuArgsEx_t* args,
                                        rtSmDesc_t* desc, rtStream_t stream, uint32_t flags);
rtError_t rtModelExecute(rtModel_t model, rtStream_t stream, uint32_t flag);
}
/* NOLINTEND(readability-identifier-naming) */
