// MIG of a card: its mode, the profiles, and GPU instances.
#include <bit>
#include <cstdio>
#include <vector>

#include "nvml/mig_card.h"

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

const MigProfile* profile_by_id(Card& card, unsigned int id) {
  return find_profile(card, [&](const MigProfile& one) { return one.id == id; });
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
  return with_mig_card(device, [&](Card& card) {
    if (out == nullptr || number >= NVML_GPU_INSTANCE_PROFILE_COUNT) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    const MigProfile* profile = find_profile(card, [&](const MigProfile& one) { return one.profile == number; });
    return profile == nullptr ? NVML_ERROR_NOT_SUPPORTED : body(*profile);
  });
}

nvmlReturn_t placements(nvmlDevice_t device, unsigned int id, nvmlGpuInstancePlacement_t* out, unsigned int* count) {
  return with_mig_card(device, [&](Card& card) {
    const MigProfile* profile = profile_by_id(card, id);
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

// A mode changes on an idle card without instances. Ampere resets the card for it, where the driver can.
nvmlReturn_t set_mode(Card& card, unsigned int mode, nvmlReturn_t& activation) {
  Mig& mig = card.state().mig;
  activation = NVML_SUCCESS;
  mig.pending = mode;
  if (mig.current == mode) {
    return NVML_SUCCESS;
  }
  if (is_in_use(card.state(), -1, -1) || mig.instance_mask != 0) {
    activation = NVML_ERROR_IN_USE;
    if (card.config().mig_reset == 0) {
      mig.pending = mig.current;  // nothing is left for a later reset
    }
  } else if (card.config().mig_external != 0) {
    activation = NVML_ERROR_RESET_REQUIRED;
  } else {
    mig.current = mode;
  }
  return NVML_SUCCESS;
}

nvmlReturn_t create(nvmlDevice_t device, unsigned int id, const nvmlGpuInstancePlacement_t* wanted,
                    nvmlGpuInstance_t* out) {
  return with_cut_card(device, [&](Card& card) {
    const MigProfile* profile = profile_by_id(card, id);
    if (out == nullptr || profile == nullptr || (wanted != nullptr && wanted->size != profile->placement_size)) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    std::uint32_t starts = 0;
    room_for(card.state(), *profile, starts);
    if (wanted != nullptr && (wanted->start >= 32 || (profile->placement_mask >> wanted->start & 1U) == 0)) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    // Without a place the driver takes the last one, which leaves most room for large ones.
    const std::uint32_t start =
        wanted != nullptr ? wanted->start : static_cast<std::uint32_t>(std::bit_width(starts)) - 1;
    const auto index = static_cast<std::uint32_t>(profile - card.config().mig_profiles);
    const int number = make_instance(card.state(), index, start);
    if (number < 0) {
      return NVML_ERROR_INSUFFICIENT_RESOURCES;
    }
    if (!show_capability(card.folder(), card.config(), number, -1)) {
      card.state().mig.instance_mask &= ~(1U << number);
      return NVML_ERROR_NO_PERMISSION;
    }
    *out = reinterpret_cast<nvmlGpuInstance_t>(instance_handle(card, number, -1));
    return NVML_SUCCESS;
  });
}

}  // namespace
}  // namespace nvsim

using nvsim::Card;
using nvsim::with_cut_card;
using nvsim::with_mig_card;

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int* current, unsigned int* pending) {
  return with_mig_card(device, [&](Card& card) {
    if (current == nullptr || pending == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    *current = card.state().mig.current;
    *pending = card.state().mig.pending;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned int mode, nvmlReturn_t* activation) {
  return with_mig_card(device, [&](Card& card) {
    if (mode > NVML_DEVICE_MIG_ENABLE || activation == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    return nvsim::set_mode(card, mode, *activation);
  });
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

nvmlReturn_t nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t device, unsigned int id, unsigned int* count) {
  return with_cut_card(device, [&](Card& card) {
    const nvsim::MigProfile* profile = nvsim::profile_by_id(card, id);
    if (count == nullptr || profile == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    std::uint32_t starts = 0;
    *count = nvsim::room_for(card.state(), *profile, starts);
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceCreateGpuInstance(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t* instance) {
  return nvsim::create(device, id, nullptr, instance);
}
nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t device, unsigned int id,
                                                      const nvmlGpuInstancePlacement_t* placement,
                                                      nvmlGpuInstance_t* instance) {
  return placement == nullptr ? NVML_ERROR_INVALID_ARGUMENT : nvsim::create(device, id, placement, instance);
}

nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t instance) {
  return nvsim::with_instance(instance, false, [](Card& card, int gpu, int) {
    nvsim::Mig& mig = card.state().mig;
    if (mig.instances[gpu].compute_mask != 0) {
      return NVML_ERROR_IN_USE;
    }
    __atomic_store_n(&mig.instance_mask, mig.instance_mask & ~(1U << gpu), __ATOMIC_RELEASE);
    nvsim::hide_capability(card.folder(), card.config(), gpu, -1);
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t* instances,
                                       unsigned int* count) {
  return with_cut_card(device, [&](Card& card) {
    std::vector<nvsim::InstanceHandle*> found;
    if (nvsim::profile_by_id(card, id) == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    for (int gpu = 0; gpu < nvsim::kMaxGpuInstances; ++gpu) {
      if (nvsim::has_instance(card.state(), gpu) && nvsim::profile_of(card.state(), gpu).id == id) {
        found.push_back(nvsim::instance_handle(card, gpu, -1));
      }
    }
    return nvsim::answer_handles(found, instances, count);
  });
}

nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t* instance) {
  return with_cut_card(device, [&](Card& card) {
    const int gpu = id < nvsim::kMaxGpuInstances ? static_cast<int>(id) : -1;
    if (instance == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (!nvsim::has_instance(card.state(), gpu)) {
      return NVML_ERROR_NOT_FOUND;
    }
    *instance = reinterpret_cast<nvmlGpuInstance_t>(nvsim::instance_handle(card, gpu, -1));
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t instance, nvmlGpuInstanceInfo_t* info) {
  return nvsim::with_instance(instance, false, [&](Card& card, int gpu, int) {
    if (info == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    const nvsim::GpuInstance& one = card.state().mig.instances[gpu];
    info->device = nvsim::nvml_handle(card);
    info->id = static_cast<unsigned int>(gpu);
    info->profileId = nvsim::profile_of(card.state(), gpu).id;
    info->placement = {one.start, one.size};
    return NVML_SUCCESS;
  });
}
