// What a card is: identity, place, and what it can do.
#include <cstdio>
#include <cstring>
#include <string>

#include "nvml/library.h"
#include "state/mig.h"

namespace nvsim {
namespace {

template <typename Info>
void fill_bus_id(Info& info, const CardConfig& config) {
  std::snprintf(info.busId, sizeof(info.busId), "%08X:%02X:%02X.0", config.domain, config.bus, config.device);
  info.domain = config.domain;
  info.bus = config.bus;
  info.device = config.device;
  info.pciDeviceId = config.pci_device_id;
  info.pciSubSystemId = config.pci_subsystem_id;
}

nvmlReturn_t pci_info(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  return with_card(device, [&](Card& card) {
    if (pci == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    const CardConfig& config = card.config();
    *pci = {};
    fill_bus_id(*pci, config);
    std::snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "%04X:%02X:%02X.0", config.domain & 0xffffU,
                  config.bus & 0xffU, config.device & 0xffU);
    return NVML_SUCCESS;
  });
}

nvmlReturn_t pci_info_head(nvmlDevice_t device, nvmlPciInfo_t* pci, std::size_t size) {
  nvmlPciInfo_t full = {};
  const nvmlReturn_t code = pci_info(device, pci == nullptr ? nullptr : &full);
  if (code == NVML_SUCCESS) {
    std::memcpy(pci, &full, size);
  }
  return code;
}

nvmlReturn_t fill_affinity(nvmlDevice_t device, unsigned int size, unsigned long* set) {
  return with_card(device, [&](Card& card) {
    if (set == nullptr || size == 0) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    for (unsigned int index = 0; index < size; ++index) {
      set[index] = index < 16 ? card.config().cpu_affinity[index] : 0;
    }
    return NVML_SUCCESS;
  });
}

template <std::size_t Size>
nvmlReturn_t config_text(nvmlDevice_t device, char* out, unsigned int length, char (CardConfig::*field)[Size]) {
  return with_card(device, [&](Card& card) {
    const char* text = card.config().*field;
    return text[0] == '\0' ? NVML_ERROR_NOT_SUPPORTED : answer_text(out, length, text);
  });
}

}  // namespace
}  // namespace nvsim

