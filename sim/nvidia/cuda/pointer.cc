// What is known about an address.
#include <cstring>

#include "cuda/driver.h"

namespace nvsim {
namespace {

template <typename Value>
CUresult give(void* out, Value value) {
  *static_cast<Value*>(out) = value;
  return CUDA_SUCCESS;
}

bool on_host(const Range& range) {
  return range.kind == Kind::kHost || range.kind == Kind::kRegistered;
}

// Caller holds the driver's mutex.
CUresult read(void* out, CUpointer_attribute attribute, CUdeviceptr address) {
  const Range* range = find_range(address);
  if (range == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return give(out, reinterpret_cast<CUcontext>(range->context));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return give(out, static_cast<unsigned int>(on_host(*range) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return give(out, address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return on_host(*range) || range->kind == Kind::kManaged ? give(out, address) : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return give(out, range->id);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return give(out, static_cast<unsigned int>(range->kind == Kind::kManaged ? 1 : 0));
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return give(out, range->device == nullptr ? -2 : range->device->ordinal);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return give(out, range->base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return give(out, static_cast<std::size_t>(range->size));
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return give(out, static_cast<unsigned int>(1));
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return give(out, reinterpret_cast<CUmemoryPool>(range->pool));
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return give(out, static_cast<unsigned int>(range->kind == Kind::kDevice ? 1 : 0));
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

}  // namespace
}  // namespace nvsim

CUresult cuPointerGetAttribute(void* out, CUpointer_attribute attribute, CUdeviceptr address) {
  if (const CUresult code = nvsim::check_ready(); code != CUDA_SUCCESS) {
    return code;
  }
  const std::lock_guard guard(nvsim::driver().mutex);
  return out == nullptr ? CUDA_ERROR_INVALID_VALUE : nvsim::read(out, attribute, address);
}

// For an address that is not the driver's every answer is empty, and that is no error.
CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute* attributes, void** outs, CUdeviceptr address) {
  if (const CUresult code = nvsim::check_ready(); code != CUDA_SUCCESS) {
    return code;
  }
  if (attributes == nullptr || outs == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::lock_guard guard(nvsim::driver().mutex);
  for (unsigned int index = 0; index < count; ++index) {
    if (nvsim::read(outs[index], attributes[index], address) != CUDA_SUCCESS) {
      const bool is_word = attributes[index] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ||
                           attributes[index] == CU_POINTER_ATTRIBUTE_IS_MANAGED ||
                           attributes[index] == CU_POINTER_ATTRIBUTE_MAPPED ||
                           attributes[index] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
      std::memset(outs[index], 0, is_word ? sizeof(int) : sizeof(void*));
    }
  }
  return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void*, CUpointer_attribute attribute, CUdeviceptr) {
  return attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS ? nvsim::check_ready() : CUDA_ERROR_INVALID_VALUE;
}
