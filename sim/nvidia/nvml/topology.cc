// How cards are joined: PCIe, NVLink, and what follows from it.
#include <cstdio>
#include <vector>

#include "nvml/library.h"

namespace nvsim {
namespace {

// Runs `body(a, b)` with both cards checked.
template <typename Body>
nvmlReturn_t with_pair(nvmlDevice_t first, nvmlDevice_t second, Body body) {
  return with_card(first, [&](Card& a) { return with_card(second, [&](Card& b) { return body(a, b); }); });
}

unsigned int level(Card& a, Card& b) {
  const Machine& machine = nvml_machine()->machine();
  return machine.topology[a.config().minor % kMaxCards][b.config().minor % kMaxCards];
}

unsigned int joined_links(Card& a, Card& b) {
  if (&a == &b) {
    return 0;
  }
  if (a.config().nvswitch != 0 && b.config().nvswitch != 0) {
    return std::min(a.config().nvlinks, b.config().nvlinks);
  }
  return nvml_machine()->machine().links[a.config().minor % kMaxCards][b.config().minor % kMaxCards];
}

// The card at the other end of a link, null: a switch or nothing. Links are numbered in the order of the other's minor.
Card* link_peer(Card& card, unsigned int link) {
  unsigned int first = 0;
  for (const auto& other : nvml_machine()->cards()) {
    const unsigned int count = card.config().nvswitch != 0 ? 0 : joined_links(card, *other);
    if (link >= first && link < first + count) {
      return other.get();
    }
    first += count;
  }
  return nullptr;
}

bool link_active(Card& card, unsigned int link) {
  return link < card.config().nvlinks && (card.config().nvswitch != 0 || link_peer(card, link) != nullptr);
}

nvmlReturn_t remote_pci(nvmlDevice_t device, unsigned int link, nvmlPciInfo_t* pci, std::size_t size) {
  return with_card(device, [&](Card& card) {
    if (pci == nullptr || link >= NVML_NVLINK_MAX_LINKS) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (!link_active(card, link)) {
      return NVML_ERROR_NOT_SUPPORTED;
    }
    nvmlPciInfo_t info = {};
    if (Card* peer = link_peer(card, link); peer != nullptr) {
      nvmlDeviceGetPciInfo_v3(nvml_handle(*peer), &info);
    } else {
      // Four switches, as on the HGX boards, spread over the links.
      info.bus = 0xc3 + link % 4;
      std::snprintf(info.busId, sizeof(info.busId), "00000000:%02X:00.0", info.bus);
      std::snprintf(info.busIdLegacy, sizeof(info.busIdLegacy), "0000:%02X:00.0", info.bus & 0xffU);
    }
    std::memcpy(pci, &info, size);
    return NVML_SUCCESS;
  });
}

// What both versions have. A card that is not registered yet has no cluster.
template <typename Info>
nvmlReturn_t tell_fabric(Card& card, Info* info) {
  if (info == nullptr) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  const CardConfig& config = card.config();
  if (config.fabric_state == NVML_GPU_FABRIC_STATE_NOT_SUPPORTED) {
    return NVML_ERROR_NOT_SUPPORTED;
  }
  const bool registered = config.fabric_state == NVML_GPU_FABRIC_STATE_COMPLETED && config.fabric_status == 0;
  std::memset(info->clusterUuid, 0, sizeof(info->clusterUuid));
  if (registered) {
    std::memcpy(info->clusterUuid, config.fabric_cluster, sizeof(info->clusterUuid));
  }
  info->cliqueId = registered ? config.fabric_clique : 0;
  info->state = static_cast<nvmlGpuFabricState_t>(config.fabric_state);
  info->status = static_cast<nvmlReturn_t>(config.fabric_status);
  return NVML_SUCCESS;
}

}  // namespace
}  // namespace nvsim

