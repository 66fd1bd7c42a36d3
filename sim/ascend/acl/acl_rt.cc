// The part of ACL that works: all of it over the runtime, as with the vendor's library, so that whoever interposes the
// runtime sees what ACL does.
#include <acl/acl.h>
#include <ascend_abi/rt.h>

#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <string>

#define ASCENDSIM_API extern "C" __attribute__((visibility("default")))

namespace {

// ACL's own module number for the runtime.
constexpr uint16_t kModule = 33;
constexpr size_t kAlignment = 32;
constexpr uint64_t kHugePage = 2ULL << 20U;

rtMemType_t type_of(aclrtMemMallocPolicy policy) {
  constexpr rtMemType_t kPolicies[] = {RT_MEMORY_POLICY_HUGE_PAGE_FIRST,    RT_MEMORY_POLICY_HUGE_PAGE_ONLY,
                                       RT_MEMORY_POLICY_DEFAULT_PAGE_ONLY,  RT_MEMORY_POLICY_HUGE_PAGE_FIRST_P2P,
                                       RT_MEMORY_POLICY_HUGE_PAGE_ONLY_P2P, RT_MEMORY_POLICY_DEFAULT_PAGE_ONLY_P2P,
                                       RT_MEMORY_POLICY_HUGE1G_PAGE_ONLY,   RT_MEMORY_POLICY_HUGE1G_PAGE_ONLY_P2P};
  const unsigned bits = static_cast<unsigned>(policy) & 0xffU;
  return bits < std::size(kPolicies) ? kPolicies[bits] : RT_MEMORY_POLICY_HUGE_PAGE_FIRST;
}

// As documented: rounded up to 32 bytes, and 32 bytes more.
bool padded(size_t size, size_t* result) {
  return !__builtin_add_overflow(size, 2 * kAlignment - 1, result) && (*result &= ~(kAlignment - 1), size != 0);
}

aclError malloc_padded(void** pointer, size_t size, aclrtMemMallocPolicy policy) {
  size_t bytes = 0;
  return padded(size, &bytes) ? rtMalloc(pointer, bytes, type_of(policy), kModule) : ACL_ERROR_RT_PARAM_INVALID;
}

struct Function {
  std::string name;
};

}  // namespace

ASCENDSIM_API aclError aclInit(const char*) {
  int32_t count = 0;
  return rtGetDeviceCount(&count);
}
ASCENDSIM_API aclError aclFinalize() {
  return ACL_SUCCESS;
}
ASCENDSIM_API aclError aclrtGetDeviceCount(uint32_t* count) {
  int32_t number = 0;
  const aclError code = rtGetDeviceCount(&number);
  if (code == ACL_SUCCESS && count != nullptr) {
    *count = static_cast<uint32_t>(number);
  }
  return count == nullptr ? ACL_ERROR_RT_PARAM_INVALID : code;
}
ASCENDSIM_API aclError aclrtSetDevice(int32_t device) {
  return rtSetDevice(device);
}
ASCENDSIM_API aclError aclrtResetDevice(int32_t device) {
  return rtDeviceReset(device);
}
ASCENDSIM_API aclError aclrtGetDevice(int32_t* device) {
  return rtGetDevice(device);
}
ASCENDSIM_API aclError aclrtGetPhyDevIdByLogicDevId(const int32_t logic, int32_t* const physical) {
  uint32_t number = 0;
  const aclError code = rtGetDevicePhyIdByIndex(static_cast<uint32_t>(logic), &number);
  if (code == ACL_SUCCESS && physical != nullptr) {
    *physical = static_cast<int32_t>(number);
  }
  return code;
}
ASCENDSIM_API aclError aclrtSynchronizeDevice() {
  return rtDeviceSynchronize();
}

