// Virtual memory management: a handle is charged once, when it is made, however often it is mapped, and given back when
// its last reference and its last mapping are gone. Imported handles are charged where they were made. One that was
// exported, or bound to something whose end is not seen, may live on: it stays charged until the vendor's account of
// this process shows that it is gone.
#include "guard/preload/cuda/memory.h"
#include "guard/preload/cuda/residual.h"

namespace heddle::guard {
namespace {

// Record of a handle: count = references, more = mappings, pages = charged, kind = 1: others may hold it. Handles may
// be zero, keys may not.
uint64_t key_of(CUmemGenericAllocationHandle handle) {
  return handle + 1;
}

// With the table locked.
void give_back_if_last(CudaProcess& own, uint64_t key) {
  Record* handle = own.handles.find(key);
  if (handle == nullptr || handle->count != 0 || handle->more != 0) return;
  const Record gone = *handle;
  own.handles.erase(handle);
  if (gone.kind != 0) {
    keep_charged(gone.device, gone.pages);
  } else {
    uncharge(gone.device, gone.pages);
  }
}

void mark_shared(CUmemGenericAllocationHandle handle) {
  CudaProcess& own = cuda_process();
  const Lock lock(own.table_lock);
  Record* known = own.handles.find(key_of(handle));
  if (known != nullptr && known->pages != 0) known->kind = 1;
}

void add_reference(CUmemGenericAllocationHandle handle) {
  CudaProcess& own = cuda_process();
  Record* known = own.handles.find(key_of(handle));
  if (known == nullptr && own.handles.prepare()) {
    known = own.handles.put(Record{key_of(handle), 0, 0, 0, kNoDevice, 0, 0, 0, 0});
  }
  if (known != nullptr) ++known->count;
}

}  // namespace
}  // namespace heddle::guard

using namespace heddle::guard;

extern "C" {

HEDDLE_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                                   const CUmemAllocationProp* wanted, unsigned long long flags) {
  const auto real = cuda().cuMemCreate;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (entry.nested() || handle == nullptr || wanted == nullptr ||
      wanted->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return real(handle, bytes, wanted, flags);
  }
  const int rule = rule_of(wanted->location.id);
  if (refused(rule)) return CUDA_ERROR_OUT_OF_MEMORY;
  if (!accounted(rule)) return real(handle, bytes, wanted, flags);
  const uint64_t pages = pages_of(round_up(bytes, block_bytes(rule, wanted->location.id)));
  if (!charge(rule, pages)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = real(handle, bytes, wanted, flags);
  if (result != CUDA_SUCCESS) {
    uncharge(rule, pages);
    return result;
  }
  CudaProcess& own = cuda_process();
  const Lock lock(own.table_lock);
  if (own.handles.prepare()) {
    own.handles.put(Record{key_of(*handle), bytes, 0, pages, rule, 0, 1, 0, 0});
    return result;
  }
  if (cuda().cuMemRelease != nullptr) cuda().cuMemRelease(*handle);
  uncharge(rule, pages);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

HEDDLE_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  const auto real = cuda().cuMemRelease;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (entry.nested()) return real(handle);
  CudaProcess& own = cuda_process();
  CUresult result = CUDA_SUCCESS;
  {
    const Lock lock(own.table_lock);
    result = real(handle);
    Record* known = result == CUDA_SUCCESS ? own.handles.find(key_of(handle)) : nullptr;
    if (known == nullptr || known->count == 0) return result;
    --known->count;
    give_back_if_last(own, key_of(handle));
  }
  measure_kept();
  return result;
}

// Before the call: from then on somebody else may hold it.
HEDDLE_EXPORT CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle,
                                                    CUmemAllocationHandleType type, unsigned long long flags) {
  const auto real = cuda().cuMemExportToShareableHandle;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (!entry.nested()) mark_shared(handle);
  return real(out, handle, type, flags);
}

HEDDLE_EXPORT CUresult cuMulticastBindMem(CUmemGenericAllocationHandle group, size_t group_offset,
                                          CUmemGenericAllocationHandle handle, size_t offset, size_t bytes,
                                          unsigned long long flags) {
  const auto real = cuda().cuMulticastBindMem;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (!entry.nested()) mark_shared(handle);
  return real(group, group_offset, handle, offset, bytes, flags);
}

#define HEDDLE_MAP_ARRAY(name)                                                                             \
  HEDDLE_EXPORT CUresult name(CUarrayMapInfo* list, unsigned int count, CUstream stream) {                 \
    const auto real = cuda().name;                                                                         \
    if (real == nullptr) return kNoSuchFunction;                                                           \
    const Entry entry;                                                                                     \
    for (unsigned int i = 0; !entry.nested() && list != nullptr && i < count; ++i) {                       \
      if (list[i].memOperationType == CU_MEM_OPERATION_TYPE_MAP) mark_shared(list[i].memHandle.memHandle); \
    }                                                                                                      \
    return real(list, count, stream);                                                                      \
  }
HEDDLE_MAP_ARRAY(cuMemMapArrayAsync)
HEDDLE_MAP_ARRAY(cuMemMapArrayAsync_ptsz)
#undef HEDDLE_MAP_ARRAY

HEDDLE_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  const auto real = cuda().cuMemRetainAllocationHandle;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (entry.nested()) return real(handle, address);
  const Lock lock(cuda_process().table_lock);
  const CUresult result = real(handle, address);
  if (result == CUDA_SUCCESS && handle != nullptr) add_reference(*handle);
  return result;
}

HEDDLE_EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* os_handle,
                                                      CUmemAllocationHandleType type) {
  const auto real = cuda().cuMemImportFromShareableHandle;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (entry.nested()) return real(handle, os_handle, type);
  const Lock lock(cuda_process().table_lock);
  const CUresult result = real(handle, os_handle, type);
  if (result == CUDA_SUCCESS && handle != nullptr) add_reference(*handle);
  return result;
}

HEDDLE_EXPORT CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                                unsigned long long flags) {
  const auto real = cuda().cuMemMap;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (entry.nested()) return real(address, bytes, offset, handle, flags);
  CudaProcess& own = cuda_process();
  const Lock lock(own.table_lock);
  const bool room = own.mappings.prepare();
  const CUresult result = real(address, bytes, offset, handle, flags);
  Record* known = result == CUDA_SUCCESS ? own.handles.find(key_of(handle)) : nullptr;
  if (known == nullptr) return result;
  // Without room for the record the mapping is never seen to end: the handle stays charged, which is the safe side.
  ++known->more;
  if (room) own.mappings.put(Record{address, bytes, key_of(handle), 0, kNoDevice, 0, 0, 0, 0});
  return result;
}

HEDDLE_EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  const auto real = cuda().cuMemUnmap;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (entry.nested()) return real(address, bytes);
  CudaProcess& own = cuda_process();
  {
    const Lock lock(own.table_lock);
    const CUresult result = real(address, bytes);
    if (result != CUDA_SUCCESS) return result;
    // One call may end several mappings that lie side by side.
    for (uint64_t at = address; at < address + bytes;) {
      Record* mapping = own.mappings.find(at);
      if (mapping == nullptr || mapping->bytes == 0) break;
      const Record gone = *mapping;
      own.mappings.erase(mapping);
      at += gone.bytes;
      Record* handle = own.handles.find(gone.context);
      if (handle != nullptr && handle->more > 0) --handle->more;
      give_back_if_last(own, gone.context);
    }
  }
  measure_kept();
  return CUDA_SUCCESS;
}
}
