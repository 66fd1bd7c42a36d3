// The CUDA program of `heddle guard selftest`, in a process of its own: under the guard, or without it to look. It
// prints one "name value" a line and never fails by itself: the parent judges.
#include <cuda.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <utility>
#include <vector>

#include "base/print.h"
#include "cli/verbs.h"

namespace heddle::cli {
namespace {

constexpr size_t kPieces = 16;      // of the limit
constexpr size_t kMostPieces = 64;  // an end for a guard that does not hold

struct Driver {
  decltype(&::cuInit) init = nullptr;
  decltype(&::cuDeviceGet) device = nullptr;
  decltype(&::cuDeviceGetUuid_v2) uuid = nullptr;
  decltype(&::cuDeviceTotalMem_v2) total = nullptr;
  decltype(&::cuCtxCreate_v2) create = nullptr;
  decltype(&::cuCtxDestroy_v2) destroy = nullptr;
  decltype(&::cuMemGetInfo_v2) info = nullptr;
  decltype(&::cuMemAlloc_v2) alloc = nullptr;
  decltype(&::cuMemFree_v2) free = nullptr;
};

template <typename Function>
bool load(void* handle, Function& out, const char* name) {
  out = reinterpret_cast<Function>(::dlsym(handle, name));
  return out != nullptr;
}

bool load_driver(Driver& driver) {
  void* handle = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    print_out("error {}\n", why == nullptr ? "libcuda.so.1 cannot be loaded" : why);
    return false;
  }
  const bool whole = load(handle, driver.init, "cuInit") && load(handle, driver.device, "cuDeviceGet") &&
                     load(handle, driver.uuid, "cuDeviceGetUuid_v2") &&
                     load(handle, driver.total, "cuDeviceTotalMem_v2") &&
                     load(handle, driver.create, "cuCtxCreate_v2") && load(handle, driver.destroy, "cuCtxDestroy_v2") &&
                     load(handle, driver.info, "cuMemGetInfo_v2") && load(handle, driver.alloc, "cuMemAlloc_v2") &&
                     load(handle, driver.free, "cuMemFree_v2");
  if (!whole) print_out("error libcuda.so.1 lacks functions of CUDA 11.4\n");
  return whole;
}

std::string uuid_text(const CUuuid& uuid) {
  std::string text = "GPU-";
  for (size_t i = 0; i < sizeof(uuid.bytes); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

// Memory in pieces until the driver says no; each piece is given back at the end.
void fill(const Driver& driver, size_t piece) {
  std::vector<CUdeviceptr> held;
  CUresult code = CUDA_SUCCESS;
  while (held.size() < kMostPieces) {
    CUdeviceptr pointer = 0;
    code = driver.alloc(&pointer, piece);
    if (code != CUDA_SUCCESS) break;
    held.push_back(pointer);
  }
  size_t free = 0;
  size_t total = 0;
  const CUresult asked = driver.info(&free, &total);
  print_out("filled {}\nfill_code {}\nfull_info {}\nfull_free {}\n", held.size(), static_cast<int>(code),
            static_cast<int>(asked), free);
  for (const CUdeviceptr pointer : held) {
    if (const CUresult freed = driver.free(pointer); freed != CUDA_SUCCESS) {
      print_out("free_code {}\n", static_cast<int>(freed));
    }
  }
}

void try_limit(const Driver& driver, CUdevice device, int64_t limit) {
  CUcontext context = nullptr;
  const CUresult created = driver.create(&context, 0, device);
  print_out("context {}\n", static_cast<int>(created));
  if (created != CUDA_SUCCESS) return;
  size_t free = 0;
  size_t total = 0;
  print_out("info {}\n", static_cast<int>(driver.info(&free, &total)));
  print_out("shown_total {}\nshown_free {}\n", total, free);
  CUdeviceptr pointer = 0;
  print_out("beyond {}\n", static_cast<int>(driver.alloc(&pointer, static_cast<size_t>(limit) + 1)));
  const size_t piece = static_cast<size_t>(limit) / kPieces;
  print_out("piece {}\n", piece);
  fill(driver, piece);
  // What was refused and given back must not stay charged.
  const CUresult again = driver.alloc(&pointer, piece);
  print_out("again {}\n", static_cast<int>(again));
  if (again == CUDA_SUCCESS) driver.free(pointer);
  driver.destroy(context);
}

}  // namespace

int guard_probe(const GuardProbeArgs& args) {
  Driver driver;
  if (!load_driver(driver)) return 0;
  CUdevice device = 0;
  CUuuid uuid{};
  size_t total = 0;
  CUresult code = driver.init(0);
  if (code == CUDA_SUCCESS) code = driver.device(&device, 0);
  if (code == CUDA_SUCCESS) code = driver.uuid(&uuid, device);
  if (code == CUDA_SUCCESS) code = driver.total(&total, device);
  if (code != CUDA_SUCCESS) {
    print_out("error the driver has no card for us: CUDA error {}\n", static_cast<int>(code));
    return 0;
  }
  print_out("uuid {}\ntotal {}\n", uuid_text(uuid), total);
  if (args.limit > 0) try_limit(driver, device, args.limit);
  return 0;
}

}  // namespace heddle::cli