using nvsim::answer_value;
using nvsim::Card;
using nvsim::with_card;

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t first, nvmlDevice_t second,
                                                 nvmlGpuTopologyLevel_t* path) {
  return nvsim::with_pair(first, second, [&](Card& a, Card& b) {
    if (path == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    *path = static_cast<nvmlGpuTopologyLevel_t>(nvsim::level(a, b));
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, nvmlGpuTopologyLevel_t level, unsigned int* count,
                                              nvmlDevice_t* devices) {
  return with_card(device, [&](Card& card) {
    if (count == nullptr || (*count > 0 && devices == nullptr)) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    unsigned int found = 0;
    for (const auto& other : nvsim::nvml_machine()->cards()) {
      if (other.get() != &card && nvsim::level(card, *other) <= static_cast<unsigned int>(level)) {
        if (found < *count) {
          devices[found] = nvsim::nvml_handle(*other);
        }
        ++found;
      }
    }
    *count = found;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t first, nvmlDevice_t second, nvmlGpuP2PCapsIndex_t index,
                                    nvmlGpuP2PStatus_t* status) {
  return nvsim::with_pair(first, second, [&](Card& a, Card& b) {
    if (status == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    const bool linked = nvsim::joined_links(a, b) > 0;
    const bool near = nvsim::level(a, b) <= NVML_TOPOLOGY_HOSTBRIDGE;
    switch (index) {
      case NVML_P2P_CAPS_INDEX_READ:
      case NVML_P2P_CAPS_INDEX_WRITE:
        *status = linked || near ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED;
        return NVML_SUCCESS;
      case NVML_P2P_CAPS_INDEX_NVLINK:
      case NVML_P2P_CAPS_INDEX_ATOMICS:
        *status = linked ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_NOT_SUPPORTED;
        return NVML_SUCCESS;
      default:
        *status = NVML_P2P_STATUS_NOT_SUPPORTED;
        return NVML_SUCCESS;
    }
  });
}

nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t first, nvmlDevice_t second, int* same) {
  return nvsim::with_pair(first, second, [&](Card& a, Card& b) {
    if (same == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    *same = nvsim::level(a, b) == NVML_TOPOLOGY_INTERNAL ? 1 : 0;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, nvmlEnableState_t* active) {
  return with_card(device, [&](Card& card) {
    if (active == nullptr || link >= NVML_NVLINK_MAX_LINKS) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (link >= card.config().nvlinks) {
      return card.config().nvlinks == 0 ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
    }
    *active = nvsim::link_active(card, link) ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned int link, unsigned int* version) {
  return with_card(device, [&](Card& card) {
    if (version == nullptr || link >= NVML_NVLINK_MAX_LINKS) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (link >= card.config().nvlinks) {
      return NVML_ERROR_NOT_SUPPORTED;
    }
    *version = card.config().nvlink_version;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned int link, nvmlNvLinkCapability_t capability,
                                           unsigned int* result) {
  return with_card(device, [&](Card& card) {
    if (result == nullptr || link >= NVML_NVLINK_MAX_LINKS) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (link >= card.config().nvlinks) {
      return NVML_ERROR_NOT_SUPPORTED;
    }
    *result = capability == NVML_NVLINK_CAP_P2P_SUPPORTED || capability == NVML_NVLINK_CAP_SYSMEM_ACCESS ||
                      capability == NVML_NVLINK_CAP_P2P_ATOMICS || capability == NVML_NVLINK_CAP_VALID
                  ? 1
                  : 0;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int link,
                                                 nvmlIntNvLinkDeviceType_t* type) {
  return with_card(device, [&](Card& card) {
    if (type == nullptr || link >= NVML_NVLINK_MAX_LINKS) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (!nvsim::link_active(card, link)) {
      return NVML_ERROR_NOT_SUPPORTED;
    }
    *type = card.config().nvswitch != 0 ? NVML_NVLINK_DEVICE_TYPE_SWITCH : NVML_NVLINK_DEVICE_TYPE_GPU;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link, nvmlPciInfo_t* pci) {
  return nvsim::remote_pci(device, link, pci, sizeof(nvmlPciInfo_t));
}
nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, unsigned int link, nvmlPciInfo_t* pci) {
  return nvsim::remote_pci(device, link, pci, offsetof(nvmlPciInfo_t, busId));
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t* info) {
  return with_card(device, [&](Card& card) { return nvsim::tell_fabric(card, info); });
}
nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfoV_t* info) {
  return with_card(device, [&](Card& card) {
    if (info != nullptr && info->version != nvmlGpuFabricInfo_v2) {
      return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    const nvmlReturn_t code = nvsim::tell_fabric(card, info);
    if (code == NVML_SUCCESS) {
      info->healthMask = NVML_GPU_FABRIC_HEALTH_MASK_DEGRADED_BW_FALSE;
    }
    return code;
  });
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned int* value) {
  return answer_value(device, value, [](Card& card) { return card.config().pcie_generation; });
}
nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned int* value) {
  return answer_value(device, value, [](Card& card) { return card.config().pcie_generation; });
}
nvmlReturn_t nvmlDeviceGetGpuMaxPcieLinkGeneration(nvmlDevice_t device, unsigned int* value) {
  return answer_value(device, value, [](Card& card) { return card.config().pcie_generation; });
}
nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned int* value) {
  return answer_value(device, value, [](Card& card) { return card.config().pcie_width; });
}
nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned int* value) {
  return answer_value(device, value, [](Card& card) { return card.config().pcie_width; });
}
