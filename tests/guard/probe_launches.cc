// Every way of launching by its exported name, and ways of learning that the device is through.
#include <string_view>
#include <vector>

#include "guard/probe.h"

namespace probe {
namespace {

void* by_name(const std::string& name) {
#ifdef PROBE_LINKED
  return dlsym(RTLD_DEFAULT, name.c_str());
#else
  return function_named(name.c_str(), name.c_str());
#endif
}

template <typename... T>
CUresult call(void* function, T... arguments) {
  return reinterpret_cast<CUresult (*)(T...)>(function)(arguments...);
}

CUresult launch_by(const std::string& name, void* f) {
  constexpr unsigned kOne = 1;
  constexpr void** kNone = nullptr;
  std::string family = name;
  if (family.ends_with("_ptsz")) family.resize(family.size() - std::string_view("_ptsz").size());
  if (family == "cuLaunchKernel") {
    return call(f, state.kernel, kOne, kOne, kOne, kOne, kOne, kOne, 0U, state.stream, kNone, kNone);
  }
  if (family == "cuLaunchKernelEx") {
    CUlaunchConfig shape{};
    shape.gridDimX = shape.gridDimY = shape.gridDimZ = shape.blockDimX = shape.blockDimY = shape.blockDimZ = 1;
    shape.hStream = state.stream;
    return call(f, const_cast<const CUlaunchConfig*>(&shape), state.kernel, kNone, kNone);
  }
  if (family == "cuLaunchCooperativeKernel") {
    return call(f, state.kernel, kOne, kOne, kOne, kOne, kOne, kOne, 0U, state.stream, kNone);
  }
  if (family == "cuLaunchCooperativeKernelMultiDevice") {
    CUDA_LAUNCH_PARAMS one{};
    one.function = state.kernel;
    one.gridDimX = one.gridDimY = one.gridDimZ = one.blockDimX = one.blockDimY = one.blockDimZ = 1;
    one.hStream = state.stream;
    return call(f, &one, kOne, 0U);
  }
  if (family == "cuLaunch") return call(f, state.kernel);
  if (family == "cuLaunchGrid") return call(f, state.kernel, 1, 1);
  if (family == "cuLaunchGridAsync") return call(f, state.kernel, 1, 1, state.stream);
  if (family == "cuGraphLaunch") return call(f, reinterpret_cast<CUgraphExec>(uintptr_t{0x7000}), state.stream);
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

// "launch-as <exported name>"; -1: the driver has none.
std::string launch_as(Words& words) {
  const auto name = take<std::string>(words);
  void* function = by_name(name);
  return function != nullptr ? say(launch_by(name, function)) : "-1";
}

// "through query", "through event" and "through copy": by a query of the stream or of an event, or by a copy that
// waits.
std::string learn_that_it_is_through(Words& words) {
  const auto way = take<std::string>(words);
  CUresult code = CUDA_SUCCESS;
  if (way == "copy") {
    CUdeviceptr memory = 0;
    std::vector<char> host(4096);
    code = CU(cuMemAlloc)(&memory, host.size());
    // A copy waits for the default stream alone.
    if (code == CUDA_SUCCESS) code = CU(cuMemcpyDtoH)(host.data(), memory, host.size());
    return say(code);
  }
  CUevent event = nullptr;
  if (way == "event") {
    code = CU(cuEventCreate)(&event, CU_EVENT_DEFAULT);
    if (code == CUDA_SUCCESS) code = CU(cuEventRecord)(event, state.stream);
    if (code != CUDA_SUCCESS) return say(code);
  }
  do {
    code = event != nullptr ? CU(cuEventQuery)(event) : CU(cuStreamQuery)(state.stream);
  } while (code == CUDA_ERROR_NOT_READY);
  return say(code);
}

}  // namespace probe
