// Images are either of the simulator's own kind, a text such as
//   .nvsim kernel saxpy us=2000 sms=64
//   .nvsim kernel waves us=100 wave=1
//   .nvsim global table bytes=4194304
//   .nvsim code bytes=2097152
// or anything else (PTX, cubin, fatbin): accepted, with kernels of the card's default duration.
#include "cuda/module.h"

#include <charconv>
#include <cstring>
#include <fstream>
#include <sstream>

#include "cuda/memory.h"

namespace nvsim {
namespace {

constexpr const char* kMark = ".nvsim ";

bool is_binary(const unsigned char* image) {
  static constexpr unsigned char kElf[] = {0x7f, 'E', 'L', 'F'};
  static constexpr unsigned char kFatbin[] = {0x50, 0xed, 0x55, 0xba};
  static constexpr unsigned char kWrapper[] = {0xb1, 0x43, 0x62, 0x46};
  return std::memcmp(image, kElf, 4) == 0 || std::memcmp(image, kFatbin, 4) == 0 ||
         std::memcmp(image, kWrapper, 4) == 0;
}

std::int64_t field(const std::map<std::string, std::string>& fields, const std::string& key, std::int64_t otherwise) {
  const auto found = fields.find(key);
  std::int64_t value = otherwise;
  if (found != fields.end()) {
    std::from_chars(found->second.data(), found->second.data() + found->second.size(), value);
  }
  return value;
}

// One line after the mark. False: it is not understood.
bool read_line(const std::string& line, Module& module) {
  std::istringstream words(line);
  std::string what, name, word;
  words >> what;
  if (what != "code") {
    words >> name;
  }
  std::map<std::string, std::string> fields;
  while (words >> word) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) {
      return false;
    }
    fields[word.substr(0, equals)] = word.substr(equals + 1);
  }
  if (what == "kernel") {
    Kernel& kernel = module.kernels[name];
    kernel.name = name;
    kernel.duration_ns = field(fields, "us", 0) * 1000 + field(fields, "ns", 0);
    kernel.sms = static_cast<std::uint32_t>(field(fields, "sms", 0));
    kernel.per_wave = field(fields, "wave", 0) != 0;
    return !name.empty();
  }
  if (what == "global") {
    module.globals[name] = static_cast<std::uint64_t>(field(fields, "bytes", 4));
    return !name.empty();
  }
  module.code_bytes = static_cast<std::uint64_t>(field(fields, "bytes", 0));
  return what == "code";
}

bool read_image(const char* text, Module& module) {
  std::istringstream lines{std::string(text)};
  std::string line;
  while (std::getline(lines, line)) {
    const std::size_t at = line.find(kMark);
    if (at != std::string::npos) {
      module.open = false;
      if (!read_line(line.substr(at + std::strlen(kMark)), module)) {
        return false;
      }
    }
  }
  return true;
}

