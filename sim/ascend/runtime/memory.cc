// Memory of a card. How much a request takes: pages of 2 MiB above 1 MiB (or where only huge ones are asked for), pages
// of 4 KiB else; 1 GiB where such are asked for.
#include <sys/mman.h>

#include <bit>
#include <vector>

#include "runtime/device.h"

namespace ascendsim {
namespace {

// A device address as the host's, which it also is.
void* host_pointer(std::uint64_t address) {
  return std::bit_cast<void*>(address);
}

constexpr std::uint64_t kHugeFrom = 1ULL << 20U;

std::uint64_t page_of(std::uint64_t size, rtMemType_t type) {
  if ((type & (RT_MEMORY_POLICY_HUGE1G_PAGE_ONLY | RT_MEMORY_POLICY_HUGE1G_PAGE_ONLY_P2P)) != 0) {
    return kGiantPage;
  }
  if ((type & (RT_MEMORY_POLICY_HUGE_PAGE_ONLY | RT_MEMORY_POLICY_HUGE_PAGE_ONLY_P2P)) != 0) {
    return kHugePage;
  }
  if ((type & (RT_MEMORY_POLICY_DEFAULT_PAGE_ONLY | RT_MEMORY_POLICY_DEFAULT_PAGE_ONLY_P2P)) != 0) {
    return kSmallPage;
  }
  return size > kHugeFrom ? kHugePage : kSmallPage;
}

// Host memory behind a range of addresses; pages exist only once written. 0: none left.
std::uint64_t map_addresses(std::uint64_t span) {
  const std::uint64_t padded = span + kHugePage;
  void* data = mmap(nullptr, padded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    return 0;
  }
  madvise(data, padded, MADV_DONTDUMP);
  const auto start = reinterpret_cast<std::uint64_t>(data);
  const std::uint64_t base = round_up(start, kHugePage);
  if (base > start) {
    munmap(data, base - start);
  }
  munmap(host_pointer(base + span), start + padded - base - span);
  return base;
}

rtError_t allocate(void** pointer, std::uint64_t size, rtMemType_t type) {
  if (pointer == nullptr || size == 0 || size > (1ULL << 46U)) {
    return ACL_ERROR_RT_PARAM_INVALID;
  }
  return with_device([&](Device& device) -> rtError_t {
    const std::uint64_t bytes = round_up(size, page_of(size, type));
    if (const rtError_t code = charge(device, bytes); code != 0) {
      return code;
    }
    const std::uint64_t base = map_addresses(bytes);
    if (base == 0) {
      uncharge(device, bytes);
      return ACL_ERROR_RT_MEMORY_ALLOCATION;
    }
    const std::lock_guard guard(runtime().mutex);
    runtime().ranges[base] = {bytes, bytes, &device};
    *pointer = host_pointer(base);
    return 0;
  });
}

void give_back(std::uint64_t base, const Range& range) {
  munmap(host_pointer(base), range.span);
  if (range.device != nullptr) {
    uncharge(*range.device, range.charged);
  }
}

rtError_t release(void* pointer) {
  if (const rtError_t code = check_ready(); code != 0) {
    return code;
  }
  Range range;
  const auto base = reinterpret_cast<std::uint64_t>(pointer);
  {
    const std::lock_guard guard(runtime().mutex);
    const auto found = runtime().ranges.find(base);
    if (found == runtime().ranges.end()) {
      return ACL_ERROR_RT_PARAM_INVALID;
    }
    range = found->second;
    runtime().ranges.erase(found);
  }
  give_back(base, range);
  return 0;
}

}  // namespace

void free_everything_of(Device& device) {
  std::vector<std::pair<std::uint64_t, Range>> dropped;
  std::uint64_t bytes = 0;
  {
    const std::lock_guard guard(runtime().mutex);
    std::erase_if(runtime().ranges, [&](const auto& entry) {
      if (entry.second.device == &device) dropped.push_back(entry);
      return entry.second.device == &device;
    });
    std::erase_if(runtime().physical, [&](const auto& entry) {
      if (entry.first->device == &device) bytes += entry.first->bytes;
      return entry.first->device == &device;
    });
  }
  for (const auto& [base, range] : dropped) {
    give_back(base, range);
  }
  uncharge(device, bytes);
}

}  // namespace ascendsim

using ascendsim::Device;
using ascendsim::Physical;
using ascendsim::runtime;

