// An account of a card that 300 processes are on, and the caller as the last of them once it has a context.
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#define API extern "C" __attribute__((visibility("default")))

API nvmlReturn_t nvmlInit_v2() {
  return NVML_SUCCESS;
}
API nvmlReturn_t nvmlShutdown() {
  return NVML_SUCCESS;
}
API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int* count) {
  *count = 1;
  return NVML_SUCCESS;
}
API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int, nvmlDevice_t* device) {
  static int card = 0;
  *device = reinterpret_cast<nvmlDevice_t>(&card);
  return NVML_SUCCESS;
}
API nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t, char* uuid, unsigned int) {
  std::strcpy(uuid, "GPU-11111111-1111-1111-1111-111111111111");
  return NVML_SUCCESS;
}
API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t, unsigned int* count, nvmlProcessInfo_t* list) {
  const unsigned others = 300;
  const unsigned all = others + (std::getenv("FAKE_CONTEXT") != nullptr ? 1 : 0);
  const unsigned room = *count;
  *count = all;
  if (room < all) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (unsigned i = 0; i < all; ++i) {
    const unsigned stranger = 1U << 23 | i;  // no process has such a pid
    list[i] = {i < others ? stranger : static_cast<unsigned>(getpid()), 250ULL << 20, ~0U, ~0U};
  }
  return NVML_SUCCESS;
}
