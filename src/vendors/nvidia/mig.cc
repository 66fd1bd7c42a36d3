#include "vendors/nvidia/mig.h"

#include <fmt/format.h>

#include <algorithm>

#include "vendors/nvidia/describe.h"

namespace heddle::vendors::nvidia {
namespace {

constexpr unsigned kMostInstances = 64;  // what a driver says beyond this is an error of its own
constexpr unsigned kEngines = NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED;

bool overlap(const nvmlGpuInstancePlacement_t& a, const nvmlGpuInstancePlacement_t& b) {
  return a.start < b.start + b.size && b.start < a.start + a.size;
}

}  // namespace

bool MigCard::can_change() const {
  const NvmlApi& api = library_->api();
  return api.gpu_instance_profile != nullptr && api.gpu_instance_places != nullptr && api.gpu_instances != nullptr &&
         api.gpu_instance_info != nullptr && api.create_gpu_instance != nullptr &&
         api.destroy_gpu_instance != nullptr && api.compute_instance_profile != nullptr &&
         api.compute_instances != nullptr && api.create_compute_instance != nullptr &&
         api.destroy_compute_instance != nullptr;
}

Error MigCard::error(const char* call, nvmlReturn_t code) const {
  Error out;
  switch (code) {
    case NVML_ERROR_INSUFFICIENT_RESOURCES:
      out.code = Code::kExhausted;
      break;
    case NVML_ERROR_IN_USE:
      out.code = Code::kConflict;
      break;
    case NVML_ERROR_INVALID_ARGUMENT:
      out.code = Code::kInvalidArgument;
      break;
    case NVML_ERROR_NOT_SUPPORTED:
      out.code = Code::kUnsupported;
      break;
    case NVML_ERROR_NO_PERMISSION:
      out.code = Code::kPermissionDenied;
      break;
    default:
      out.code = Code::kUnavailable;
  }
  out.message = fmt::format("{}: {}", call, library_->error_text(code));
  return out;
}

std::vector<MigCard::Profile> MigCard::profiles() const {
  std::vector<Profile> found;
  for (unsigned number = 0; number < NVML_GPU_INSTANCE_PROFILE_COUNT; ++number) {
    nvmlGpuInstanceProfileInfo_v2_t info{};
    info.version = nvmlGpuInstanceProfileInfo_v2;
    if (library_->api().gpu_instance_profile(device_, number, &info) != NVML_SUCCESS) continue;
    // "MIG 1g.10gb"
    std::string name = mig_profile_of_name(" " + std::string(info.name, strnlen(info.name, sizeof(info.name))));
    found.push_back({info.id, info.sliceCount, std::min(info.instanceCount, kMostInstances), std::move(name)});
  }
  return found;
}

Result<MigCard::Profile> MigCard::profile_of(const std::string& name) const {
  if (!can_change()) return fail(Code::kUnsupported, "this driver makes no MIG instances");
  for (Profile& profile : profiles()) {
    if (profile.name == name) return std::move(profile);
  }
  return fail(Code::kInvalidArgument, fmt::format("the card has no MIG profile {}", name));
}

Result<nvmlGpuInstancePlacement_t> MigCard::placement_of(const Profile& profile, int64_t start) const {
  std::vector<nvmlGpuInstancePlacement_t> places(kMostInstances);
  auto count = static_cast<unsigned>(places.size());
  const nvmlReturn_t code = library_->api().gpu_instance_places(device_, profile.id, places.data(), &count);
  if (code != NVML_SUCCESS) return tl::unexpected(error("nvmlDeviceGetGpuInstancePossiblePlacements", code));
  places.resize(std::min<size_t>(count, places.size()));
  for (const nvmlGpuInstancePlacement_t& place : places) {
    if (static_cast<int64_t>(place.start) == start) return place;
  }
  return fail(Code::kInvalidArgument, fmt::format("MIG profile {} does not go to slice {}", profile.name, start));
}

Result<std::vector<MigCard::Instance>> MigCard::instances_of(const Profile& profile) const {
  std::vector<nvmlGpuInstance_t> handles(kMostInstances);
  auto count = static_cast<unsigned>(handles.size());
  nvmlReturn_t code = library_->api().gpu_instances(device_, profile.id, handles.data(), &count);
  if (code != NVML_SUCCESS) return tl::unexpected(error("nvmlDeviceGetGpuInstances", code));
  std::vector<Instance> found;
  for (unsigned i = 0; i < std::min<size_t>(count, handles.size()); ++i) {
    nvmlGpuInstanceInfo_t info{};
    code = library_->api().gpu_instance_info(handles[i], &info);
    if (code == NVML_ERROR_NOT_FOUND) continue;  // taken away meanwhile
    if (code != NVML_SUCCESS) return tl::unexpected(error("nvmlGpuInstanceGetInfo", code));
    found.push_back({handles[i], info.placement, profile});
  }
  return found;
}

Result<std::optional<MigCard::Instance>> MigCard::find(const Profile& profile, int64_t start) const {
  HEDDLE_TRY(const std::vector<Instance> instances, instances_of(profile));
  for (const Instance& instance : instances) {
    if (static_cast<int64_t>(instance.placement.start) == start) return std::optional(instance);
  }
  return std::optional<Instance>();
}

Result<void> MigCard::check_vacant(const std::string& profile, int64_t start) const {
  HEDDLE_TRY(const Profile wanted, profile_of(profile));
  HEDDLE_TRY(const nvmlGpuInstancePlacement_t place, placement_of(wanted, start));
  for (const Profile& other : profiles()) {
    HEDDLE_TRY(const std::vector<Instance> instances, instances_of(other));
    for (const Instance& instance : instances) {
      if (!overlap(instance.placement, place)) continue;
      return fail(
          Code::kConflict,
          fmt::format("a MIG instance {} that was made by somebody else lies on slices {} to {} of the card",
                      other.name, instance.placement.start, instance.placement.start + instance.placement.size - 1));
    }
  }
  return {};
}

Result<MigCard::Compute> MigCard::whole_compute(const Instance& instance) const {
  std::optional<Compute> whole;
  for (unsigned number = 0; number < NVML_COMPUTE_INSTANCE_PROFILE_COUNT; ++number) {
    nvmlComputeInstanceProfileInfo_t info{};
    if (library_->api().compute_instance_profile(instance.handle, number, kEngines, &info) != NVML_SUCCESS) continue;
    if (info.sliceCount != instance.profile.slices) continue;
    std::vector<nvmlComputeInstance_t> handles(kMostInstances);
    auto count = static_cast<unsigned>(handles.size());
    const nvmlReturn_t code = library_->api().compute_instances(instance.handle, info.id, handles.data(), &count);
    if (code == NVML_SUCCESS && count > 0) return Compute{info.id, true};
    if (!whole) whole = Compute{info.id, false};
  }
  if (whole) return *whole;
  return fail(Code::kUnsupported,
              fmt::format("MIG profile {} has no compute profile that is the whole of it", instance.profile.name));
}

bool MigCard::has_whole_ones_only() const {
  for (const Profile& profile : profiles()) {
    const Result<std::vector<Instance>> instances = instances_of(profile);
    if (!instances) return false;
    for (const Instance& instance : *instances) {
      const Result<Compute> whole = whole_compute(instance);
      if (!whole || !whole->there) return false;
    }
  }
  return true;
}

// All that the card gives the GPU instance goes to one compute instance.
Result<void> MigCard::make_compute(const Instance& instance) const {
  HEDDLE_TRY(const Compute whole, whole_compute(instance));
  if (whole.there) return {};
  nvmlComputeInstance_t made = nullptr;
  const nvmlReturn_t code = library_->api().create_compute_instance(instance.handle, whole.profile, &made);
  if (code != NVML_SUCCESS) return tl::unexpected(error("nvmlGpuInstanceCreateComputeInstance", code));
  return {};
}

Result<void> MigCard::make(const std::string& profile, int64_t start) const {
  HEDDLE_TRY(const Profile wanted, profile_of(profile));
  HEDDLE_TRY(const nvmlGpuInstancePlacement_t place, placement_of(wanted, start));
  HEDDLE_TRY(const std::optional<Instance> there, find(wanted, start));
  if (there) return make_compute(*there);
  Instance made{nullptr, place, wanted};
  const nvmlReturn_t code = library_->api().create_gpu_instance(device_, wanted.id, &place, &made.handle);
  if (code != NVML_SUCCESS) {
    Error why = error("nvmlDeviceCreateGpuInstanceWithPlacement", code);
    why.message = fmt::format("the driver makes no MIG instance {} at slice {}: {}", profile, start, why.message);
    return tl::unexpected(std::move(why));
  }
  Result<void> computes = make_compute(made);
  if (!computes) (void)library_->api().destroy_gpu_instance(made.handle);
  return computes;
}

Result<void> MigCard::drop_computes(const Instance& instance) const {
  for (unsigned number = 0; number < NVML_COMPUTE_INSTANCE_PROFILE_COUNT; ++number) {
    nvmlComputeInstanceProfileInfo_t info{};
    if (library_->api().compute_instance_profile(instance.handle, number, kEngines, &info) != NVML_SUCCESS) continue;
    std::vector<nvmlComputeInstance_t> handles(kMostInstances);
    auto count = static_cast<unsigned>(handles.size());
    nvmlReturn_t code = library_->api().compute_instances(instance.handle, info.id, handles.data(), &count);
    if (code != NVML_SUCCESS) return tl::unexpected(error("nvmlGpuInstanceGetComputeInstances", code));
    for (unsigned i = 0; i < std::min<size_t>(count, handles.size()); ++i) {
      code = library_->api().destroy_compute_instance(handles[i]);
      if (code != NVML_SUCCESS) return tl::unexpected(error("nvmlComputeInstanceDestroy", code));
    }
  }
  return {};
}

Result<void> MigCard::drop(const std::string& profile, int64_t start) const {
  HEDDLE_TRY(const Profile wanted, profile_of(profile));
  HEDDLE_TRY(const std::optional<Instance> there, find(wanted, start));
  if (!there) return {};
  HEDDLE_CHECK_OK(drop_computes(*there));
  const nvmlReturn_t code = library_->api().destroy_gpu_instance(there->handle);
  if (code != NVML_SUCCESS) return tl::unexpected(error("nvmlGpuInstanceDestroy", code));
  return {};
}

}  // namespace heddle::vendors::nvidia
