#include "guard/preload/cuda/driver.h"

#include <stddef.h>

#include "guard/preload/cuda/coverage.h"
#include "guard/preload/cuda/process.h"
#include "guard/preload/driver_table.h"
#include "guard/preload/elf.h"
#include "guard/preload/sys.h"
#include "guard/preload/vendor.h"

namespace heddle::guard {
namespace {

struct Hook {
  const char* exported;
  const char* symbol;
  int since;
  int per_thread;
  void* ours;
  size_t member;  // offset of the real function in CudaFunctions
};

#define HEDDLE_HOOK(name, symbol, since, per_thread) \
  {#name, symbol, since, per_thread, reinterpret_cast<void*>(&::name), offsetof(CudaFunctions, name)},
const Hook kCudaHooks[] = {HEDDLE_CUDA_HOOKS(HEDDLE_HOOK)};
#undef HEDDLE_HOOK

struct NvmlHook {
  const char* exported;
  void* ours;
};
#define HEDDLE_HOOK(name) {#name, reinterpret_cast<void*>(&::name)},
const NvmlHook kNvmlHooks[] = {HEDDLE_NVML_HOOKS(HEDDLE_HOOK)};
#undef HEDDLE_HOOK

const CudaFunctions kNoCuda{};
const NvmlFunctions kNoNvml{};
const CudaFunctions* cuda_functions = nullptr;
const NvmlFunctions* nvml_functions = nullptr;

// Says once a process what the driver has and this guard was not built to know.
void report_unknown(const LoadedObject& driver) {
  if (config().mode == Config::Mode::kInert) return;
  char names[256];
  const uint32_t count = count_unknown(driver, names, sizeof(names));
  if (config().usage != nullptr) {
    __atomic_store_n(&config().usage->header.unknown_symbols, count, __ATOMIC_RELAXED);
  }
  if (count != 0) log_line("the driver has entry points that this guard does not know: ", names);
}

const CudaFunctions* load_cuda() {
  LoadedObject driver;
  if (!find_object("libcuda.so", nullptr, &driver)) return nullptr;
  auto* table = new_table<CudaFunctions>();
  if (table == nullptr) return nullptr;
  keep_loaded(driver);
#define HEDDLE_RESOLVE(name, ...) resolve(driver, #name, table->name);
  HEDDLE_CUDA_HOOKS(HEDDLE_RESOLVE)
  HEDDLE_CUDA_CALLS(HEDDLE_RESOLVE)
  report_unknown(driver);
  return publish(cuda_functions, table);
}

const NvmlFunctions* load_nvml() {
  LoadedObject driver;
  if (!find_object("libnvidia-ml.so", nullptr, &driver)) return nullptr;
  auto* table = new_table<NvmlFunctions>();
  if (table == nullptr) return nullptr;
  keep_loaded(driver);
  HEDDLE_NVML_HOOKS(HEDDLE_RESOLVE)
  HEDDLE_NVML_CALLS(HEDDLE_RESOLVE)
#undef HEDDLE_RESOLVE
  return publish(nvml_functions, table);
}

const CudaFunctions* cuda_or_null() {
  const CudaFunctions* table = __atomic_load_n(&cuda_functions, __ATOMIC_ACQUIRE);
  return table != nullptr ? table : load_cuda();
}

const NvmlFunctions* nvml_or_null() {
  const NvmlFunctions* table = __atomic_load_n(&nvml_functions, __ATOMIC_ACQUIRE);
  return table != nullptr ? table : load_nvml();
}

void* real_of(const Hook& hook) {
  void* real = nullptr;
  __builtin_memcpy(&real, reinterpret_cast<const char*>(&cuda()) + hook.member, sizeof(real));
  return real;
}

bool is_hooked_symbol(const char* symbol) {
  for (const Hook& hook : kCudaHooks) {
    if (same_text(hook.symbol, symbol)) return true;
  }
  return false;
}

bool is_refused_name(const char* name) {
  return config().deny_unknown && !is_known_cuda(name) && speaks_of_resources(name);
}

constexpr vendor::Library kCudaLibrary{"libcuda.so", &cuda_loaded};
constexpr vendor::Library kNvmlLibrary{"libnvidia-ml.so", &nvml_loaded};

}  // namespace

const CudaFunctions& cuda() {
  const CudaFunctions* table = cuda_or_null();
  return table != nullptr ? *table : kNoCuda;
}

const NvmlFunctions& nvml() {
  const NvmlFunctions* table = nvml_or_null();
  return table != nullptr ? *table : kNoNvml;
}

bool cuda_loaded() {
  return cuda_or_null() != nullptr;
}
bool nvml_loaded() {
  return nvml_or_null() != nullptr;
}

void* vendor::hook_of_name(const char* name, const Library** library) {
  if (name[0] == 'c' && name[1] == 'u') {
    *library = &kCudaLibrary;
    for (const Hook& hook : kCudaHooks) {
      if (same_text(hook.exported, name)) return hook.ours;
    }
  } else if (begins_with(name, "nvmlDeviceGet")) {
    *library = &kNvmlLibrary;
    for (const NvmlHook& hook : kNvmlHooks) {
      if (same_text(hook.exported, name)) return hook.ours;
    }
  }
  return nullptr;
}

bool vendor::is_of_driver(const LoadedObject& object) {
  const char* name = name_of(object);
  return begins_with(name, "libcuda.so") || begins_with(name, "libnvidia-");
}

const vendor::Library* vendor::refused_name(const char* name) {
  return name[0] == 'c' && name[1] == 'u' && is_refused_name(name) ? &kCudaLibrary : nullptr;
}

void* hook_of_proc_address(const char* symbol, int version, unsigned long long flags, void* real) {
  for (const Hook& hook : kCudaHooks) {
    if (real_of(hook) == real) return hook.ours;
  }
  // A form that the driver exports under a name that is not ours is not ours: a newer one may take other arguments.
  LoadedObject driver;
  const char* exported = object_of(real, &driver) ? name_at(driver, real) : nullptr;
  if (exported != nullptr || !is_hooked_symbol(symbol)) {
    return is_refused_name(exported != nullptr ? exported : symbol) ? nullptr : real;
  }
  // A driver that hands out other addresses than it exports: by name, as the driver itself chooses.
  int driver_version = version;
  if (cuda().cuDriverGetVersion != nullptr) cuda().cuDriverGetVersion(&driver_version);
  const int usable = driver_version < version ? driver_version : version;
  const int per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0 ? 1 : 0;
  const Hook* best = nullptr;
  for (const Hook& hook : kCudaHooks) {
    if (!same_text(hook.symbol, symbol) || hook.since > usable || hook.per_thread > per_thread) continue;
    if (real_of(hook) == nullptr) continue;
    if (best == nullptr || hook.per_thread > best->per_thread ||
        (hook.per_thread == best->per_thread && hook.since > best->since)) {
      best = &hook;
    }
  }
  return best != nullptr ? best->ours : real;
}

}  // namespace heddle::guard
