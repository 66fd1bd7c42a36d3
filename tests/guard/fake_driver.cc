// A driver small enough to be certain about: one device, memory in blocks of 2 MiB that small allocations share,
// kernels that take no time. For what the simulator does not do (shared blocks, other addresses from cuGetProcAddress
// than those exported) and for measuring what the guard adds to a call.
#define __CUDA_API_VERSION_INTERNAL      // NOLINT
#define __CUDA_API_VERSION_INTERNAL_ODR  // NOLINT
#include <cuda.h>
#undef cuGetProcAddress_v2

#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#define API extern "C" __attribute__((visibility("default")))

namespace {

constexpr uint64_t kBlock = uint64_t{2} << 20;
constexpr uint64_t kMemory = uint64_t{16} << 30;

struct Card {
  std::mutex mutex;
  std::map<uint64_t, uint64_t> allocations;  // address to bytes
  std::map<uint64_t, int> small_blocks;      // number of a shared block to its allocations
  uint64_t next_block = 1 << 20;
  uint64_t open_block = 0;  // where small allocations go
  uint64_t open_used = 0;
  uint64_t taken = 0;
  // A free that gives the address away first and the memory when it is told to.
  enum class Slow { kOff, kWanted, kHalfway } slow = Slow::kOff;
  std::condition_variable slow_changed;
  uint64_t given_away = 0;  // a large one that starts here may be handed out again
};

Card& card() {
  static Card the_card;
  return the_card;
}

// What the device was given waits for something until it is told to go on.
struct Work {
  std::mutex mutex;
  std::condition_variable changed;
  bool held = false;
};

Work& work() {
  static Work the_work;
  return the_work;
}

CUresult query_work() {
  const std::lock_guard lock(work().mutex);
  return work().held ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}
CUresult wait_for_work() {
  std::unique_lock lock(work().mutex);
  work().changed.wait(lock, [] { return !work().held; });
  return CUDA_SUCCESS;
}

bool capturing = false;
size_t captured_nodes = 0;
int launches = 0;

CUresult launched() {
  if (capturing) ++captured_nodes;
  ++launches;
  return CUDA_SUCCESS;
}

uint64_t allocate_locked(Card& c, uint64_t bytes) {
  if (bytes >= kBlock / 2) {
    const uint64_t blocks = (bytes + kBlock - 1) / kBlock;
    if (c.taken + blocks * kBlock > kMemory) return 0;
    c.taken += blocks * kBlock;
    if (c.given_away != 0) return std::exchange(c.given_away, 0);
    const uint64_t address = c.next_block * kBlock;
    c.next_block += blocks;
    return address;
  }
  const uint64_t step = (bytes + 511) / 512 * 512;
  if (c.open_block == 0 || c.open_used + step > kBlock || c.small_blocks[c.open_block] == 0) {
    if (c.taken + kBlock > kMemory) return 0;
    c.open_block = c.next_block++;
    c.open_used = 0;
    c.taken += kBlock;
  }
  const uint64_t address = c.open_block * kBlock + c.open_used;
  c.open_used += step;
  ++c.small_blocks[c.open_block];
  return address;
}

CUresult allocate(CUdeviceptr* out, size_t bytes) {
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  Card& c = card();
  const std::lock_guard lock(c.mutex);
  const uint64_t address = allocate_locked(c, bytes);
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  c.allocations[address] = bytes;
  *out = address;
  return CUDA_SUCCESS;
}

CUresult release(CUdeviceptr address) {
  if (address == 0) return CUDA_SUCCESS;
  Card& c = card();
  std::unique_lock lock(c.mutex);
  const auto found = c.allocations.find(address);
  if (found == c.allocations.end()) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t bytes = found->second;
  c.allocations.erase(found);
  if (c.slow == Card::Slow::kWanted) {
    c.given_away = address;
    c.slow = Card::Slow::kHalfway;
    c.slow_changed.notify_all();
    c.slow_changed.wait(lock, [&] { return c.slow == Card::Slow::kOff; });
  }
  if (bytes >= kBlock / 2) {
    c.taken -= (bytes + kBlock - 1) / kBlock * kBlock;
  } else if (--c.small_blocks[address / kBlock] == 0) {
    c.taken -= kBlock;
  }
  return CUDA_SUCCESS;
}

// What cuGetProcAddress hands out: the same work at another address than the exported name.
CUresult allocate_elsewhere(CUdeviceptr* out, size_t bytes) {
  return allocate(out, bytes);
}
CUresult release_elsewhere(CUdeviceptr address) {
  return release(address);
}

}  // namespace

