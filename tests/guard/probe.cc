// A CUDA program that does what it is told, line by line: "alloc 1048576" answers "0 <address>", the driver's code
// first. It knows nothing of the guard. It reaches the driver as its first argument says: "dlsym", "proc" for
// cuGetProcAddress, "libc" and "libc-versioned" for a dlsym that it looks up in the C library; the linked variant is
// the same source linked to libcuda.
#include "guard/probe.h"

#include <nvml.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <vector>

using namespace probe;

namespace {

std::string memory_info(Words&) {
  size_t free = 0;
  size_t total = 0;
  const CUresult code = CU(cuMemGetInfo)(&free, &total);
  return say(code, free, total);
}

// What all processes together hold on a card, as NVML has it.
std::string holders(Words& words) {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  const auto init = reinterpret_cast<decltype(&nvmlInit_v2)>(dlsym(library, "nvmlInit_v2"));
  const auto get =
      reinterpret_cast<decltype(&nvmlDeviceGetHandleByIndex_v2)>(dlsym(library, "nvmlDeviceGetHandleByIndex_v2"));
  const auto list = reinterpret_cast<decltype(&nvmlDeviceGetComputeRunningProcesses_v3)>(
      dlsym(library, "nvmlDeviceGetComputeRunningProcesses_v3"));
  nvmlDevice_t device = nullptr;
  nvmlProcessInfo_t processes[128];
  unsigned count = 128;
  static const nvmlReturn_t ready = init();
  if (ready != NVML_SUCCESS || get(take<unsigned>(words), &device) != NVML_SUCCESS) return "-1";
  if (list(device, &count, processes) != NVML_SUCCESS) return "-1";
  unsigned long long sum = 0;
  for (unsigned i = 0; i < count; ++i) sum += processes[i].usedGpuMemory;
  return std::to_string(sum);
}

std::string nvml_info(Words& words) {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  const auto init = reinterpret_cast<decltype(&nvmlInit_v2)>(dlsym(library, "nvmlInit_v2"));
  const auto get =
      reinterpret_cast<decltype(&nvmlDeviceGetHandleByIndex_v2)>(dlsym(library, "nvmlDeviceGetHandleByIndex_v2"));
  const auto one = reinterpret_cast<decltype(&nvmlDeviceGetMemoryInfo)>(dlsym(library, "nvmlDeviceGetMemoryInfo"));
  const auto two =
      reinterpret_cast<decltype(&nvmlDeviceGetMemoryInfo_v2)>(dlsym(library, "nvmlDeviceGetMemoryInfo_v2"));
  const auto list = reinterpret_cast<decltype(&nvmlDeviceGetComputeRunningProcesses_v3)>(
      dlsym(library, "nvmlDeviceGetComputeRunningProcesses_v3"));
  nvmlDevice_t device = nullptr;
  nvmlMemory_t v1{};
  nvmlMemory_v2_t v2{};
  v2.version = nvmlMemory_v2;
  init();
  get(take<unsigned>(words), &device);
  int code = one(device, &v1) != 0 ? 1 : 0;
  code += two(device, &v2) != 0 ? 2 : 0;
  nvmlProcessInfo_t processes[64];
  unsigned count = 64;
  code += list(device, &count, processes) != 0 ? 4 : 0;
  std::string text = std::to_string(code);
  for (const unsigned long long value : {v1.total, v1.used, v1.free, v2.total, v2.used, v2.free}) {
    text += " " + std::to_string(value);
  }
  text += " " + std::to_string(count);
  for (unsigned i = 0; i < count && i < 64; ++i) text += " " + std::to_string(processes[i].pid);
  return text;
}

std::string allocate(const std::string& verb, Words& words) {
  CUdeviceptr address = 0;
  CUresult code = CUDA_ERROR_UNKNOWN;
  const auto bytes = take<size_t>(words);
  if (verb == "alloc") code = CU(cuMemAlloc)(&address, bytes);
  if (verb == "managed") code = CU(cuMemAllocManaged)(&address, bytes, CU_MEM_ATTACH_GLOBAL);
  if (verb == "async") code = CU(cuMemAllocAsync)(&address, bytes, state.stream);
  if (verb == "frompool") code = CU(cuMemAllocFromPoolAsync)(&address, bytes, state.pool, state.stream);
  if (verb == "pitch") {
    size_t pitch = 0;
    code = CU(cuMemAllocPitch)(&address, &pitch, bytes, take<size_t>(words), 4);
  }
  return say(code, address);
}

std::string virtual_memory(const std::string& verb, Words& words) {
  if (verb == "create" || verb == "create-shared" || verb == "create-host") {
    CUmemAllocationProp wanted{};
    if (verb == "create-shared") wanted.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    wanted.location.type = verb == "create-host" ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemGenericAllocationHandle handle = 0;
    const CUresult code = CU(cuMemCreate)(&handle, take<size_t>(words), &wanted, 0);
    return say(code, handle);
  }
  if (verb == "map") {
    const auto handle = take<CUmemGenericAllocationHandle>(words);
    const auto bytes = take<size_t>(words);
    CUdeviceptr address = 0;
    CUresult code = CU(cuMemAddressReserve)(&address, bytes, 0, 0, 0);
    if (code == CUDA_SUCCESS) code = CU(cuMemMap)(address, bytes, 0, handle, 0);
    return say(code, address);
  }
  if (verb == "unmap") {
    const auto address = take<CUdeviceptr>(words);
    const CUresult code = CU(cuMemUnmap)(address, take<size_t>(words));
    return say(code);
  }
  // Exported and imported again: a handle of its own for the same memory. "create-shared" makes one that can be.
  if (verb == "reimport") {
    int descriptor = -1;
    CUmemGenericAllocationHandle again = 0;
    CUresult code = CU(cuMemExportToShareableHandle)(&descriptor, take<CUmemGenericAllocationHandle>(words),
                                                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (code == CUDA_SUCCESS) {
      code = CU(cuMemImportFromShareableHandle)(&again, reinterpret_cast<void*>(static_cast<intptr_t>(descriptor)),
                                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
      close(descriptor);
    }
    return say(code, again);
  }
  if (verb == "retain-handle") {
    CUmemGenericAllocationHandle handle = 0;
    const CUresult code = CU(cuMemRetainAllocationHandle)(&handle, reinterpret_cast<void*>(take<CUdeviceptr>(words)));
    return say(code, handle);
  }
  return say(CU(cuMemRelease)(take<CUmemGenericAllocationHandle>(words)));
}

std::string arrays(const std::string& verb, Words& words) {
  if (verb == "array") {
    CUDA_ARRAY_DESCRIPTOR shape{};
    shape.Width = take<size_t>(words);
    shape.Height = take<size_t>(words);
    shape.Format = CU_AD_FORMAT_FLOAT;
    shape.NumChannels = 4;
    CUarray array = nullptr;
    const CUresult code = CU(cuArrayCreate)(&array, &shape);
    return say(code, reinterpret_cast<size_t>(array));
  }
  if (verb == "mipmap") {
    CUDA_ARRAY3D_DESCRIPTOR shape{};
    shape.Width = take<size_t>(words);
    shape.Height = take<size_t>(words);
    shape.Format = CU_AD_FORMAT_UNSIGNED_INT8;
    shape.NumChannels = 4;
    CUmipmappedArray array = nullptr;
    const CUresult code = CU(cuMipmappedArrayCreate)(&array, &shape, take<unsigned>(words));
    return say(code, reinterpret_cast<size_t>(array));
  }
  if (verb == "array-destroy") return say(CU(cuArrayDestroy)(reinterpret_cast<CUarray>(take<size_t>(words))));
  return say(CU(cuMipmappedArrayDestroy)(reinterpret_cast<CUmipmappedArray>(take<size_t>(words))));
}

std::string contexts(const std::string& verb, Words& words) {
  if (verb == "ctx") {
    const CUresult code = CU(cuCtxCreate)(&state.context, 0, take<int>(words));
    return say(code, reinterpret_cast<size_t>(state.context));
  }
  if (verb == "ctx-destroy") return say(CU(cuCtxDestroy)(reinterpret_cast<CUcontext>(take<size_t>(words))));
  if (verb == "retain") {
    const CUresult code = CU(cuDevicePrimaryCtxRetain)(&state.context, take<int>(words));
    if (code == CUDA_SUCCESS) CU(cuCtxSetCurrent)(state.context);
    return say(code, reinterpret_cast<size_t>(state.context));
  }
  if (verb == "reset") return say(CU(cuDevicePrimaryCtxReset)(take<int>(words)));
  return say(CU(cuDevicePrimaryCtxRelease)(take<int>(words)));
}

// A kernel of about so many microseconds: for the simulated driver by what it is told in a comment, for a real one by a
// loop whose length does not depend on whether somebody else has the card in between.
std::string load_kernel(Words& words) {
  const int us = take<int>(words);
  const std::string image = "//nvsim\n//.nvsim kernel k us=" + std::to_string(us) +
                            " sms=1000\n.version 6.0\n.target sm_60\n.address_size 64\n.visible .entry k() {\n"
                            ".reg .u32 %r<3>;\n.reg .pred %p;\nmov.u32 %r1, 0;\nLOOP:\nadd.u32 %r1, %r1, 1;\n"
                            "mov.u32 %r2, %clock;\nsetp.lt.u32 %p, %r1, " +
                            std::to_string(us * 50) + ";\n@%p bra LOOP;\nret;\n}\n";
  CUresult code = CU(cuModuleLoadData)(&state.module, image.c_str());
  if (code == CUDA_SUCCESS) code = CU(cuModuleGetFunction)(&state.kernel, state.module, "k");
  return say(code);
}

// "module <bytes of code> <bytes of a global>", "library" likewise.
std::string load_code(const std::string& verb, Words& words) {
  const auto code_bytes = take<size_t>(words);
  const std::string image = "//nvsim\n.nvsim code bytes=" + std::to_string(code_bytes) +
                            "\n.nvsim global g bytes=" + std::to_string(take<size_t>(words)) +
                            "\n.nvsim kernel k us=1\n";
  if (verb == "module") {
    CUmodule module = nullptr;
    const CUresult code = CU(cuModuleLoadData)(&module, image.c_str());
    return say(code, reinterpret_cast<size_t>(module));
  }
  CUlibrary library = nullptr;
  const CUresult code = CU(cuLibraryLoadData)(&library, image.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  return say(code, reinterpret_cast<size_t>(library));
}

std::string unload_code(const std::string& verb, Words& words) {
  const auto handle = take<size_t>(words);
  if (verb == "module-unload") return say(CU(cuModuleUnload)(reinterpret_cast<CUmodule>(handle)));
  return say(CU(cuLibraryUnload)(reinterpret_cast<CUlibrary>(handle)));
}

CUresult launch_once() {
  static const auto function = CU(cuLaunchKernel);
  return function(state.kernel, 64, 1, 1, 128, 1, 1, 0, state.stream, nullptr, nullptr);
}

// Launches for so many milliseconds, as far ahead as the driver lets it, waits, and tells how many and how long it
// took.
std::string run_for(Words& words) {
  const auto start = std::chrono::steady_clock::now();
  const auto until = start + std::chrono::milliseconds(take<int>(words));
  const int ahead = take<int>(words);  // synchronise after so many; 0: never
  int launches = 0;
  CUresult code = CUDA_SUCCESS;
  while (code == CUDA_SUCCESS && std::chrono::steady_clock::now() < until) {
    code = launch_once();
    if (code == CUDA_SUCCESS) ++launches;
    if (ahead != 0 && launches % ahead == 0) CU(cuStreamSynchronize)(state.stream);
  }
  CU(cuStreamSynchronize)(state.stream);
  const auto took = std::chrono::steady_clock::now() - start;
  return say(code, launches, std::chrono::duration_cast<std::chrono::microseconds>(took).count());
}

// A chain of kernels, node by node.
CUresult build_graph(int kernels, CUgraph* graph) {
  CUresult code = CU(cuGraphCreate)(graph, 0);
  CUgraphNode before = nullptr;
  for (int i = 0; i < kernels && code == CUDA_SUCCESS; ++i) {
    CUDA_KERNEL_NODE_PARAMS shape{};
    shape.func = state.kernel;
    shape.gridDimX = 64;
    shape.gridDimY = shape.gridDimZ = shape.blockDimY = shape.blockDimZ = 1;
    shape.blockDimX = 128;
    CUgraphNode node = nullptr;
    code = CU(cuGraphAddKernelNode)(&node, *graph, &before, i == 0 ? 0 : 1, &shape);
    before = node;
  }
  return code;
}

CUresult capture_graph(int kernels, CUgraph* graph) {
  CUresult code = CU(cuStreamBeginCapture)(state.stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  for (int i = 0; i < kernels && code == CUDA_SUCCESS; ++i) code = launch_once();
  return code == CUDA_SUCCESS ? CU(cuStreamEndCapture)(state.stream, graph) : code;
}

// A graph of n kernels, captured where the driver can, launched for a time.
std::string run_graph(Words& words) {
  const int kernels = take<int>(words);
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUresult code = capture_graph(kernels, &graph);
  if (code == CUDA_ERROR_NOT_SUPPORTED) code = build_graph(kernels, &graph);
  if (code != CUDA_SUCCESS) return say(code);
  size_t nodes = 0;
  CU(cuGraphGetNodes)(graph, nullptr, &nodes);
  code = CU(cuGraphInstantiateWithFlags)(&exec, graph, 0);
  const auto start = std::chrono::steady_clock::now();
  const auto until = start + std::chrono::milliseconds(take<int>(words));
  const auto launch = CU(cuGraphLaunch);
  int launches = 0;
  while (code == CUDA_SUCCESS && std::chrono::steady_clock::now() < until) {
    code = launch(exec, state.stream);
    if (code == CUDA_SUCCESS) ++launches;
  }
  CU(cuStreamSynchronize)(state.stream);
  const auto took = std::chrono::steady_clock::now() - start;
  return say(code, nodes, launches, std::chrono::duration_cast<std::chrono::microseconds>(took).count());
}

// "graph-cards <context of another card> <ms>": a graph whose kernel runs there, launched for a time.
std::string graph_elsewhere(Words& words) {
  CUDA_KERNEL_NODE_PARAMS shape{};
  shape.func = state.kernel;
  shape.ctx = reinterpret_cast<CUcontext>(take<size_t>(words));
  shape.gridDimX = 64;
  shape.gridDimY = shape.gridDimZ = shape.blockDimY = shape.blockDimZ = 1;
  shape.blockDimX = 128;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUgraphNode node = nullptr;
  CUresult code = CU(cuGraphCreate)(&graph, 0);
  if (code == CUDA_SUCCESS) code = CU(cuGraphAddKernelNode)(&node, graph, nullptr, 0, &shape);
  if (code == CUDA_SUCCESS) code = CU(cuGraphInstantiateWithFlags)(&exec, graph, 0);
  const auto start = std::chrono::steady_clock::now();
  const auto until = start + std::chrono::milliseconds(take<int>(words));
  int launches = 0;
  while (code == CUDA_SUCCESS && std::chrono::steady_clock::now() < until) {
    code = CU(cuGraphLaunch)(exec, state.stream);
    if (code == CUDA_SUCCESS) ++launches;
  }
  const auto took = std::chrono::steady_clock::now() - start;
  return say(code, launches, std::chrono::duration_cast<std::chrono::microseconds>(took).count());
}

// "graph-memory plain|any <bytes>": a graph with one node that allocates, launched and kept.
std::string graph_memory(Words& words) {
  const bool plain = take<std::string>(words) == "plain";
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphNodeParams wanted{};
  wanted.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
  wanted.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  wanted.alloc.bytesize = take<size_t>(words);
  CUDA_MEM_ALLOC_NODE_PARAMS allocation{};
  allocation.poolProps = wanted.alloc.poolProps;
  allocation.bytesize = wanted.alloc.bytesize;
  CUresult code = CU(cuGraphCreate)(&graph, 0);
  if (code == CUDA_SUCCESS && plain) code = CU(cuGraphAddMemAllocNode)(&node, graph, nullptr, 0, &allocation);
  if (code == CUDA_SUCCESS && !plain) code = CU(cuGraphAddNode)(&node, graph, nullptr, 0, &wanted);
  CUgraphExec exec = nullptr;
  if (code == CUDA_SUCCESS) code = CU(cuGraphInstantiateWithFlags)(&exec, graph, 0);
  if (code == CUDA_SUCCESS) code = CU(cuGraphLaunch)(exec, state.stream);
  return say(code, reinterpret_cast<size_t>(exec));
}

CUcontext current_context() {
  CUcontext context = nullptr;
  CU(cuCtxGetCurrent)(&context);
  return context;
}

// Several threads allocate and free at random; tells how many allocations each outcome had.
std::string storm(Words& words) {
  const int threads = take<int>(words);
  const int rounds = take<int>(words);
  const auto bytes = take<size_t>(words);
  std::vector<std::thread> all;
  int done = 0;
  int refused = 0;
  int other = 0;
  CUcontext context = current_context();
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([=, &done, &refused, &other] {
      CU(cuCtxSetCurrent)(context);
      const auto allocate_function = CU(cuMemAlloc);
      const auto free_function = CU(cuMemFree);
      unsigned random = static_cast<unsigned>(t) * 7919 + static_cast<unsigned>(getpid());
      std::vector<CUdeviceptr> held;
      for (int i = 0; i < rounds; ++i) {
        random = random * 1664525 + 1013904223;
        if (random >> 30 != 0 || held.empty()) {
          CUdeviceptr address = 0;
          const CUresult code = allocate_function(&address, bytes);
          if (code == CUDA_SUCCESS) held.push_back(address);
          __atomic_fetch_add(code == CUDA_SUCCESS ? &done : (code == CUDA_ERROR_OUT_OF_MEMORY ? &refused : &other), 1,
                             __ATOMIC_RELAXED);
        } else {
          free_function(held.back());
          held.pop_back();
        }
      }
      for (const CUdeviceptr address : held) free_function(address);
    });
  }
  for (auto& thread : all) thread.join();
  return std::to_string(done) + " " + std::to_string(refused) + " " + std::to_string(other);
}

std::string obey(const std::string& line);

// "thread <line>": obeyed by another thread, in the same context; "bare-thread <line>": in none.
std::string in_thread(Words& words, CUcontext context) {
  std::string rest;
  std::getline(words, rest);
  std::string answer;
  std::thread other([&] {
    CU(cuCtxSetCurrent)(context);
    answer = obey(rest.substr(rest.find_first_not_of(' ')));
  });
  other.join();
  return answer;
}

// "1", or "0" and whether the lookup says why; without that, programs that print the reason fall.
std::string dlsym_default(Words& words) {
  dlerror();
  if (dlsym(RTLD_DEFAULT, take<std::string>(words).c_str()) != nullptr) return "1";
  return dlerror() != nullptr ? "0 1" : "0 0";
}

// "deep <library> <bytes>": a plug-in that is linked to the driver, loaded so that its own dependencies come first.
std::string deep(Words& words) {
  void* library = dlopen(take<std::string>(words).c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (library == nullptr) return "-1";
  const auto function = reinterpret_cast<int (*)(unsigned long long)>(dlsym(library, "plugin_allocate"));
  return std::to_string(function != nullptr ? function(take<unsigned long long>(words)) : -2);
}

// Whether a name that no header declares can be had: "1" or "0".
std::string look_up([[maybe_unused]] Words& words) {
#ifdef PROBE_LINKED
  return "0";
#else
  const auto name = take<std::string>(words);
  return function_named(name.c_str(), name.c_str()) != nullptr ? "1" : "0";
#endif
}

std::string in_child(Words& words) {
  std::string rest;
  std::getline(words, rest);
  int ends[2];
  if (pipe(ends) != 0) return "pipe";
  const pid_t child = fork();
  if (child == 0) {
    std::string answer = obey(rest.substr(rest.find_first_not_of(' ')));
    if (write(ends[1], answer.data(), answer.size()) < 0) _exit(1);
    _exit(0);
  }
  close(ends[1]);
  char text[256];
  const ssize_t got = read(ends[0], text, sizeof(text));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return std::string(text, static_cast<size_t>(got > 0 ? got : 0)) + (WIFEXITED(status) ? "" : " died");
}

std::string pools(const std::string& verb, Words& words) {
  if (verb == "pool") {
    CUmemPoolProps wanted{};
    wanted.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    wanted.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    const CUresult code = CU(cuMemPoolCreate)(&state.pool, &wanted);
    return say(code);
  }
  if (verb == "keep") {
    CUmemoryPool pool = state.pool;
    if (pool == nullptr) CU(cuDeviceGetDefaultMemPool)(&pool, 0);
    cuuint64_t bytes = take<cuuint64_t>(words);
    return say(CU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &bytes));
  }
  if (verb == "trim") {
    CUmemoryPool pool = state.pool;
    if (pool == nullptr) CU(cuDeviceGetDefaultMemPool)(&pool, 0);
    return say(CU(cuMemPoolTrimTo)(pool, take<size_t>(words)));
  }
  const CUresult code = CU(cuMemPoolDestroy)(state.pool);
  state.pool = nullptr;
  return say(code);
}

std::string obey(const std::string& line) {
  Words words(line);
  const auto verb = take<std::string>(words);
  if (verb == "init") return say(CU(cuInit)(0));
  if (verb == "ctx" || verb == "ctx-destroy" || verb == "retain" || verb == "release" || verb == "reset") {
    return contexts(verb, words);
  }
  if (verb == "alloc" || verb == "managed" || verb == "async" || verb == "frompool" || verb == "pitch") {
    return allocate(verb, words);
  }
  if (verb == "free") return say(CU(cuMemFree)(take<CUdeviceptr>(words)));
  if (verb == "free-aside") {
    state.aside = std::thread([address = take<CUdeviceptr>(words)] { CU(cuMemFree)(address); });
    return "0";
  }
  if (verb == "join") return state.aside.join(), "0";
  if (verb == "free-async") return say(CU(cuMemFreeAsync)(take<CUdeviceptr>(words), state.stream));
  if (verb == "pool" || verb == "keep" || verb == "trim" || verb == "pool-destroy") return pools(verb, words);
  if (verb == "create" || verb == "create-shared" || verb == "create-host" || verb == "reimport" || verb == "map" ||
      verb == "unmap" || verb == "retain-handle" || verb == "release-handle") {
    return virtual_memory(verb, words);
  }
  if (verb == "array" || verb == "mipmap" || verb == "array-destroy" || verb == "mipmap-destroy") {
    return arrays(verb, words);
  }
  if (verb == "pools") return many_pools(words);
  if (verb == "interrupt") return interrupt(words);
  if (verb == "exec") return replace_self();
  if (verb == "stream") return say(CU(cuStreamCreate)(&state.stream, CU_STREAM_NON_BLOCKING));
  if (verb == "sync") return say(CU(cuStreamSynchronize)(state.stream));
  if (verb == "ctx-sync") return say(CU(cuCtxSynchronize)());
  if (verb == "info") return memory_info(words);
  if (verb == "info-null") return say(CU(cuMemGetInfo)(nullptr, nullptr));
  if (verb == "alloc-null") return say(CU(cuMemAlloc)(nullptr, 1));
  if (verb == "total") {
    size_t bytes = 0;
    const CUresult code = CU(cuDeviceTotalMem)(&bytes, take<int>(words));
    return say(code, bytes);
  }
  if (verb == "holders") return holders(words);
  if (verb == "nvml") return nvml_info(words);
  if (verb == "smi") return smi(words);
  if (verb == "kernel") return load_kernel(words);
  if (verb == "launch") return say(launch_once());
  if (verb == "launch-as") return launch_as(words);
  if (verb == "through") return learn_that_it_is_through(words);
  if (verb == "run") return run_for(words);
  if (verb == "graph") return run_graph(words);
  if (verb == "graph-memory") return graph_memory(words);
  if (verb == "graph-end") return say(CU(cuGraphExecDestroy)(reinterpret_cast<CUgraphExec>(take<size_t>(words))));
  if (verb == "storm") return storm(words);
  if (verb == "fork") return in_child(words);
  if (verb == "thread") return in_thread(words, current_context());
  if (verb == "bare-thread") return in_thread(words, nullptr);
  if (verb == "close-descriptors") {
    for (int fd = 3; fd < 1024; ++fd) close(fd);
    return "0";
  }
  if (verb == "call") {
    const auto name = take<std::string>(words);
    void* found = dlsym(RTLD_DEFAULT, name.c_str());
#ifndef PROBE_LINKED
    if (found == nullptr) found = dlsym(driver_handle(), name.c_str());
#endif
    const auto function = reinterpret_cast<int (*)()>(found);
    return std::to_string(function != nullptr ? function() : -1);
  }
  if (verb == "module" || verb == "library") return load_code(verb, words);
  if (verb == "module-unload" || verb == "library-unload") return unload_code(verb, words);
  if (verb == "heap") return say(CU(cuCtxSetLimit)(CU_LIMIT_MALLOC_HEAP_SIZE, take<size_t>(words)));
  if (verb == "set-ctx") return say(CU(cuCtxSetCurrent)(reinterpret_cast<CUcontext>(take<size_t>(words))));
  if (verb == "graph-cards") return graph_elsewhere(words);
  if (verb == "deep") return deep(words);
  if (verb == "look-up") return look_up(words);
  if (verb == "dlsym-default") return dlsym_default(words);
  return "unknown verb " + verb;
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 1) access_mode = arguments[1];
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << obey(line) << std::endl;
  }
  return 0;
}
