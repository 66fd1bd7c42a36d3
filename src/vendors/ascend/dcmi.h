// DCMI by dlopen: the functions that Heddle calls, each of which may be absent in an old or partial library. Only for
// files of this folder, in the worker process.
#pragma once

#include <ascend_abi/dcmi.h>

#include <memory>
#include <string>

#include "base/result.h"

namespace heddle::vendors::ascend {

// Function pointers; nullptr where the library has no such symbol.
struct DcmiApi {
  decltype(&::dcmi_init) init = nullptr;
  decltype(&::dcmi_get_card_list) card_list = nullptr;
  decltype(&::dcmi_get_device_id_in_card) device_ids = nullptr;
  decltype(&::dcmi_get_device_num_in_card) device_count = nullptr;
  decltype(&::dcmi_get_device_type) device_type = nullptr;
  decltype(&::dcmi_get_device_logic_id) logic_id = nullptr;
  decltype(&::dcmi_get_device_phyid_from_logicid) physical_id = nullptr;
  decltype(&::dcmi_get_device_chip_info_v2) chip_info = nullptr;
  decltype(&::dcmi_get_device_chip_info) chip_info_v1 = nullptr;
  decltype(&::dcmi_get_device_pcie_info_v2) pcie_info = nullptr;
  decltype(&::dcmi_get_device_die_v2) die = nullptr;
  decltype(&::dcmi_get_device_hbm_info) hbm_info = nullptr;
  decltype(&::dcmi_get_device_memory_info_v3) memory_info = nullptr;
  decltype(&::dcmi_get_device_utilization_rate) utilization = nullptr;
  decltype(&::dcmi_get_device_temperature) temperature = nullptr;
  decltype(&::dcmi_get_device_power_info) power = nullptr;
  decltype(&::dcmi_get_device_health) health = nullptr;
  decltype(&::dcmi_get_device_errorcode_v2) error_codes = nullptr;
  decltype(&::dcmi_get_device_ecc_info) ecc_info = nullptr;
  decltype(&::dcmi_get_device_resource_info) processes = nullptr;
  decltype(&::dcmi_get_device_info) device_info = nullptr;
  decltype(&::dcmi_create_vdevice) create_vnpu = nullptr;
  decltype(&::dcmi_set_destroy_vdevice) destroy_vnpu = nullptr;
  decltype(&::dcmi_get_driver_version) driver_version = nullptr;
};

// Where the library is: the explicit path if not empty, else the vendor's folders under the driver root. Empty when
// there is none.
std::string find_dcmi(const std::string& explicit_path, const std::string& driver_root);

class DcmiLibrary {
 public:
  // Errors: kNotFound (cannot be loaded), kUnsupported (names the functions without which no NPU can be described).
  static Result<std::unique_ptr<DcmiLibrary>> open(const std::string& path);
  ~DcmiLibrary();
  DcmiLibrary(const DcmiLibrary&) = delete;
  DcmiLibrary& operator=(const DcmiLibrary&) = delete;
  [[nodiscard]] const DcmiApi& api() const { return api_; }

 private:
  DcmiLibrary(void* handle, DcmiApi api) : handle_(handle), api_(api) {}
  void* handle_;
  DcmiApi api_;
};

}  // namespace heddle::vendors::ascend