ASCENDSIM_API rtError_t rtMalloc(void** pointer, uint64_t size, rtMemType_t type, uint16_t) {
  return ascendsim::allocate(pointer, size, type);
}
ASCENDSIM_API rtError_t rtMallocCached(void** pointer, uint64_t size, rtMemType_t type, uint16_t) {
  return ascendsim::allocate(pointer, size, type);
}
ASCENDSIM_API rtError_t rtDvppMalloc(void** pointer, uint64_t size, uint16_t) {
  return ascendsim::allocate(pointer, size, RT_MEMORY_DEFAULT);
}
ASCENDSIM_API rtError_t rtDvppMallocWithFlag(void** pointer, uint64_t size, uint32_t, uint16_t) {
  return ascendsim::allocate(pointer, size, RT_MEMORY_DEFAULT);
}
ASCENDSIM_API rtError_t rtMemAllocManaged(void** pointer, uint64_t size, uint32_t, uint16_t) {
  return ascendsim::allocate(pointer, size, RT_MEMORY_DEFAULT);
}
ASCENDSIM_API rtError_t rtFree(void* pointer) {
  return ascendsim::release(pointer);
}
ASCENDSIM_API rtError_t rtFreeWithDevSync(void* pointer) {
  if (Device* device = ascendsim::current_device()) {
    ascendsim::wait_for_all(*device);
  }
  return ascendsim::release(pointer);
}
ASCENDSIM_API rtError_t rtDvppFree(void* pointer) {
  return ascendsim::release(pointer);
}
ASCENDSIM_API rtError_t rtMemFreeManaged(void* pointer) {
  return ascendsim::release(pointer);
}

ASCENDSIM_API rtError_t rtMallocHost(void** pointer, uint64_t size, uint16_t) {
  if (pointer == nullptr || size == 0) {
    return ACL_ERROR_RT_PARAM_INVALID;
  }
  const std::uint64_t span = ascendsim::round_up(size, ascendsim::kSmallPage);
  const std::uint64_t base = ascendsim::map_addresses(span);
  if (base == 0) {
    return ACL_ERROR_RT_MEMORY_ALLOCATION;
  }
  const std::lock_guard guard(runtime().mutex);
  runtime().ranges[base] = {span, 0, nullptr};
  *pointer = ascendsim::host_pointer(base);
  return 0;
}
ASCENDSIM_API rtError_t rtFreeHost(void* pointer) {
  return ascendsim::release(pointer);
}

// On the device that the properties name, else on the thread's own.
ASCENDSIM_API rtError_t rtMallocPhysical(rtDrvMemHandle* handle, size_t size, rtDrvMemProp_t* where, uint64_t) {
  if (handle == nullptr || size == 0 || size % ascendsim::kHugePage != 0) {
    return ACL_ERROR_RT_PARAM_INVALID;
  }
  return ascendsim::with_device([&](Device& current) -> rtError_t {
    Device* device = &current;
    if (where != nullptr && where->side == RT_DRV_MEM_SIDE_DEVICE) {
      device = ascendsim::device_at(static_cast<std::int32_t>(where->devid));
    }
    if (device == nullptr) {
      return ACL_ERROR_RT_INVALID_DEVICEID;
    }
    if (const rtError_t code = ascendsim::charge(*device, size); code != 0) {
      return code;
    }
    auto memory = std::make_unique<Physical>(Physical{device, size});
    *handle = reinterpret_cast<rtDrvMemHandle>(memory.get());
    const std::lock_guard guard(runtime().mutex);
    runtime().physical[memory.get()] = std::move(memory);
    return 0;
  });
}

ASCENDSIM_API rtError_t rtFreePhysical(rtDrvMemHandle handle) {
  auto* memory = reinterpret_cast<Physical*>(handle);
  Physical gone;
  {
    const std::lock_guard guard(runtime().mutex);
    const auto found = runtime().physical.find(memory);
    if (found == runtime().physical.end()) {
      return ACL_ERROR_RT_INVALID_HANDLE;
    }
    gone = *memory;
    runtime().physical.erase(found);
  }
  ascendsim::uncharge(*gone.device, gone.bytes);
  return 0;
}

ASCENDSIM_API rtError_t rtMemGetInfo(size_t* free, size_t* total) {
  if (free == nullptr || total == nullptr) {
    return ACL_ERROR_RT_PARAM_INVALID;
  }
  return ascendsim::with_device([&](Device& device) -> rtError_t {
    ascendsim::Card& card = *device.npu.card;
    const ascendsim::Card::Lock lock(card);
    if (!lock.ok()) {
      return ACL_ERROR_RT_DRV_INTERNAL_ERROR;
    }
    *total = ascendsim::usable_bytes(card.config());
    *free = *total - std::min<std::uint64_t>(*total, card.used_bytes());
    return 0;
  });
}

// The kinds are 1 DDR, 2 HBM (acl counts from 0); the kind that the card does not have is empty.
ASCENDSIM_API rtError_t rtMemGetInfoEx(uint32_t kind, size_t* free, size_t* total) {
  if (const rtError_t code = rtMemGetInfo(free, total); code != 0) {
    return code;
  }
  const bool ddr = ascendsim::current_device()->npu.npu->ddr != 0;
  if ((kind == 1 && !ddr) || (kind == 2 && ddr)) {
    *free = *total = 0;
  }
  return 0;
}
