#include "cuda/pool.h"

#include <algorithm>

#include "cuda/work.h"

namespace nvsim {
namespace {

constexpr std::uint64_t kUnit = 512;  // the granularity of allocations inside a pool

// Pools have a lock of their own: taking from one can call the card.
std::mutex& pool_mutex() {
  static std::mutex mutex;
  return mutex;
}

void shrink(Pool& pool, std::uint64_t keep) {
  const std::uint64_t target = std::max(round_up(keep, kGranularity), round_up(pool.used, kGranularity));
  if (pool.reserved > target) {
    if (pool.device != nullptr) {
      uncharge(*pool.device, pool.reserved - target);
    }
    pool.reserved = target;
  }
}

CUresult grow(Pool& pool, std::uint64_t bytes) {
  if (pool.maximum != 0 && pool.reserved + bytes > pool.maximum) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (pool.device != nullptr) {
    CUresult code = charge(*pool.device, bytes);
    if (code == CUDA_ERROR_OUT_OF_MEMORY) {
      // What other pools of this process keep in reserve is free for the asking.
      for (Pool* other : pool.device->pools) {
        shrink(*other, other == &pool ? other->reserved : 0);
      }
      code = charge(*pool.device, bytes);
    }
    if (code != CUDA_SUCCESS) {
      return code;
    }
  }
  pool.reserved += bytes;
  pool.reserved_high = std::max(pool.reserved_high, pool.reserved);
  return CUDA_SUCCESS;
}

CUresult allocate(CUdeviceptr* out, std::size_t size, Pool& pool, Context& context) {
  if (out == nullptr || size == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (const CUresult code = pool_take(pool, size); code != CUDA_SUCCESS) {
    return code;
  }
  Range range;
  range.size = size;
  range.span = round_up(size, kGranularity);
  range.base = map_addresses(range.span, false);
  if (range.base == 0) {
    pool_give_back(pool, size);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  range.kind = Kind::kAsync;
  range.device = context.device;
  range.context = &context;
  range.pool = &pool;
  add_range(range);
  *out = range.base;
  return CUDA_SUCCESS;
}

template <typename Body>
CUresult with_pool(CUmemoryPool handle, const void* argument, Body body) {
  if (const CUresult code = check_ready(); code != CUDA_SUCCESS) {
    return code;
  }
  if (handle == nullptr || argument == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Pool& pool = *reinterpret_cast<Pool*>(handle);
  const std::lock_guard guard(pool_mutex());
  return body(pool);
}

CUresult device_pool(CUdevice ordinal, CUmemoryPool* out, bool current) {
  if (const CUresult code = check_ready(); code != CUDA_SUCCESS) {
    return code;
  }
  Device* device = device_at(ordinal);
  if (device == nullptr || out == nullptr) {
    return device == nullptr ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
  }
  Pool& standard = default_pool(*device);
  Pool* pool = current && device->current_pool != nullptr ? device->current_pool : &standard;
  *out = reinterpret_cast<CUmemoryPool>(pool);
  return CUDA_SUCCESS;
}

std::uint64_t read_attribute(const Pool& pool, CUmemPool_attribute attribute) {
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      return pool.threshold;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      return pool.reserved;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return pool.reserved_high;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      return pool.used;
    default:
      return pool.used_high;
  }
}

bool is_reuse(CUmemPool_attribute attribute) {
  return attribute >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
         attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

}  // namespace

Pool& default_pool(Device& device) {
  const std::lock_guard guard(pool_mutex());
  if (device.default_pool == nullptr) {
    device.default_pool = new Pool();
    device.default_pool->device = &device;
    device.default_pool->is_default = true;
    device.pools.insert(device.default_pool);
  }
  return *device.default_pool;
}

CUresult pool_take(Pool& pool, std::uint64_t bytes) {
  const std::lock_guard guard(pool_mutex());
  if (bytes > (1ULL << 60U)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const std::uint64_t needed = pool.used + round_up(bytes, kUnit);
  if (needed > pool.reserved) {
    const CUresult code = grow(pool, round_up(needed - pool.reserved, kGranularity));
    if (code != CUDA_SUCCESS) {
      return code;
    }
  }
  pool.used = needed;
  pool.used_high = std::max(pool.used_high, pool.used);
  return CUDA_SUCCESS;
}

void pool_give_back(Pool& pool, std::uint64_t bytes) {
  const std::lock_guard guard(pool_mutex());
  pool.used -= std::min(pool.used, round_up(bytes, kUnit));
}

void trim_pools(Device& device) {
  const std::lock_guard guard(pool_mutex());
  for (Pool* pool : device.pools) {
    shrink(*pool, std::min(pool->threshold, pool->reserved));
  }
}

}  // namespace nvsim

using nvsim::Context;
using nvsim::Pool;

CUresult cuMemAllocAsync(CUdeviceptr* out, size_t size, CUstream handle) {
  return nvsim::with_context([&](Context& current) {
    nvsim::Stream stream;
    if (const CUresult code = nvsim::stream_of(current, handle, stream); code != CUDA_SUCCESS) {
      return code;
    }
    nvsim::Device& device = *stream.context->device;
    Pool& standard = nvsim::default_pool(device);
    Pool& pool = device.current_pool != nullptr ? *device.current_pool : standard;
    return nvsim::allocate(out, size, pool, *stream.context);
  });
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t size, CUmemoryPool handle, CUstream stream_handle) {
  return nvsim::with_context([&](Context& current) {
    nvsim::Stream stream;
    if (const CUresult code = nvsim::stream_of(current, stream_handle, stream); code != CUDA_SUCCESS) {
      return code;
    }
    if (handle == nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    return nvsim::allocate(out, size, *reinterpret_cast<Pool*>(handle), *stream.context);
  });
}

CUresult cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* properties) {
  if (const CUresult code = nvsim::check_ready(); code != CUDA_SUCCESS) {
    return code;
  }
  if (out == nullptr || properties == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  nvsim::Device* device = nullptr;
  if (properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
    device = nvsim::device_at(properties->location.id);
    if (device == nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  auto* pool = new Pool();
  pool->device = device;
  pool->properties = *properties;
  pool->maximum = properties->maxSize;
  if (device != nullptr) {
    const std::lock_guard guard(nvsim::pool_mutex());
    device->pools.insert(pool);
  }
  *out = reinterpret_cast<CUmemoryPool>(pool);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool handle) {
  // The object stays for allocations that still point to it; only its reserve goes back.
  return nvsim::with_pool(handle, handle, [](Pool& pool) {
    if (pool.is_default) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    nvsim::shrink(pool, 0);
    if (pool.device != nullptr && pool.device->current_pool == &pool) {
      pool.device->current_pool = nullptr;
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t keep) {
  return nvsim::with_pool(handle, handle, [&](Pool& pool) {
    nvsim::shrink(pool, keep);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  return nvsim::with_pool(handle, value, [&](Pool& pool) {
    if (nvsim::is_reuse(attribute)) {
      *static_cast<int*>(value) = pool.reuse[attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
      return CUDA_SUCCESS;
    }
    if (attribute < CU_MEMPOOL_ATTR_RELEASE_THRESHOLD || attribute > CU_MEMPOOL_ATTR_USED_MEM_HIGH) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *static_cast<cuuint64_t*>(value) = nvsim::read_attribute(pool, attribute);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  return nvsim::with_pool(handle, value, [&](Pool& pool) {
    if (nvsim::is_reuse(attribute)) {
      pool.reuse[attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] = *static_cast<int*>(value);
      return CUDA_SUCCESS;
    }
    const cuuint64_t number = *static_cast<cuuint64_t*>(value);
    if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
      pool.threshold = number;
      return CUDA_SUCCESS;
    }
    // The high marks can only be set back.
    const bool is_mark = attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH || attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH;
    if (!is_mark || number != 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH ? pool.used_high : pool.reserved_high) =
        attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH ? pool.used : pool.reserved;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc* map, size_t) {
  return nvsim::with_pool(handle, map, [](Pool&) { return CUDA_SUCCESS; });
}
CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool handle, CUmemLocation*) {
  return nvsim::with_pool(handle, flags, [&](Pool&) {
    *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
  return nvsim::device_pool(device, pool, false);
}
CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device) {
  return nvsim::device_pool(device, pool, true);
}
CUresult cuDeviceSetMemPool(CUdevice ordinal, CUmemoryPool handle) {
  return nvsim::with_pool(handle, handle, [&](Pool& pool) {
    nvsim::Device* device = nvsim::device_at(ordinal);
    if (device == nullptr || pool.device != device) {
      return device == nullptr ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
    }
    device->current_pool = &pool;
    return CUDA_SUCCESS;
  });
}
