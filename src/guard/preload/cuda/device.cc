// What the core asks of CUDA's table (vendor.h), and the rules of devices.
#include <string.h>

#include "guard/preload/cuda/driver.h"
#include "guard/preload/cuda/pools.h"
#include "guard/preload/cuda/process.h"
#include "guard/preload/cuda/residual.h"
#include "guard/preload/vendor.h"

namespace heddle::guard {
namespace {

CudaProcess spare;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Answers by which the call that is asked about fails in the driver as well.
bool there_is_no_device(CUresult answer) {
  return answer == CUDA_ERROR_NOT_INITIALIZED || answer == CUDA_ERROR_DEINITIALIZED ||
         answer == CUDA_ERROR_INVALID_DEVICE || answer == CUDA_ERROR_NO_DEVICE;
}

}  // namespace

size_t vendor::process_bytes() {
  return sizeof(CudaProcess);
}
Process& vendor::spare_process() {
  return spare;
}
bool vendor::reclaim() {
  const bool shrunk = refresh_pools();
  return confirm_residual() || shrunk;
}

// "GPU-" or "MIG-" and 32 digits with dashes between.
void vendor::lower_by_environment(Config& /*config*/) {}
bool vendor::limits_of_environment(Config& /*config*/, char (& /*usage*/)[kPathBytes]) {
  return false;
}

bool vendor::parse_identity(const char* text, unsigned char (&identity)[16]) {
  const char* p = strchr(text, '-');
  if (p == nullptr) return false;
  ++p;
  for (unsigned char& byte : identity) {
    while (*p == '-') ++p;
    const int high = hex_digit(*p);
    const int low = high < 0 ? -1 : hex_digit(p[1]);
    if (low < 0) return false;
    byte = static_cast<unsigned char>(high * 16 + low);
    p += 2;
  }
  return *p == '\0';
}

int rule_of(CUdevice device) {
  int rule = kUnlisted;
  if (device == kUntold) return kUnlisted;
  if (device < 0) return kNoDevice;
  if (known_rule(device, &rule)) return rule;
  // By the driver's own identity, so the form of CUDA_VISIBLE_DEVICES and the order of ordinals do not matter. The
  // second version knows partitions of a card; the first names the card.
  CUuuid uuid{};
  rule = kUnlisted;
  CUresult second = CUDA_ERROR_NOT_FOUND;
  CUresult first = CUDA_ERROR_NOT_FOUND;
  if (cuda().cuDeviceGetUuid_v2 != nullptr) second = cuda().cuDeviceGetUuid_v2(&uuid, device);
  if (second == CUDA_SUCCESS) rule = rule_of_identity(&uuid);
  if (rule < 0 && cuda().cuDeviceGetUuid != nullptr) first = cuda().cuDeviceGetUuid(&uuid, device);
  if (first == CUDA_SUCCESS) rule = rule_of_identity(&uuid);
  if (second != CUDA_SUCCESS && first != CUDA_SUCCESS) {
    return there_is_no_device(second) || there_is_no_device(first) ? kNoDevice : kUnlisted;
  }
  keep_rule(device, rule);
  return rule;
}

CUdevice current_device() {
  CUdevice device = -1;
  if (cuda().cuCtxGetDevice == nullptr) return cuda_loaded() ? kUntold : -1;
  return cuda().cuCtxGetDevice(&device) == CUDA_SUCCESS ? device : -1;
}

int current_rule() {
  return rule_of(current_device());
}

int rule_of_uuid(const char* text) {
  unsigned char uuid[16];
  return vendor::parse_identity(text, uuid) ? rule_of_identity(uuid) : kUnlisted;
}

}  // namespace heddle::guard
