#include "guard/preload/cuda/pools.h"

#include "guard/preload/cuda/graphs.h"
#include "guard/preload/cuda/memory.h"
#include "guard/preload/cuda/residual.h"
#include "guard/preload/cuda/stream_context.h"

namespace heddle::guard {
namespace {

// What the driver says of a pool; ~0: it does not say.
uint64_t pool_value(CUmemoryPool pool, CUmemPool_attribute attribute) {
  cuuint64_t value = 0;
  const auto query = cuda().cuMemPoolGetAttribute;
  if (query == nullptr || query(pool, attribute, &value) != CUDA_SUCCESS) return ~uint64_t{0};
  return value;
}

// Everything below holds pool_lock.

// Charges exactly `pages`. False: the limit does not allow the growth.
bool level(int rule, uint64_t* charged, uint64_t pages, Take take) {
  if (pages < *charged) {
    uncharge(rule, *charged - pages);
  } else if (pages > *charged && !charge_once(rule, pages - *charged, take)) {
    return false;
  }
  *charged = pages;
  return true;
}

// A pool's record: its handle as the key, the rule of its device, and the pages that are charged for it.
CUmemoryPool handle_of(const Record& pool) {
  return reinterpret_cast<CUmemoryPool>(pool.key);
}

bool refresh_one(Record& pool) {
  const uint64_t reserved = pool_value(handle_of(pool), CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
  if (reserved == ~uint64_t{0}) return false;
  const uint64_t before = pool.pages;
  level(pool.device, &pool.pages, pages_of(reserved), Take::kForced);
  return pool.pages < before;
}

bool refresh_graphs(CudaProcess& own) {
  const auto query = cuda().cuDeviceGetGraphMemAttribute;
  int count = 0;
  if (query == nullptr || cuda().cuDeviceGetCount == nullptr || cuda().cuDeviceGetCount(&count) != CUDA_SUCCESS) {
    return false;
  }
  bool shrunk = false;
  for (CUdevice device = 0; device < count; ++device) {
    const int rule = rule_of(device);
    cuuint64_t reserved = 0;
    if (!accounted(rule) || query(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &reserved) != CUDA_SUCCESS) continue;
    const uint64_t before = own.graph_pages[rule];
    level(rule, &own.graph_pages[rule], pages_of(reserved), Take::kForced);
    shrunk = shrunk || own.graph_pages[rule] < before;
  }
  return shrunk;
}

// What the driver has reserved for graphs on a rule's device and uses for none, in pages.
uint64_t graph_memory_unused(int rule) {
  const auto query = cuda().cuDeviceGetGraphMemAttribute;
  int count = 0;
  if (query == nullptr || cuda().cuDeviceGetCount == nullptr || cuda().cuDeviceGetCount(&count) != CUDA_SUCCESS)
    return 0;
  for (CUdevice device = 0; device < count; ++device) {
    cuuint64_t reserved = 0;
    cuuint64_t used = 0;
    if (rule_of(device) != rule || query(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &reserved) != CUDA_SUCCESS ||
        query(device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used) != CUDA_SUCCESS || used > reserved) {
      continue;
    }
    return (reserved - used) >> HEDDLE_GUARD_PAGE_SHIFT;
  }
  return 0;
}

bool refresh_locked(CudaProcess& own) {
  bool shrunk = false;
  for (uint64_t i = 0; i < own.pools.capacity(); ++i) {
    Record& pool = own.pools.at(i);
    if (pool.key != 0 && pool.pages != 0 && refresh_one(pool)) shrunk = true;
  }
  if (own.graph_memory_seen != 0 && refresh_graphs(own)) shrunk = true;
  return shrunk;
}

Record* find_pool(CudaProcess& own, CUmemoryPool handle) {
  return own.pools.find(reinterpret_cast<uint64_t>(handle));
}

// Null: the kernel has no memory for the record.
Record* add_pool(CudaProcess& own, CUmemoryPool handle, int rule) {
  if (handle == nullptr || !own.pools.prepare()) return nullptr;
  return own.pools.put(Record{reinterpret_cast<uint64_t>(handle), 0, 0, 0, rule, 0, 0, 0, 0});
}

// The record of a pool that the program uses; pools that it did not create are some device's default one.
Record* pool_of(CudaProcess& own, CUmemoryPool handle) {
  if (Record* known = find_pool(own, handle)) return known;
  int count = 0;
  if (cuda().cuDeviceGetCount != nullptr) cuda().cuDeviceGetCount(&count);
  int rule = current_rule();
  for (CUdevice device = 0; device < count; ++device) {
    CUmemoryPool pool = nullptr;
    const auto query = cuda().cuDeviceGetDefaultMemPool;
    if (query != nullptr && query(&pool, device) == CUDA_SUCCESS && pool == handle) rule = rule_of(device);
  }
  return add_pool(own, handle, rule);
}

struct Request {
  CUmemoryPool pool;
  uint64_t bytes;
  CUdevice device;
  const CUdeviceptr* address;  // where the call puts it
};

// Makes room for `pages` more in a pool. Gives what was charged for it, or ~0: there is no room.
uint64_t make_room(CudaProcess& own, const Record& pool, uint64_t pages) {
  if (charge_once(pool.device, pages)) return pages;
  sweep_dead();
  refresh_locked(own);
  if (charge_once(pool.device, pages)) return pages;
  // At the limit an allocation may still fit into what the pool has reserved and does not use.
  const uint64_t reserved = pool_value(handle_of(pool), CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
  const uint64_t used = pool_value(handle_of(pool), CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
  const bool fits = reserved != ~uint64_t{0} && used <= reserved && pages_of(reserved - used) >= pages;
  return fits ? 0 : ~uint64_t{0};
}

// What is still in use of a destroyed pool stays taken, and nobody can ask the driver for it: it stays charged, as a
// part of the remainder, until the vendor's account shows that it is free. The driver keeps whole blocks.
void end_pool(const Record& gone, uint64_t used) {
  uint64_t kept = gone.pages;
  if (used != ~uint64_t{0}) kept = pages_of(round_up(used, block_bytes(gone.device, -1)));
  if (kept > gone.pages) kept = gone.pages;
  uncharge(gone.device, gone.pages - kept);
  if (kept == 0) return;
  {
    CudaProcess& own = cuda_process();
    const Lock lock(own.table_lock);
    for (uint64_t i = 0; i < own.allocations.capacity(); ++i) {
      Record& at = own.allocations.at(i);
      if (at.key != 0 && at.kind == static_cast<uint32_t>(Kind::kPooled) && at.stream == gone.key) at.count = 1;
    }
  }
  add_residual(gone.device, kept);
  measure_residual(gone.device, Take::kForced);
}

Record pooled(const Request& request, const Record& pool) {
  return {*request.address, request.bytes, 0, 0, pool.device, static_cast<uint32_t>(Kind::kPooled), 0, 0, pool.key};
}

template <typename Call, typename Undo>
CUresult allocate_from_pool(const Request& request, Call call, Undo undo) {
  CudaProcess& own = cuda_process();
  const Lock lock(own.pool_lock);
  Record* pool = pool_of(own, request.pool);
  if (pool == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  if (refused(pool->device)) return CUDA_ERROR_OUT_OF_MEMORY;
  if (!accounted(pool->device) || request.bytes == 0) return call();
  const uint64_t step = block_bytes(pool->device, request.device);
  const uint64_t room = make_room(own, *pool, pages_of(round_up(request.bytes, step)));
  if (room == ~uint64_t{0}) return CUDA_ERROR_OUT_OF_MEMORY;
  pool->pages += room;
  __atomic_store_n(&own.pools_charged, 1, __ATOMIC_RELAXED);
  const CUresult result = call();
  const uint64_t reserved = pool_value(request.pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
  if (reserved == ~uint64_t{0}) return result;
  if (level(pool->device, &pool->pages, pages_of(reserved), Take::kLimited)) {
    if (result == CUDA_SUCCESS) remember(pooled(request, *pool));
    return result;
  }
  // The driver took more than the limit leaves: hand it back.
  if (result == CUDA_SUCCESS) undo();
  if (cuda().cuMemPoolTrimTo != nullptr) cuda().cuMemPoolTrimTo(request.pool, pool->pages << HEDDLE_GUARD_PAGE_SHIFT);
  refresh_one(*pool);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

template <typename Query>
bool capturing(Query query, CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (query == nullptr) return false;
  return query(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

CUdevice device_of(CUstream stream) {
  const StreamContext there(stream);
  return current_device();
}

// An allocation in a graph takes memory when the graph runs; here only what can never fit is refused.
bool note_graph_allocation(uint64_t bytes, int rule) {
  __atomic_store_n(&cuda_process().graph_memory_seen, 1, __ATOMIC_RELAXED);
  __atomic_store_n(&cuda_process().pools_charged, 1, __ATOMIC_RELAXED);
  if (refused(rule)) return false;
  return !accounted(rule) || pages_of(bytes) <= config().devices[rule].limit_pages;
}

// Of a node of any type: only those that allocate are ours to judge.
bool may_add(const CUgraphNodeParams* wanted) {
  if (wanted == nullptr || wanted->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC) return true;
  const CUmemPoolProps& pool = wanted->alloc.poolProps;
  return pool.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
         note_graph_allocation(wanted->alloc.bytesize, rule_of(pool.location.id));
}

template <typename Real, typename Free, typename Query>
CUresult allocate_async(Real real, Free free, Query query, CUdeviceptr* address, size_t bytes, CUstream stream) {
  const CUdevice device = device_of(stream);
  if (capturing(query, stream)) {
    return note_graph_allocation(bytes, rule_of(device)) ? real(address, bytes, stream) : CUDA_ERROR_OUT_OF_MEMORY;
  }
  CUmemoryPool pool = nullptr;
  if (device < 0 || cuda().cuDeviceGetMemPool == nullptr || cuda().cuDeviceGetMemPool(&pool, device) != CUDA_SUCCESS) {
    return refused(rule_of(device)) ? CUDA_ERROR_OUT_OF_MEMORY : real(address, bytes, stream);
  }
  return allocate_from_pool(
      {pool, bytes, device, address}, [&] { return real(address, bytes, stream); },
      [&] {
        if (free != nullptr) free(*address, stream);
      });
}

template <typename Real, typename Free, typename Query>
CUresult allocate_from_pool_async(Real real, Free free, Query query, CUdeviceptr* address, size_t bytes,
                                  CUmemoryPool pool, CUstream stream) {
  const CUdevice device = device_of(stream);
  if (capturing(query, stream)) {
    return note_graph_allocation(bytes, rule_of(device)) ? real(address, bytes, pool, stream)
                                                         : CUDA_ERROR_OUT_OF_MEMORY;
  }
  return allocate_from_pool(
      {pool, bytes, device, address}, [&] { return real(address, bytes, pool, stream); },
      [&] {
        if (free != nullptr) free(*address, stream);
      });
}

// Drivers free managed memory at once only: so here the stream is waited for.
CUresult free_beyond(const Record& record, CUstream stream) {
  const auto wait = cuda().cuStreamSynchronize;
  const auto real = cuda().cuMemFree_v2;
  CUresult result = wait != nullptr && real != nullptr ? wait(stream) : CUDA_ERROR_NOT_SUPPORTED;
  if (result == CUDA_SUCCESS) result = real(record.key);
  if (result == CUDA_SUCCESS) {
    uncharge_beyond(record.device, record.pages);
  } else {
    remember(record);
  }
  return result;
}

template <typename Real>
CUresult free_async(Real real, CUdeviceptr address, CUstream stream) {
  Record record{};
  if (forget(address, Kind::kBeyond, &record)) return free_beyond(record, stream);
  const bool from_pool = forget(address, Kind::kPooled, &record);
  const bool linear = !from_pool && take_out(address, &record);
  const CUresult result = real(address, stream);
  if (linear && result == CUDA_SUCCESS) free_in_order(record, stream);
  if (linear && result != CUDA_SUCCESS) put_back(record);
  if (result == CUDA_SUCCESS) refresh_pools_if_any();
  if (from_pool && result != CUDA_SUCCESS) remember(record);
  if (from_pool && result == CUDA_SUCCESS && record.count != 0) {
    orphan_was_freed(record.device, reinterpret_cast<uint64_t>(stream));
  }
  return result;
}

// After the program waited: what the device has given back by then.
void after_wait(CUresult result, Waited what, uint64_t handle) {
  refresh_pools_if_any();
  if (result == CUDA_SUCCESS) waited_for(what, handle);
  measure_orphans(what, handle);
  measure_now_and_then(current_rule());
}

}  // namespace

bool refresh_pools() {
  CudaProcess& own = cuda_process();
  const Lock lock(own.pool_lock);
  return refresh_locked(own);
}

void refresh_pools_if_any() {
  CudaProcess& own = cuda_process();
  if (__atomic_load_n(&own.pools_charged, __ATOMIC_RELAXED) != 0) refresh_pools();
}

uint64_t graph_pages(int rule) {
  return __atomic_load_n(&cuda_process().graph_pages[rule], __ATOMIC_RELAXED);
}

bool make_graph_room(int rule, uint64_t pages) {
  CudaProcess& own = cuda_process();
  const Lock lock(own.pool_lock);
  bool room = charge_once(rule, pages);
  if (!room) {
    sweep_dead();
    refresh_locked(own);
    room = charge_once(rule, pages);
  }
  if (room) own.graph_pages[rule] += pages;
  return room || graph_memory_unused(rule) >= pages;
}

void refresh_graph_memory() {
  CudaProcess& own = cuda_process();
  if (__atomic_load_n(&own.graph_memory_seen, __ATOMIC_RELAXED) == 0) return;
  const Lock lock(own.pool_lock);
  refresh_graphs(own);
}

}  // namespace heddle::guard

using namespace heddle::guard;

extern "C" {

HEDDLE_EXPORT CUresult cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream stream) {
  const auto real = cuda().cuMemAllocAsync;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (entry.nested() || address == nullptr) return real(address, bytes, stream);
  return allocate_async(real, cuda().cuMemFreeAsync, cuda().cuStreamIsCapturing, address, bytes, stream);
}

HEDDLE_EXPORT CUresult cuMemAllocAsync_ptsz(CUdeviceptr* address, size_t bytes, CUstream stream) {
  const auto real = cuda().cuMemAllocAsync_ptsz;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (entry.nested() || address == nullptr) return real(address, bytes, stream);
  return allocate_async(real, cuda().cuMemFreeAsync_ptsz, cuda().cuStreamIsCapturing_ptsz, address, bytes, stream);
}

HEDDLE_EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr* address, size_t bytes, CUmemoryPool pool, CUstream stream) {
  const auto real = cuda().cuMemAllocFromPoolAsync;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (entry.nested() || address == nullptr) return real(address, bytes, pool, stream);
  return allocate_from_pool_async(real, cuda().cuMemFreeAsync, cuda().cuStreamIsCapturing, address, bytes, pool,
                                  stream);
}

HEDDLE_EXPORT CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* address, size_t bytes, CUmemoryPool pool,
                                                    CUstream stream) {
  const auto real = cuda().cuMemAllocFromPoolAsync_ptsz;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (entry.nested() || address == nullptr) return real(address, bytes, pool, stream);
  return allocate_from_pool_async(real, cuda().cuMemFreeAsync_ptsz, cuda().cuStreamIsCapturing_ptsz, address, bytes,
                                  pool, stream);
}

HEDDLE_EXPORT CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  const auto real = cuda().cuMemFreeAsync;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  return entry.nested() ? real(address, stream) : free_async(real, address, stream);
}

HEDDLE_EXPORT CUresult cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream) {
  const auto real = cuda().cuMemFreeAsync_ptsz;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  return entry.nested() ? real(address, stream) : free_async(real, address, stream);
}

HEDDLE_EXPORT CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* wanted) {
  const auto real = cuda().cuMemPoolCreate;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  const CUresult result = real(pool, wanted);
  if (entry.nested() || result != CUDA_SUCCESS || pool == nullptr || wanted == nullptr) return result;
  const bool on_device = wanted->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  CudaProcess& own = cuda_process();
  const Lock lock(own.pool_lock);
  add_pool(own, *pool, on_device ? rule_of(wanted->location.id) : kNoDevice);
  return result;
}

HEDDLE_EXPORT CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool* pool, void* handle,
                                                          CUmemAllocationHandleType type, unsigned long long flags) {
  const auto real = cuda().cuMemPoolImportFromShareableHandle;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  const CUresult result = real(pool, handle, type, flags);
  if (entry.nested() || result != CUDA_SUCCESS || pool == nullptr) return result;
  CudaProcess& own = cuda_process();
  const Lock lock(own.pool_lock);
  add_pool(own, *pool, kNoDevice);  // the process that made it is charged
  return result;
}

HEDDLE_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  const auto real = cuda().cuMemPoolDestroy;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (entry.nested()) return real(pool);
  uint64_t used = 0;
  Record gone{};
  CUresult result = CUDA_SUCCESS;
  {
    CudaProcess& own = cuda_process();
    const Lock lock(own.pool_lock);
    used = pool_value(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
    result = real(pool);
    Record* known = result == CUDA_SUCCESS ? find_pool(own, pool) : nullptr;
    if (known == nullptr) return result;
    gone = *known;
    own.pools.erase(known);
  }
  if (accounted(gone.device)) end_pool(gone, used);
  return result;
}

HEDDLE_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
  const auto real = cuda().cuMemPoolTrimTo;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  const CUresult result = real(pool, keep);
  if (!entry.nested() && result == CUDA_SUCCESS) refresh_pools_if_any();
  return result;
}

HEDDLE_EXPORT CUresult cuGraphAddMemAllocNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                              size_t count, CUDA_MEM_ALLOC_NODE_PARAMS* wanted) {
  const auto real = cuda().cuGraphAddMemAllocNode;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (!entry.nested() && wanted != nullptr && wanted->poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
      !note_graph_allocation(wanted->bytesize, rule_of(wanted->poolProps.location.id))) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return real(node, graph, dependencies, count, wanted);
}

