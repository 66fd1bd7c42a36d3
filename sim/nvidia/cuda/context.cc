// Contexts: primary and explicit, the per-thread stack, and the little there is to configure.
#include <algorithm>
#include <bit>

#include "cuda/pool.h"
#include "cuda/work.h"

namespace nvsim {
namespace {

// Others on the card, or the mode itself, can forbid a new context.
bool mode_allows(Card& card) {
  const std::uint32_t mode = card.state().compute_mode;
  const std::uint64_t own = card.slot_index() >= 0 ? 1ULL << card.slot_index() : 0;
  return mode == 0 || (mode == 3 && (card.state().used_mask & ~own) == 0);
}

CUresult open_context(Device& device, unsigned flags, bool primary, Context*& context) {
  if (const CUresult code = check_card(device); code != CUDA_SUCCESS) {
    return code;
  }
  {
    const Card::Lock lock(*device.card);
    if (!lock.ok() || !mode_allows(*device.card)) {
      return CUDA_ERROR_DEVICE_UNAVAILABLE;
    }
  }
  if (const CUresult code = charge(device, device.card->config().context_bytes); code != CUDA_SUCCESS) {
    return code;
  }
  {
    const Card::Lock lock(*device.card);
    device.card->slot().contexts += 1;
  }
  context = new Context();
  context->device = &device;
  context->flags = flags;
  context->primary = primary;
  const std::lock_guard guard(driver().mutex);
  context->id = driver().next_id++;
  driver().contexts.insert(context);
  return CUDA_SUCCESS;
}

void close_context(Context* context) {
  Device& device = *context->device;
  wait_for_all(device);
  drop_ranges_of(*context);
  trim_pools(device);
  {
    const std::lock_guard guard(driver().mutex);
    driver().contexts.erase(context);
  }
  uncharge(device, device.card->config().context_bytes + context->heap_charged + context->code_charged +
                       context->array_charged);
  const Card::Lock lock(*device.card);
  if (device.card->slot_index() >= 0) {
    ProcessSlot& slot = device.card->slot();
    slot.contexts -= std::min(slot.contexts, 1U);
    // A process without a context is not on the card, unless handles (VMM, pools) still hold memory.
    if (slot.contexts == 0 && slot.memory_bytes == 0 && slot.managed_bytes == 0) {
      device.card->detach();
    }
  }
  // The object itself stays: other threads may have it on their stacks, and an address is never used twice so.
}

CUresult create(CUcontext* out, unsigned int flags, CUdevice ordinal) {
  if (const CUresult code = check_ready(); code != CUDA_SUCCESS) {
    return code;
  }
  Device* device = device_at(ordinal);
  if (device == nullptr) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  if (out == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Context* context = nullptr;
  const CUresult code = open_context(*device, flags, false, context);
  if (code == CUDA_SUCCESS) {
    context_stack().push_back(context);
    *out = reinterpret_cast<CUcontext>(context);
  }
  return code;
}

Context* object(CUcontext handle) {
  return reinterpret_cast<Context*>(handle);
}

bool known(CUcontext handle) {
  const std::lock_guard guard(driver().mutex);
  return driver().contexts.contains(object(handle));
}

CUresult destroy(CUcontext handle) {
  if (const CUresult code = check_ready(); code != CUDA_SUCCESS) {
    return code;
  }
  if (!known(handle)) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  auto& stack = context_stack();
  if (!stack.empty() && stack.back() == object(handle)) {
    stack.pop_back();
  }
  close_context(object(handle));
  return CUDA_SUCCESS;
}

CUresult push(CUcontext handle) {
  if (const CUresult code = check_ready(); code != CUDA_SUCCESS) {
    return code;
  }
  if (!known(handle)) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  context_stack().push_back(object(handle));
  return CUDA_SUCCESS;
}

CUresult pop(CUcontext* handle) {
  if (const CUresult code = check_ready(); code != CUDA_SUCCESS) {
    return code;
  }
  auto& stack = context_stack();
  if (stack.empty()) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (handle != nullptr) {
    *handle = reinterpret_cast<CUcontext>(stack.back());
  }
  stack.pop_back();
  return CUDA_SUCCESS;
}

template <typename Body>
CUresult with_device(CUdevice ordinal, Body body) {
  if (const CUresult code = check_ready(); code != CUDA_SUCCESS) {
    return code;
  }
  Device* device = device_at(ordinal);
  return device == nullptr ? CUDA_ERROR_INVALID_DEVICE : body(*device);
}

// Serialises retain and release, whose work spans several locks.
std::mutex& primary_mutex() {
  static std::mutex mutex;
  return mutex;
}

CUresult release_primary(CUdevice ordinal, unsigned count) {
  return with_device(ordinal, [&](Device& device) {
    const std::lock_guard guard(primary_mutex());
    if (device.primary_references == 0) {
      return count == 1 ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
    }
    device.primary_references -= std::min(device.primary_references, count);
    if (device.primary_references == 0) {
      close_context(device.primary);
      device.primary = nullptr;
    }
    return CUDA_SUCCESS;
  });
}

template <typename Value>
CUresult answer(Value* out, Value value) {
  return with_context([&](Context&) {
    if (out == nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *out = value;
    return CUDA_SUCCESS;
  });
}

}  // namespace
}  // namespace nvsim

using nvsim::Context;
using nvsim::Device;
using nvsim::with_context;

CUresult cuCtxCreate(CUcontext* context, unsigned int flags, CUdevice device) {
  return nvsim::create(context, flags, device);
}
CUresult cuCtxCreate_v2(CUcontext* context, unsigned int flags, CUdevice device) {
  return nvsim::create(context, flags, device);
}
CUresult cuCtxCreate_v3(CUcontext* context, CUexecAffinityParam*, int, unsigned int flags, CUdevice device) {
  return nvsim::create(context, flags, device);
}
CUresult cuCtxCreate_v4(CUcontext* context, CUctxCreateParams*, unsigned int flags, CUdevice device) {
  return nvsim::create(context, flags, device);
}
CUresult cuCtxDestroy(CUcontext context) {
  return nvsim::destroy(context);
}
CUresult cuCtxDestroy_v2(CUcontext context) {
  return nvsim::destroy(context);
}
CUresult cuCtxPushCurrent(CUcontext context) {
  return nvsim::push(context);
}
CUresult cuCtxPushCurrent_v2(CUcontext context) {
  return nvsim::push(context);
}
CUresult cuCtxPopCurrent(CUcontext* context) {
  return nvsim::pop(context);
}
CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  return nvsim::pop(context);
}

CUresult cuCtxSetCurrent(CUcontext context) {
  if (const CUresult code = nvsim::check_ready(); code != CUDA_SUCCESS) {
    return code;
  }
  if (context != nullptr && !nvsim::known(context)) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  auto& stack = nvsim::context_stack();
  if (!stack.empty()) {
    stack.pop_back();
  }
  if (context != nullptr) {
    stack.push_back(nvsim::object(context));
  }
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  if (const CUresult code = nvsim::check_ready(); code != CUDA_SUCCESS) {
    return code;
  }
  if (context == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto& stack = nvsim::context_stack();
  *context = stack.empty() ? nullptr : reinterpret_cast<CUcontext>(stack.back());
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  return with_context([&](Context& context) {
    if (device == nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *device = context.device->ordinal;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetFlags(unsigned int* flags) {
  return with_context([&](Context& context) {
    if (flags == nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *flags = context.flags;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSetFlags(unsigned int flags) {
  return with_context([&](Context& context) {
    context.flags = flags;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetId(CUcontext context, unsigned long long* id) {
  return with_context([&](Context& current) {
    if (id == nullptr || (context != nullptr && !nvsim::known(context))) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *id = context == nullptr ? current.id : nvsim::object(context)->id;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetApiVersion(CUcontext, unsigned int* version) {
  return nvsim::answer(version, 3020U);
}

CUresult cuCtxSynchronize() {
  return with_context([&](Context& context) {
    const CUresult code = nvsim::wait_for_all(*context.device);
    nvsim::trim_pools(*context.device);
    return code;
  });
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return with_context([&](Context&) {
    if (least != nullptr) {
      *least = 0;
    }
    if (greatest != nullptr) {
      *greatest = -5;
    }
    return CUDA_SUCCESS;
  });
}

// The heap of kernels is the only size here that takes memory: what it has beyond the one that comes with a context.
CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  return with_context([&](Context& context) {
    if (limit >= CU_LIMIT_MAX) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (limit != CU_LIMIT_MALLOC_HEAP_SIZE) {
      return CUDA_SUCCESS;
    }
    const std::uint64_t beyond =
        value > nvsim::kUsualHeap ? nvsim::round_up(value - nvsim::kUsualHeap, nvsim::kGranularity) : 0;
    if (beyond > context.heap_charged) {
      if (const CUresult code = nvsim::charge(*context.device, beyond - context.heap_charged); code != CUDA_SUCCESS) {
        return code;
      }
    } else {
      nvsim::uncharge(*context.device, context.heap_charged - beyond);
    }
    context.heap_charged = beyond;
    context.heap_bytes = value;
    return CUDA_SUCCESS;
  });
}
CUresult cuCtxGetLimit(size_t* value, CUlimit limit) {
  return with_context([&](Context& context) {
    if (value == nullptr || limit >= CU_LIMIT_MAX) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *value = limit == CU_LIMIT_MALLOC_HEAP_SIZE ? context.heap_bytes : 1024;
    return CUDA_SUCCESS;
  });
}
CUresult cuCtxGetCacheConfig(CUfunc_cache* config) {
  return nvsim::answer(config, CU_FUNC_CACHE_PREFER_NONE);
}
CUresult cuCtxSetCacheConfig(CUfunc_cache) {
  return with_context([](Context&) { return CUDA_SUCCESS; });
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice ordinal) {
  return nvsim::with_device(ordinal, [&](Device& device) {
    if (context == nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const std::lock_guard guard(nvsim::primary_mutex());
    if (device.primary_references == 0) {
      const CUresult code = nvsim::open_context(device, device.primary_flags, true, device.primary);
      if (code != CUDA_SUCCESS) {
        return code;
      }
    }
    device.primary_references += 1;
    *context = reinterpret_cast<CUcontext>(device.primary);
    return CUDA_SUCCESS;
  });
}
CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  return nvsim::release_primary(device, 1);
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return nvsim::release_primary(device, 1);
}
CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  return nvsim::release_primary(device, ~0U);
}
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  return nvsim::release_primary(device, ~0U);
}
CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice ordinal, unsigned int flags) {
  return nvsim::with_device(ordinal, [&](Device& device) {
    device.primary_flags = flags;
    return CUDA_SUCCESS;
  });
}
CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags) {
  return cuDevicePrimaryCtxSetFlags_v2(device, flags);
}
CUresult cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned int* flags, int* active) {
  return nvsim::with_device(ordinal, [&](Device& device) {
    if (flags == nullptr || active == nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *flags = device.primary_flags;
    *active = device.primary_references > 0 ? 1 : 0;
    return CUDA_SUCCESS;
  });
}
