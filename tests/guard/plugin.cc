// A library that is linked to the driver, as plug-ins of programs are.
#include <cuda.h>

extern "C" __attribute__((visibility("default"))) int plugin_allocate(unsigned long long bytes) {
  CUdeviceptr address = 0;
  return static_cast<int>(cuMemAlloc(&address, bytes));
}