API CUresult cuInit(unsigned int) {
  return CUDA_SUCCESS;
}
API CUresult cuDriverGetVersion(int* version) {
  *version = 12090;
  return CUDA_SUCCESS;
}
API CUresult cuDeviceGetCount(int* count) {
  *count = 1;
  return CUDA_SUCCESS;
}
#ifndef FAKE_WITHOUT_UUID
API CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  std::memset(uuid->bytes, 0x11, sizeof(uuid->bytes));
  return device == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
#endif
API CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice) {
  *bytes = kMemory;
  return CUDA_SUCCESS;
}
API CUresult cuCtxCreate_v2(CUcontext* context, unsigned int, CUdevice) {
  setenv("FAKE_CONTEXT", "1", 1);
  *context = reinterpret_cast<CUcontext>(uintptr_t{0x1000});
  return CUDA_SUCCESS;
}
API CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  *context = reinterpret_cast<CUcontext>(uintptr_t{0x1000});
  return CUDA_SUCCESS;
}
API CUresult cuCtxSetCurrent(CUcontext) {
  return CUDA_SUCCESS;
}
API CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = reinterpret_cast<CUcontext>(uintptr_t{0x1000});
  return CUDA_SUCCESS;
}
API CUresult cuCtxGetDevice(CUdevice* device) {
  *device = 0;
  return CUDA_SUCCESS;
}
API CUresult cuMemAlloc_v2(CUdeviceptr* out, size_t bytes) {
  return allocate(out, bytes);
}
API CUresult cuMemFree_v2(CUdeviceptr address) {
  return release(address);
}
API CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  Card& c = card();
  const std::lock_guard lock(c.mutex);
  if (free != nullptr) *free = kMemory - c.taken;
  if (total != nullptr) *total = kMemory;
  return CUDA_SUCCESS;
}
// For tests alone: how many bytes are taken (less than 2 GiB), past every interposer. As the probe calls such: int ().
API int fake_taken() {
  Card& c = card();
  const std::lock_guard lock(c.mutex);
  return static_cast<int>(c.taken);
}
// The next free stops halfway, its address given away and its memory still taken, and goes on when it is told to.
API int fake_slow_free() {
  const std::lock_guard lock(card().mutex);
  card().slow = Card::Slow::kWanted;
  return 0;
}
API int fake_finish_free() {
  const std::lock_guard lock(card().mutex);
  card().slow = Card::Slow::kOff;
  card().slow_changed.notify_all();
  return 0;
}
API int fake_wait_for_free() {
  std::unique_lock lock(card().mutex);
  card().slow_changed.wait(lock, [] { return card().slow == Card::Slow::kHalfway; });
  return 0;
}
API int fake_launches() {
  return launches;
}
API int fake_hold_work() {
  const std::lock_guard lock(work().mutex);
  work().held = true;
  return 0;
}
API int fake_go_on() {
  const std::lock_guard lock(work().mutex);
  work().held = false;
  work().changed.notify_all();
  return 0;
}
// What a newer driver may have and no header of ours knows.
API CUresult cuMemAllocTomorrow(CUdeviceptr* out, size_t bytes) {
  return allocate(out, bytes);
}
API CUresult cuWeatherGet(int* degrees) {
  *degrees = 20;
  return CUDA_SUCCESS;
}
API CUresult cuStreamCreate(CUstream* stream, unsigned int) {
  *stream = reinterpret_cast<CUstream>(uintptr_t{0x2000});
  return CUDA_SUCCESS;
}
API CUresult cuStreamSynchronize(CUstream) {
  return wait_for_work();
}
API CUresult cuStreamQuery(CUstream) {
  return query_work();
}
// One capture at a time; whatever is put on the stream meanwhile becomes a node.
API CUresult cuStreamBeginCapture_v2(CUstream, CUstreamCaptureMode) {
  capturing = true;
  captured_nodes = 0;
  return CUDA_SUCCESS;
}
API CUresult cuStreamEndCapture(CUstream, CUgraph* graph) {
  capturing = false;
  *graph = reinterpret_cast<CUgraph>(uintptr_t{0x6000});
  return CUDA_SUCCESS;
}
API CUresult cuGraphGetNodes(CUgraph, CUgraphNode*, size_t* count) {
  *count = captured_nodes;
  return CUDA_SUCCESS;
}
API CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph, unsigned long long) {
  *exec = reinterpret_cast<CUgraphExec>(uintptr_t{0x7000});
  return CUDA_SUCCESS;
}
API CUresult cuGraphLaunch(CUgraphExec, CUstream) {
  return launched();
}
API CUresult cuGraphLaunch_ptsz(CUgraphExec, CUstream) {
  return launched();
}
API CUresult cuStreamIsCapturing(CUstream, CUstreamCaptureStatus* status) {
  *status = capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
API CUresult cuEventCreate(CUevent* event, unsigned int) {
  *event = reinterpret_cast<CUevent>(uintptr_t{0x3000});
  return CUDA_SUCCESS;
}
API CUresult cuEventRecord(CUevent, CUstream) {
  return CUDA_SUCCESS;
}
API CUresult cuEventQuery(CUevent) {
  return query_work();
}
API CUresult cuEventSynchronize(CUevent) {
  return wait_for_work();
}
API CUresult cuEventElapsedTime(float* milliseconds, CUevent, CUevent) {
  *milliseconds = 0;
  return CUDA_SUCCESS;
}
API CUresult cuModuleLoadData(CUmodule* module, const void*) {
  *module = reinterpret_cast<CUmodule>(uintptr_t{0x4000});
  return CUDA_SUCCESS;
}
API CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char*) {
  *function = reinterpret_cast<CUfunction>(uintptr_t{0x5000});
  return CUDA_SUCCESS;
}
API CUresult cuLaunchKernel(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                            unsigned int, unsigned int, CUstream, void**, void**) {
  return launched();
}
API CUresult cuLaunchKernel_ptsz(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                                 unsigned int, unsigned int, CUstream, void**, void**) {
  return launched();
}
API CUresult cuLaunchKernelEx(const CUlaunchConfig*, CUfunction, void**, void**) {
  return launched();
}
API CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig*, CUfunction, void**, void**) {
  return launched();
}
API CUresult cuLaunchCooperativeKernel(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                                       unsigned int, unsigned int, CUstream, void**) {
  return launched();
}
API CUresult cuLaunchCooperativeKernel_ptsz(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int,
                                            unsigned int, unsigned int, unsigned int, CUstream, void**) {
  return launched();
}
API CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS*, unsigned int, unsigned int) {
  return launched();
}
API CUresult cuLaunch(CUfunction) {
  return launched();
}
API CUresult cuLaunchGrid(CUfunction, int, int) {
  return launched();
}
API CUresult cuLaunchGridAsync(CUfunction, int, int, CUstream) {
  return launched();
}
API CUresult cuGetProcAddress_v2(const char* symbol, void** function, int, cuuint64_t,
                                 CUdriverProcAddressQueryResult* status) {
  static const std::map<std::string, void*> known = {
      {"cuInit", reinterpret_cast<void*>(&cuInit)},
      {"cuCtxCreate", reinterpret_cast<void*>(&cuCtxCreate_v2)},
      {"cuMemAlloc", reinterpret_cast<void*>(&allocate_elsewhere)},
      {"cuMemFree", reinterpret_cast<void*>(&release_elsewhere)},
      {"cuMemAllocTomorrow", reinterpret_cast<void*>(&cuMemAllocTomorrow)},
      {"cuWeatherGet", reinterpret_cast<void*>(&cuWeatherGet)},
      {"cuMemGetInfo", reinterpret_cast<void*>(&cuMemGetInfo_v2)},
      {"cuDeviceTotalMem", reinterpret_cast<void*>(&cuDeviceTotalMem_v2)},
  };
  const auto found = known.find(symbol);
  *function = found != known.end() ? found->second : nullptr;
  if (status != nullptr) {
    *status = found != known.end() ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return CUDA_SUCCESS;
}
