// ascendsim-run: an ACL program made of the steps on its command line, linked to nothing but glibc.
#include <acl/acl.h>
#include <ascend_abi/rt.h>
#include <dlfcn.h>
#include <signal.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace {

constexpr const char* kHelp =
    "usage: ascendsim-run STEP...   (libascendcl.so and libruntime.so from the library path)\n"
    "  device=N alloc=SIZE small=SIZE rt-alloc=SIZE dvpp=SIZE physical=SIZE   take memory (small: pages of 4 KiB)\n"
    "  physical-on=N                      where physical memory is taken from now on (device=N sets it as well)\n"
    "  expect-oom=SIZE rt-expect-oom=SIZE physical-oom=SIZE                  the same, refused with 207001\n"
    "  fill=SIZE                          take so much again and again until it is refused; print filled= code=\n"
    "  free-all reset mem                 give back; end the context; print free= total=\n"
    "  launch=US*N rt-launch=US*N sync    kernels of US microseconds on all AI cores\n"
    "  share=US:MS                        launch for MS milliseconds; print share= (percent of the card's time)\n"
    "  physical-id                        print physical=\n"
    "  ready                              print ready, wait for SIGUSR1\n"
    "Exit codes: 0 done, 1 usage, 2 a step failed.\n";

std::string g_why;

struct Functions {
  decltype(&::aclInit) init;
  decltype(&::aclrtSetDevice) set_device;
  decltype(&::aclrtResetDevice) reset_device;
  decltype(&::aclrtMalloc) malloc;
  decltype(&::aclrtFree) free;
  decltype(&::aclrtMallocPhysical) malloc_physical;
  decltype(&::aclrtFreePhysical) free_physical;
  decltype(&::aclrtGetMemInfo) mem_info;
  decltype(&::aclrtSynchronizeDevice) synchronize;
  decltype(&::aclrtSynchronizeStream) synchronize_stream;
  decltype(&::aclrtBinaryLoadFromData) load;
  decltype(&::aclrtBinaryGetFunction) function;
  decltype(&::aclrtLaunchKernel) launch;
  decltype(&::aclrtGetPhyDevIdByLogicDevId) physical_id;
  decltype(&::rtMalloc) rt_malloc;
  decltype(&::rtFree) rt_free;
  decltype(&::rtDvppMalloc) rt_dvpp_malloc;
  decltype(&::rtKernelLaunchWithFlagV2) rt_launch;
};

template <typename F>
bool find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  if (function == nullptr) g_why = std::string("no ") + name;
  return function != nullptr;
}

bool load(Functions& f) {
  void* acl = dlopen("libascendcl.so", RTLD_NOW | RTLD_GLOBAL);
  void* runtime = acl == nullptr ? nullptr : dlopen("libruntime.so", RTLD_NOW | RTLD_GLOBAL);
  if (runtime == nullptr) {
    g_why = dlerror();
    return false;
  }
  return find(acl, "aclInit", f.init) && find(acl, "aclrtSetDevice", f.set_device) &&
         find(acl, "aclrtResetDevice", f.reset_device) && find(acl, "aclrtMalloc", f.malloc) &&
         find(acl, "aclrtFree", f.free) && find(acl, "aclrtMallocPhysical", f.malloc_physical) &&
         find(acl, "aclrtFreePhysical", f.free_physical) && find(acl, "aclrtGetMemInfo", f.mem_info) &&
         find(acl, "aclrtSynchronizeDevice", f.synchronize) &&
         find(acl, "aclrtSynchronizeStream", f.synchronize_stream) && find(acl, "aclrtBinaryLoadFromData", f.load) &&
         find(acl, "aclrtBinaryGetFunction", f.function) && find(acl, "aclrtLaunchKernel", f.launch) &&
         find(acl, "aclrtGetPhyDevIdByLogicDevId", f.physical_id) && find(runtime, "rtMalloc", f.rt_malloc) &&
         find(runtime, "rtFree", f.rt_free) && find(runtime, "rtDvppMalloc", f.rt_dvpp_malloc) &&
         find(runtime, "rtKernelLaunchWithFlagV2", f.rt_launch);
}

bool read_number(const std::string& text, uint64_t& value, std::string& rest) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  rest.assign(result.ptr, text.data() + text.size());
  return result.ec == std::errc();
}

