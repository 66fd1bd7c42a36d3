#include "run/session.h"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <ctime>

namespace nvsim::run {
namespace {

bool parse_scaled(const std::string& text, const std::map<std::string, std::int64_t>& units, std::int64_t& value) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number);
  const auto unit = units.find(std::string(result.ptr, end));
  if (result.ec != std::errc() || unit == units.end() || number < 0) {
    return false;
  }
  value = static_cast<std::int64_t>(number * static_cast<double>(unit->second));
  return true;
}

volatile std::sig_atomic_t stop_flag = 0;

}  // namespace

extern "C" void nvsim_run_on_signal(int) {
  stop_flag = 1;
}

bool stop_requested() {
  return stop_flag != 0;
}

bool parse_size(const std::string& text, std::uint64_t& bytes) {
  std::int64_t value = 0;
  const bool ok = parse_scaled(text, {{"", 1}, {"Ki", 1LL << 10}, {"Mi", 1LL << 20}, {"Gi", 1LL << 30}}, value);
  bytes = static_cast<std::uint64_t>(value);
  return ok;
}

bool parse_duration(const std::string& text, std::int64_t& nanoseconds) {
  return parse_scaled(text, {{"ns", 1}, {"us", 1000}, {"ms", 1'000'000}, {"s", 1'000'000'000}}, nanoseconds);
}

bool parse_counted(const std::string& text, std::int64_t& nanoseconds, std::int64_t& count) {
  const std::size_t star = text.find('*');
  count = 1;
  if (star != std::string::npos) {
    const char* end = text.data() + text.size();
    const auto result = std::from_chars(text.data() + star + 1, end, count);
    if (result.ec != std::errc() || result.ptr != end || count < 1) {
      return false;
    }
  }
  return parse_duration(text.substr(0, star), nanoseconds);
}

std::int64_t clock_ns() {
  timespec time = {};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

void sleep_for(std::int64_t nanoseconds) {
  const std::int64_t end = clock_ns() + nanoseconds;
  while (!stop_requested() && clock_ns() < end) {
    const std::int64_t left = std::min<std::int64_t>(end - clock_ns(), 50'000'000);
    const timespec time = {0, std::max<std::int64_t>(left, 1)};
    nanosleep(&time, nullptr);
  }
}

void print_line(const std::string& name, const Outcome& outcome) {
  static std::mutex mutex;
  const std::lock_guard guard(mutex);
  std::printf("%s %s%s\n", name.c_str(), outcome.ok ? "ok=1" : "ok=0",
              outcome.text.empty() ? "" : (" " + outcome.text).c_str());
  std::fflush(stdout);
}

CUresult Session::use_device() {
  const std::lock_guard guard(mutex);
  if (!loaded_) {
    loading_error = load_cuda(source, cuda);
    if (!loading_error.empty()) {
      return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
    }
    if (const CUresult code = cuda.cuInit(0); code != CUDA_SUCCESS) {
      return code;
    }
    loaded_ = true;
  }
  auto [entry, added] = contexts_.try_emplace(device, nullptr);
  if (entry->second == nullptr) {
    CUdevice handle = 0;
    CUresult code = cuda.cuDeviceGet(&handle, device);
    if (code == CUDA_SUCCESS) {
      code = cuda.cuDevicePrimaryCtxRetain(&entry->second, handle);
    }
    if (code != CUDA_SUCCESS) {
      entry->second = nullptr;
      return code;
    }
  }
  return cuda.cuCtxSetCurrent(entry->second);
}

nvmlReturn_t Session::use_nvml(nvmlDevice_t& handle) {
  if (!nvml_loaded_) {
    loading_error = load_nvml(source, nvml);
    if (!loading_error.empty()) {
      return NVML_ERROR_LIBRARY_NOT_FOUND;
    }
    if (const nvmlReturn_t code = nvml.nvmlInit_v2(); code != NVML_SUCCESS) {
      return code;
    }
    nvml_loaded_ = true;
  }
  return nvml.nvmlDeviceGetHandleByIndex_v2(static_cast<unsigned int>(device), &handle);
}

CUresult Session::kernel(std::int64_t duration_ns, CUfunction& function) {
  const std::lock_guard guard(mutex);
  const auto found = kernels_.find({device, duration_ns});
  if (found != kernels_.end()) {
    function = found->second;
    return CUDA_SUCCESS;
  }
  const std::string image = ".nvsim kernel work ns=" + std::to_string(duration_ns) + " sms=100000\n";
  CUmodule module = nullptr;
  CUresult code = cuda.cuModuleLoadData(&module, image.c_str());
  if (code == CUDA_SUCCESS) {
    code = cuda.cuModuleGetFunction(&function, module, "work");
  }
  if (code == CUDA_SUCCESS) {
    kernels_[{device, duration_ns}] = function;
  }
  return code;
}

std::string Session::name_of(CUresult code) {
  const char* name = nullptr;
  if (cuda.cuGetErrorName != nullptr && cuda.cuGetErrorName(code, &name) == CUDA_SUCCESS && name != nullptr) {
    return name;
  }
  return "CUresult " + std::to_string(static_cast<int>(code));
}

}  // namespace nvsim::run
