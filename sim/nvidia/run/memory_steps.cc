// Steps that take memory, give it back, and look at it.
#include <algorithm>
#include <cstring>

#include "run/session.h"

namespace nvsim::run {
namespace {

Outcome failed(Session& session, CUresult code) {
  return {"error=" + session.name_of(code) +
              (session.loading_error.empty() ? "" : " reason='" + session.loading_error + "'"),
          false};
}

CUresult allocate_vmm(Session& session, Allocation& made) {
  Cuda& cuda = session.cuda;
  constexpr std::uint64_t kStep = 2ULL << 20U;
  made.size = (made.size + kStep - 1) / kStep * kStep;
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, session.device};
  CUresult code = cuda.cuMemCreate(&made.handle, made.size, &properties, 0);
  if (code != CUDA_SUCCESS) {
    return code;
  }
  code = cuda.cuMemAddressReserve(&made.address, made.size, 0, 0, 0);
  if (code == CUDA_SUCCESS) {
    code = cuda.cuMemMap(made.address, made.size, 0, made.handle, 0);
  }
  const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, session.device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  return code == CUDA_SUCCESS ? cuda.cuMemSetAccess(made.address, made.size, &access, 1) : code;
}

CUresult allocate_array(Session& session, Allocation& made) {
  CUDA_ARRAY3D_DESCRIPTOR shape = {};
  shape.Width = 1024;
  shape.Height = std::max<std::size_t>(1, made.size / (1024ULL * 16));
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 4;
  if (made.family == "mipmap") {
    return session.cuda.cuMipmappedArrayCreate(reinterpret_cast<CUmipmappedArray*>(&made.object), &shape, 1);
  }
  return session.cuda.cuArray3DCreate(reinterpret_cast<CUarray*>(&made.object), &shape);
}

CUresult allocate_pool(Session& session, Allocation& made) {
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, session.device};
  CUmemoryPool pool = nullptr;
  const CUresult code = session.cuda.cuMemPoolCreate(&pool, &properties);
  return code == CUDA_SUCCESS ? session.cuda.cuMemAllocFromPoolAsync(&made.address, made.size, pool, nullptr) : code;
}

CUresult allocate(Session& session, Allocation& made) {
  Cuda& cuda = session.cuda;
  std::size_t pitch = 0;
  if (made.family == "plain") {
    return cuda.cuMemAlloc(&made.address, made.size);
  }
  if (made.family == "managed") {
    return cuda.cuMemAllocManaged(&made.address, made.size, CU_MEM_ATTACH_GLOBAL);
  }
  if (made.family == "async") {
    return cuda.cuMemAllocAsync(&made.address, made.size, nullptr);
  }
  if (made.family == "pool") {
    return allocate_pool(session, made);
  }
  if (made.family == "pitch") {
    return cuda.cuMemAllocPitch(&made.address, &pitch, 4096, std::max<std::size_t>(1, made.size / 4096), 4);
  }
  if (made.family == "host") {
    return cuda.cuMemAllocHost(&made.object, made.size);
  }
  return made.family == "vmm" ? allocate_vmm(session, made) : allocate_array(session, made);
}

CUresult release(Session& session, const Allocation& made) {
  Cuda& cuda = session.cuda;
  if (made.family == "async" || made.family == "pool") {
    return cuda.cuMemFreeAsync(made.address, nullptr);
  }
  if (made.family == "host") {
    return cuda.cuMemFreeHost(made.object);
  }
  if (made.family == "array") {
    return cuda.cuArrayDestroy(static_cast<CUarray>(made.object));
  }
  if (made.family == "mipmap") {
    return cuda.cuMipmappedArrayDestroy(static_cast<CUmipmappedArray>(made.object));
  }
  if (made.family == "vmm") {
    cuda.cuMemUnmap(made.address, made.size);
    cuda.cuMemAddressFree(made.address, made.size);
    return cuda.cuMemRelease(made.handle);
  }
  return cuda.cuMemFree(made.address);
}

bool known_family(const std::string& family) {
  static const char* const families[] = {"plain", "managed", "async", "pool",  "pitch",
                                         "host",  "vmm",     "array", "mipmap"};
  return std::any_of(std::begin(families), std::end(families), [&](const char* one) { return family == one; });
}

