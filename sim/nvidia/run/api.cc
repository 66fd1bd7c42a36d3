#include "run/api.h"

#include <dlfcn.h>

#include <bit>

namespace nvsim::run {
namespace {

// dlsym hands out functions as void*.
template <typename Function>
void assign(Function& function, void* address) {
  function = std::bit_cast<Function>(address);
}

template <typename Function>
void find_by_dlsym(void* library, const char* symbol, bool per_thread, Function& function) {
  void* address = per_thread ? dlsym(library, (std::string(symbol) + "_ptsz").c_str()) : nullptr;
  assign(function, address != nullptr ? address : dlsym(library, symbol));
}

// As the CUDA runtime: one dlsym for cuGetProcAddress_v2, everything else through it.
std::string find_by_proc_address(void* library, bool per_thread, Cuda& cuda) {
  decltype(&::cuGetProcAddress_v2) get = nullptr;
  assign(get, dlsym(library, "cuGetProcAddress_v2"));
  if (get == nullptr) {
    return "the library has no cuGetProcAddress_v2";
  }
  const cuuint64_t flags =
      per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
  const auto find = [&](const char* name, int version, auto& function) {
    void* address = nullptr;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    if (get(name, &address, version, flags, &status) == CUDA_SUCCESS && status == CU_GET_PROC_ADDRESS_SUCCESS) {
      assign(function, address);
    }
  };
  // Per-thread forms are of 7.0; ask for at least that, as a program built for per-thread streams does.
#define X(base, symbol, version) find(#base, per_thread && (version) < 7000 ? 7000 : (version), cuda.base);
  NVSIM_RUN_CUDA(X)
#undef X
  return "";
}

}  // namespace

std::string load_cuda(const Source& source, Cuda& cuda) {
#ifdef NVSIM_RUN_LINKED
  if (source.via == Via::kLink) {
#define X(base, symbol, version) cuda.base = &::symbol;
    NVSIM_RUN_CUDA(X)
#undef X
    return "";
  }
#endif
  if (source.via == Via::kLink) {
    return "this program is linked to nothing; use nvsim-run-linked for via=link";
  }
  void* library = source.via == Via::kDlmopen ? dlmopen(LM_ID_NEWLM, source.cuda_library.c_str(), RTLD_NOW)
                                              : dlopen(source.cuda_library.c_str(), RTLD_NOW);
  if (library == nullptr) {
    return dlerror();
  }
  if (source.via == Via::kGetProc) {
    return find_by_proc_address(library, source.per_thread, cuda);
  }
#define X(base, symbol, version) find_by_dlsym(library, #symbol, source.per_thread, cuda.base);
  NVSIM_RUN_CUDA(X)
#undef X
  return cuda.cuInit == nullptr ? "the library has no cuInit" : "";
}

std::string load_nvml(const Source& source, Nvml& nvml) {
  void* library = dlopen(source.nvml_library.c_str(), RTLD_NOW);
  if (library == nullptr) {
    return dlerror();
  }
#define X(symbol) assign(nvml.symbol, dlsym(library, #symbol));
  NVSIM_RUN_NVML(X)
#undef X
  return nvml.nvmlInit_v2 == nullptr ? "the library has no nvmlInit_v2" : "";
}

}  // namespace nvsim::run
