// GPU instances of one card in MIG mode, each with one compute instance that is the whole of it: found, made and taken
// away by profile and first memory slice. Only for files of this folder, in the worker process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "vendors/nvidia/nvml.h"

namespace heddle::vendors::nvidia {

// The library outlives it. Every call goes to the driver; nothing is remembered.
class MigCard {
 public:
  MigCard(const NvmlLibrary& library, nvmlDevice_t device) : library_(&library), device_(device) {}

  // Whether this driver has all that making and taking away needs.
  [[nodiscard]] bool can_change() const;
  // Whether each GPU instance of the card is one that could have been made here: with a compute instance that is the
  // whole of it. Others have slices that no device shows.
  [[nodiscard]] bool has_whole_ones_only() const;
  // Errors: kConflict (an instance lies on some of its slices), kInvalidArgument (no such profile, or not there),
  // kUnsupported.
  [[nodiscard]] Result<void> check_vacant(const std::string& profile, int64_t start) const;
  // Also goes on with an instance of this profile and place that has no compute instance yet. Errors: kExhausted (no
  // room), and as before.
  [[nodiscard]] Result<void> make(const std::string& profile, int64_t start) const;
  // Nothing happens where there is none. Errors: kConflict (in use), kUnavailable.
  [[nodiscard]] Result<void> drop(const std::string& profile, int64_t start) const;

 private:
  struct Profile {
    unsigned id = 0;
    unsigned slices = 0;
    unsigned most = 0;  // instances on an empty card
    std::string name;
  };
  struct Instance {
    nvmlGpuInstance_t handle = nullptr;
    nvmlGpuInstancePlacement_t placement{};
    Profile profile;
  };
  [[nodiscard]] std::vector<Profile> profiles() const;
  [[nodiscard]] Result<Profile> profile_of(const std::string& name) const;
  [[nodiscard]] Result<nvmlGpuInstancePlacement_t> placement_of(const Profile& profile, int64_t start) const;
  [[nodiscard]] Result<std::vector<Instance>> instances_of(const Profile& profile) const;
  [[nodiscard]] Result<std::optional<Instance>> find(const Profile& profile, int64_t start) const;
  // The compute profile that is the whole of an instance, and whether there is an instance of it.
  struct Compute {
    unsigned profile = 0;
    bool there = false;
  };
  [[nodiscard]] Result<Compute> whole_compute(const Instance& instance) const;
  [[nodiscard]] Result<void> make_compute(const Instance& instance) const;
  [[nodiscard]] Result<void> drop_computes(const Instance& instance) const;
  [[nodiscard]] Error error(const char* call, nvmlReturn_t code) const;

  const NvmlLibrary* library_;
  nvmlDevice_t device_;
};

}  // namespace heddle::vendors::nvidia