// "600Mi" or "async:600Mi".
bool parse_wish(const std::string& text, Allocation& wish) {
  const std::size_t colon = text.find(':');
  wish.family = colon == std::string::npos ? "plain" : text.substr(0, colon);
  return known_family(wish.family) && parse_size(colon == std::string::npos ? text : text.substr(colon + 1), wish.size);
}

Outcome alloc(Session& session, const std::string& value) {
  Allocation made;
  if (!parse_wish(value, made)) {
    return {"error='write a size, like 300Mi or async:300Mi'", false};
  }
  if (const CUresult code = session.use_device(); code != CUDA_SUCCESS) {
    return failed(session, code);
  }
  if (const CUresult code = allocate(session, made); code != CUDA_SUCCESS) {
    return failed(session, code);
  }
  const std::lock_guard guard(session.mutex);
  session.allocations.push_back(made);
  return {"family=" + made.family + " bytes=" + std::to_string(made.size) + " address=" + std::to_string(made.address),
          true};
}

Outcome expect_oom(Session& session, const std::string& value) {
  Allocation made;
  if (!parse_wish(value, made)) {
    return {"error='write a size, like 300Mi or async:300Mi'", false};
  }
  if (const CUresult code = session.use_device(); code != CUDA_SUCCESS) {
    return failed(session, code);
  }
  const CUresult code = allocate(session, made);
  if (code == CUDA_SUCCESS) {
    release(session, made);
  }
  return {"family=" + made.family + " bytes=" + std::to_string(made.size) + " result=" + session.name_of(code),
          code == CUDA_ERROR_OUT_OF_MEMORY};
}

Outcome free_last(Session& session, const std::string& value) {
  const std::size_t count = value == "all" ? session.allocations.size() : 1;
  for (std::size_t index = 0; index < count && !session.allocations.empty(); ++index) {
    const Allocation made = session.allocations.back();
    session.allocations.pop_back();
    if (const CUresult code = release(session, made); code != CUDA_SUCCESS) {
      return failed(session, code);
    }
  }
  return {"left=" + std::to_string(session.allocations.size()), true};
}

Outcome totals(Session& session, const std::string&) {
  if (const CUresult code = session.use_device(); code != CUDA_SUCCESS) {
    return failed(session, code);
  }
  std::size_t total = 0, free_now = 0, total_now = 0;
  CUresult code = session.cuda.cuDeviceTotalMem(&total, session.device);
  if (code == CUDA_SUCCESS) {
    code = session.cuda.cuMemGetInfo(&free_now, &total_now);
  }
  if (code != CUDA_SUCCESS) {
    return failed(session, code);
  }
  return {"device_total=" + std::to_string(total) + " total=" + std::to_string(total_now) +
              " free=" + std::to_string(free_now) + " total_mib=" + std::to_string(total_now >> 20U) +
              " free_mib=" + std::to_string(free_now >> 20U),
          true};
}

Outcome expect_total(Session& session, const std::string& value) {
  std::uint64_t wanted = 0;
  if (!parse_size(value, wanted)) {
    return {"error='write a size, like 3000Mi'", false};
  }
  if (const CUresult code = session.use_device(); code != CUDA_SUCCESS) {
    return failed(session, code);
  }
  std::size_t total = 0, free_now = 0, total_now = 0;
  session.cuda.cuDeviceTotalMem(&total, session.device);
  session.cuda.cuMemGetInfo(&free_now, &total_now);
  return {"wanted=" + std::to_string(wanted) + " device_total=" + std::to_string(total) +
              " total=" + std::to_string(total_now),
          total == wanted && total_now == wanted};
}

Outcome nvml_memory(Session& session, const std::string&) {
  nvmlDevice_t handle = nullptr;
  nvmlMemory_t memory = {};
  nvmlMemory_v2_t newer = {};
  newer.version = nvmlMemory_v2;
  nvmlReturn_t code = session.use_nvml(handle);
  if (code == NVML_SUCCESS) {
    code = session.nvml.nvmlDeviceGetMemoryInfo(handle, &memory);
  }
  if (code == NVML_SUCCESS) {
    code = session.nvml.nvmlDeviceGetMemoryInfo_v2(handle, &newer);
  }
  if (code != NVML_SUCCESS) {
    return {"error=nvml" + std::to_string(code) +
                (session.loading_error.empty() ? "" : " reason='" + session.loading_error + "'"),
            false};
  }
  return {"total=" + std::to_string(memory.total) + " free=" + std::to_string(memory.free) +
              " used=" + std::to_string(memory.used) + " v2_total=" + std::to_string(newer.total) +
              " v2_reserved=" + std::to_string(newer.reserved) + " v2_free=" + std::to_string(newer.free) +
              " v2_used=" + std::to_string(newer.used),
          true};
}

