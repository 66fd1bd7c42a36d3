#include "vendors/ascend/dcmi.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <vector>

#include "base/file.h"
#include "vendors/paths.h"

namespace heddle::vendors::ascend {
namespace {

template <typename Function>
void load(void* handle, Function& out, const char* name) {
  out = reinterpret_cast<Function>(::dlsym(handle, name));
}

DcmiApi load_api(void* handle) {
  DcmiApi api;
  load(handle, api.init, "dcmi_init");
  load(handle, api.card_list, "dcmi_get_card_list");
  load(handle, api.device_ids, "dcmi_get_device_id_in_card");
  load(handle, api.device_count, "dcmi_get_device_num_in_card");
  load(handle, api.device_type, "dcmi_get_device_type");
  load(handle, api.logic_id, "dcmi_get_device_logic_id");
  load(handle, api.physical_id, "dcmi_get_device_phyid_from_logicid");
  load(handle, api.chip_info, "dcmi_get_device_chip_info_v2");
  load(handle, api.chip_info_v1, "dcmi_get_device_chip_info");
  load(handle, api.pcie_info, "dcmi_get_device_pcie_info_v2");
  load(handle, api.die, "dcmi_get_device_die_v2");
  load(handle, api.hbm_info, "dcmi_get_device_hbm_info");
  load(handle, api.memory_info, "dcmi_get_device_memory_info_v3");
  load(handle, api.utilization, "dcmi_get_device_utilization_rate");
  load(handle, api.temperature, "dcmi_get_device_temperature");
  load(handle, api.power, "dcmi_get_device_power_info");
  load(handle, api.health, "dcmi_get_device_health");
  load(handle, api.error_codes, "dcmi_get_device_errorcode_v2");
  load(handle, api.ecc_info, "dcmi_get_device_ecc_info");
  load(handle, api.processes, "dcmi_get_device_resource_info");
  load(handle, api.device_info, "dcmi_get_device_info");
  load(handle, api.create_vnpu, "dcmi_create_vdevice");
  load(handle, api.destroy_vnpu, "dcmi_set_destroy_vdevice");
  load(handle, api.driver_version, "dcmi_get_driver_version");
  return api;
}

// Without these no NPU can be named, sized or handed to a container.
std::string missing_functions(const DcmiApi& api) {
  std::string missing;
  const auto need = [&](bool there, std::string_view name) {
    if (there) return;
    if (!missing.empty()) missing += ", ";
    missing += name;
  };
  need(api.init != nullptr, "dcmi_init");
  need(api.card_list != nullptr, "dcmi_get_card_list");
  need(api.device_ids != nullptr || api.device_count != nullptr, "dcmi_get_device_num_in_card");
  need(api.logic_id != nullptr, "dcmi_get_device_logic_id");
  need(api.physical_id != nullptr, "dcmi_get_device_phyid_from_logicid");
  need(api.chip_info != nullptr || api.chip_info_v1 != nullptr, "dcmi_get_device_chip_info");
  need(api.die != nullptr, "dcmi_get_device_die_v2");
  need(api.hbm_info != nullptr || api.memory_info != nullptr, "dcmi_get_device_hbm_info");
  return missing;
}

}  // namespace

std::string find_dcmi(const std::string& explicit_path, const std::string& driver_root) {
  if (!explicit_path.empty()) return explicit_path;
  constexpr std::array<std::string_view, 3> kFolders = {"/usr/local/dcmi", "/usr/local/Ascend/driver/lib64/driver",
                                                        "/usr/local/Ascend/driver/lib64"};
  std::vector<std::string> folders = library_folders(driver_root);
  // Before those of every library.
  for (size_t i = 0; i < kFolders.size(); ++i) {
    folders.insert(folders.begin() + static_cast<std::ptrdiff_t>(i), under(driver_root, std::string(kFolders[i])));
  }
  for (const std::string& folder : folders) {
    std::string path = folder + "/libdcmi.so";
    if (file_exists(path)) return path;
  }
  return {};
}

Result<std::unique_ptr<DcmiLibrary>> DcmiLibrary::open(const std::string& path) {
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    return fail(Code::kNotFound, why != nullptr ? why : "cannot load " + path);
  }
  const DcmiApi api = load_api(handle);
  if (const std::string missing = missing_functions(api); !missing.empty()) {
    ::dlclose(handle);
    return fail(Code::kUnsupported, fmt::format("{} lacks {}", path, missing));
  }
  return std::unique_ptr<DcmiLibrary>(new DcmiLibrary(handle, api));
}

DcmiLibrary::~DcmiLibrary() {
  ::dlclose(handle_);
}

}  // namespace heddle::vendors::ascend
