// What the parts of the probe share: how it reaches the driver, what it holds, and how it answers.
#pragma once

#include <cuda.h>
#include <dlfcn.h>

#include <deque>
#include <sstream>
#include <string>
#include <thread>

namespace probe {

inline std::string access_mode = "dlsym";

#ifndef PROBE_LINKED
#if defined(__x86_64__)
inline constexpr const char* kDlsymVersion = "GLIBC_2.2.5";
#else
inline constexpr const char* kDlsymVersion = "GLIBC_2.17";
#endif

inline void* driver_handle() {
  static void* handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return handle;
}

inline void* function_named(const char* exported, const char* symbol) {
  if (driver_handle() == nullptr) return nullptr;
  if (access_mode == "libc") {
    static const auto from_libc = reinterpret_cast<decltype(&dlsym)>(dlsym(dlopen("libc.so.6", RTLD_NOW), "dlsym"));
    return from_libc(driver_handle(), exported);
  }
  if (access_mode == "libc-versioned") {
    static const auto from_libc =
        reinterpret_cast<decltype(&dlsym)>(dlvsym(dlopen("libdl.so.2", RTLD_NOW), "dlsym", kDlsymVersion));
    return from_libc != nullptr ? from_libc(driver_handle(), exported) : dlsym(driver_handle(), exported);
  }
  if (access_mode != "proc") return dlsym(driver_handle(), exported);
  const auto get = reinterpret_cast<decltype(&cuGetProcAddress)>(dlsym(driver_handle(), "cuGetProcAddress_v2"));
  void* found = nullptr;
  CUdriverProcAddressQueryResult status{};
  // The forms that the header of this program calls by these names.
  int version = 12090;
  if (std::string(symbol) == "cuCtxCreate") version = 4000;
  if (std::string(symbol) == "cuGraphAddNode") version = 12020;
  if (get == nullptr || get(symbol, &found, version, CU_GET_PROC_ADDRESS_DEFAULT, &status) != CUDA_SUCCESS)
    return nullptr;
  return found;
}
#endif

#define TEXT_INNER(x) #x
#define TEXT(x) TEXT_INNER(x)
#ifdef PROBE_LINKED
// The names as the header maps them, bound by the dynamic linker.
#define CU(name) (&name)
#else
#define CU(name) (reinterpret_cast<decltype(&name)>(function_named(TEXT(name), #name)))
#endif

using Words = std::istringstream;

struct State {
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  CUmemoryPool pool = nullptr;
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  std::deque<CUdeviceptr> maps;
  std::thread aside;
};
inline State state;

inline std::string say(CUresult code) {
  return std::to_string(static_cast<int>(code));
}

template <typename... T>
std::string say(CUresult code, T... values) {
  std::string text = say(code);
  ((text += " " + std::to_string(values)), ...);
  return text;
}

template <typename T>
T take(Words& words) {
  T value{};
  words >> value;
  return value;
}

// "pools <n> <bytes>", "exec", "interrupt <bytes> <launches>", "smi <card>": see each.
std::string many_pools(Words& words);
std::string replace_self();
std::string interrupt(Words& words);
std::string smi(Words& words);
std::string launch_as(Words& words);
std::string learn_that_it_is_through(Words& words);

}  // namespace probe
