#include "guard/preload/cuda/mask.h"

#include <stdlib.h>
#include <string.h>

#include "guard/preload/cuda/driver.h"
#include "guard/preload/cuda/memory.h"

namespace heddle::guard {
namespace {

constexpr const char* kPipe = "CUDA_MPS_PIPE_DIRECTORY";
constexpr const char* kPercent = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";

void set_variable(const char* name, const char* value) {
  const char* now = getenv(name);
  if (now == nullptr || strcmp(now, value) != 0) setenv(name, value, 1);
}

}  // namespace

void set_mask() {
  const Config& limits = config();
  if (limits.mask_percent == 0) return;
  const char percent[] = {static_cast<char>('0' + limits.mask_percent / 10),
                          static_cast<char>('0' + limits.mask_percent % 10), '\0'};
  set_variable(kPipe, limits.mask_pipe);
  set_variable(kPercent, percent);
}

CUresult check_mask(CUdevice device) {
  if (config().mask_percent == 0) return CUDA_SUCCESS;
  // A program may have MPS read the percentage again for each context.
  set_mask();
  // A process that finds no control daemon goes on without MPS, and says nothing.
  int shared = 0;
  const auto query = cuda().cuDeviceGetAttribute;
  const bool told = query != nullptr && query(&shared, CU_DEVICE_ATTRIBUTE_MPS_ENABLED, device) == CUDA_SUCCESS;
  if (told && shared != 0) return CUDA_SUCCESS;
  log_line(
      told ? "contexts are refused: this process is no client of MPS, which holds its share of the compute; is its "
             "control daemon running? "
           : "contexts are refused: this driver is too old to say whether MPS holds the share of the compute; pipe ",
      config().mask_pipe);
  return CUDA_ERROR_MPS_CONNECTION_FAILED;
}

}  // namespace heddle::guard

using namespace heddle::guard;

extern "C" {

HEDDLE_EXPORT CUresult cuInit(unsigned int flags) {
  const auto real = cuda().cuInit;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (!entry.nested()) set_mask();
  return real(flags);
}
}
