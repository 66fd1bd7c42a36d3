// MIG within a GPU instance: compute instances, and the MIG devices that programs use.
#include <strings.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "nvml/mig_card.h"

namespace nvsim {
namespace {

// Compute slices by the number of the profile (nvml.h); its id is the same number.
constexpr std::array<std::uint32_t, NVML_COMPUTE_INSTANCE_PROFILE_COUNT> kSlices = {1, 2, 3, 4, 7, 8, 6, 0};

std::uint32_t slices_of(Card& card, int gpu, unsigned int profile) {
  const std::uint32_t slices = profile < kSlices.size() ? kSlices[profile] : 0;
  return slices <= profile_of(card.state(), gpu).slices ? slices : 0;
}

std::uint32_t start_step(std::uint32_t slices) {
  return slices == 3 ? 4 : std::max(slices, 1U);
}

template <typename Info>
void fill_profile(Info& info, const MigProfile& whole, unsigned int profile, std::uint32_t slices) {
  info.id = profile;
  info.sliceCount = slices;
  info.instanceCount = whole.slices / slices;
  info.multiprocessorCount = whole.multiprocessors * slices / whole.slices;
  info.sharedCopyEngineCount = whole.copy_engines;
  info.sharedDecoderCount = whole.decoders;
  info.sharedEncoderCount = 0;
  info.sharedJpegCount = whole.jpegs;
  info.sharedOfaCount = whole.ofas;
}

// Runs body(card, gpu, slices) on a GPU instance that has such a profile.
template <typename Body>
nvmlReturn_t with_profile(nvmlGpuInstance_t instance, unsigned int profile, const void* out, Body body) {
  return with_instance(instance, false, [&](Card& card, int gpu, int) {
    if (out == nullptr || profile >= NVML_COMPUTE_INSTANCE_PROFILE_COUNT) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    const std::uint32_t slices = slices_of(card, gpu, profile);
    return slices == 0 ? NVML_ERROR_NOT_SUPPORTED : body(card, gpu, slices);
  });
}

bool is_free(const GpuInstance& instance, std::uint32_t start, std::uint32_t slices) {
  for (int index = 0; index < kMaxComputeInstances; ++index) {
    const ComputeInstance& other = instance.computes[index];
    const bool there = (instance.compute_mask >> index & 1U) != 0;
    if (there && start < other.start + other.slices && other.start < start + slices) {
      return false;
    }
  }
  return true;
}

std::vector<std::uint32_t> free_starts(Card& card, int gpu, std::uint32_t slices) {
  std::vector<std::uint32_t> starts;
  const std::uint32_t all = profile_of(card.state(), gpu).slices;
  for (std::uint32_t start = 0; start + slices <= all; start += start_step(slices)) {
    if (is_free(card.state().mig.instances[gpu], start, slices)) {
      starts.push_back(start);
    }
  }
  return starts;
}

nvmlReturn_t create(nvmlGpuInstance_t instance, unsigned int profile, const nvmlComputeInstancePlacement_t* wanted,
                    nvmlComputeInstance_t* out) {
  return with_profile(instance, profile, static_cast<const void*>(out), [&](Card& card, int gpu, std::uint32_t slices) {
    if (wanted != nullptr && wanted->size != slices) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    const std::vector<std::uint32_t> starts = free_starts(card, gpu, slices);
    const bool fits = !starts.empty() &&
                      (wanted == nullptr || std::find(starts.begin(), starts.end(), wanted->start) != starts.end());
    const std::uint32_t start = wanted != nullptr ? wanted->start : starts.empty() ? 0 : starts.front();
    const int number = fits ? make_compute_instance(card.state(), gpu, slices, start) : -1;
    if (number < 0) {
      return NVML_ERROR_INSUFFICIENT_RESOURCES;
    }
    if (!show_capability(card.folder(), card.config(), gpu, number)) {
      card.state().mig.instances[gpu].compute_mask &= ~(1U << number);
      return NVML_ERROR_NO_PERMISSION;
    }
    *out = reinterpret_cast<nvmlComputeInstance_t>(instance_handle(card, gpu, number));
    return NVML_SUCCESS;
  });
}

nvmlReturn_t fill_info(nvmlComputeInstance_t instance, nvmlComputeInstanceInfo_t* info, std::size_t size) {
  return with_instance(instance, true, [&](Card& card, int gpu, int compute) {
    if (info == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    const ComputeInstance& one = card.state().mig.instances[gpu].computes[compute];
    nvmlComputeInstanceInfo_t full = {};
    full.device = nvml_handle(card);
    full.gpuInstance = reinterpret_cast<nvmlGpuInstance_t>(instance_handle(card, gpu, -1));
    full.id = static_cast<unsigned int>(compute);
    full.profileId = static_cast<unsigned int>(std::find(kSlices.begin(), kSlices.end(), one.slices) - kSlices.begin());
    full.placement = {one.start, one.slices};
    std::memcpy(info, &full, size);
    return NVML_SUCCESS;
  });
}

// The number of a MIG device: that of its first slice, so that there are gaps as with the driver.
unsigned int device_index(const CardState& card, int gpu, int compute) {
  const GpuInstance& instance = card.mig.instances[gpu];
  return instance.start + instance.computes[compute].start;
}

template <typename Use>
void for_each_device(Card& card, Use use) {
  for (int gpu = 0; gpu < kMaxGpuInstances; ++gpu) {
    for (int compute = 0; compute < kMaxComputeInstances; ++compute) {
      if (has_compute_instance(card.state(), gpu, compute)) {
        use(gpu, compute);
      }
    }
  }
}

nvmlReturn_t instance_id(nvmlDevice_t device, unsigned int* id, int CardAnswer::* which) {
  const CardAnswer answer = nvml_card(device);
  if (answer.card == nullptr || id == nullptr) {
    return answer.card == nullptr ? answer.code : NVML_ERROR_INVALID_ARGUMENT;
  }
  if (answer.gpu < 0) {
    return NVML_ERROR_NOT_SUPPORTED;
  }
  *id = static_cast<unsigned int>(answer.*which);
  return NVML_SUCCESS;
}

}  // namespace

nvmlReturn_t mig_device_by_uuid(const char* uuid, nvmlDevice_t* device) {
  MachineView* view = nvml_machine();
  if (view == nullptr || device == nullptr) {
    return view == nullptr ? NVML_ERROR_UNINITIALIZED : NVML_ERROR_INVALID_ARGUMENT;
  }
  for (const auto& card : view->cards()) {
    const Card::Lock lock(*card);
    InstanceHandle* found = nullptr;
    for_each_device(*card, [&](int gpu, int compute) {
      if (strcasecmp(uuid, mig_uuid(card->config(), gpu, compute).c_str()) == 0) {
        found = instance_handle(*card, gpu, compute);
      }
    });
    if (found != nullptr) {
      *device = reinterpret_cast<nvmlDevice_t>(found);
      return NVML_SUCCESS;
    }
  }
  return NVML_ERROR_NOT_FOUND;
}

}  // namespace nvsim

using nvsim::Card;

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t instance, unsigned int profile,
                                                          unsigned int engine, nvmlComputeInstanceProfileInfo_t* info) {
  return nvsim::with_profile(instance, profile, info, [&](Card& card, int gpu, std::uint32_t slices) {
    if (engine >= NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_COUNT) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    nvsim::fill_profile(*info, nvsim::profile_of(card.state(), gpu), profile, slices);
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfoV(nvmlGpuInstance_t instance, unsigned int profile,
                                                           unsigned int engine,
                                                           nvmlComputeInstanceProfileInfo_v2_t* info) {
  return nvsim::with_profile(instance, profile, info, [&](Card& card, int gpu, std::uint32_t slices) {
    if (engine >= NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_COUNT) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (info->version != nvsim::struct_version<nvmlComputeInstanceProfileInfo_v2_t>(2)) {
      return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    const nvsim::MigProfile& whole = nvsim::profile_of(card.state(), gpu);
    nvsim::fill_profile(*info, whole, profile, slices);
    // "1c.3g.40gb" is a part of a GPU instance; the whole of it has the same name.
    const std::string part = slices == whole.slices ? "" : std::to_string(slices) + "c.";
    std::snprintf(info->name, sizeof(info->name), "MIG %s%s", part.c_str(), whole.name);
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlGpuInstanceGetComputeInstanceRemainingCapacity(nvmlGpuInstance_t instance, unsigned int profile,
                                                                unsigned int* count) {
  return nvsim::with_profile(instance, profile, count, [&](Card& card, int gpu, std::uint32_t slices) {
    *count = static_cast<unsigned int>(nvsim::free_starts(card, gpu, slices).size());
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlGpuInstanceGetComputeInstancePossiblePlacements(nvmlGpuInstance_t instance, unsigned int profile,
                                                                 nvmlComputeInstancePlacement_t* out,
                                                                 unsigned int* count) {
  return nvsim::with_profile(instance, profile, count, [&](Card& card, int gpu, std::uint32_t slices) {
    unsigned int found = 0;
    for (std::uint32_t start = 0; start + slices <= nvsim::profile_of(card.state(), gpu).slices;
         start += nvsim::start_step(slices)) {
      if (out != nullptr && found < *count) {
        out[found] = {start, slices};
      }
      ++found;
    }
    const bool fits = out == nullptr || found <= *count;
    *count = found;
    return fits ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
  });
}

nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t instance, unsigned int profile,
                                                  nvmlComputeInstance_t* out) {
  return nvsim::create(instance, profile, nullptr, out);
}
nvmlReturn_t nvmlGpuInstanceCreateComputeInstanceWithPlacement(nvmlGpuInstance_t instance, unsigned int profile,
                                                               const nvmlComputeInstancePlacement_t* placement,
                                                               nvmlComputeInstance_t* out) {
  return placement == nullptr ? NVML_ERROR_INVALID_ARGUMENT : nvsim::create(instance, profile, placement, out);
}

nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t instance) {
  return nvsim::with_instance(instance, true, [](Card& card, int gpu, int compute) {
    if (nvsim::is_in_use(card.state(), gpu, compute)) {
      return NVML_ERROR_IN_USE;
    }
    std::uint32_t& mask = card.state().mig.instances[gpu].compute_mask;
    __atomic_store_n(&mask, mask & ~(1U << compute), __ATOMIC_RELEASE);
    nvsim::hide_capability(card.folder(), card.config(), gpu, compute);
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t instance, unsigned int profile,
                                                nvmlComputeInstance_t* out, unsigned int* count) {
  return nvsim::with_profile(instance, profile, count, [&](Card& card, int gpu, std::uint32_t slices) {
    std::vector<nvsim::InstanceHandle*> found;
    for (int compute = 0; compute < nvsim::kMaxComputeInstances; ++compute) {
      if (nvsim::has_compute_instance(card.state(), gpu, compute) &&
          card.state().mig.instances[gpu].computes[compute].slices == slices) {
        found.push_back(nvsim::instance_handle(card, gpu, compute));
      }
    }
    return nvsim::answer_handles(found, out, count);
  });
}
nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t instance, unsigned int id,
                                                   nvmlComputeInstance_t* out) {
  return nvsim::with_instance(instance, false, [&](Card& card, int gpu, int) {
    const int compute = id < nvsim::kMaxComputeInstances ? static_cast<int>(id) : -1;
    if (out == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (!nvsim::has_compute_instance(card.state(), gpu, compute)) {
      return NVML_ERROR_NOT_FOUND;
    }
    *out = reinterpret_cast<nvmlComputeInstance_t>(nvsim::instance_handle(card, gpu, compute));
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t instance, nvmlComputeInstanceInfo_t* info) {
  return nvsim::fill_info(instance, info, sizeof(nvmlComputeInstanceInfo_t));
}
// The first form ends before the placement.
nvmlReturn_t nvmlComputeInstanceGetInfo(nvmlComputeInstance_t instance, nvmlComputeInstanceInfo_t* info) {
  return nvsim::fill_info(instance, info, offsetof(nvmlComputeInstanceInfo_t, placement));
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int* count) {
  return nvsim::answer_value(device, count, [](Card& card) {
    std::uint32_t most = 0;
    for (std::uint32_t index = 0; card.config().mig != 0 && index < card.config().mig_profile_count; ++index) {
      most = std::max(most, card.config().mig_profiles[index].instances);
    }
    return most;
  });
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t* out) {
  return nvsim::with_mig_card(device, [&](Card& card) {
    nvsim::InstanceHandle* found = nullptr;
    if (out == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    nvsim::for_each_device(card, [&](int gpu, int compute) {
      if (nvsim::device_index(card.state(), gpu, compute) == index) {
        found = nvsim::instance_handle(card, gpu, compute);
      }
    });
    *out = found == nullptr ? *out : reinterpret_cast<nvmlDevice_t>(found);
    return found == nullptr ? NVML_ERROR_NOT_FOUND : NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig, nvmlDevice_t* device) {
  const nvsim::CardAnswer answer = nvsim::nvml_card(mig);
  if (answer.card == nullptr) {
    return answer.code;
  }
  if (device == nullptr || answer.gpu < 0) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  *device = nvsim::nvml_handle(*answer.card);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int* is_mig) {
  const int gpu = nvsim::nvml_card(device).gpu;
  return nvsim::answer_value(device, is_mig, [&](Card&) { return gpu >= 0 ? 1 : 0; });
}
nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int* id) {
  return nvsim::instance_id(device, id, &nvsim::CardAnswer::gpu);
}
nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int* id) {
  return nvsim::instance_id(device, id, &nvsim::CardAnswer::compute);
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t* attributes) {
  const nvsim::CardAnswer one = nvsim::nvml_card(device);
  return nvsim::with_locked_card(device, [&](Card& card, std::int64_t) {
    if (attributes == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (one.gpu < 0) {
      return NVML_ERROR_NOT_SUPPORTED;
    }
    const nvsim::MigProfile& profile = nvsim::profile_of(card.state(), one.gpu);
    attributes->multiprocessorCount = card.sms(one.gpu, one.compute);
    attributes->sharedCopyEngineCount = profile.copy_engines;
    attributes->sharedDecoderCount = profile.decoders;
    attributes->sharedEncoderCount = 0;
    attributes->sharedJpegCount = profile.jpegs;
    attributes->sharedOfaCount = profile.ofas;
    attributes->gpuInstanceSliceCount = profile.slices;
    attributes->computeInstanceSliceCount = card.state().mig.instances[one.gpu].computes[one.compute].slices;
    attributes->memorySizeMB = profile.memory_mib;
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlDeviceGetAttributes(nvmlDevice_t device, nvmlDeviceAttributes_t* attributes) {
  return nvmlDeviceGetAttributes_v2(device, attributes);
}
