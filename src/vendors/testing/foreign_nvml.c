/* NVML as others make doubles of it, in C against the vendor's header and without a line of ours. Three libraries come
 * from this file:
 *   FOREIGN_OLD     a driver of long ago: unversioned names only, short structs, and few of them
 *   FOREIGN_SPARSE  new names of which most answer "no such function", and cards each of which lacks something
 *   FOREIGN_EMPTY   a driver without a card */
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <limits.h>
#include <nvml.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static unsigned cards(void) {
#if defined(FOREIGN_EMPTY)
  return 0;
#elif defined(FOREIGN_OLD)
  return 2;
#else
  return 8;
#endif
}

static unsigned number_of(nvmlDevice_t device) {
  return (unsigned)(uintptr_t)device - 0x1000u;
}

/* Handles are made only by a call that succeeded; another value in their place is the caller's fault. */
static int known(nvmlDevice_t device) {
  return (uintptr_t)device >= 0x1000u && number_of(device) < cards();
}

static nvmlReturn_t copy(char* out, unsigned length, const char* text) {
  if (strlen(text) + 1 > length) return NVML_ERROR_INSUFFICIENT_SIZE;
  strcpy(out, text);
  return NVML_SUCCESS;
}

static int started = 0;

#if defined(FOREIGN_OLD)

EXPORT nvmlReturn_t nvmlInit(void) {
  started = 1;
  return NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlDeviceGetCount(unsigned* count) {
  *count = cards();
  return started ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}
EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t* device) {
  if (index >= cards()) return NVML_ERROR_INVALID_ARGUMENT;
  *device = (nvmlDevice_t)(uintptr_t)(0x1000u + index);
  return NVML_SUCCESS;
}
/* The struct of that time ends before the subsystem id: nothing behind it may be touched. */
EXPORT nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  if (!known(device)) return NVML_ERROR_INVALID_ARGUMENT;
  memset(pci, 0, offsetof(nvmlPciInfo_t, pciSubSystemId));
  snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "0000:%02X:00.0", 0x84u + number_of(device));
  return NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char* text, unsigned length) {
  return copy(text, length, "384.81");
}
/* 16 bytes a process. */
EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned* count,
                                                         nvmlProcessInfo_v1_t* infos) {
  const unsigned have = number_of(device) == 0 ? 70 : 0;
  if (!known(device)) return NVML_ERROR_INVALID_ARGUMENT;
  if (*count < have) {
    *count = have;
    return NVML_ERROR_INSUFFICIENT_SIZE;
  }
  *count = have;
  for (unsigned i = 0; i < have; ++i) {
    infos[i].pid = 5000000u + i;
    infos[i].usedGpuMemory = (unsigned long long)(i + 1) << 20;
  }
  return NVML_SUCCESS;
}

#else

EXPORT nvmlReturn_t nvmlInit_v2(void) {
  started = 1;
  return NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* count) {
  *count = cards();
  return started ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}
EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device) {
  if (index >= cards()) return NVML_ERROR_INVALID_ARGUMENT;
  if (index == 1) return NVML_ERROR_NO_PERMISSION;
  *device = (nvmlDevice_t)(uintptr_t)(0x1000u + index);
  return NVML_SUCCESS;
}
EXPORT const char* nvmlErrorString(nvmlReturn_t code) {
  return code == NVML_ERROR_NO_PERMISSION ? "Insufficient Permissions" : NULL;
}
EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  if (!known(device)) return NVML_ERROR_INVALID_ARGUMENT;
  memset(pci, 0, sizeof(*pci));
  if (number_of(device) == 5) return NVML_ERROR_FUNCTION_NOT_FOUND;
  snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "0000:3B:00.0");
  snprintf(pci->busId, sizeof(pci->busId), number_of(device) == 0 ? "00010001:3B:00.0" : "00000000:%02X:00.0",
           0x3bu + number_of(device));
  return NVML_SUCCESS;
}
/* Lengths that the newest driver has. */
EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char* text, unsigned length) {
  return copy(text, length, "999.99.99-0ubuntu0~experimental");
}
EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = -1;
  return NVML_ERROR_FUNCTION_NOT_FOUND;
}
EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t* memory) {
  if (!known(device)) return NVML_ERROR_INVALID_ARGUMENT;
  if (memory->version != nvmlMemory_v2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  if (number_of(device) != 5) return NVML_ERROR_FUNCTION_NOT_FOUND;
  memory->total = (24ULL << 30) - 1;
  memory->reserved = 300ULL << 20;
  memory->free = 20ULL << 30;
  memory->used = 4ULL << 30;
  return NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned* current, unsigned* pending) {
  if (number_of(device) != 6) return NVML_ERROR_NOT_SUPPORTED;
  *current = *pending = NVML_DEVICE_MIG_ENABLE;
  return NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, nvmlDeviceArchitecture_t* architecture) {
  (void)device;
  *architecture = NVML_DEVICE_ARCH_UNKNOWN;
  return NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned* count,
                                                            nvmlProcessInfo_t* infos) {
  (void)device, (void)count, (void)infos;
  return NVML_ERROR_FUNCTION_NOT_FOUND;
}
EXPORT nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned size, unsigned long* nodes,
                                                nvmlAffinityScope_t scope) {
  (void)device, (void)scope;
  for (unsigned i = 0; i < size; ++i) nodes[i] = 0;
  return NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t* rates) {
  (void)device, (void)rates;
  return NVML_ERROR_NOT_SUPPORTED;
}
EXPORT nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t* set) {
  (void)set;
  return NVML_ERROR_NOT_SUPPORTED;
}

#endif

EXPORT nvmlReturn_t nvmlShutdown(void) {
  started = 0;
  return NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* text, unsigned length) {
  char uuid[64];
  if (!known(device)) return NVML_ERROR_INVALID_ARGUMENT;
#if !defined(FOREIGN_OLD)
  if (number_of(device) == 2) return NVML_ERROR_NOT_SUPPORTED;
#endif
  snprintf(uuid, sizeof(uuid), "GPU-8a6d5f1c-0000-4b1d-9d5e-%012x", number_of(device));
  return copy(text, length, uuid);
}
EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* text, unsigned length) {
  if (!known(device)) return NVML_ERROR_INVALID_ARGUMENT;
  return copy(text, length, "GPU \xe2\x84\xa2 of the next year, with a name that is longer than an attribute may be");
}
EXPORT nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned* number) {
  if (!known(device)) return NVML_ERROR_INVALID_ARGUMENT;
#if !defined(FOREIGN_OLD)
  if (number_of(device) == 3) return NVML_ERROR_NOT_SUPPORTED;
  if (number_of(device) == 7) {
    *number = 0;
    return NVML_SUCCESS;
  }
#endif
  *number = number_of(device);
  return NVML_SUCCESS;
}
EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  if (!known(device)) return NVML_ERROR_INVALID_ARGUMENT;
#if !defined(FOREIGN_OLD)
  if (number_of(device) == 5) return NVML_ERROR_FUNCTION_NOT_FOUND;
#endif
  memory->total = number_of(device) == 4 ? ULLONG_MAX : (3ULL << 40) + 4095;
  memory->used = number_of(device) == 4 ? 0 : 5ULL << 40; /* more than there is */
  memory->free = 0;
  return NVML_SUCCESS;
}
