// What a card is cut into, and the rules by which the driver cuts. Callers hold the card.
#pragma once

#include <cstdint>
#include <string>

#include "state/layout.h"

namespace nvsim {

bool has_instance(const CardState& card, int gpu_instance);
bool has_compute_instance(const CardState& card, int gpu_instance, int compute_instance);
const MigProfile& profile_of(const CardState& card, int gpu_instance);
std::uint32_t compute_sms(const CardState& card, int gpu_instance, int compute_instance);

// The number of an instance follows from its place, as with the driver: 0 is the whole card, then halves, quarters and
// single slices.
int instance_number(std::uint32_t start, std::uint32_t size);

// How many instances of the profile still fit; start_mask gets where. The rules: memory slices are free, compute slices
// and media engines last, and no profile is used more often than it says.
std::uint32_t room_for(const CardState& card, const MigProfile& profile, std::uint32_t& start_mask);

// -1: no room there.
int make_instance(CardState& card, std::uint32_t profile_index, std::uint32_t start);
// Compute slices [start, start + slices) of a GPU instance; -1: not free.
int make_compute_instance(CardState& card, int gpu_instance, std::uint32_t slices, std::uint32_t start);

// Processes on an instance (compute -1: on any of its compute instances; gpu -1: on any of the card).
bool is_in_use(const CardState& card, int gpu_instance, int compute_instance);

// "MIG-..." of an instance; the same place on the same card has the same name.
std::string mig_uuid(const CardConfig& config, int gpu_instance, int compute_instance);

// What a reset of the card, or a boot, leaves: no instances, and the mode that was set last where it is kept (Ampere),
// else none.
void reset_mig(CardState& card);

// The minor number of a capability; compute -1: that of the GPU instance.
int capability_minor(const CardConfig& config, int gpu_instance, int compute_instance);
// Its device file, and the kernel's file that names its minor number; dev: the folder of device nodes.
std::string capability_node(const std::string& dev, int minor);
std::string capability_file(const std::string& dev, const CardConfig& config, int gpu_instance, int compute_instance);
// Makes both, as the driver does with a new instance, or removes the kernel's. False: the folder cannot be written.
bool show_capability(const std::string& dev, const CardConfig& config, int gpu_instance, int compute_instance);
void hide_capability(const std::string& dev, const CardConfig& config, int gpu_instance, int compute_instance);
// True when this process may use the instance: it can open both device files.
bool may_use(const std::string& dev, const CardConfig& config, int gpu_instance, int compute_instance);

}  // namespace nvsim