ASCENDSIM_API aclError aclrtMalloc(void** pointer, size_t size, aclrtMemMallocPolicy policy) {
  return malloc_padded(pointer, size, policy);
}
ASCENDSIM_API aclError aclrtMallocWithCfg(void** pointer, size_t size, aclrtMemMallocPolicy policy,
                                          aclrtMallocConfig*) {
  return malloc_padded(pointer, size, policy);
}
ASCENDSIM_API aclError aclrtMallocForTaskScheduler(void** pointer, size_t size, aclrtMemMallocPolicy policy,
                                                   aclrtMallocConfig*) {
  return malloc_padded(pointer, size, policy);
}
ASCENDSIM_API aclError aclrtMallocAlign32(void** pointer, size_t size, aclrtMemMallocPolicy policy) {
  return rtMalloc(pointer, (size + kAlignment - 1) & ~(kAlignment - 1), type_of(policy), kModule);
}
ASCENDSIM_API aclError aclrtMallocCached(void** pointer, size_t size, aclrtMemMallocPolicy policy) {
  size_t bytes = 0;
  return padded(size, &bytes) ? rtMallocCached(pointer, bytes, type_of(policy), kModule) : ACL_ERROR_RT_PARAM_INVALID;
}
ASCENDSIM_API aclError aclrtFree(void* pointer) {
  return rtFree(pointer);
}
ASCENDSIM_API aclError aclrtFreeWithDevSync(void* pointer) {
  return rtFreeWithDevSync(pointer);
}
ASCENDSIM_API aclError aclrtMallocHost(void** pointer, size_t size) {
  return rtMallocHost(pointer, size, kModule);
}
ASCENDSIM_API aclError aclrtFreeHost(void* pointer) {
  return rtFreeHost(pointer);
}
ASCENDSIM_API aclError aclrtMemcpy(void* to, size_t room, const void* from, size_t bytes, aclrtMemcpyKind) {
  if (to == nullptr || from == nullptr || bytes > room) {
    return ACL_ERROR_RT_PARAM_INVALID;
  }
  std::memmove(to, from, bytes);
  return ACL_SUCCESS;
}
ASCENDSIM_API aclError aclrtMallocPhysical(aclrtDrvMemHandle* handle, size_t size, const aclrtPhysicalMemProp* prop,
                                           uint64_t flags) {
  if (prop == nullptr) {
    return ACL_ERROR_RT_PARAM_INVALID;
  }
  rtDrvMemProp_t where{};
  where.side = RT_DRV_MEM_SIDE_DEVICE;
  where.devid = prop->location.id;
  const bool says_where = prop->location.type == ACL_MEM_LOCATION_TYPE_DEVICE;
  return rtMallocPhysical(reinterpret_cast<rtDrvMemHandle*>(handle), size, says_where ? &where : nullptr, flags);
}
ASCENDSIM_API aclError aclrtFreePhysical(aclrtDrvMemHandle handle) {
  return rtFreePhysical(static_cast<rtDrvMemHandle>(handle));
}
ASCENDSIM_API aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp* prop, aclrtMemGranularityOptions,
                                                        size_t* granularity) {
  if (prop == nullptr || granularity == nullptr) {
    return ACL_ERROR_RT_PARAM_INVALID;
  }
  *granularity = kHugePage;
  return ACL_SUCCESS;
}

// The runtime counts the kinds from 1.
ASCENDSIM_API aclError aclrtGetMemInfo(aclrtMemAttr kind, size_t* free, size_t* total) {
  return rtMemGetInfoEx(static_cast<uint32_t>(kind) + 1, free, total);
}

ASCENDSIM_API aclError aclrtCreateStream(aclrtStream* stream) {
  return rtStreamCreate(stream, 0);
}
ASCENDSIM_API aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t priority, uint32_t) {
  return rtStreamCreate(stream, static_cast<int32_t>(priority));
}
ASCENDSIM_API aclError aclrtDestroyStream(aclrtStream stream) {
  return rtStreamDestroy(stream);
}
ASCENDSIM_API aclError aclrtSynchronizeStream(aclrtStream stream) {
  return rtStreamSynchronize(stream);
}
ASCENDSIM_API aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status) {
  const aclError code = rtStreamQuery(stream);
  if (status == nullptr || (code != ACL_SUCCESS && code != ACL_ERROR_RT_STREAM_NOT_COMPLETE)) {
    return status == nullptr ? ACL_ERROR_RT_PARAM_INVALID : code;
  }
  *status = code == ACL_SUCCESS ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
  return ACL_SUCCESS;
}
ASCENDSIM_API aclError aclrtGetCurrentContext(aclrtContext* context) {
  return rtCtxGetCurrent(context);
}
ASCENDSIM_API aclError aclrtCreateEvent(aclrtEvent* event) {
  return rtEventCreate(event);
}
ASCENDSIM_API aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t) {
  return rtEventCreate(event);
}
ASCENDSIM_API aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t) {
  return rtEventCreate(event);
}
ASCENDSIM_API aclError aclrtDestroyEvent(aclrtEvent event) {
  return rtEventDestroy(event);
}
ASCENDSIM_API aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
  return rtEventRecord(event, stream);
}
ASCENDSIM_API aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status) {
  int32_t reached = 0;
  const aclError code = rtEventQueryStatus(event, &reached);
  if (code == ACL_SUCCESS && status != nullptr) {
    *status = reached != 0 ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
  }
  return code;
}
ASCENDSIM_API aclError aclrtSynchronizeEvent(aclrtEvent event) {
  return rtEventSynchronize(event);
}
ASCENDSIM_API aclError aclrtEventElapsedTime(float* milliseconds, aclrtEvent start, aclrtEvent end) {
  return rtEventElapsedTime(milliseconds, start, end);
}

