// The table behind cuGetProcAddress, generated from the vendor's headers.
#pragma once

#include <span>

namespace nvsim {

// One entry point: `name` as a caller asks for it (without version), the CUDA version (1000 * major + 10 * minor) that
// introduced this form of it, whether it is the per-thread default stream form, and its address.
struct ProcEntry {
  const char* name;
  int since;
  bool per_thread;
  void* address;
};

// Sorted by name, then by version.
std::span<const ProcEntry> proc_table();

// A CUresult with its name and a description.
struct ErrorEntry {
  int code;
  const char* name;
  const char* text;
};
std::span<const ErrorEntry> error_table();

}  // namespace nvsim
