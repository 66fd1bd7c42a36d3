// Ways of using the driver that limits have to hold in: many pools, and becoming another program.
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <iostream>

#include "guard/probe.h"

namespace probe {
namespace {

// What the handler of a signal does with the driver, and how it went.
struct Handler {
  decltype(&cuMemAlloc) allocate = nullptr;
  decltype(&cuLaunchKernel) launch = nullptr;
  size_t bytes = 0;
  int wanted = 0;
  int launches = 0;
  CUresult code = CUDA_ERROR_UNKNOWN;
  volatile sig_atomic_t done = 0;
};
Handler handler;

CUresult launch_by_handler() {
  return handler.launch(state.kernel, 64, 1, 1, 128, 1, 1, 0, state.stream, nullptr, nullptr);
}

void on_signal(int) {
  if (handler.done != 0) return;
  CUdeviceptr address = 0;
  handler.code = handler.allocate(&address, handler.bytes);
  for (int i = 0; i < handler.wanted && launch_by_handler() == CUDA_SUCCESS; ++i) ++handler.launches;
  handler.done = 1;
}

}  // namespace

// "interrupt <bytes> <launches>": launches kernels until a signal has come whose handler allocates and launches, too.
// Answers what the handler's allocation gave, its launches, and those of the program itself.
std::string interrupt(Words& words) {
  handler.allocate = CU(cuMemAlloc);
  handler.launch = CU(cuLaunchKernel);
  handler.bytes = take<size_t>(words);
  handler.wanted = take<int>(words);
  signal(SIGALRM, on_signal);
  const itimerval soon{{0, 0}, {0, 100000}};
  setitimer(ITIMER_REAL, &soon, nullptr);
  int own = 0;
  while (handler.done == 0 && own < 100000 && launch_by_handler() == CUDA_SUCCESS) ++own;
  return say(handler.code, handler.launches, own);
}

// "pools <n> <bytes>": so many pools with an allocation from each.
std::string many_pools(Words& words) {
  const int wanted = take<int>(words);
  const auto bytes = take<size_t>(words);
  for (int i = 0; i < wanted; ++i) {
    CUmemPoolProps shape{};
    shape.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    shape.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemoryPool pool = nullptr;
    CUdeviceptr address = 0;
    CUresult code = CU(cuMemPoolCreate)(&pool, &shape);
    if (code == CUDA_SUCCESS) code = CU(cuMemAllocFromPoolAsync)(&address, bytes, pool, state.stream);
    if (code != CUDA_SUCCESS) return say(code, i);
  }
  return say(CUDA_SUCCESS, wanted);
}

// Goes on as a fresh program of the same kind, for which the next line is the first. Answers before, since what this
// one has read of its input is lost.
std::string replace_self() {
  std::cout << "0" << std::endl;
  execl("/proc/self/exe", "probe", access_mode.c_str(), nullptr);
  return "-1";
}

}  // namespace probe