ASCENDSIM_API aclError aclrtBinaryLoadFromData(const void* data, size_t length, const aclrtBinaryLoadOptions*,
                                               aclrtBinHandle* handle) {
  const rtDevBinary_t binary{RT_DEV_BINARY_MAGIC_ELF, 0, data, length};
  return rtDevBinaryRegister(&binary, handle);
}
ASCENDSIM_API aclError aclrtBinaryLoadFromFile(const char* path, aclrtBinaryLoadOptions* options,
                                               aclrtBinHandle* handle) {
  std::ifstream file(path == nullptr ? "" : path, std::ios::binary);
  if (!file) {
    return ACL_ERROR_RT_FILE_OPEN;
  }
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return aclrtBinaryLoadFromData(text.data(), text.size(), options, handle);
}
ASCENDSIM_API aclError aclrtBinaryUnLoad(aclrtBinHandle handle) {
  return rtDevBinaryUnRegister(handle);
}
ASCENDSIM_API aclError aclrtBinaryGetFunction(aclrtBinHandle handle, const char* name, aclrtFuncHandle* function) {
  if (name == nullptr || function == nullptr) {
    return ACL_ERROR_RT_PARAM_INVALID;
  }
  // Lives as long as the process: the runtime keeps its address.
  auto* made = new Function{name};
  const aclError code = rtFunctionRegister(handle, made, made->name.c_str(), made->name.c_str(), 0);
  if (code != ACL_SUCCESS) {
    delete made;
    return code;
  }
  *function = made;
  return ACL_SUCCESS;
}

ASCENDSIM_API aclError aclrtLaunchKernel(aclrtFuncHandle function, uint32_t blocks, const void*, size_t,
                                         aclrtStream stream) {
  return rtKernelLaunch(function, blocks, nullptr, 0, nullptr, stream);
}
ASCENDSIM_API aclError aclrtLaunchKernelV2(aclrtFuncHandle function, uint32_t blocks, const void*, size_t,
                                           aclrtLaunchKernelCfg*, aclrtStream stream) {
  return rtKernelLaunch(function, blocks, nullptr, 0, nullptr, stream);
}
ASCENDSIM_API aclError aclrtLaunchKernelWithConfig(aclrtFuncHandle function, uint32_t blocks, aclrtStream stream,
                                                   aclrtLaunchKernelCfg*, aclrtArgsHandle, void*) {
  return rtKernelLaunch(function, blocks, nullptr, 0, nullptr, stream);
}
ASCENDSIM_API aclError aclrtLaunchKernelWithHostArgs(aclrtFuncHandle function, uint32_t blocks, aclrtStream stream,
                                                     aclrtLaunchKernelCfg*, void*, size_t, aclrtPlaceHolderInfo*,
                                                     size_t) {
  return rtKernelLaunch(function, blocks, nullptr, 0, nullptr, stream);
}
ASCENDSIM_API aclError aclrtLaunchKernelWithArgsArray(void* function, uint32_t blocks, aclrtStream stream,
                                                      aclrtLaunchKernelCfg*, void**) {
  return rtKernelLaunch(function, blocks, nullptr, 0, nullptr, stream);
}
