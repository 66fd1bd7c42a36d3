// Virtual memory management: physical allocations, reserved addresses, and the mappings between them.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "cuda/driver.h"

namespace nvsim {
namespace {

// What a card gives for an allocation, until the last handle of this process that stands for it is gone.
struct Memory {
  Device* device = nullptr;
  std::uint64_t charged = 0;
  Memory(Device* on, std::uint64_t bytes) : device(on), charged(bytes) {}
  ~Memory() {
    if (charged > 0) {
      uncharge(*device, charged);
    }
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
};

// A handle: what cuMemCreate makes, and what an import makes anew. Lives until its last reference and mapping are gone.
struct Physical {
  Device* device = nullptr;  // null: host memory, which no card pays for
  CUmemAllocationProp properties = {};
  std::uint64_t size = 0;
  std::shared_ptr<Memory> memory;  // null: of the host, or another process pays
  unsigned references = 1;
  unsigned mappings = 0;
  int descriptor = -1;  // of the memory behind shareable allocations
};

// The shareable allocations of this process, by the file behind them.
std::map<ino_t, std::weak_ptr<Memory>>& shareable() {
  static std::map<ino_t, std::weak_ptr<Memory>> all;
  return all;
}

Physical* object(CUmemGenericAllocationHandle handle) {
  return std::bit_cast<Physical*>(handle);
}

CUmemGenericAllocationHandle handle_of(Physical* physical) {
  return static_cast<CUmemGenericAllocationHandle>(reinterpret_cast<std::uintptr_t>(physical));
}

void drop_if_unused(Physical* physical) {
  if (physical->references > 0 || physical->mappings > 0) {
    return;
  }
  if (physical->descriptor >= 0) {
    close(physical->descriptor);
  }
  delete physical;
}

// Memory that other processes can map too; the name tells an importer the card.
int shareable_memory(const Physical& physical) {
  const int minor = physical.device == nullptr ? -1 : static_cast<int>(physical.device->card->config().minor);
  char name[32];
  std::snprintf(name, sizeof(name), "nvsim-vmm:%d:", minor);
  const int descriptor = memfd_create(name, MFD_CLOEXEC);
  if (descriptor >= 0 && ftruncate(descriptor, static_cast<off_t>(physical.size)) != 0) {
    close(descriptor);
    return -1;
  }
  return descriptor;
}

CUresult create(CUmemGenericAllocationHandle* out, std::size_t size, const CUmemAllocationProp* properties) {
  if (const CUresult code = check_ready(); code != CUDA_SUCCESS) {
    return code;
  }
  if (out == nullptr || properties == nullptr || size == 0 || size % kGranularity != 0 ||
      properties->type != CU_MEM_ALLOCATION_TYPE_PINNED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto physical = std::make_unique<Physical>();
  physical->properties = *properties;
  physical->size = size;
  if (properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
    physical->device = device_at(properties->location.id);
    if (physical->device == nullptr) {
      return CUDA_ERROR_INVALID_DEVICE;
    }
    CUresult code = check_card(*physical->device);
    code = code == CUDA_SUCCESS ? charge(*physical->device, size) : code;
    if (code != CUDA_SUCCESS) {
      return code;
    }
    physical->memory = std::make_shared<Memory>(physical->device, size);
  }
  if ((properties->requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0) {
    physical->descriptor = shareable_memory(*physical);
    if (physical->descriptor < 0) {
      physical->references = 0;
      drop_if_unused(physical.release());
      return CUDA_ERROR_OPERATING_SYSTEM;
    }
    struct stat info = {};
    if (fstat(physical->descriptor, &info) == 0) {
      const std::lock_guard guard(driver().mutex);
      shareable()[info.st_ino] = physical->memory;
    }
  }
  *out = handle_of(physical.release());
  return CUDA_SUCCESS;
}

CUresult import_descriptor(CUmemGenericAllocationHandle* out, int descriptor) {
  char link[64], target[64] = "";
  std::snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
  struct stat info = {};
  int minor = -1;
  if (readlink(link, target, sizeof(target) - 1) < 0 || std::sscanf(target, "/memfd:nvsim-vmm:%d:", &minor) != 1 ||
      fstat(descriptor, &info) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto physical = std::make_unique<Physical>();
  for (const auto& device : driver().devices) {
    if (static_cast<int>(device->card->config().minor) == minor) {
      physical->device = device.get();
    }
  }
  physical->size = static_cast<std::uint64_t>(info.st_size);
  physical->properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  physical->properties.location = {CU_MEM_LOCATION_TYPE_DEVICE,
                                   physical->device == nullptr ? 0 : physical->device->ordinal};
  physical->descriptor = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  {
    // What this process exported itself is the same memory, which this handle keeps too.
    const std::lock_guard guard(driver().mutex);
    const auto own = shareable().find(info.st_ino);
    if (own != shareable().end()) {
      physical->memory = own->second.lock();
    }
  }
  *out = handle_of(physical.release());
  return CUDA_SUCCESS;
}

bool is_reserved(CUdeviceptr address, std::uint64_t size) {
  const auto& reservations = driver().reservations;
  auto after = reservations.upper_bound(address);
  if (after == reservations.begin()) {
    return false;
  }
  const auto& [base, span] = *std::prev(after);
  return address + size <= base + span;
}

bool overlaps_range(CUdeviceptr address, std::uint64_t size) {
  const auto& ranges = driver().ranges;
  const auto next = ranges.lower_bound(address);
  return find_range(address) != nullptr || (next != ranges.end() && next->first < address + size);
}

CUresult map(CUdeviceptr address, std::size_t size, std::size_t offset, Physical* physical) {
  const std::lock_guard guard(driver().mutex);
  const bool aligned = size != 0 && size % kGranularity == 0 && address % kGranularity == 0;
  if (!aligned || physical == nullptr || offset + size > physical->size || !is_reserved(address, size) ||
      overlaps_range(address, size)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool shared = physical->descriptor >= 0;
  const int flags = MAP_FIXED | MAP_NORESERVE | (shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS);
  if (mmap(host_pointer(address), size, PROT_READ | PROT_WRITE, flags, physical->descriptor,
           shared ? static_cast<off_t>(offset) : 0) == MAP_FAILED) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  physical->mappings += 1;
  Range range;
  range.base = address;
  range.size = range.span = size;
  range.kind = Kind::kMapped;
  range.device = physical->device;
  range.handle = physical;
  range.id = driver().next_id++;
  driver().ranges[address] = range;
  return CUDA_SUCCESS;
}

// Takes the mappings that lie in [address, address + size) out of the table.
std::vector<Range> take_mappings(CUdeviceptr address, std::uint64_t size) {
  std::vector<Range> taken;
  const std::lock_guard guard(driver().mutex);
  auto& ranges = driver().ranges;
  for (auto entry = ranges.lower_bound(address); entry != ranges.end() && entry->first < address + size;) {
    const bool inside = entry->second.kind == Kind::kMapped && entry->first + entry->second.size <= address + size;
    if (inside) {
      taken.push_back(entry->second);
    }
    entry = inside ? ranges.erase(entry) : std::next(entry);
  }
  return taken;
}

CUresult unmap(CUdeviceptr address, std::size_t size) {
  if (const CUresult code = check_ready(); code != CUDA_SUCCESS) {
    return code;
  }
  const std::vector<Range> taken = take_mappings(address, size);
  bool kept = true;
  for (const Range& range : taken) {
    kept = mmap(host_pointer(range.base), range.size, PROT_NONE,
                MAP_FIXED | MAP_NORESERVE | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED &&
           kept;
    auto* physical = static_cast<Physical*>(range.handle);
    physical->mappings -= 1;
    drop_if_unused(physical);
  }
  if (taken.empty()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return kept ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

}  // namespace
}  // namespace nvsim

using nvsim::check_ready;
using nvsim::driver;

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp* properties,
                     unsigned long long flags) {
  return flags != 0 ? CUDA_ERROR_INVALID_VALUE : nvsim::create(handle, size, properties);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  if (const CUresult code = check_ready(); code != CUDA_SUCCESS) {
    return code;
  }
  nvsim::Physical* physical = nvsim::object(handle);
  if (physical == nullptr || physical->references == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  physical->references -= 1;
  nvsim::drop_if_unused(physical);
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* out, size_t size, size_t alignment, CUdeviceptr, unsigned long long) {
  if (const CUresult code = check_ready(); code != CUDA_SUCCESS) {
    return code;
  }
  if (out == nullptr || size == 0 || size % nvsim::kGranularity != 0 ||
      (alignment != 0 && (alignment & (alignment - 1)) != 0)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // More than asked for where the alignment is wider than 2 MiB; the reservation is what lies aligned in it.
  const std::uint64_t padding = alignment > nvsim::kGranularity ? alignment : 0;
  const CUdeviceptr base = nvsim::map_addresses(size + padding, false);
  if (base == 0) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const CUdeviceptr aligned = padding == 0 ? base : nvsim::round_up(base, alignment);
  if (aligned > base) {
    nvsim::unmap_addresses(base, aligned - base);
  }
  if (base + size + padding > aligned + size) {
    nvsim::unmap_addresses(aligned + size, base + padding - aligned);
  }
  mprotect(nvsim::host_pointer(aligned), size, PROT_NONE);
  const std::lock_guard guard(driver().mutex);
  driver().reservations[aligned] = size;
  *out = aligned;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t size) {
  if (const CUresult code = check_ready(); code != CUDA_SUCCESS) {
    return code;
  }
  const std::lock_guard guard(driver().mutex);
  const auto found = driver().reservations.find(address);
  if (found == driver().reservations.end() || found->second != size || nvsim::overlaps_range(address, size)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  nvsim::unmap_addresses(address, size);
  driver().reservations.erase(found);
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  if (const CUresult code = check_ready(); code != CUDA_SUCCESS) {
    return code;
  }
  return flags != 0 ? CUDA_ERROR_INVALID_VALUE : nvsim::map(address, size, offset, nvsim::object(handle));
}
CUresult cuMemUnmap(CUdeviceptr address, size_t size) {
  return nvsim::unmap(address, size);
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc* access, size_t count) {
  if (const CUresult code = check_ready(); code != CUDA_SUCCESS) {
    return code;
  }
  const std::lock_guard guard(driver().mutex);
  const bool mapped = nvsim::find_range(address) != nullptr;
  return access == nullptr || count == 0 || size == 0 || !mapped ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr address) {
  if (const CUresult code = check_ready(); code != CUDA_SUCCESS) {
    return code;
  }
  const std::lock_guard guard(driver().mutex);
  if (flags == nullptr || location == nullptr || nvsim::find_range(address) == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags) {
  if (const CUresult code = check_ready(); code != CUDA_SUCCESS) {
    return code;
  }
  if (granularity == nullptr || properties == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *granularity = nvsim::kGranularity;
  return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties, CUmemGenericAllocationHandle handle) {
  if (const CUresult code = check_ready(); code != CUDA_SUCCESS) {
    return code;
  }
  if (properties == nullptr || handle == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *properties = nvsim::object(handle)->properties;
  return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  if (const CUresult code = check_ready(); code != CUDA_SUCCESS) {
    return code;
  }
  const std::lock_guard guard(driver().mutex);
  const nvsim::Range* range = nvsim::find_range(reinterpret_cast<CUdeviceptr>(address));
  if (handle == nullptr || range == nullptr || range->kind != nvsim::Kind::kMapped) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto* physical = static_cast<nvsim::Physical*>(range->handle);
  physical->references += 1;
  *handle = nvsim::handle_of(physical);
  return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                                      unsigned long long) {
  if (const CUresult code = check_ready(); code != CUDA_SUCCESS) {
    return code;
  }
  if (out == nullptr || handle == 0 || nvsim::object(handle)->descriptor < 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  const int descriptor = fcntl(nvsim::object(handle)->descriptor, F_DUPFD_CLOEXEC, 0);
  std::memcpy(out, &descriptor, sizeof(descriptor));
  return descriptor >= 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* os_handle,
                                        CUmemAllocationHandleType type) {
  if (const CUresult code = check_ready(); code != CUDA_SUCCESS) {
    return code;
  }
  if (handle == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return nvsim::import_descriptor(handle, static_cast<int>(reinterpret_cast<std::intptr_t>(os_handle)));
}
