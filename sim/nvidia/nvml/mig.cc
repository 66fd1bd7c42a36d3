// MIG as far as a card with the mode off shows it: whether it could, and into what.
#include <cstdio>

#include "nvml/library.h"

namespace nvsim {
namespace {

template <typename Match>
const MigProfile* find_profile(Card& card, Match match) {
  const CardConfig& config = card.config();
  for (std::uint32_t index = 0; index < config.mig_profile_count && index < kMaxMigProfiles; ++index) {
    if (match(config.mig_profiles[index])) {
      return &config.mig_profiles[index];
    }
  }
  return nullptr;
}

template <typename Info>
void fill_profile(Info& info, const MigProfile& profile) {
  info.id = profile.id;
  info.sliceCount = profile.slices;
  info.instanceCount = profile.instances;
  info.multiprocessorCount = profile.multiprocessors;
  info.copyEngineCount = profile.copy_engines;
  info.decoderCount = profile.decoders;
  info.encoderCount = 0;
  info.jpegCount = profile.jpegs;
  info.ofaCount = profile.ofas;
  info.memorySizeMB = profile.memory_mib;
}

// Runs `body(card, profile)` on a capable card with such a profile.
template <typename Body>
nvmlReturn_t with_profile(nvmlDevice_t device, unsigned int number, const void* out, Body body) {
  return with_card(device, [&](Card& card) {
    if (card.config().mig == 0) {
      return NVML_ERROR_NOT_SUPPORTED;
    }
    if (out == nullptr || number >= NVML_GPU_INSTANCE_PROFILE_COUNT) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    const MigProfile* profile = find_profile(card, [&](const MigProfile& one) { return one.profile == number; });
    return profile == nullptr ? NVML_ERROR_NOT_SUPPORTED : body(*profile);
  });
}

nvmlReturn_t placements(nvmlDevice_t device, unsigned int id, nvmlGpuInstancePlacement_t* out, unsigned int* count) {
  return with_card(device, [&](Card& card) {
    if (card.config().mig == 0) {
      return NVML_ERROR_NOT_SUPPORTED;
    }
    const MigProfile* profile = find_profile(card, [&](const MigProfile& one) { return one.id == id; });
    if (count == nullptr || profile == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    unsigned int found = 0;
    for (unsigned int start = 0; start < 32; ++start) {
      if ((profile->placement_mask >> start & 1U) != 0) {
        if (out != nullptr && found < *count) {
          out[found] = {start, profile->placement_size};
        }
        ++found;
      }
    }
    const bool fits = out == nullptr || found <= *count;
    *count = found;
    return fits ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
  });
}

}  // namespace
}  // namespace nvsim

using nvsim::Card;
using nvsim::with_card;

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int* current, unsigned int* pending) {
  return with_card(device, [&](Card& card) {
    if (card.config().mig == 0) {
      return NVML_ERROR_NOT_SUPPORTED;
    }
    if (current == nullptr || pending == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    *current = *pending = NVML_DEVICE_MIG_DISABLE;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int* count) {
  return nvsim::answer_value(device, count, [](Card& card) { return card.config().mig != 0 ? 7 : 0; });
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int, nvmlDevice_t*) {
  return with_card(device,
                   [](Card& card) { return card.config().mig != 0 ? NVML_ERROR_NOT_FOUND : NVML_ERROR_NOT_SUPPORTED; });
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int* is_mig) {
  return nvsim::answer_value(device, is_mig, [](Card&) { return 0; });
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned int profile,
                                                 nvmlGpuInstanceProfileInfo_t* info) {
  return nvsim::with_profile(device, profile, info, [&](const nvsim::MigProfile& found) {
    nvsim::fill_profile(*info, found);
    info->isP2pSupported = 0;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned int profile,
                                                  nvmlGpuInstanceProfileInfo_v2_t* info) {
  return nvsim::with_profile(device, profile, info, [&](const nvsim::MigProfile& found) {
    if (info->version == nvsim::struct_version<nvmlGpuInstanceProfileInfo_v2_t>(2)) {
      nvsim::fill_profile(*info, found);
      info->isP2pSupported = 0;
      std::snprintf(info->name, sizeof(info->name), "MIG %s", found.name);
      return NVML_SUCCESS;
    }
    if (info->version == nvsim::struct_version<nvmlGpuInstanceProfileInfo_v3_t>(3)) {
      auto& newer = *reinterpret_cast<nvmlGpuInstanceProfileInfo_v3_t*>(info);
      nvsim::fill_profile(newer, found);
      newer.capabilities = 0;
      std::snprintf(newer.name, sizeof(newer.name), "MIG %s", found.name);
      return NVML_SUCCESS;
    }
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  });
}

nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device, unsigned int id,
                                                           nvmlGpuInstancePlacement_t* out, unsigned int* count) {
  return nvsim::placements(device, id, out, count);
}
nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements(nvmlDevice_t device, unsigned int id,
                                                        nvmlGpuInstancePlacement_t* out, unsigned int* count) {
  return nvsim::placements(device, id, out, count);
}