bool read_size(const std::string& text, uint64_t& bytes) {
  std::string unit;
  if (!read_number(text, bytes, unit)) return false;
  const std::map<std::string, unsigned> shifts = {{"", 0}, {"Ki", 10}, {"Mi", 20}, {"Gi", 30}};
  const auto found = shifts.find(unit);
  if (found == shifts.end()) return false;
  bytes <<= found->second;
  return true;
}

class Session {
 public:
  bool start() {
    if (!load(f_)) return false;
    return ok("aclInit", f_.init(nullptr)) && ok("aclrtSetDevice", f_.set_device(0));
  }
  bool step(const std::string& name, const std::string& value);

 private:
  static bool ok(const char* what, int code) {
    if (code == ACL_SUCCESS) return true;
    g_why = std::string(what) + ": " + std::to_string(code);
    return false;
  }
  int allocate(const std::string& kind, uint64_t bytes);
  bool memory_step(const std::string& name, const std::string& value);
  bool launches(const std::string& value, bool low);
  bool share(const std::string& value);
  bool kernel(uint64_t us, aclrtFuncHandle& function);

  Functions f_{};
  int device_ = 0;
  int physical_on_ = 0;
  std::vector<void*> memory_;
  std::vector<aclrtDrvMemHandle> handles_;
  std::map<uint64_t, aclrtFuncHandle> kernels_;
};

int Session::allocate(const std::string& kind, uint64_t bytes) {
  if (kind == "physical") {
    aclrtPhysicalMemProp wanted{};
    wanted.memAttr = ACL_HBM_MEM_HUGE;
    wanted.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    wanted.location.id = static_cast<uint32_t>(physical_on_);
    aclrtDrvMemHandle handle = nullptr;
    const int code = f_.malloc_physical(&handle, bytes, &wanted, 0);
    if (code == ACL_SUCCESS) handles_.push_back(handle);
    return code;
  }
  void* pointer = nullptr;
  const int code = kind == "rt"      ? f_.rt_malloc(&pointer, bytes, RT_MEMORY_HBM, 0)
                   : kind == "dvpp"  ? f_.rt_dvpp_malloc(&pointer, bytes, 0)
                   : kind == "small" ? f_.malloc(&pointer, bytes, ACL_MEM_MALLOC_NORMAL_ONLY)
                                     : f_.malloc(&pointer, bytes, ACL_MEM_MALLOC_HUGE_FIRST);
  if (code == ACL_SUCCESS) memory_.push_back(pointer);
  return code;
}

bool Session::memory_step(const std::string& name, const std::string& value) {
  static const std::map<std::string, std::string> takes = {
      {"alloc", "acl"}, {"small", "small"}, {"rt-alloc", "rt"}, {"dvpp", "dvpp"}, {"physical", "physical"}};
  static const std::map<std::string, std::string> refusals = {
      {"expect-oom", "acl"}, {"rt-expect-oom", "rt"}, {"physical-oom", "physical"}};
  uint64_t bytes = 0;
  if (!read_size(value, bytes)) return g_why = "not a size", false;
  if (name == "fill") {
    int count = 0;
    int code = ACL_SUCCESS;
    while ((code = allocate("acl", bytes)) == ACL_SUCCESS) ++count;
    std::printf("filled=%d code=%d\n", count, code);
    return true;
  }
  if (takes.contains(name)) return ok(name.c_str(), allocate(takes.at(name), bytes));
  const int code = allocate(refusals.at(name), bytes);
  if (code == ACL_ERROR_RT_MEMORY_ALLOCATION) return true;
  g_why = name + ": answered " + std::to_string(code);
  return false;
}

bool Session::kernel(uint64_t us, aclrtFuncHandle& function) {
  const auto known = kernels_.find(us);
  if (known != kernels_.end()) return function = known->second, true;
  const std::string text = ".ascendsim kernel k us=" + std::to_string(us) + "\n";
  aclrtBinHandle binary = nullptr;
  if (!ok("load", f_.load(text.data(), text.size(), nullptr, &binary))) return false;
  if (!ok("function", f_.function(binary, "k", &function))) return false;
  kernels_[us] = function;
  return true;
}

bool Session::launches(const std::string& value, bool low) {
  uint64_t us = 0, count = 0;
  std::string rest;
  if (!read_number(value, us, rest) || rest.size() < 2 || !read_number(rest.substr(1), count, rest)) {
    return g_why = "write launch=US*N", false;
  }
  aclrtFuncHandle function = nullptr;
  if (!kernel(us, function)) return false;
  rtArgsEx_t args{};
  for (uint64_t i = 0; i < count; ++i) {
    const int code = low ? f_.rt_launch(function, 64, &args, nullptr, nullptr, 0, nullptr)
                         : f_.launch(function, 64, nullptr, 0, nullptr);
    if (!ok("launch", code)) return false;
  }
  return true;
}