HEDDLE_EXPORT CUresult cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                      CUgraphNodeParams* wanted) {
  const auto real = cuda().cuGraphAddNode;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (!entry.nested() && !may_add(wanted)) return CUDA_ERROR_OUT_OF_MEMORY;
  return real(node, graph, dependencies, count, wanted);
}

HEDDLE_EXPORT CUresult cuGraphAddNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                         const CUgraphEdgeData* edges, size_t count, CUgraphNodeParams* wanted) {
  const auto real = cuda().cuGraphAddNode_v2;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (!entry.nested() && !may_add(wanted)) return CUDA_ERROR_OUT_OF_MEMORY;
  return real(node, graph, dependencies, edges, count, wanted);
}

HEDDLE_EXPORT CUresult cuDeviceGraphMemTrim(CUdevice device) {
  const auto real = cuda().cuDeviceGraphMemTrim;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  const CUresult result = real(device);
  if (!entry.nested() && result == CUDA_SUCCESS) {
    graphs_were_trimmed();
    refresh_graph_memory();
  }
  return result;
}

HEDDLE_EXPORT CUresult cuStreamSynchronize(CUstream stream) {
  const auto real = cuda().cuStreamSynchronize;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  const DeviceWait waiting(entry, stream);
  const CUresult result = real(stream);
  if (!entry.nested()) after_wait(result, Waited::kStream, reinterpret_cast<uint64_t>(stream));
  return result;
}

HEDDLE_EXPORT CUresult cuStreamSynchronize_ptsz(CUstream stream) {
  const auto real = cuda().cuStreamSynchronize_ptsz;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  const DeviceWait waiting(entry, stream);
  const CUresult result = real(stream);
  if (!entry.nested()) after_wait(result, Waited::kStream, reinterpret_cast<uint64_t>(stream));
  return result;
}

HEDDLE_EXPORT CUresult cuCtxSynchronize() {
  const auto real = cuda().cuCtxSynchronize;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  const DeviceWait waiting(entry, nullptr);
  const CUresult result = real();
  if (!entry.nested()) after_wait(result, Waited::kContext, current_context());
  return result;
}

HEDDLE_EXPORT CUresult cuEventSynchronize(CUevent event) {
  const auto real = cuda().cuEventSynchronize;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  const DeviceWait waiting(entry, nullptr);
  const CUresult result = real(event);
  if (entry.nested()) return result;
  refresh_pools_if_any();
  measure_orphans(Waited::kEvent, 0);
  return result;
}
}