using nvsim::answer_value;
using nvsim::Card;
using nvsim::CardConfig;
using nvsim::with_card;

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* name, unsigned int length) {
  if (const nvsim::CardAnswer one = nvsim::nvml_card(device); one.gpu >= 0) {
    const std::string profile = nvsim::profile_of(one.card->state(), one.gpu).name;
    return nvsim::answer_text(name, length, one.card->config().name + (" MIG " + profile));
  }
  return nvsim::config_text(device, name, length, &CardConfig::name);
}
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned int length) {
  if (const nvsim::CardAnswer one = nvsim::nvml_card(device); one.gpu >= 0) {
    return nvsim::answer_text(uuid, length, nvsim::mig_uuid(one.card->config(), one.gpu, one.compute));
  }
  return nvsim::config_text(device, uuid, length, &CardConfig::uuid);
}
nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char* serial, unsigned int length) {
  return nvsim::config_text(device, serial, length, &CardConfig::serial);
}
nvmlReturn_t nvmlDeviceGetBoardPartNumber(nvmlDevice_t device, char* number, unsigned int length) {
  return nvsim::config_text(device, number, length, &CardConfig::part_number);
}
nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char* version, unsigned int length) {
  return with_card(device, [&](Card&) { return nvsim::answer_text(version, length, "96.00.5E.00.01"); });
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int* index) {
  return answer_value(device, index, [&](Card& card) {
    const auto& cards = nvsim::nvml_machine()->cards();
    unsigned int at = 0;
    while (cards[at].get() != &card) {
      ++at;
    }
    return at;
  });
}
nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int* minor) {
  return answer_value(device, minor, [](Card& card) { return card.config().minor; });
}
nvmlReturn_t nvmlDeviceGetBoardId(nvmlDevice_t device, unsigned int* id) {
  return answer_value(device, id, [](Card& card) { return card.config().bus << 8U | card.config().device; });
}
nvmlReturn_t nvmlDeviceGetMultiGpuBoard(nvmlDevice_t device, unsigned int* multiple) {
  return answer_value(device, multiple, [](Card&) { return 0; });
}
nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, nvmlBrandType_t* brand) {
  return answer_value(device, brand, [](Card& card) { return card.config().brand; });
}
nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, nvmlDeviceArchitecture_t* architecture) {
  return answer_value(device, architecture, [](Card& card) { return card.config().architecture; });
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int* major, int* minor) {
  return with_card(device, [&](Card& card) {
    if (major == nullptr || minor == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    *major = static_cast<int>(card.config().cc_major);
    *minor = static_cast<int>(card.config().cc_minor);
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t device, unsigned int* cores) {
  // 128 FP32 lanes an SM from Ampere's consumer line and Hopper on, 64 before and on A100.
  return answer_value(device, cores, [](Card& card) {
    const CardConfig& config = card.config();
    const bool wide = config.cc_major >= 9 || (config.cc_major == 8 && config.cc_minor > 0);
    return config.sms * (wide ? 128U : 64U);
  });
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  return nvsim::pci_info(device, pci);
}
// The first two forms have shorter structures of the same order: only their part may be written.
nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  return nvsim::pci_info_head(device, pci, offsetof(nvmlPciInfo_t, busId));
}
nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  return nvsim::pci_info_head(device, pci, offsetof(nvmlPciInfo_t, pciSubSystemId));
}
nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_t* pci) {
  return with_card(device, [&](Card& card) {
    if (pci == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (pci->version != nvsim::struct_version<nvmlPciInfoExt_v1_t>(1)) {
      return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    nvsim::fill_bus_id(*pci, card.config());
    pci->baseClass = 0x03;  // display controller, 3D
    pci->subClass = 0x02;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetNumaNodeId(nvmlDevice_t device, unsigned int* node) {
  return with_card(device, [&](Card& card) {
    if (node == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (card.config().numa_node < 0) {
      return NVML_ERROR_NOT_SUPPORTED;
    }
    *node = static_cast<unsigned int>(card.config().numa_node);
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned int size, unsigned long* set) {
  return nvsim::fill_affinity(device, size, set);
}
nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned int size, unsigned long* set,
                                                 nvmlAffinityScope_t) {
  return nvsim::fill_affinity(device, size, set);
}
nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned int size, unsigned long* set,
                                         nvmlAffinityScope_t) {
  return with_card(device, [&](Card& card) {
    if (set == nullptr || size == 0) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    std::fill(set, set + size, 0UL);
    const unsigned int node = static_cast<unsigned int>(std::max(0, card.config().numa_node));
    if (node / 64 < size) {
      set[node / 64] = 1UL << (node % 64);
    }
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t* mode) {
  return answer_value(device, mode, [](Card& card) { return card.state().persistence; });
}
nvmlReturn_t nvmlDeviceSetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t mode) {
  return with_card(device, [&](Card& card) {
    card.state().persistence = mode == NVML_FEATURE_ENABLED ? 1 : 0;
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, nvmlComputeMode_t* mode) {
  return answer_value(device, mode, [](Card& card) { return card.state().compute_mode; });
}
nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t device, nvmlComputeMode_t mode) {
  return with_card(device, [&](Card& card) {
    if (mode < 0 || mode >= NVML_COMPUTEMODE_COUNT) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    card.state().compute_mode = static_cast<std::uint32_t>(mode);
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t device, nvmlGpuVirtualizationMode_t* mode) {
  return answer_value(device, mode, [](Card&) { return NVML_GPU_VIRTUALIZATION_MODE_NONE; });
}
nvmlReturn_t nvmlDeviceGetAccountingMode(nvmlDevice_t device, nvmlEnableState_t* mode) {
  return answer_value(device, mode, [](Card&) { return NVML_FEATURE_DISABLED; });
}
nvmlReturn_t nvmlDeviceGetDisplayMode(nvmlDevice_t device, nvmlEnableState_t* mode) {
  return answer_value(device, mode, [](Card&) { return NVML_FEATURE_DISABLED; });
}
nvmlReturn_t nvmlDeviceGetDisplayActive(nvmlDevice_t device, nvmlEnableState_t* mode) {
  return answer_value(device, mode, [](Card&) { return NVML_FEATURE_DISABLED; });
}
