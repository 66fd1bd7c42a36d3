// An NVML with two cards for the tests of the worker: not a simulator, only the few calls that discovery needs, and
// faults.
//   init|hang|crash|lost|xid|one|many|twins|endless|huge|ecc|times   read at each call from the file that
//   FAKE_NVML_FAULT_FILE names
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

bool has_fault(const char* name) {
  std::string fault;
  if (const char* file = std::getenv("FAKE_NVML_FAULT_FILE"); file != nullptr) {
    if (FILE* in = std::fopen(file, "r"); in != nullptr) {
      char text[32] = {};
      if (std::fgets(text, sizeof(text), in) != nullptr) fault = text;
      std::fclose(in);
    }
  }
  return fault == name;
}

void misbehave() {
  if (has_fault("crash")) std::abort();
  while (has_fault("hang")) ::usleep(10'000);
}

nvmlDevice_t device_of(unsigned index) {
  return reinterpret_cast<nvmlDevice_t>(static_cast<uintptr_t>(index) + 1);
}
unsigned index_of(nvmlDevice_t device) {
  return static_cast<unsigned>(reinterpret_cast<uintptr_t>(device)) - 1;
}

bool xid_sent = false;

// Beyond the largest pid of Linux: nothing that reads these lists may ever meet a real process of this machine.
constexpr unsigned kNoSuchPid = 5'000'000;

// A pid that the test put into the file named by FAKE_NVML_PID_FILE, 0 for none.
unsigned pid_of_test() {
  const char* file = std::getenv("FAKE_NVML_PID_FILE");
  unsigned pid = 0;
  if (file == nullptr) return 0;
  if (FILE* in = std::fopen(file, "r"); in != nullptr) {
    if (std::fscanf(in, "%u", &pid) != 1) pid = 0;
    std::fclose(in);
  }
  return pid;
}

}  // namespace

EXPORT nvmlReturn_t nvmlInit_v2() {
  return has_fault("init") ? NVML_ERROR_DRIVER_NOT_LOADED : NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* count) {
  misbehave();
  *count = has_fault("one") ? 1 : (has_fault("many") ? 0xffffffffu : 2);
  return NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device) {
  *device = device_of(index);
  return NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* text, unsigned size) {
  std::snprintf(text, size, "GPU-fake-%u", has_fault("twins") ? 0 : index_of(device));
  return NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t, char* text, unsigned size) {
  std::snprintf(text, size, "NVIDIA Fake 8G");
  return NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned* number) {
  *number = index_of(device);
  return NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* info) {
  std::snprintf(info->busId, sizeof(info->busId), "00000000:%02X:00.0", 0x3a + index_of(device));
  return NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t, nvmlDeviceArchitecture_t* architecture) {
  *architecture = NVML_DEVICE_ARCH_HOPPER;
  return NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char* text, unsigned size) {
  std::snprintf(text, size, "570.86.15");
  return NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 12080;
  return NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  misbehave();
  if (has_fault("lost") && index_of(device) == 1) return NVML_ERROR_GPU_IS_LOST;
  memory->total = (8ULL << 30) + 12345;
  memory->used = 1ULL << 30;
  memory->free = memory->total - memory->used;
  return NVML_SUCCESS;
}
// Two processes on card 0 in the layout of version 2 and 3; the sizing protocol is enforced.
EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned* count,
                                                            nvmlProcessInfo_v2_t* infos) {
  const unsigned pid = index_of(device) == 1 ? pid_of_test() : 0;
  const unsigned have = index_of(device) == 0 ? 100 : (pid != 0 ? 1 : 0);
  if (*count < have || has_fault("endless")) {
    *count = has_fault("endless") ? 0xfffffff0u : have;
    return NVML_ERROR_INSUFFICIENT_SIZE;
  }
  *count = have;
  if (pid != 0) {
    infos[0] = {pid, 512ULL << 20, 0, 0};
    return NVML_SUCCESS;
  }
  for (unsigned i = 0; i < have; ++i) {
    infos[i] = {kNoSuchPid + i, i == 1 ? ~0ULL : 1ULL << (has_fault("huge") ? 62 : 20), 0, 0};
  }
  return NVML_SUCCESS;
}
// Under "times": half a second passes with each call, and two processes had card 0 for 40 and 10 % of it. Else nobody.
EXPORT nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t* samples,
                                                    unsigned* count, unsigned long long last_seen) {
  static unsigned long long now = 1000000;
  if (!has_fault("times") || index_of(device) != 0) return NVML_ERROR_NOT_FOUND;
  if (samples == nullptr || *count < 2) {
    *count = 2;
    return NVML_ERROR_INSUFFICIENT_SIZE;
  }
  now += 500000;
  *count = 2;
  samples[0] = {kNoSuchPid, now, 40, 0, 0, 0};
  samples[1] = {kNoSuchPid + 1, now, 10, 0, 0, 0};
  return now > last_seen ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}
EXPORT nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t, nvmlEccCounterType_t,
                                                unsigned long long* count) {
  *count = has_fault("ecc") && index_of(device) == 0 ? 3 : 0;
  return NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t* set) {
  *set = reinterpret_cast<nvmlEventSet_t>(&xid_sent);
  return NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t, unsigned long long, nvmlEventSet_t) {
  return NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t, nvmlEventData_t* data, unsigned) {
  if (xid_sent || !has_fault("xid")) return NVML_ERROR_TIMEOUT;
  xid_sent = true;
  *data = {};
  data->device = device_of(0);
  data->eventType = nvmlEventTypeXidCriticalError;
  data->eventData = 79;
  return NVML_SUCCESS;
}
