// What the kernel says about a card.
#pragma once

#include <cstdint>
#include <string>

namespace heddle::vendors {

// From <sysfs>/bus/pci/devices/<bus id>; empty and -1 where unknown.
std::string pcie_root(const std::string& sysfs, const std::string& pci_bus_id);
int64_t numa_node(const std::string& sysfs, const std::string& pci_bus_id);

}  // namespace heddle::vendors
