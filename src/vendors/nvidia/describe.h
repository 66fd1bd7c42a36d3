// Small translations of what NVML and the kernel say into Heddle's terms. Pure, except for sysfs reads.
#pragma once

#include <cstdint>
#include <string>

namespace heddle::vendors::nvidia {

// "00000000:3B:00.0" (NVML) -> "0000:3b:00.0" (kernel, standard attribute).
std::string normal_pci_bus_id(const std::string& text);

// NVML_DEVICE_ARCH_* -> "Hopper"; empty when unknown.
std::string architecture_name(uint32_t code);

// 12090 -> "12.9"; empty for 0.
std::string cuda_version_text(int64_t version);

// XIDs that a faulty program causes, not the card. (NVIDIA, "XID errors": application errors.)
bool is_application_xid(uint64_t xid);
// After which the vendor asks for a reset of the card, so that time alone heals nothing.
bool is_reset_xid(uint64_t xid);

// From <sysfs>/bus/pci/devices/<bus id>; empty and -1 where unknown.
std::string pcie_root(const std::string& sysfs, const std::string& pci_bus_id);
int64_t numa_node(const std::string& sysfs, const std::string& pci_bus_id);

}  // namespace heddle::vendors::nvidia
