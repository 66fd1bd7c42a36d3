#include "vendors/nvidia/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <initializer_list>

#include "base/file.h"
#include "vendors/paths.h"

namespace heddle::vendors::nvidia {
namespace {

// The first of the names that the library has. All names of one call share one layout of arguments.
template <typename Function>
void load(void* handle, Function& out, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (void* symbol = ::dlsym(handle, name); symbol != nullptr) {
      out = reinterpret_cast<Function>(symbol);
      return;
    }
  }
}

NvmlApi load_api(void* handle) {
  NvmlApi api;
  load(handle, api.init, {"nvmlInit_v2", "nvmlInit"});
  load(handle, api.shutdown, {"nvmlShutdown"});
  load(handle, api.error_string, {"nvmlErrorString"});
  load(handle, api.driver_version, {"nvmlSystemGetDriverVersion"});
  load(handle, api.cuda_version, {"nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"});
  load(handle, api.count, {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"});
  load(handle, api.handle_by_index, {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"});
  load(handle, api.uuid, {"nvmlDeviceGetUUID"});
  load(handle, api.name, {"nvmlDeviceGetName"});
  load(handle, api.minor_number, {"nvmlDeviceGetMinorNumber"});
  load(handle, api.architecture, {"nvmlDeviceGetArchitecture"});
  // The older structs are prefixes of the newest one.
  load(handle, api.pci_info, {"nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo"});
  load(handle, api.memory_affinity, {"nvmlDeviceGetMemoryAffinity"});
  load(handle, api.memory, {"nvmlDeviceGetMemoryInfo"});
  load(handle, api.memory_v2, {"nvmlDeviceGetMemoryInfo_v2"});
  load(handle, api.utilization, {"nvmlDeviceGetUtilizationRates"});
  load(handle, api.temperature, {"nvmlDeviceGetTemperature"});
  load(handle, api.power, {"nvmlDeviceGetPowerUsage"});
  load(handle, api.total_ecc_errors, {"nvmlDeviceGetTotalEccErrors"});
  load(handle, api.remapped_rows, {"nvmlDeviceGetRemappedRows"});
  load(handle, api.fabric, {"nvmlDeviceGetGpuFabricInfoV"});
  load(handle, api.fabric_v1, {"nvmlDeviceGetGpuFabricInfo"});
  load(handle, api.mig_mode, {"nvmlDeviceGetMigMode"});
  load(handle, api.max_mig_devices, {"nvmlDeviceGetMaxMigDeviceCount"});
  load(handle, api.mig_device, {"nvmlDeviceGetMigDeviceHandleByIndex"});
  load(handle, api.gpu_instance_id, {"nvmlDeviceGetGpuInstanceId"});
  load(handle, api.compute_instance_id, {"nvmlDeviceGetComputeInstanceId"});
  load(handle, api.attributes, {"nvmlDeviceGetAttributes_v2", "nvmlDeviceGetAttributes"});
  load(handle, api.gpu_instance_by_id, {"nvmlDeviceGetGpuInstanceById"});
  load(handle, api.gpu_instance_info, {"nvmlGpuInstanceGetInfo"});
  load(handle, api.gpu_instance_profile, {"nvmlDeviceGetGpuInstanceProfileInfoV"});
  load(handle, api.gpu_instance_places, {"nvmlDeviceGetGpuInstancePossiblePlacements_v2"});
  load(handle, api.gpu_instances, {"nvmlDeviceGetGpuInstances"});
  load(handle, api.create_gpu_instance, {"nvmlDeviceCreateGpuInstanceWithPlacement"});
  load(handle, api.destroy_gpu_instance, {"nvmlGpuInstanceDestroy"});
  load(handle, api.compute_instance_profile, {"nvmlGpuInstanceGetComputeInstanceProfileInfo"});
  load(handle, api.compute_instances, {"nvmlGpuInstanceGetComputeInstances"});
  load(handle, api.create_compute_instance, {"nvmlGpuInstanceCreateComputeInstance"});
  load(handle, api.destroy_compute_instance, {"nvmlComputeInstanceDestroy"});
  load(handle, api.compute_processes,
       {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"});
  load(handle, api.graphics_processes,
       {"nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2"});
  load(handle, api.compute_processes_v1, {"nvmlDeviceGetComputeRunningProcesses"});
  load(handle, api.process_utilization, {"nvmlDeviceGetProcessUtilization"});
  load(handle, api.event_set_create, {"nvmlEventSetCreate"});
  load(handle, api.event_set_free, {"nvmlEventSetFree"});
  load(handle, api.register_events, {"nvmlDeviceRegisterEvents"});
  load(handle, api.event_set_wait, {"nvmlEventSetWait_v2", "nvmlEventSetWait"});
  return api;
}

// Without these no card can be named, sized or handed to a container.
std::string missing_functions(const NvmlApi& api) {
  std::string missing;
  const auto need = [&](const void* symbol, std::string_view name) {
    if (symbol != nullptr) return;
    if (!missing.empty()) missing += ", ";
    missing += name;
  };
  need(reinterpret_cast<const void*>(api.init), "nvmlInit");
  need(reinterpret_cast<const void*>(api.count), "nvmlDeviceGetCount");
  need(reinterpret_cast<const void*>(api.handle_by_index), "nvmlDeviceGetHandleByIndex");
  need(reinterpret_cast<const void*>(api.uuid), "nvmlDeviceGetUUID");
  need(reinterpret_cast<const void*>(api.minor_number), "nvmlDeviceGetMinorNumber");
  if (api.memory == nullptr) need(reinterpret_cast<const void*>(api.memory_v2), "nvmlDeviceGetMemoryInfo");
  return missing;
}

}  // namespace

std::string find_nvml(const std::string& explicit_path, const std::string& driver_root) {
  if (!explicit_path.empty()) return explicit_path;
  for (const std::string& folder : library_folders(driver_root)) {
    std::string path = folder + "/libnvidia-ml.so.1";
    if (file_exists(path)) return path;
  }
  return {};
}

Result<std::unique_ptr<NvmlLibrary>> NvmlLibrary::open(const std::string& path) {
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    return fail(Code::kNotFound, why != nullptr ? why : "cannot load " + path);
  }
  const NvmlApi api = load_api(handle);
  if (const std::string missing = missing_functions(api); !missing.empty()) {
    ::dlclose(handle);
    return fail(Code::kUnsupported, fmt::format("{} lacks {}", path, missing));
  }
  return std::unique_ptr<NvmlLibrary>(new NvmlLibrary(handle, api));
}

NvmlLibrary::~NvmlLibrary() {
  ::dlclose(handle_);
}

std::string NvmlLibrary::error_text(nvmlReturn_t code) const {
  const char* text = api_.error_string != nullptr ? api_.error_string(code) : nullptr;
  return text != nullptr ? fmt::format("{} ({})", text, static_cast<int>(code))
                         : fmt::format("NVML error {}", static_cast<int>(code));
}

}  // namespace heddle::vendors::nvidia
