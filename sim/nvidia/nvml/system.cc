// The machine as a whole: versions, and how handles are found.
#include <strings.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "nvml/library.h"

namespace nvsim {
namespace {

template <typename Match>
nvmlReturn_t find_card(nvmlDevice_t* device, Match match) {
  MachineView* view = nvml_machine();
  if (view == nullptr) {
    return NVML_ERROR_UNINITIALIZED;
  }
  if (device == nullptr) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  unsigned int index = 0;
  for (const auto& card : view->cards()) {
    if (match(*card, index++)) {
      if (card->lost()) {
        return NVML_ERROR_GPU_IS_LOST;
      }
      *device = nvml_handle(*card);
      return NVML_SUCCESS;
    }
  }
  return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t by_index(unsigned int index, nvmlDevice_t* device) {
  const nvmlReturn_t code = find_card(device, [&](Card&, unsigned int at) { return at == index; });
  return code == NVML_ERROR_NOT_FOUND ? NVML_ERROR_INVALID_ARGUMENT : code;
}

// Accepts 00000000:65:00.0, 0000:65:00.0 and 65:00.0.
nvmlReturn_t by_bus_id(const char* bus_id, nvmlDevice_t* device) {
  unsigned int domain = 0, bus = 0, slot = 0;
  if (bus_id == nullptr) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  if (std::sscanf(bus_id, "%x:%x:%x", &domain, &bus, &slot) != 3) {
    domain = 0;
    if (std::sscanf(bus_id, "%x:%x", &bus, &slot) != 2) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
  }
  return find_card(device, [&](Card& card, unsigned int) {
    return card.config().domain == domain && card.config().bus == bus && card.config().device == slot;
  });
}

nvmlReturn_t count_cards(unsigned int* count) {
  MachineView* view = nvml_machine();
  if (view == nullptr) {
    return NVML_ERROR_UNINITIALIZED;
  }
  if (count == nullptr) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  *count = static_cast<unsigned int>(view->cards().size());
  return NVML_SUCCESS;
}

nvmlReturn_t machine_text(char* out, unsigned int length, char (Machine::*field)[80]) {
  MachineView* view = nvml_machine();
  return view == nullptr ? NVML_ERROR_UNINITIALIZED : answer_text(out, length, view->machine().*field);
}

nvmlReturn_t cuda_version(int* version) {
  MachineView* view = nvml_machine();
  if (view == nullptr) {
    return NVML_ERROR_UNINITIALIZED;
  }
  if (version == nullptr) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  *version = view->machine().cuda_version;
  return NVML_SUCCESS;
}

}  // namespace
}  // namespace nvsim

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int* count) {
  return nvsim::count_cards(count);
}
nvmlReturn_t nvmlDeviceGetCount(unsigned int* count) {
  return nvsim::count_cards(count);
}
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t* device) {
  return nvsim::by_index(index, device);
}
nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t* device) {
  return nvsim::by_index(index, device);
}
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, nvmlDevice_t* device) {
  return nvsim::by_bus_id(bus_id, device);
}
nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char* bus_id, nvmlDevice_t* device) {
  return nvsim::by_bus_id(bus_id, device);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device) {
  if (uuid == nullptr) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  if (strncasecmp(uuid, "MIG-", 4) == 0) {
    return nvsim::mig_device_by_uuid(uuid, device);
  }
  return nvsim::find_card(device,
                          [&](nvsim::Card& card, unsigned int) { return strcasecmp(card.config().uuid, uuid) == 0; });
}

nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t* uuid, nvmlDevice_t* device) {
  if (uuid == nullptr) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  if (uuid->version != nvsim::struct_version<nvmlUUID_v1_t>(1)) {
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  }
  return uuid->type == NVML_UUID_TYPE_ASCII ? nvmlDeviceGetHandleByUUID(uuid->value.str, device)
                                            : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetHandleBySerial(const char* serial, nvmlDevice_t* device) {
  if (serial == nullptr) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  return nvsim::find_card(
      device, [&](nvsim::Card& card, unsigned int) { return std::string_view(card.config().serial) == serial; });
}

nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned int length) {
  return nvsim::machine_text(version, length, &nvsim::Machine::driver_version);
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char* version, unsigned int length) {
  return nvsim::machine_text(version, length, &nvsim::Machine::nvml_version);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int* version) {
  return nvsim::cuda_version(version);
}
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return nvsim::cuda_version(version);
}

nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char* name, unsigned int length) {
  if (nvsim::nvml_machine() == nullptr) {
    return NVML_ERROR_UNINITIALIZED;
  }
  std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline");
  std::string command;
  if (!std::getline(file, command, '\0')) {
    return NVML_ERROR_NOT_FOUND;
  }
  return nvsim::answer_text(name, length, std::string_view(command).substr(0, length > 0 ? length - 1 : 0));
}
