// Linear memory: cuMemAlloc, pitched and managed memory, and cuMemFree.
//
// The driver hands out device memory in blocks (2 MiB); small allocations share one. So what an allocation takes is the
// number of blocks that it touches first: known from the address that the driver returned, and never guessed.
#include "guard/preload/cuda/memory.h"

#include "guard/preload/cuda/pools.h"
#include "guard/preload/cuda/residual.h"

namespace heddle::guard {
namespace {

constexpr uint64_t kUsualBlock = uint64_t{2} << 20;

// The blocks that [address, address + bytes) touches: those that it fills are its own, the first and the last may be
// shared.
struct Span {
  uint64_t whole;     // blocks that nobody else can be in
  uint64_t edges[2];  // numbers of the shared ones
  int edge_count;
};

Span span_of(uint64_t address, uint64_t bytes, uint64_t block) {
  const uint64_t first = address / block;
  const uint64_t last = (address + bytes - 1) / block;
  const bool first_whole = address % block == 0;
  const bool last_whole = (address + bytes) % block == 0;
  Span span{last - first + 1, {0, 0}, 0};
  if (first == last) {
    if (!first_whole || !last_whole) span.edges[span.edge_count++] = first;
  } else {
    if (!first_whole) span.edges[span.edge_count++] = first;
    if (!last_whole) span.edges[span.edge_count++] = last;
  }
  span.whole -= static_cast<uint64_t>(span.edge_count);
  return span;
}

// Both with the table locked. Pages that became taken, or free.
uint64_t cover(CudaProcess& own, uint64_t address, uint64_t bytes, uint64_t block) {
  const Span span = span_of(address, bytes, block);
  uint64_t blocks = span.whole;
  for (int i = 0; i < span.edge_count; ++i) {
    Record* edge = own.blocks.find(span.edges[i] + 1);
    if (edge == nullptr) {
      edge = own.blocks.put(Record{span.edges[i] + 1, 0, 0, 0, 0, 0, 0, 0, 0});
      ++blocks;
    }
    ++edge->count;
  }
  return blocks * (block >> HEDDLE_GUARD_PAGE_SHIFT);
}

uint64_t uncover(CudaProcess& own, uint64_t address, uint64_t bytes, uint64_t block) {
  const Span span = span_of(address, bytes, block);
  uint64_t blocks = span.whole;
  for (int i = 0; i < span.edge_count; ++i) {
    Record* edge = own.blocks.find(span.edges[i] + 1);
    if (edge == nullptr || --edge->count != 0) continue;
    own.blocks.erase(edge);
    ++blocks;
  }
  return blocks * (block >> HEDDLE_GUARD_PAGE_SHIFT);
}

struct Place {
  int rule;
  uint64_t block;
};

struct Settled {
  bool done;
  uint64_t charged;  // what is charged for the allocation now
};

// Writes down a new allocation and charges what it took instead of the `taken` pages reserved for it. Not done: free it
// again and give back `charged`.
Settled settle(const Place& place, uint64_t address, uint64_t bytes, uint64_t taken) {
  CudaProcess& own = cuda_process();
  const uint64_t context = current_context();
  uint64_t pages = 0;
  {
    const Lock lock(own.table_lock);
    if (!own.allocations.prepare() || !own.blocks.prepare()) return {false, taken};
    pages = cover(own, address, bytes, place.block);
    own.allocations.put(Record{address, bytes, context, 0, place.rule, static_cast<uint32_t>(Kind::kLinear), 0, 0, 0});
  }
  if (pages <= taken) {
    uncharge(place.rule, taken - pages);
    return {true, pages};
  }
  if (charge(place.rule, pages - taken)) return {true, pages};
  const Lock lock(own.table_lock);
  uncover(own, address, bytes, place.block);
  if (Record* record = own.allocations.find(address)) own.allocations.erase(record);
  return {false, taken};
}

// Reserve, call, settle. `expected`: bytes that the call will probably take; `call(&address, &bytes)` does the driver's
// part and says what it returned.
template <typename Call>
CUresult allocate(uint64_t expected, CUdeviceptr* address, Call call) {
  uint64_t bytes = expected;
  const CUdevice device = current_device();
  const int rule = rule_of(device);
  if (refused(rule)) return CUDA_ERROR_OUT_OF_MEMORY;
  if (!accounted(rule) || expected == 0) return call(address, &bytes);
  const Place place{rule, block_bytes(rule, device)};
  const uint64_t taken = pages_of(round_up(expected, place.block));
  if (!charge(rule, taken)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = call(address, &bytes);
  if (result != CUDA_SUCCESS) {
    uncharge(rule, taken);
    return result;
  }
  const Settled settled = settle(place, *address, bytes, taken);
  if (settled.done) return CUDA_SUCCESS;
  if (cuda().cuMemFree_v2 != nullptr) cuda().cuMemFree_v2(*address);
  uncharge(rule, settled.charged);
  *address = 0;
  return CUDA_ERROR_OUT_OF_MEMORY;
}

uint64_t product(uint64_t a, uint64_t b) {
  return b != 0 && a > ~uint64_t{0} / b ? ~uint64_t{0} : a * b;
}

constexpr uint64_t kUsualPitch = 512;

// Managed memory where the limit has no more room but the virtual limit has. It is charged with the pages that were
// asked for: it has no block of the device for good, and moves there while it is used and there is room.
CUresult allocate_beyond(uint64_t bytes, unsigned int flags, CUdeviceptr* address) {
  const auto real = cuda().cuMemAllocManaged;
  const CUdevice device = current_device();
  const int rule = rule_of(device);
  if (real == nullptr || !goes_beyond(rule, device) || refused(rule)) return CUDA_ERROR_OUT_OF_MEMORY;
  const uint64_t pages = pages_of(bytes);
  if (!charge_beyond(rule, pages)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = real(address, bytes, flags);
  if (result != CUDA_SUCCESS) {
    uncharge_beyond(rule, pages);
    return result;
  }
  const Record record{*address, bytes, current_context(), pages, rule, static_cast<uint32_t>(Kind::kBeyond), 0, 0, 0};
  if (!remember(record)) {
    if (cuda().cuMemFree_v2 != nullptr) cuda().cuMemFree_v2(*address);
    uncharge_beyond(rule, pages);
    *address = 0;
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  // A wish, not a need: a driver that does not take it places the pages where they are touched first.
  if (cuda().cuMemAdvise != nullptr) {
    cuda().cuMemAdvise(*address, bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device);
  }
  expect_residual();
  return CUDA_SUCCESS;
}

CUresult release_beyond(const Record& record, CUresult result) {
  if (result == CUDA_SUCCESS) {
    uncharge_beyond(record.device, record.pages);
  } else {
    remember(record);
  }
  return result;
}

CUresult release_pooled(const Record& record, CUresult result) {
  if (result != CUDA_SUCCESS) {
    remember(record);
    return result;
  }
  refresh_pools_if_any();
  if (record.count != 0) measure_residual(record.device, Take::kForced);
  return result;
}

template <typename Call>
CUresult release(uint64_t address, Call call) {
  Record record{};
  if (forget(address, Kind::kBeyond, &record)) return release_beyond(record, call());
  if (forget(address, Kind::kPooled, &record)) return release_pooled(record, call());
  const bool known = take_out(address, &record);
  const CUresult result = call();
  if (known && result == CUDA_SUCCESS) uncharge(record.device, record.pages);
  if (known && result != CUDA_SUCCESS) put_back(record);
  if (!known && result == CUDA_SUCCESS) refresh_pools_if_any();
  return result;
}

}  // namespace

uint64_t block_bytes(int rule, CUdevice device) {
  uint64_t& known = cuda_process().block_bytes[rule];
  const uint64_t block = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (block != 0) return block;
  size_t asked = 0;
  CUmemAllocationProp wanted{};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  wanted.location.id = device;
  const auto query = cuda().cuMemGetAllocationGranularity;
  const bool told = device >= 0 && query != nullptr &&
                    query(&asked, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS && asked >= kPageBytes &&
                    (asked & (asked - 1)) == 0;
  const uint64_t answer = told ? asked : kUsualBlock;
  __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
  return answer;
}

bool goes_beyond(int rule, CUdevice device) {
  if (!accounted(rule) || config().devices[rule].virtual_pages == 0) return false;
  int8_t& known = cuda_process().moves_pages[rule];
  const int8_t before = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (before != 0) return before > 0;
  int moves = 0;
  const auto query = cuda().cuDeviceGetAttribute;
  if (device < 0 || query == nullptr ||
      query(&moves, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, device) != CUDA_SUCCESS) {
    return false;
  }
  if (moves == 0) log_line("there is no virtual memory: this device does not move managed pages by itself", "");
  __atomic_store_n(&known, static_cast<int8_t>(moves != 0 ? 1 : -1), __ATOMIC_RELAXED);
  return moves != 0;
}

bool remember(const Record& record) {
  CudaProcess& own = cuda_process();
  const Lock lock(own.table_lock);
  if (!own.allocations.prepare()) return false;
  own.allocations.put(record);
  return true;
}

bool forget(uint64_t key, Kind kind, Record* record) {
  CudaProcess& own = cuda_process();
  const Lock lock(own.table_lock);
  Record* found = own.allocations.find(key);
  if (found == nullptr || found->kind != static_cast<uint32_t>(kind)) return false;
  *record = *found;
  own.allocations.erase(found);
  return true;
}

bool take_out(uint64_t address, Record* record) {
  CudaProcess& own = cuda_process();
  const Lock lock(own.table_lock);
  Record* found = own.allocations.find(address);
  if (found == nullptr || found->kind != static_cast<uint32_t>(Kind::kLinear)) return false;
  *record = *found;
  own.allocations.erase(found);
  record->pages = uncover(own, address, record->bytes, block_bytes(record->device, -1));
  return true;
}

void put_back(const Record& record) {
  CudaProcess& own = cuda_process();
  uint64_t pages = 0;
  {
    const Lock lock(own.table_lock);
    if (!own.allocations.prepare() || !own.blocks.prepare()) return;  // stays charged
    pages = cover(own, record.key, record.bytes, block_bytes(record.device, -1));
    own.allocations.put(record);
  }
  if (pages <= record.pages) {
    uncharge(record.device, record.pages - pages);
  } else {
    charge_once(record.device, pages - record.pages, Take::kForced);
  }
}

uint64_t current_context() {
  CUcontext context = nullptr;
  if (cuda().cuCtxGetCurrent == nullptr || cuda().cuCtxGetCurrent(&context) != CUDA_SUCCESS) return 0;
  return reinterpret_cast<uint64_t>(context);
}

namespace {

// Takes out every record that `matches` and gives back what it took.
template <typename Matches>
void give_back_all(Matches matches) {
  CudaProcess& own = cuda_process();
  for (uint64_t i = 0;;) {
    Record record{};
    {
      const Lock lock(own.table_lock);
      // Erasing may move a later record into place i, so i stays after a find.
      for (; i < own.allocations.capacity(); ++i) {
        Record& at = own.allocations.at(i);
        if (at.key == 0 || !matches(at)) continue;
        record = at;
        own.allocations.erase(&at);
        if (record.kind == static_cast<uint32_t>(Kind::kLinear)) {
          record.pages = uncover(own, record.key, record.bytes, block_bytes(record.device, -1));
        } else if (record.kind == static_cast<uint32_t>(Kind::kFreedInOrder)) {
          __atomic_fetch_sub(&own.waiting_for_order, 1, __ATOMIC_RELAXED);
        }
        break;
      }
    }
    if (record.key == 0) return;
    if (record.kind == static_cast<uint32_t>(Kind::kBeyond)) {
      uncharge_beyond(record.device, record.pages);
    } else {
      uncharge(record.device, record.pages);
    }
  }
}

}  // namespace

void drop_context(uint64_t context) {
  give_back_all(
      [&](const Record& at) { return at.context == context && at.kind != static_cast<uint32_t>(Kind::kContext); });
}

void free_in_order(const Record& record, CUstream stream) {
  CudaProcess& own = cuda_process();
  const Lock lock(own.table_lock);
  if (!own.allocations.prepare()) return;  // stays charged
  Record waiting = record;
  waiting.key = uint64_t{1} << 63 | ++own.freed_in_order;  // no address of a device is this high
  waiting.kind = static_cast<uint32_t>(Kind::kFreedInOrder);
  waiting.stream = reinterpret_cast<uint64_t>(stream);
  own.allocations.put(waiting);
  __atomic_fetch_add(&own.waiting_for_order, 1, __ATOMIC_RELAXED);
}

void waited_for(Waited what, uint64_t handle) {
  if (__atomic_load_n(&cuda_process().waiting_for_order, __ATOMIC_RELAXED) == 0) return;
  const uint64_t context = what == Waited::kContext ? handle : current_context();
  give_back_all([&](const Record& at) {
    if (at.kind != static_cast<uint32_t>(Kind::kFreedInOrder) || at.context != context) return false;
    return what == Waited::kContext || at.stream == handle;
  });
}

}  // namespace heddle::guard

using namespace heddle::guard;

extern "C" {

HEDDLE_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  const auto real = cuda().cuMemAlloc_v2;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (entry.nested() || address == nullptr) return real(address, bytes);
  const CUresult result = allocate(bytes, address, [&](CUdeviceptr* out, uint64_t*) { return real(out, bytes); });
  if (result != CUDA_ERROR_OUT_OF_MEMORY) return result;
  return allocate_beyond(bytes, CU_MEM_ATTACH_GLOBAL, address);
}

HEDDLE_EXPORT CUresult cuMemAlloc(CUdeviceptr_v1* address, unsigned int bytes) {
  const auto real = cuda().cuMemAlloc;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (entry.nested() || address == nullptr) return real(address, bytes);
  CUdeviceptr wide = 0;
  return allocate(bytes, &wide, [&](CUdeviceptr* out, uint64_t*) {
    const CUresult result = real(address, bytes);
    *out = *address;
    return result;
  });
}

HEDDLE_EXPORT CUresult cuMemAllocManaged(CUdeviceptr* address, size_t bytes, unsigned int flags) {
  const auto real = cuda().cuMemAllocManaged;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (entry.nested() || address == nullptr) return real(address, bytes, flags);
  const CUresult result =
      allocate(bytes, address, [&](CUdeviceptr* out, uint64_t*) { return real(out, bytes, flags); });
  return result == CUDA_ERROR_OUT_OF_MEMORY ? allocate_beyond(bytes, flags, address) : result;
}

HEDDLE_EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr* address, size_t* pitch, size_t width, size_t height,
                                          unsigned int element) {
  const auto real = cuda().cuMemAllocPitch_v2;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (entry.nested() || address == nullptr || pitch == nullptr) return real(address, pitch, width, height, element);
  const uint64_t row = round_up(width, kUsualPitch);
  const CUresult result = allocate(product(row, height), address, [&](CUdeviceptr* out, uint64_t* taken) {
    const CUresult answer = real(out, pitch, width, height, element);
    if (answer == CUDA_SUCCESS) *taken = product(*pitch, height);
    return answer;
  });
  if (result != CUDA_ERROR_OUT_OF_MEMORY) return result;
  const CUresult beyond = allocate_beyond(product(row, height), CU_MEM_ATTACH_GLOBAL, address);
  if (beyond == CUDA_SUCCESS) *pitch = row;
  return beyond;
}

HEDDLE_EXPORT CUresult cuMemAllocPitch(CUdeviceptr_v1* address, unsigned int* pitch, unsigned int width,
                                       unsigned int height, unsigned int element) {
  const auto real = cuda().cuMemAllocPitch;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (entry.nested() || address == nullptr || pitch == nullptr) return real(address, pitch, width, height, element);
  CUdeviceptr wide = 0;
  return allocate(product(round_up(width, kUsualPitch), height), &wide, [&](CUdeviceptr* out, uint64_t* taken) {
    const CUresult result = real(address, pitch, width, height, element);
    if (result == CUDA_SUCCESS) *taken = product(*pitch, height);
    *out = *address;
    return result;
  });
}

HEDDLE_EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
  const auto real = cuda().cuMemFree_v2;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (entry.nested()) return real(address);
  return release(address, [&] { return real(address); });
}

HEDDLE_EXPORT CUresult cuMemFree(CUdeviceptr_v1 address) {
  const auto real = cuda().cuMemFree;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (entry.nested()) return real(address);
  return release(address, [&] { return real(address); });
}
}
