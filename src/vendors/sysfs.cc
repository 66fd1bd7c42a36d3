#include "vendors/sysfs.h"

#include <limits.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <string_view>

#include "base/file.h"

namespace heddle::vendors {

std::string pcie_root(const std::string& sysfs, const std::string& pci_bus_id) {
  if (pci_bus_id.empty()) return {};
  const std::string path = sysfs + "/bus/pci/devices/" + pci_bus_id;
  std::array<char, PATH_MAX> buffer{};
  const ssize_t length = ::readlink(path.c_str(), buffer.data(), buffer.size() - 1);
  if (length <= 0) return {};
  // "../../../devices/pci0000:3a/0000:3a:01.0/0000:3b:00.0"
  const std::string_view target(buffer.data(), static_cast<size_t>(length));
  const size_t start = target.find("/pci");
  if (start == std::string_view::npos) return {};
  const std::string_view rest = target.substr(start + 1);
  return std::string(rest.substr(0, rest.find('/')));
}

int64_t numa_node(const std::string& sysfs, const std::string& pci_bus_id) {
  if (pci_bus_id.empty()) return -1;
  const Result<std::string> text = read_file(sysfs + "/bus/pci/devices/" + pci_bus_id + "/numa_node", 4096);
  if (!text) return -1;
  int64_t node = -1;
  std::from_chars(text->data(), text->data() + text->size(), node);
  return node;
}

}  // namespace heddle::vendors