CUresult load(Context& context, const void* image, Module*& out) {
  if (image == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto module = std::make_unique<Module>();
  module->device = context.device;
  module->context = &context;
  const auto* bytes = static_cast<const unsigned char*>(image);
  // Text is shorter than the marks of binaries only when it ends at once.
  const bool text = bytes[0] != 0 && (bytes[0] == '.' || bytes[0] == '/' || bytes[0] == '\n' || !is_binary(bytes));
  if (text && !read_image(static_cast<const char*>(image), *module)) {
    return CUDA_ERROR_INVALID_PTX;
  }
  module->charged = round_up(module->code_bytes, kGranularity);
  if (const CUresult code = charge(*context.device, module->charged); code != CUDA_SUCCESS) {
    return code;
  }
  for (const auto& [name, size] : module->globals) {
    CUdeviceptr address = 0;
    if (const CUresult code = allocate_range(context, {size, 0, Kind::kDevice, false}, &address);
        code != CUDA_SUCCESS) {
      uncharge(*context.device, module->charged);
      for (const auto& made : module->addresses) {
        cuMemFree_v2(made.second);
      }
      return code;
    }
    module->addresses[name] = address;
  }
  context.code_charged += module->charged;
  out = module.release();
  return CUDA_SUCCESS;
}

CUresult load_file(Context& context, const char* path, Module*& out) {
  std::ifstream file(path == nullptr ? "" : path, std::ios::binary);
  if (!file) {
    return CUDA_ERROR_FILE_NOT_FOUND;
  }
  std::string content((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  content.resize(content.size() + 8, '\0');
  return load(context, content.data(), out);
}

void unload(Module* module) {
  for (const auto& made : module->addresses) {
    cuMemFree_v2(made.second);
  }
  // A context that is gone has taken its code along.
  bool alive = false;
  {
    const std::lock_guard guard(driver().mutex);
    alive = driver().contexts.contains(module->context);
  }
  if (alive) {
    module->context->code_charged -= module->charged;
    uncharge(*module->device, module->charged);
  }
  delete module;
}

CUresult find_kernel(Module& module, const char* name, Kernel*& out) {
  if (name == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::lock_guard guard(driver().mutex);
  auto found = module.kernels.find(name);
  if (found == module.kernels.end()) {
    if (!module.open) {
      return CUDA_ERROR_NOT_FOUND;
    }
    found = module.kernels.try_emplace(name).first;
    found->second.name = name;
    found->second.duration_ns = module.device->card->config().default_kernel_ns;
  }
  found->second.module = &module;
  out = &found->second;
  return CUDA_SUCCESS;
}

// Runs `body(Module&)` for a module or library handle.
template <typename Handle, typename Body>
CUresult with_module(Handle handle, Body body) {
  return with_context([&](Context&) {
    return handle == nullptr ? CUDA_ERROR_INVALID_HANDLE : body(*reinterpret_cast<Module*>(handle));
  });
}

template <typename Handle, typename Load>
CUresult load_as(Handle* out, Load load_module) {
  return with_context([&](Context& context) {
    if (out == nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    Module* module = nullptr;
    const CUresult code = load_module(context, module);
    *out = reinterpret_cast<Handle>(module);
    return code;
  });
}

template <typename Handle, typename Out>
CUresult kernel_as(Handle handle, const char* name, Out* out) {
  return with_module(handle, [&](Module& module) {
    Kernel* kernel = nullptr;
    const CUresult code = out == nullptr ? CUDA_ERROR_INVALID_VALUE : find_kernel(module, name, kernel);
    if (code == CUDA_SUCCESS) {
      *out = reinterpret_cast<Out>(kernel);
    }
    return code;
  });
}

template <typename Handle>
CUresult global_of(Handle handle, const char* name, CUdeviceptr* address, size_t* size) {
  return with_module(handle, [&](Module& module) {
    const auto found = module.addresses.find(name == nullptr ? "" : name);
    if (found == module.addresses.end()) {
      return CUDA_ERROR_NOT_FOUND;
    }
    if (address != nullptr) {
      *address = found->second;
    }
    if (size != nullptr) {
      *size = module.globals.at(found->first);
    }
    return CUDA_SUCCESS;
  });
}

int function_attribute(CUfunction_attribute attribute) {
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return 1024;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      return 32;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      return 90;
    default:
      return 0;
  }
}

}  // namespace

Kernel* kernel_of(const void* handle) {
  return static_cast<Kernel*>(const_cast<void*>(handle));
}

}  // namespace nvsim

using nvsim::Context;
using nvsim::Module;
using nvsim::with_context;

CUresult cuModuleLoad(CUmodule* out, const char* path) {
  return nvsim::load_as(out,
                        [&](Context& context, Module*& module) { return nvsim::load_file(context, path, module); });
}
CUresult cuModuleLoadData(CUmodule* out, const void* image) {
  return nvsim::load_as(out, [&](Context& context, Module*& module) { return nvsim::load(context, image, module); });
}
CUresult cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned int, CUjit_option*, void**) {
  return cuModuleLoadData(out, image);
}
CUresult cuModuleLoadFatBinary(CUmodule* out, const void* image) {
  return cuModuleLoadData(out, image);
}
CUresult cuModuleUnload(CUmodule handle) {
  return nvsim::with_module(handle, [](Module& module) {
    nvsim::unload(&module);
    return CUDA_SUCCESS;
  });
}
CUresult cuModuleGetFunction(CUfunction* out, CUmodule handle, const char* name) {
  return nvsim::kernel_as(handle, name, out);
}
CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* size, CUmodule handle, const char* name) {
  return nvsim::global_of(handle, name, address, size);
}
CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  if (mode == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *mode = CU_MODULE_EAGER_LOADING;
  return CUDA_SUCCESS;
}

