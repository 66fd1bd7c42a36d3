// What a run of nvsim-run carries from step to step.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "run/api.h"

namespace nvsim::run {

struct Allocation {
  std::string family;
  CUdeviceptr address = 0;
  std::uint64_t size = 0;
  void* object = nullptr;                   // array, host pointer
  CUmemGenericAllocationHandle handle = 0;  // vmm
};

// The outcome of a step: what it prints after its name, and whether it holds.
struct Outcome {
  std::string text;
  bool ok = true;
};

class Session {
 public:
  Source source;
  Cuda cuda;
  Nvml nvml;
  int device = 0;
  std::int64_t kernel_ns = 2'000'000;  // for measure-share
  double last_share = 0;
  std::vector<Allocation> allocations;
  std::mutex mutex;  // guards allocations and modules while steps run in threads

  // Loads libcuda, initialises it and makes the primary context of `device` current in this thread.
  CUresult use_device();
  // NVML, initialised; its handle of `device`.
  nvmlReturn_t use_nvml(nvmlDevice_t& handle);
  // A kernel that runs `duration`.
  CUresult kernel(std::int64_t duration_ns, CUfunction& function);
  std::string name_of(CUresult code);
  std::string loading_error;

 private:
  bool loaded_ = false, nvml_loaded_ = false;
  std::map<int, CUcontext> contexts_;
  std::map<std::pair<int, std::int64_t>, CUfunction> kernels_;
};

// A step: does what its name says with the value, and tells how it went.
using Step = std::function<Outcome(Session&, const std::string&)>;
void add_memory_steps(std::map<std::string, Step>& steps);
void add_work_steps(std::map<std::string, Step>& steps);
void add_process_steps(std::map<std::string, Step>& steps);

// 300Mi, 2Gi, 4096. False: not a size.
bool parse_size(const std::string& text, std::uint64_t& bytes);
// 2ms, 50us, 1s. False: not a duration.
bool parse_duration(const std::string& text, std::int64_t& nanoseconds);
// "2ms*500" into its parts; without a factor the count is 1.
bool parse_counted(const std::string& text, std::int64_t& nanoseconds, std::int64_t& count);
std::int64_t clock_ns();
void sleep_for(std::int64_t nanoseconds);
// True once SIGTERM or SIGINT has come.
bool stop_requested();
void print_line(const std::string& name, const Outcome& outcome);

}  // namespace nvsim::run
