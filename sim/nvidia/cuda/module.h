// Modules, and the kernels in them.
#pragma once

#include <map>
#include <string>

#include "cuda/driver.h"

namespace nvsim {

struct Module;

struct Kernel {
  Module* module = nullptr;
  std::string name;
  std::int64_t duration_ns = 0;  // of a launch, or of one wave
  bool per_wave = false;         // the duration is for as many blocks as the card holds at once
  std::uint32_t sms = 0;         // SMs it can fill; 0: one a block
};

struct Module {
  Device* device = nullptr;
  Context* context = nullptr;
  bool open = true;  // an image that is not ours: it has every kernel that is asked for
  std::map<std::string, Kernel> kernels;
  std::map<std::string, std::uint64_t> globals;  // name to bytes
  std::map<std::string, CUdeviceptr> addresses;
  std::uint64_t code_bytes = 0;
  std::uint64_t charged = 0;
};

// A CUfunction or CUkernel; both are the same object here.
Kernel* kernel_of(const void* handle);

}  // namespace nvsim