CUresult cuLibraryLoadData(CUlibrary* out, const void* image, CUjit_option*, void**, unsigned int, CUlibraryOption*,
                           void**, unsigned int) {
  return nvsim::load_as(out, [&](Context& context, Module*& module) { return nvsim::load(context, image, module); });
}
CUresult cuLibraryLoadFromFile(CUlibrary* out, const char* path, CUjit_option*, void**, unsigned int, CUlibraryOption*,
                               void**, unsigned int) {
  return nvsim::load_as(out,
                        [&](Context& context, Module*& module) { return nvsim::load_file(context, path, module); });
}
CUresult cuLibraryUnload(CUlibrary handle) {
  return nvsim::with_module(handle, [](Module& module) {
    nvsim::unload(&module);
    return CUDA_SUCCESS;
  });
}
CUresult cuLibraryGetKernel(CUkernel* out, CUlibrary handle, const char* name) {
  return nvsim::kernel_as(handle, name, out);
}
CUresult cuLibraryGetModule(CUmodule* out, CUlibrary handle) {
  return nvsim::with_module(handle, [&](Module& module) {
    *out = reinterpret_cast<CUmodule>(&module);
    return CUDA_SUCCESS;
  });
}
CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* size, CUlibrary handle, const char* name) {
  return nvsim::global_of(handle, name, address, size);
}
CUresult cuKernelGetFunction(CUfunction* out, CUkernel kernel) {
  return with_context([&](Context&) {
    if (out == nullptr || kernel == nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *out = reinterpret_cast<CUfunction>(kernel);
    return CUDA_SUCCESS;
  });
}

CUresult cuFuncGetModule(CUmodule* out, CUfunction function) {
  return with_context([&](Context&) {
    if (out == nullptr || function == nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *out = reinterpret_cast<CUmodule>(nvsim::kernel_of(function)->module);
    return CUDA_SUCCESS;
  });
}
CUresult cuFuncGetName(const char** name, CUfunction function) {
  return with_context([&](Context&) {
    if (name == nullptr || function == nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *name = nvsim::kernel_of(function)->name.c_str();
    return CUDA_SUCCESS;
  });
}
CUresult cuKernelGetName(const char** name, CUkernel kernel) {
  return cuFuncGetName(name, reinterpret_cast<CUfunction>(kernel));
}
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  return with_context([&](Context&) {
    if (value == nullptr || function == nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *value = nvsim::function_attribute(attribute);
    return CUDA_SUCCESS;
  });
}
CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel, CUdevice) {
  return cuFuncGetAttribute(value, attribute, reinterpret_cast<CUfunction>(kernel));
}
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) {
  return with_context([](Context&) { return CUDA_SUCCESS; });
}
CUresult cuKernelSetAttribute(CUfunction_attribute, int, CUkernel, CUdevice) {
  return with_context([](Context&) { return CUDA_SUCCESS; });
}
CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) {
  return with_context([](Context&) { return CUDA_SUCCESS; });
}
CUresult cuFuncLoad(CUfunction) {
  return with_context([](Context&) { return CUDA_SUCCESS; });
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int threads, size_t) {
  return with_context([&](Context&) {
    if (blocks == nullptr || threads <= 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *blocks = std::max(1, 2048 / threads);
    return CUDA_SUCCESS;
  });
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction function, int threads,
                                                              size_t shared, unsigned int) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared);
}