// Kernels back to back, at most 8 ahead of the card.
bool Session::share(const std::string& value) {
  uint64_t us = 0, ms = 0;
  std::string rest;
  if (!read_number(value, us, rest) || rest.size() < 2 || !read_number(rest.substr(1), ms, rest)) {
    return g_why = "write share=US:MS", false;
  }
  aclrtFuncHandle function = nullptr;
  if (!kernel(us, function)) return false;
  const auto begin = std::chrono::steady_clock::now();
  const auto passed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  uint64_t done = 0;
  while (passed() * 1000 < static_cast<double>(ms)) {
    for (int i = 0; i < 8; ++i) {
      if (!ok("launch", f_.launch(function, 64, nullptr, 0, nullptr))) return false;
    }
    if (!ok("synchronize", f_.synchronize_stream(nullptr))) return false;
    done += 8;
  }
  std::printf("share=%.2f\n", 100.0 * static_cast<double>(done * us) / 1e6 / passed());
  return true;
}

bool Session::step(const std::string& name, const std::string& value) {
  if (name == "launch" || name == "rt-launch") return launches(value, name == "rt-launch");
  if (name == "share") return share(value);
  if (name == "sync") return ok("synchronize", f_.synchronize());
  if (name == "device") {
    device_ = std::atoi(value.c_str());
    physical_on_ = device_;
    return ok("aclrtSetDevice", f_.set_device(device_));
  }
  if (name == "physical-on") return physical_on_ = std::atoi(value.c_str()), true;
  if (name == "reset") {
    memory_.clear();
    handles_.clear();
    return ok("aclrtResetDevice", f_.reset_device(device_));
  }
  if (name == "free-all") {
    for (void* pointer : memory_) {
      if (!ok("free", f_.free(pointer))) return false;
    }
    for (aclrtDrvMemHandle handle : handles_) {
      if (!ok("free physical", f_.free_physical(handle))) return false;
    }
    memory_.clear();
    handles_.clear();
    return true;
  }
  if (name == "mem") {
    size_t free = 0, total = 0;
    if (!ok("aclrtGetMemInfo", f_.mem_info(ACL_HBM_MEM, &free, &total))) return false;
    std::printf("free=%zu total=%zu\n", free >> 20U, total >> 20U);
    return true;
  }
  if (name == "physical-id") {
    int32_t physical = -1;
    if (!ok("physical id", f_.physical_id(device_, &physical))) return false;
    std::printf("physical=%d\n", physical);
    return true;
  }
  if (name == "ready") {
    std::printf("ready\n");
    std::fflush(stdout);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    int signal = 0;
    return sigwait(&set, &signal) == 0;
  }
  return memory_step(name, value);
}

}  // namespace

int main(int count, char** arguments) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  sigset_t waited;
  sigemptyset(&waited);
  sigaddset(&waited, SIGUSR1);
  sigprocmask(SIG_BLOCK, &waited, nullptr);
  static const std::string names =
      " device physical-on alloc fill small rt-alloc dvpp physical expect-oom rt-expect-oom physical-oom free-all "
      "reset mem launch "
      "rt-launch sync share physical-id ready ";
  std::vector<std::pair<std::string, std::string>> steps;
  for (int i = 1; i < count; ++i) {
    const std::string text = arguments[i];
    const std::size_t equals = text.find('=');
    steps.emplace_back(text.substr(0, equals), equals == std::string::npos ? "" : text.substr(equals + 1));
    if (names.find(" " + steps.back().first + " ") == std::string::npos) steps.clear(), count = 0;
  }
  if (steps.empty()) {
    std::fputs(kHelp, stderr);
    return 1;
  }
  Session session;
  if (!session.start()) {
    std::fprintf(stderr, "ascendsim-run: %s\n", g_why.c_str());
    return 2;
  }
  for (const auto& [name, value] : steps) {
    if (session.step(name, value)) continue;
    std::fprintf(stderr, "ascendsim-run: %s=%s: %s\n", name.c_str(), value.c_str(), g_why.c_str());
    return 2;
  }
  return 0;
}
