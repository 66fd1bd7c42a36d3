// NVML by dlopen: the functions that Heddle calls, each of which may be absent in an old or partial library.
// Includes NVIDIA's header: only for files of this folder, in the worker process.
#pragma once

#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace heddle::vendors::nvidia {

// Function pointers; nullptr where the library has no such symbol. Where a function has versions with the same layout,
// the newest that was found.
struct NvmlApi {
  decltype(&::nvmlInit_v2) init = nullptr;
  decltype(&::nvmlShutdown) shutdown = nullptr;
  decltype(&::nvmlErrorString) error_string = nullptr;
  decltype(&::nvmlSystemGetDriverVersion) driver_version = nullptr;
  decltype(&::nvmlSystemGetCudaDriverVersion_v2) cuda_version = nullptr;
  decltype(&::nvmlDeviceGetCount_v2) count = nullptr;
  decltype(&::nvmlDeviceGetHandleByIndex_v2) handle_by_index = nullptr;
  decltype(&::nvmlDeviceGetUUID) uuid = nullptr;
  decltype(&::nvmlDeviceGetName) name = nullptr;
  decltype(&::nvmlDeviceGetMinorNumber) minor_number = nullptr;
  decltype(&::nvmlDeviceGetArchitecture) architecture = nullptr;
  decltype(&::nvmlDeviceGetPciInfo_v3) pci_info = nullptr;
  decltype(&::nvmlDeviceGetMemoryAffinity) memory_affinity = nullptr;
  decltype(&::nvmlDeviceGetMemoryInfo) memory = nullptr;
  decltype(&::nvmlDeviceGetMemoryInfo_v2) memory_v2 = nullptr;
  decltype(&::nvmlDeviceGetUtilizationRates) utilization = nullptr;
  decltype(&::nvmlDeviceGetTemperature) temperature = nullptr;
  decltype(&::nvmlDeviceGetPowerUsage) power = nullptr;
  decltype(&::nvmlDeviceGetTotalEccErrors) total_ecc_errors = nullptr;
  decltype(&::nvmlDeviceGetRemappedRows) remapped_rows = nullptr;
  decltype(&::nvmlDeviceGetGpuFabricInfoV) fabric = nullptr;
  decltype(&::nvmlDeviceGetGpuFabricInfo) fabric_v1 = nullptr;
  decltype(&::nvmlDeviceGetMigMode) mig_mode = nullptr;
  decltype(&::nvmlDeviceGetMaxMigDeviceCount) max_mig_devices = nullptr;
  decltype(&::nvmlDeviceGetMigDeviceHandleByIndex) mig_device = nullptr;
  decltype(&::nvmlDeviceGetGpuInstanceId) gpu_instance_id = nullptr;
  decltype(&::nvmlDeviceGetComputeInstanceId) compute_instance_id = nullptr;
  decltype(&::nvmlDeviceGetAttributes_v2) attributes = nullptr;
  decltype(&::nvmlDeviceGetGpuInstanceById) gpu_instance_by_id = nullptr;
  decltype(&::nvmlGpuInstanceGetInfo) gpu_instance_info = nullptr;
  decltype(&::nvmlDeviceGetGpuInstanceProfileInfoV) gpu_instance_profile = nullptr;
  decltype(&::nvmlDeviceGetGpuInstancePossiblePlacements_v2) gpu_instance_places = nullptr;
  decltype(&::nvmlDeviceGetGpuInstances) gpu_instances = nullptr;
  decltype(&::nvmlDeviceCreateGpuInstanceWithPlacement) create_gpu_instance = nullptr;
  decltype(&::nvmlGpuInstanceDestroy) destroy_gpu_instance = nullptr;
  decltype(&::nvmlGpuInstanceGetComputeInstanceProfileInfo) compute_instance_profile = nullptr;
  decltype(&::nvmlGpuInstanceGetComputeInstances) compute_instances = nullptr;
  decltype(&::nvmlGpuInstanceCreateComputeInstance) create_compute_instance = nullptr;
  decltype(&::nvmlComputeInstanceDestroy) destroy_compute_instance = nullptr;
  decltype(&::nvmlDeviceGetComputeRunningProcesses_v3) compute_processes = nullptr;  // or _v2: the same layout
  decltype(&::nvmlDeviceGetGraphicsRunningProcesses_v3) graphics_processes = nullptr;
  decltype(&::nvmlDeviceGetComputeRunningProcesses) compute_processes_v1 = nullptr;
  decltype(&::nvmlDeviceGetProcessUtilization) process_utilization = nullptr;
  decltype(&::nvmlEventSetCreate) event_set_create = nullptr;
  decltype(&::nvmlEventSetFree) event_set_free = nullptr;
  decltype(&::nvmlDeviceRegisterEvents) register_events = nullptr;
  decltype(&::nvmlEventSetWait_v2) event_set_wait = nullptr;
};

// Where the library is: the explicit path if not empty, else the usual folders under the driver root. Never the
// environment. Empty when there is none.
std::string find_nvml(const std::string& explicit_path, const std::string& driver_root);

class NvmlLibrary {
 public:
  // Errors: kNotFound (cannot be loaded), kUnsupported (names the functions without which no card can be described).
  static Result<std::unique_ptr<NvmlLibrary>> open(const std::string& path);
  ~NvmlLibrary();
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  [[nodiscard]] const NvmlApi& api() const { return api_; }
  [[nodiscard]] std::string error_text(nvmlReturn_t code) const;

 private:
  NvmlLibrary(void* handle, NvmlApi api) : handle_(handle), api_(api) {}
  void* handle_;
  NvmlApi api_;
};

}  // namespace heddle::vendors::nvidia