Outcome nvml_processes(Session& session, const std::string&) {
  nvmlDevice_t handle = nullptr;
  nvmlProcessInfo_t infos[64];
  unsigned int count = 64;
  nvmlReturn_t code = session.use_nvml(handle);
  if (code == NVML_SUCCESS) {
    code = session.nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle, &count, infos);
  }
  if (code != NVML_SUCCESS) {
    return {"error=nvml" + std::to_string(code), false};
  }
  std::string pids;
  for (unsigned int index = 0; index < count; ++index) {
    pids += (index > 0 ? "," : "") + std::to_string(infos[index].pid) + ":" +
            std::to_string(infos[index].usedGpuMemory >> 20U);
  }
  return {"count=" + std::to_string(count) + " pids=" + pids, true};
}

Outcome nvml_load(Session& session, const std::string&) {
  nvmlDevice_t handle = nullptr;
  nvmlUtilization_t load = {};
  nvmlReturn_t code = session.use_nvml(handle);
  if (code == NVML_SUCCESS) {
    code = session.nvml.nvmlDeviceGetUtilizationRates(handle, &load);
  }
  return {code == NVML_SUCCESS ? "gpu=" + std::to_string(load.gpu) : "error=nvml" + std::to_string(code),
          code == NVML_SUCCESS};
}

Outcome round_trip(Session& session, const std::string& value) {
  std::uint64_t size = 0;
  if (!parse_size(value, size) || session.allocations.empty() || session.allocations.back().size < size) {
    return {"error='needs a size within the last allocation'", false};
  }
  std::string sent(size, '\0'), received(size, '\0');
  for (std::uint64_t index = 0; index < size; ++index) {
    sent[index] = static_cast<char>(index * 31 + 7);
  }
  const CUdeviceptr address = session.allocations.back().address;
  CUresult code = session.cuda.cuMemcpyHtoD(address, sent.data(), size);
  if (code == CUDA_SUCCESS) {
    code = session.cuda.cuMemcpyDtoH(received.data(), address, size);
  }
  return code == CUDA_SUCCESS ? Outcome{"bytes=" + std::to_string(size), sent == received} : failed(session, code);
}

Outcome pool_state(Session& session, const std::string& value) {
  if (const CUresult code = session.use_device(); code != CUDA_SUCCESS) {
    return failed(session, code);
  }
  CUmemoryPool pool = nullptr;
  CUresult code = session.cuda.cuDeviceGetDefaultMemPool(&pool, session.device);
  std::uint64_t keep = 0;
  if (code == CUDA_SUCCESS && value.starts_with("trim:") && parse_size(value.substr(5), keep)) {
    code = session.cuda.cuMemPoolTrimTo(pool, keep);
  } else if (code == CUDA_SUCCESS && value.starts_with("threshold:") && parse_size(value.substr(10), keep)) {
    code = session.cuda.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
  }
  cuuint64_t reserved = 0, used = 0;
  if (code == CUDA_SUCCESS) {
    session.cuda.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved);
    code = session.cuda.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used);
  }
  return code == CUDA_SUCCESS ? Outcome{"reserved=" + std::to_string(reserved) + " used=" + std::to_string(used), true}
                              : failed(session, code);
}

}  // namespace

void add_memory_steps(std::map<std::string, Step>& steps) {
  steps["alloc"] = alloc;
  for (const char* family : {"managed", "async", "pool", "pitch", "host", "vmm", "array", "mipmap"}) {
    steps[std::string("alloc-") + family] = [family](Session& session, const std::string& value) {
      return alloc(session, std::string(family) + ":" + value);
    };
  }
  steps["expect-oom"] = expect_oom;
  steps["free"] = free_last;
  steps["totals"] = steps["print-totals"] = totals;
  steps["expect-total"] = expect_total;
  steps["nvml-memory"] = nvml_memory;
  steps["nvml-processes"] = nvml_processes;
  steps["nvml-load"] = nvml_load;
  steps["memcpy"] = round_trip;
  steps["pool"] = pool_state;
}

}  // namespace nvsim::run
