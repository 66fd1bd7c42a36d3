// Memory of an NPU: reserve, call the runtime, settle.
//
// What a request takes are the pages that it asks for: of 2 MiB above 1 MiB or where only huge ones are asked for, of
// 4 KiB else, of 1 GiB where such are asked for; ACL rounds up to 32 bytes and adds 32 (its documentation). The runtime
// does not tell what it took.
#include "guard/preload/ascend/driver.h"
#include "guard/preload/launch.h"

namespace heddle::guard {
namespace {

constexpr uint64_t kSmallPage = 4096;
constexpr uint64_t kHugePage = uint64_t{2} << 20;
constexpr uint64_t kGiantPage = uint64_t{1} << 30;
constexpr uint64_t kHugeFrom = uint64_t{1} << 20;
constexpr uint64_t kAlignment = 32;

uint64_t round_up(uint64_t bytes, uint64_t step) {
  return bytes > ~uint64_t{0} - step ? ~uint64_t{0} : (bytes + step - 1) & ~(step - 1);
}

// By the policy bits of rtMalloc; a first page says the rest (huge ones may be short, then small ones take less).
uint64_t rt_pages(uint64_t bytes, uint32_t type) {
  constexpr uint32_t kGiant = RT_MEMORY_POLICY_HUGE1G_PAGE_ONLY | RT_MEMORY_POLICY_HUGE1G_PAGE_ONLY_P2P;
  constexpr uint32_t kHuge = RT_MEMORY_POLICY_HUGE_PAGE_ONLY | RT_MEMORY_POLICY_HUGE_PAGE_ONLY_P2P;
  constexpr uint32_t kSmall = RT_MEMORY_POLICY_DEFAULT_PAGE_ONLY | RT_MEMORY_POLICY_DEFAULT_PAGE_ONLY_P2P;
  uint64_t page = bytes > kHugeFrom ? kHugePage : kSmallPage;
  if ((type & kSmall) != 0) page = kSmallPage;
  if ((type & kHuge) != 0) page = kHugePage;
  if ((type & kGiant) != 0) page = kGiantPage;
  return pages_of(round_up(bytes, page));
}

uint64_t acl_pages(uint64_t bytes, uint32_t policy) {
  constexpr uint32_t kTypes[] = {RT_MEMORY_POLICY_HUGE_PAGE_FIRST,    RT_MEMORY_POLICY_HUGE_PAGE_ONLY,
                                 RT_MEMORY_POLICY_DEFAULT_PAGE_ONLY,  RT_MEMORY_POLICY_HUGE_PAGE_FIRST_P2P,
                                 RT_MEMORY_POLICY_HUGE_PAGE_ONLY_P2P, RT_MEMORY_POLICY_DEFAULT_PAGE_ONLY_P2P,
                                 RT_MEMORY_POLICY_HUGE1G_PAGE_ONLY,   RT_MEMORY_POLICY_HUGE1G_PAGE_ONLY_P2P};
  const uint32_t kind = policy & 0xffU;
  return rt_pages(bytes, kind < sizeof(kTypes) / sizeof(kTypes[0]) ? kTypes[kind] : RT_MEMORY_DEFAULT);
}

uint64_t padded(uint64_t bytes) {
  return bytes == 0 ? 0 : round_up(bytes, kAlignment) + kAlignment;
}

bool remember(Table& table, const Record& record) {
  AscendProcess& own = ascend_process();
  const Lock lock(own.table_lock);
  if (!table.prepare()) return false;
  table.put(record);
  return true;
}

bool forget(Table& table, uint64_t key, Record* record) {
  AscendProcess& own = ascend_process();
  const Lock lock(own.table_lock);
  Record* found = table.find(key);
  if (found == nullptr) return false;
  *record = *found;
  table.erase(found);
  return true;
}

// `call()` takes the memory of the rule's device and `*key` is its address or handle then; `undo()` gives it back.
template <typename Handle, typename Call, typename Undo>
int allocate(int rule, Table& table, uint64_t pages, Handle* handle, Call call, Undo undo) {
  if (refused(rule)) return kOutOfMemory;
  if (!accounted(rule) || pages == 0) return call();
  if (!charge(rule, pages)) return kOutOfMemory;
  const int result = call();
  if (result != ACL_SUCCESS) {
    uncharge(rule, pages);
    return result;
  }
  const auto key = reinterpret_cast<uint64_t>(*handle);
  if (remember(table, Record{key, 0, 0, pages, rule, 0, 1, 0, 0})) return ACL_SUCCESS;
  undo(*handle);
  uncharge(rule, pages);
  *handle = nullptr;
  return kOutOfMemory;
}

template <typename Call>
int allocate_memory(uint64_t pages, void** pointer, Call call) {
  return allocate(current_rule(), ascend_process().allocations, pages, pointer, call, [](void* memory) {
    if (rt().rtFree != nullptr) {
      rt().rtFree(memory);
    } else if (acl().aclrtFree != nullptr) {
      acl().aclrtFree(memory);
    }
  });
}

template <typename Call>
int release(void* pointer, Call call) {
  Record record{};
  Table& table = ascend_process().allocations;
  // Out of the table before the call: from then on the driver may give the address to another thread.
  const bool known = forget(table, reinterpret_cast<uint64_t>(pointer), &record);
  const int result = call();
  if (known && result == ACL_SUCCESS) uncharge(record.device, record.pages);
  if (known && result != ACL_SUCCESS) remember(table, record);
  return result;
}

// Changes the references of a handle; the last one gives the memory back.
void refer(uint64_t handle, int by) {
  AscendProcess& own = ascend_process();
  Record gone{};
  {
    const Lock lock(own.table_lock);
    Record* found = own.handles.find(handle);
    if (found == nullptr) return;
    found->count += static_cast<uint32_t>(by);
    if (found->count != 0) return;
    gone = *found;
    own.handles.erase(found);
  }
  uncharge(gone.device, gone.pages);
}

void drop_table(Table& table, int rule) {
  AscendProcess& own = ascend_process();
  for (uint64_t i = 0;;) {
    Record record{};
    {
      const Lock lock(own.table_lock);
      // Erasing may move a later record into place i, so i stays after a find.
      for (; i < table.capacity(); ++i) {
        Record& at = table.at(i);
        if (at.key == 0 || at.device != rule) continue;
        record = at;
        table.erase(&at);
        break;
      }
    }
    if (record.key == 0) return;
    uncharge(rule, record.pages);
  }
}

template <typename Call>
int show_share(size_t* free, size_t* total, Call call) {
  const int result = call();
  if (result != ACL_SUCCESS || free == nullptr || total == nullptr || *total == 0) return result;
  const int rule = current_rule();
  if (refused(rule)) *free = 0;
  if (!accounted(rule) || config().devices[rule].whole_card) return result;
  sweep_dead();
  const uint64_t limit = config().devices[rule].limit_bytes;
  const uint64_t charged = ledger::total_pages(*config().usage, static_cast<uint32_t>(rule)) * kPageBytes;
  const uint64_t left = charged < limit ? limit - charged : 0;
  if (left < *free) *free = left;
  if (limit < *total) *total = limit;
  return result;
}

}  // namespace

void drop_device(int rule) {
  drop_table(ascend_process().allocations, rule);
  drop_table(ascend_process().handles, rule);
}

}  // namespace heddle::guard

