// How programs find functions: cuGetProcAddress in both versions, and the export tables that this driver has none of.
#include <cstring>

#include "cuda/api.h"
#include "cuda/proc_table.h"

namespace nvsim {
namespace {

struct Lookup {
  void* address = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
};

// The newest form of `name` that a program of `version` knows. Per-thread programs get the per-thread form where there
// is one.
Lookup look_up(const char* name, int version, bool per_thread) {
  Lookup plain, variant;
  for (const ProcEntry& entry : proc_table()) {
    if (std::strcmp(entry.name, name) != 0) {
      continue;
    }
    Lookup& lookup = entry.per_thread ? variant : plain;
    if (entry.since <= version) {
      lookup = {entry.address, CU_GET_PROC_ADDRESS_SUCCESS};
    } else if (lookup.address == nullptr) {
      lookup.status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    }
  }
  return per_thread && variant.address != nullptr ? variant : plain;
}

CUresult answer(const char* name, void** out, int version, bool per_thread, CUdriverProcAddressQueryResult* status) {
  if (name == nullptr || out == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const Lookup lookup = look_up(name, version, per_thread);
  *out = lookup.address;
  if (status != nullptr) {
    *status = lookup.status;
    return CUDA_SUCCESS;  // the caller reads the status
  }
  return lookup.address != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

const ErrorEntry* find_error(CUresult error) {
  for (const ErrorEntry& entry : error_table()) {
    if (entry.code == static_cast<int>(error)) {
      return &entry;
    }
  }
  return nullptr;
}

bool wants_per_thread(cuuint64_t flags) {
  return (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
}
bool wants_legacy(cuuint64_t flags) {
  return (flags & CU_GET_PROC_ADDRESS_LEGACY_STREAM) != 0;
}

}  // namespace
}  // namespace nvsim

CUresult cuGetProcAddress_v2(const char* symbol, void** out, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  return nvsim::answer(symbol, out, version, nvsim::wants_per_thread(flags), status);
}
CUresult cuGetProcAddress(const char* symbol, void** out, int version, cuuint64_t flags) {
  return nvsim::answer(symbol, out, version, nvsim::wants_per_thread(flags), nullptr);
}
CUresult cuGetProcAddress_v2_ptsz(const char* symbol, void** out, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult* status) {
  return nvsim::answer(symbol, out, version, !nvsim::wants_legacy(flags), status);
}
CUresult cuGetProcAddress_ptsz(const char* symbol, void** out, int version, cuuint64_t flags) {
  return nvsim::answer(symbol, out, version, !nvsim::wants_legacy(flags), nullptr);
}

CUresult cuGetExportTable(const void** table, const CUuuid*) {
  if (table != nullptr) {
    *table = nullptr;
  }
  return CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetErrorName(CUresult error, const char** name) {
  const nvsim::ErrorEntry* entry = nvsim::find_error(error);
  if (name == nullptr || entry == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *name = entry->name;
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult error, const char** text) {
  const nvsim::ErrorEntry* entry = nvsim::find_error(error);
  if (text == nullptr || entry == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *text = entry->text;
  return CUDA_SUCCESS;
}
