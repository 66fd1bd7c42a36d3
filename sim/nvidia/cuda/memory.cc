// Device, managed and host memory: allocation, freeing, and what is known about an address.
#include "cuda/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "cuda/pool.h"
#include "cuda/work.h"

namespace nvsim {
namespace {

constexpr std::uint64_t kPitchStep = 512;
constexpr std::uint64_t kLargest = 1ULL << 50U;
constexpr std::uint64_t kIpcMagic = 0x314350494d49534eULL;

CUresult free_range(CUdeviceptr address) {
  if (const CUresult code = check_ready(); code != CUDA_SUCCESS) {
    return code;
  }
  if (address == 0) {
    return CUDA_SUCCESS;
  }
  Range range;
  {
    const std::lock_guard guard(driver().mutex);
    auto& ranges = driver().ranges;
    const auto found = ranges.find(address);
    const bool freeable =
        found != ranges.end() && (found->second.kind == Kind::kDevice || found->second.kind == Kind::kManaged ||
                                  found->second.kind == Kind::kAsync);
    if (!freeable) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    range = found->second;
    ranges.erase(found);
  }
  if (range.kind == Kind::kAsync) {
    pool_give_back(*range.pool, range.size);
  } else {
    wait_for_all(*range.device);  // the plain free synchronises
  }
  unmap_addresses(range.base, range.span);
  uncharge_range(range);
  return CUDA_SUCCESS;
}

CUresult host_memory(void** out, std::size_t size, unsigned flags) {
  return with_context([&](Context& context) {
    if (out == nullptr || size == 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    Range range;
    range.size = size;
    range.span = round_up(size, kGranularity);
    range.base = map_addresses(range.span, false);
    if (range.base == 0) {
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    range.kind = Kind::kHost;
    range.device = context.device;
    range.context = &context;
    range.flags = flags;
    add_range(range);
    *out = host_pointer(range.base);
    return CUDA_SUCCESS;
  });
}

struct IpcHandle {
  std::uint64_t magic, serial, base, size;
  std::int32_t minor, slot;
};
static_assert(sizeof(IpcHandle) <= sizeof(CUipcMemHandle));

CUresult open_ipc(CUdeviceptr* out, CUipcMemHandle handle) {
  return with_context([&](Context& context) {
    IpcHandle shared = {};
    std::memcpy(&shared, &handle, sizeof(shared));
    Card& card = *context.device->card;
    if (out == nullptr || shared.magic != kIpcMagic || shared.slot < 0 || shared.slot >= kMaxProcesses) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    {
      const Card::Lock lock(card);
      const bool alive =
          (card.state().used_mask >> shared.slot & 1U) != 0 && card.state().slots[shared.slot].serial == shared.serial;
      if (!lock.ok() || !alive || static_cast<std::uint32_t>(shared.minor) != card.config().minor) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      if (shared.slot == card.slot_index()) {
        return CUDA_ERROR_INVALID_CONTEXT;  // a process cannot open its own
      }
    }
    // The exporter has paid for the memory; here it only gets an address.
    return allocate_range(context, {shared.size, 0, Kind::kIpc, false}, out);
  });
}

}  // namespace

CUresult allocate_range(Context& context, const Wish& wish, CUdeviceptr* out) {
  if (out == nullptr || wish.size == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (wish.size > kLargest) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  Device& device = *context.device;
  Range range;
  range.size = wish.size;
  range.span = round_up(wish.size, kGranularity);
  range.kind = wish.kind;
  range.flags = wish.flags;
  range.device = &device;
  range.context = &context;
  CUresult code = CUDA_SUCCESS;
  if (wish.kind == Kind::kDevice) {
    range.charged = range.span;
    code = charge(device, range.charged);
  } else if (wish.kind == Kind::kManaged) {
    range.charged = range.span;
    code = charge_managed(device, range.charged);
  }
  if (code != CUDA_SUCCESS) {
    return code;
  }
  range.base = map_addresses(range.span, wish.low);
  if (range.base == 0) {
    uncharge_range(range);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  add_range(range);
  *out = range.base;
  return CUDA_SUCCESS;
}

}  // namespace nvsim

using nvsim::Context;
using nvsim::Kind;
using nvsim::Range;
using nvsim::with_context;

CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  return with_context([&](Context& context) {
    std::uint64_t free_bytes = 0, total_bytes = 0;
    if (free == nullptr || total == nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const CUresult code = nvsim::memory_info(*context.device, free_bytes, total_bytes);
    *free = free_bytes;
    *total = total_bytes;
    return code;
  });
}
CUresult cuMemGetInfo(unsigned int* free, unsigned int* total) {
  size_t free_bytes = 0, total_bytes = 0;
  const CUresult code = cuMemGetInfo_v2(free == nullptr ? nullptr : &free_bytes, &total_bytes);
  if (code == CUDA_SUCCESS && total != nullptr) {
    *free = static_cast<unsigned int>(std::min<size_t>(free_bytes, ~0U));
    *total = static_cast<unsigned int>(std::min<size_t>(total_bytes, ~0U));
  }
  return code;
}

CUresult cuMemAlloc_v2(CUdeviceptr* out, size_t size) {
  return with_context(
      [&](Context& context) { return nvsim::allocate_range(context, {size, 0, Kind::kDevice, false}, out); });
}
CUresult cuMemAlloc(CUdeviceptr_v1* out, unsigned int size) {
  // The first form has addresses of 32 bits, so the memory must lie low.
  CUdeviceptr address = 0;
  const CUresult code = with_context([&](Context& context) {
    return nvsim::allocate_range(context, {size, 0, Kind::kDevice, true}, out == nullptr ? nullptr : &address);
  });
  if (code == CUDA_SUCCESS) {
    *out = static_cast<CUdeviceptr_v1>(address);
  }
  return code;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr* out, size_t* pitch, size_t width, size_t height, unsigned int element) {
  return with_context([&](Context& context) {
    const bool valid = element == 4 || element == 8 || element == 16;
    if (pitch == nullptr || width == 0 || height == 0 || !valid) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    size_t bytes = 0;
    const size_t row = nvsim::round_up(width, nvsim::kPitchStep);
    if (__builtin_mul_overflow(row, height, &bytes)) {
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    const CUresult code = nvsim::allocate_range(context, {bytes, 0, Kind::kDevice, false}, out);
    *pitch = code == CUDA_SUCCESS ? row : *pitch;
    return code;
  });
}

CUresult cuMemAllocManaged(CUdeviceptr* out, size_t size, unsigned int flags) {
  return with_context([&](Context& context) {
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    return nvsim::allocate_range(context, {size, flags, Kind::kManaged, false}, out);
  });
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  return nvsim::free_range(address);
}
CUresult cuMemFree(CUdeviceptr_v1 address) {
  return nvsim::free_range(address);
}
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream) {
  return with_context([&](Context&) { return nvsim::free_range(address); });
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* size, CUdeviceptr address) {
  return with_context([&](Context&) {
    const std::lock_guard guard(nvsim::driver().mutex);
    const Range* range = nvsim::find_range(address);
    if (range == nullptr) {
      return CUDA_ERROR_NOT_FOUND;
    }
    if (base != nullptr) {
      *base = range->base;
    }
    if (size != nullptr) {
      *size = range->size;
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuMemHostAlloc(void** out, size_t size, unsigned int flags) {
  return nvsim::host_memory(out, size, flags);
}
CUresult cuMemAllocHost_v2(void** out, size_t size) {
  return nvsim::host_memory(out, size, 0);
}
CUresult cuMemAllocHost(void** out, unsigned int size) {
  return nvsim::host_memory(out, size, 0);
}

CUresult cuMemFreeHost(void* pointer) {
  return with_context([&](Context&) {
    Range range;
    {
      const std::lock_guard guard(nvsim::driver().mutex);
      auto& ranges = nvsim::driver().ranges;
      const auto found = ranges.find(reinterpret_cast<CUdeviceptr>(pointer));
      if (found == ranges.end() || found->second.kind != Kind::kHost) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      range = found->second;
      ranges.erase(found);
    }
    nvsim::unmap_addresses(range.base, range.span);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemHostRegister_v2(void* pointer, size_t size, unsigned int flags) {
  return with_context([&](Context& context) {
    if (pointer == nullptr || size == 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    {
      const std::lock_guard guard(nvsim::driver().mutex);
      if (nvsim::find_range(reinterpret_cast<CUdeviceptr>(pointer)) != nullptr) {
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
      }
    }
    Range range;
    range.base = reinterpret_cast<CUdeviceptr>(pointer);
    range.size = range.span = size;
    range.kind = Kind::kRegistered;
    range.flags = flags;
    range.device = context.device;
    range.context = &context;
    nvsim::add_range(range);
    return CUDA_SUCCESS;
  });
}
CUresult cuMemHostRegister(void* pointer, size_t size, unsigned int flags) {
  return cuMemHostRegister_v2(pointer, size, flags);
}
CUresult cuMemHostUnregister(void* pointer) {
  return with_context([&](Context&) {
    const std::lock_guard guard(nvsim::driver().mutex);
    auto& ranges = nvsim::driver().ranges;
    const auto found = ranges.find(reinterpret_cast<CUdeviceptr>(pointer));
    if (found == ranges.end() || found->second.kind != Kind::kRegistered) {
      return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    }
    ranges.erase(found);
    return CUDA_SUCCESS;
  });
}
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* pointer, unsigned int) {
  return with_context([&](Context&) {
    const std::lock_guard guard(nvsim::driver().mutex);
    if (out == nullptr || nvsim::find_range(reinterpret_cast<CUdeviceptr>(pointer)) == nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *out = reinterpret_cast<CUdeviceptr>(pointer);
    return CUDA_SUCCESS;
  });
}
CUresult cuMemHostGetFlags(unsigned int* flags, void* pointer) {
  return with_context([&](Context&) {
    const std::lock_guard guard(nvsim::driver().mutex);
    const Range* range = nvsim::find_range(reinterpret_cast<CUdeviceptr>(pointer));
    if (flags == nullptr || range == nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *flags = range->flags;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemAdvise(CUdeviceptr, size_t, CUmem_advise, CUdevice) {
  return with_context([](Context&) { return CUDA_SUCCESS; });
}
CUresult cuMemAdvise_v2(CUdeviceptr, size_t, CUmem_advise, CUmemLocation) {
  return with_context([](Context&) { return CUDA_SUCCESS; });
}
CUresult cuMemPrefetchAsync(CUdeviceptr, size_t, CUdevice, CUstream) {
  return with_context([](Context&) { return CUDA_SUCCESS; });
}
CUresult cuMemPrefetchAsync_v2(CUdeviceptr, size_t, CUmemLocation, unsigned int, CUstream) {
  return with_context([](Context&) { return CUDA_SUCCESS; });
}

CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  return with_context([&](Context& context) {
    const std::lock_guard guard(nvsim::driver().mutex);
    const Range* range = nvsim::find_range(address);
    if (handle == nullptr || range == nullptr || range->kind != Kind::kDevice || range->device != context.device) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    nvsim::Card& card = *range->device->card;
    const nvsim::IpcHandle shared = {
        nvsim::kIpcMagic, card.slot().serial, range->base, range->size, static_cast<std::int32_t>(card.config().minor),
        card.slot_index()};
    *handle = {};
    std::memcpy(handle, &shared, sizeof(shared));
    return CUDA_SUCCESS;
  });
}
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* out, CUipcMemHandle handle, unsigned int) {
  return nvsim::open_ipc(out, handle);
}
CUresult cuIpcOpenMemHandle(CUdeviceptr* out, CUipcMemHandle handle, unsigned int) {
  return nvsim::open_ipc(out, handle);
}
CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  return with_context([&](Context&) {
    Range range;
    {
      const std::lock_guard guard(nvsim::driver().mutex);
      auto& ranges = nvsim::driver().ranges;
      const auto found = ranges.find(address);
      if (found == ranges.end() || found->second.kind != Kind::kIpc) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      range = found->second;
      ranges.erase(found);
    }
    nvsim::unmap_addresses(range.base, range.span);
    return CUDA_SUCCESS;
  });
}