using namespace heddle::guard;

// A hook that charges `pages` for the memory whose address the real function writes to `pointer`.
#define HEDDLE_TAKE(table, name, parameters, arguments, pages)                       \
  HEDDLE_EXPORT int name parameters {                                                \
    const auto real = table().name;                                                  \
    if (real == nullptr) return kNoSuchFunction;                                     \
    const Entry entry;                                                               \
    if (entry.nested() || pointer == nullptr) return real arguments;                 \
    return allocate_memory(pages, pointer, [&]() -> int { return real arguments; }); \
  }
#define HEDDLE_GIVE(table, name)                                     \
  HEDDLE_EXPORT int name(void* pointer) {                            \
    const auto real = table().name;                                  \
    if (real == nullptr) return kNoSuchFunction;                     \
    const Entry entry;                                               \
    if (entry.nested()) return real(pointer);                        \
    return release(pointer, [&]() -> int { return real(pointer); }); \
  }

extern "C" {

HEDDLE_TAKE(acl, aclrtMalloc, (void** pointer, size_t size, aclrtMemMallocPolicy policy), (pointer, size, policy),
            acl_pages(padded(size), static_cast<uint32_t>(policy)))
HEDDLE_TAKE(acl, aclrtMallocCached, (void** pointer, size_t size, aclrtMemMallocPolicy policy), (pointer, size, policy),
            acl_pages(padded(size), static_cast<uint32_t>(policy)))
HEDDLE_TAKE(acl, aclrtMallocAlign32, (void** pointer, size_t size, aclrtMemMallocPolicy policy),
            (pointer, size, policy), acl_pages(round_up(size, kAlignment), static_cast<uint32_t>(policy)))
HEDDLE_TAKE(acl, aclrtMallocWithCfg,
            (void** pointer, size_t size, aclrtMemMallocPolicy policy, aclrtMallocConfig* wanted),
            (pointer, size, policy, wanted), acl_pages(padded(size), static_cast<uint32_t>(policy)))
HEDDLE_TAKE(acl, aclrtMallocForTaskScheduler,
            (void** pointer, size_t size, aclrtMemMallocPolicy policy, aclrtMallocConfig* wanted),
            (pointer, size, policy, wanted), acl_pages(padded(size), static_cast<uint32_t>(policy)))
HEDDLE_TAKE(acl, aclrtMemAllocManaged, (void** pointer, uint64_t size, uint32_t flag), (pointer, size, flag),
            rt_pages(size, RT_MEMORY_DEFAULT))
HEDDLE_TAKE(rt, rtMalloc, (void** pointer, uint64_t size, rtMemType_t type, uint16_t module),
            (pointer, size, type, module), rt_pages(size, type))
HEDDLE_TAKE(rt, rtMallocCached, (void** pointer, uint64_t size, rtMemType_t type, uint16_t module),
            (pointer, size, type, module), rt_pages(size, type))
HEDDLE_TAKE(rt, rtDvppMalloc, (void** pointer, uint64_t size, uint16_t module), (pointer, size, module),
            rt_pages(size, RT_MEMORY_DEFAULT))
HEDDLE_TAKE(rt, rtDvppMallocWithFlag, (void** pointer, uint64_t size, uint32_t flag, uint16_t module),
            (pointer, size, flag, module), rt_pages(size, RT_MEMORY_DEFAULT))
HEDDLE_TAKE(rt, rtMemAllocManaged, (void** pointer, uint64_t size, uint32_t flag, uint16_t module),
            (pointer, size, flag, module), rt_pages(size, RT_MEMORY_DEFAULT))

HEDDLE_GIVE(acl, aclrtFree)
HEDDLE_GIVE(acl, aclrtFreeWithDevSync)
HEDDLE_GIVE(rt, rtFree)
HEDDLE_GIVE(rt, rtFreeWithDevSync)
HEDDLE_GIVE(rt, rtDvppFree)
HEDDLE_GIVE(rt, rtMemFreeManaged)

HEDDLE_EXPORT aclError aclrtMallocPhysical(aclrtDrvMemHandle* handle, size_t size, const aclrtPhysicalMemProp* prop,
                                           uint64_t flags) {
  const auto real = acl().aclrtMallocPhysical;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  const bool host = prop != nullptr && prop->location.type != ACL_MEM_LOCATION_TYPE_DEVICE &&
                    prop->location.type != ACL_MEM_LOCATION_TYPE_UNREGISTERED && prop->location.type != 0;
  if (entry.nested() || handle == nullptr || host) return real(handle, size, prop, flags);
  const bool says_where = prop != nullptr && prop->location.type == ACL_MEM_LOCATION_TYPE_DEVICE;
  return allocate(
      says_where ? rule_of(static_cast<int32_t>(prop->location.id)) : current_rule(), ascend_process().handles,
      pages_of(round_up(size, kHugePage)), handle, [&]() -> int { return real(handle, size, prop, flags); },
      [](aclrtDrvMemHandle memory) {
        if (acl().aclrtFreePhysical != nullptr) acl().aclrtFreePhysical(memory);
      });
}

HEDDLE_EXPORT rtError_t rtMallocPhysical(rtDrvMemHandle* handle, size_t size, rtDrvMemProp_t* prop, uint64_t flags) {
  const auto real = rt().rtMallocPhysical;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (entry.nested() || handle == nullptr) return real(handle, size, prop, flags);
  const bool says_where = prop != nullptr && prop->side == RT_DRV_MEM_SIDE_DEVICE;
  return allocate(
      says_where ? rule_of(static_cast<int32_t>(prop->devid)) : current_rule(), ascend_process().handles,
      pages_of(round_up(size, kHugePage)), handle, [&]() -> int { return real(handle, size, prop, flags); },
      [](rtDrvMemHandle memory) {
        if (rt().rtFreePhysical != nullptr) rt().rtFreePhysical(memory);
      });
}

HEDDLE_EXPORT aclError aclrtFreePhysical(aclrtDrvMemHandle handle) {
  const auto real = acl().aclrtFreePhysical;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  const aclError result = real(handle);
  if (!entry.nested() && result == ACL_SUCCESS) refer(reinterpret_cast<uint64_t>(handle), -1);
  return result;
}

HEDDLE_EXPORT rtError_t rtFreePhysical(rtDrvMemHandle handle) {
  const auto real = rt().rtFreePhysical;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  const rtError_t result = real(handle);
  if (!entry.nested() && result == ACL_SUCCESS) refer(reinterpret_cast<uint64_t>(handle), -1);
  return result;
}

// A mapping keeps the memory of its handle.
HEDDLE_EXPORT aclError aclrtMapMem(void* address, size_t size, size_t offset, aclrtDrvMemHandle handle,
                                   uint64_t flags) {
  const auto real = acl().aclrtMapMem;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  const aclError result = real(address, size, offset, handle, flags);
  if (entry.nested() || result != ACL_SUCCESS) return result;
  const auto key = reinterpret_cast<uint64_t>(handle);
  Record record{reinterpret_cast<uint64_t>(address), 0, key, 0, kNoDevice, 0, 0, 0, 0};
  if (remember(ascend_process().mappings, record)) refer(key, 1);
  return result;
}

HEDDLE_EXPORT aclError aclrtUnmapMem(void* address) {
  const auto real = acl().aclrtUnmapMem;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  const aclError result = real(address);
  Record record{};
  if (entry.nested() || result != ACL_SUCCESS) return result;
  if (forget(ascend_process().mappings, reinterpret_cast<uint64_t>(address), &record)) refer(record.context, -1);
  return result;
}

HEDDLE_EXPORT aclError aclrtMemRetainAllocationHandle(void* address, aclrtDrvMemHandle* handle) {
  const auto real = acl().aclrtMemRetainAllocationHandle;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  const aclError result = real(address, handle);
  if (!entry.nested() && result == ACL_SUCCESS && handle != nullptr) refer(reinterpret_cast<uint64_t>(*handle), 1);
  return result;
}

// What a pool keeps after memory was freed in order is not told: there are none where memory is limited.
HEDDLE_EXPORT aclError aclrtMemPoolCreate(aclrtMemPool* pool, const aclrtMemPoolProps* wanted) {
  const auto real = acl().aclrtMemPoolCreate;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  const int rule = current_rule();
  const bool limited = refused(rule) || (accounted(rule) && !config().devices[rule].whole_card);
  return limited && !entry.nested() ? kNoSuchFunction : real(pool, wanted);
}

HEDDLE_EXPORT aclError aclrtGetMemInfo(aclrtMemAttr kind, size_t* free, size_t* total) {
  const auto real = acl().aclrtGetMemInfo;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (entry.nested()) return real(kind, free, total);
  return show_share(free, total, [&]() -> int { return real(kind, free, total); });
}

HEDDLE_EXPORT rtError_t rtMemGetInfo(size_t* free, size_t* total) {
  const auto real = rt().rtMemGetInfo;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (entry.nested()) return real(free, total);
  return show_share(free, total, [&]() -> int { return real(free, total); });
}

HEDDLE_EXPORT rtError_t rtMemGetInfoEx(uint32_t kind, size_t* free, size_t* total) {
  const auto real = rt().rtMemGetInfoEx;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (entry.nested()) return real(kind, free, total);
  return show_share(free, total, [&]() -> int { return real(kind, free, total); });
}
}
