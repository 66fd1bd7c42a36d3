// What a program can ask about a device.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>

#include "cuda/driver.h"
#include "state/mig.h"

namespace nvsim {
namespace {

template <typename Body>
CUresult with_device(CUdevice ordinal, const void* out, Body body) {
  if (const CUresult code = check_ready(); code != CUDA_SUCCESS) {
    return code;
  }
  Device* device = device_at(ordinal);
  if (device == nullptr) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  return out == nullptr ? CUDA_ERROR_INVALID_VALUE : body(*device);
}

// Values that do not depend on the model.
const std::map<int, int>& fixed_attributes() {
  static const std::map<int, int> values = {
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472},
      {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024},
      {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
      {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
      {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647},
      {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
      {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
      {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
      {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
      {CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512},
      {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
      {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
      {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
      {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
      {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
      {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
      {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 52428800},
      {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 5120},
      {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
      {CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 0},
  };
  return values;
}

int attribute(Device& device, CUdevice_attribute which) {
  Card& card = *device.card;
  const CardConfig& config = card.config();
  const auto number = [](std::uint32_t value) { return static_cast<int>(value); };
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return number(device_sms(device));
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return number(config.cc_major);
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return number(config.cc_minor);
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      return number(config.sm_clock_mhz * 1000);
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      return number(config.memory_clock_mhz * 1000);
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      return number(config.bus);
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
      return number(config.device);
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
      return number(config.domain);
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
      return number(config.managed_fixed == 0);
    case CU_DEVICE_ATTRIBUTE_MPS_ENABLED:
      return number(device.card->mps_percent() != 0);
    case CU_DEVICE_ATTRIBUTE_ECC_ENABLED:
      return number(config.ecc);
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
      return number(card.state().compute_mode);
    case CU_DEVICE_ATTRIBUTE_NUMA_ID:
      return config.numa_node;
    default: {
      const auto found = fixed_attributes().find(which);
      return found == fixed_attributes().end() ? 0 : found->second;
    }
  }
}

// "GPU-" and 32 hexadecimal digits with dashes, as 16 bytes.
CUuuid uuid_bytes(const char* text) {
  CUuuid uuid = {};
  unsigned filled = 0;
  for (const char* at = text + 4; *at != '\0' && filled < 32; ++at) {
    const char lower = static_cast<char>(*at | 0x20);
    const bool is_digit = *at >= '0' && *at <= '9';
    if (is_digit || (lower >= 'a' && lower <= 'f')) {
      const int value = is_digit ? *at - '0' : lower - 'a' + 10;
      uuid.bytes[filled / 2] = static_cast<char>(uuid.bytes[filled / 2] << 4 | value);
      ++filled;
    }
  }
  return uuid;
}

CUresult get_uuid(CUuuid* out, CUdevice ordinal) {
  return with_device(ordinal, out, [&](Device& device) {
    Card& card = *device.card;
    *out = card.gpu_instance() < 0
               ? uuid_bytes(card.config().uuid)
               : uuid_bytes(mig_uuid(card.config(), card.gpu_instance(), card.compute_instance()).c_str());
    return CUDA_SUCCESS;
  });
}

CUresult total_memory(std::uint64_t* out, CUdevice ordinal) {
  return with_device(ordinal, out, [&](Device& device) {
    *out = usable_bytes(device);
    return CUDA_SUCCESS;
  });
}

}  // namespace
}  // namespace nvsim

using nvsim::Device;
using nvsim::with_device;

CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // Works before cuInit; the machine's version once it has been seen.
  *version = nvsim::driver().opened && !nvsim::driver().mark.in_child() ? nvsim::driver().view.machine().cuda_version
                                                                        : CUDA_VERSION;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  if (const CUresult code = nvsim::check_ready(); code != CUDA_SUCCESS) {
    return code;
  }
  if (count == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *count = static_cast<int>(nvsim::driver().devices.size());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return with_device(ordinal, device, [&](Device&) {
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetName(char* name, int length, CUdevice ordinal) {
  return with_device(ordinal, name, [&](Device& device) {
    if (length <= 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    nvsim::Card& card = *device.card;
    std::string text = card.config().name;
    if (card.gpu_instance() >= 0) {
      text += std::string(" MIG ") + nvsim::profile_of(card.state(), card.gpu_instance()).name;
    }
    std::snprintf(name, static_cast<std::size_t>(length), "%s", text.c_str());
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  return nvsim::get_uuid(uuid, device);
}
CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  return nvsim::get_uuid(uuid, device);
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  std::uint64_t total = 0;
  const CUresult code = nvsim::total_memory(bytes == nullptr ? nullptr : &total, device);
  if (code == CUDA_SUCCESS) {
    *bytes = total;
  }
  return code;
}
CUresult cuDeviceTotalMem(unsigned int* bytes, CUdevice device) {
  std::uint64_t total = 0;
  const CUresult code = nvsim::total_memory(bytes == nullptr ? nullptr : &total, device);
  if (code == CUDA_SUCCESS) {
    *bytes = static_cast<unsigned int>(std::min<std::uint64_t>(total, ~0U));
  }
  return code;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice ordinal) {
  return with_device(ordinal, value, [&](Device& device) {
    if (which <= 0 || which >= CU_DEVICE_ATTRIBUTE_MAX) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *value = nvsim::attribute(device, which);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice ordinal) {
  return with_device(ordinal, major, [&](Device& device) {
    if (minor == nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *major = static_cast<int>(device.card->config().cc_major);
    *minor = static_cast<int>(device.card->config().cc_minor);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetProperties(CUdevprop* properties, CUdevice ordinal) {
  return with_device(ordinal, properties, [&](Device& device) {
    *properties = {};
    properties->maxThreadsPerBlock = 1024;
    properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024;
    properties->maxThreadsDim[2] = 64;
    properties->maxGridSize[0] = 2147483647;
    properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
    properties->sharedMemPerBlock = 49152;
    properties->totalConstantMemory = 65536;
    properties->SIMDWidth = 32;
    properties->memPitch = 2147483647;
    properties->regsPerBlock = 65536;
    properties->clockRate = static_cast<int>(device.card->config().sm_clock_mhz * 1000);
    properties->textureAlign = 512;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetPCIBusId(char* bus_id, int length, CUdevice ordinal) {
  return with_device(ordinal, bus_id, [&](Device& device) {
    if (length < 13) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const nvsim::CardConfig& config = device.card->config();
    std::snprintf(bus_id, static_cast<std::size_t>(length), "%04x:%02x:%02x.0", config.domain, config.bus,
                  config.device);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetByPCIBusId(CUdevice* out, const char* bus_id) {
  if (const CUresult code = nvsim::check_ready(); code != CUDA_SUCCESS) {
    return code;
  }
  unsigned int domain = 0, bus = 0, device = 0;
  if (out == nullptr || bus_id == nullptr ||
      (std::sscanf(bus_id, "%x:%x:%x", &domain, &bus, &device) != 3 &&
       std::sscanf(bus_id, "%x:%x", &bus, &device) != 2)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (const auto& candidate : nvsim::driver().devices) {
    const nvsim::CardConfig& config = candidate->card->config();
    if (config.domain == domain && config.bus == bus && config.device == device) {
      *out = candidate->ordinal;
      return CUDA_SUCCESS;
    }
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice first, CUdevice second) {
  return with_device(first, can, [&](Device& device) {
    const Device* other = nvsim::device_at(second);
    if (other == nullptr) {
      return CUDA_ERROR_INVALID_DEVICE;
    }
    const auto& a = device.card->config();
    const auto& b = other->card->config();
    const auto& machine = nvsim::driver().view.machine();
    const bool linked = (a.nvswitch != 0 && b.nvswitch != 0) || machine.links[a.minor][b.minor] > 0;
    *can = first != second && (linked || machine.topology[a.minor][b.minor] <= 30) ? 1 : 0;
    return CUDA_SUCCESS;
  });
}
CUresult cuCtxEnablePeerAccess(CUcontext, unsigned int) {
  return nvsim::with_context([](nvsim::Context&) { return CUDA_SUCCESS; });
}
CUresult cuCtxDisablePeerAccess(CUcontext) {
  return nvsim::with_context([](nvsim::Context&) { return CUDA_SUCCESS; });
}
