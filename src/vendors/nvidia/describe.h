// Small translations of what NVML says into Heddle's terms. Pure.
#pragma once

#include <cstdint>
#include <string>

namespace heddle::vendors::nvidia {

// "00000000:3B:00.0" (NVML) -> "0000:3b:00.0" (kernel, standard attribute).
std::string normal_pci_bus_id(const std::string& text);

// NVML_DEVICE_ARCH_* -> "Hopper"; empty when unknown.
std::string architecture_name(uint32_t code);

// "NVIDIA H100 80GB HBM3 MIG 1g.10gb" -> "1g.10gb"; empty when the name has no such end. A part of a GPU instance
// ("1c.3g.40gb") keeps its prefix.
std::string mig_profile_of_name(const std::string& name);

// The NVLink fabric of a card as GPU feature discovery writes it into the label nvidia.com/gpu.clique: UUID and clique,
// "6c1e0b4a-32f5-4d0c-9a52-0c7b8c1d2e3f.1". Empty for a UUID of zeros: that fabric ends at the machine.
std::string fabric_name(const unsigned char (&cluster)[16], uint32_t clique);

// 12090 -> "12.9"; empty for 0.
std::string cuda_version_text(int64_t version);

// XIDs that a faulty program causes, not the card. (NVIDIA, "XID errors": application errors.)
bool is_application_xid(uint64_t xid);
// After which the vendor asks for a reset of the card, so that time alone heals nothing.
bool is_reset_xid(uint64_t xid);

}  // namespace heddle::vendors::nvidia
