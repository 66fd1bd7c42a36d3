// What the guard adds to a call: the same loops over a driver that does nothing, in a process without the guard and in
// one with it. Prints one flat JSON object. `--quick` measures less, for a test that the benchmark still runs.
#include <cuda.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/file.h"
#include "guard/files.h"

namespace heddle::guard {
namespace {

constexpr int kBatch = 1000;

int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<int64_t>(now.tv_sec) * 1000000000 + now.tv_nsec;
}

template <typename F>
F bind(void* library, const char* name) {
  return reinterpret_cast<F>(dlsym(library, name));
}

// Nanoseconds a call, the least of many batches: what the call costs when nothing disturbs it.
struct Costs {
  double launch = 1e9;
  double launch_mean = 0;
  double allocate = 1e9;
  double release = 1e9;
};

Costs measure(int batches) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) std::exit(3);
  const auto launch = bind<decltype(&cuLaunchKernel)>(driver, "cuLaunchKernel");
  const auto allocate = bind<decltype(&cuMemAlloc)>(driver, "cuMemAlloc_v2");
  const auto release = bind<decltype(&cuMemFree)>(driver, "cuMemFree_v2");
  std::vector<CUdeviceptr> held(kBatch);
  const auto kernel = reinterpret_cast<CUfunction>(uintptr_t{0x5000});
  Costs costs;
  int64_t all = 0;
  for (int i = 0; i < batches; ++i) {
    int64_t start = now_ns();
    for (int k = 0; k < kBatch; ++k) launch(kernel, 64, 1, 1, 128, 1, 1, 0, nullptr, nullptr, nullptr);
    const int64_t took = now_ns() - start;
    all += took;
    costs.launch = std::min(costs.launch, static_cast<double>(took) / kBatch);
    start = now_ns();
    for (CUdeviceptr& address : held) {
      if (allocate(&address, 3000000) != CUDA_SUCCESS) std::exit(4);
    }
    costs.allocate = std::min(costs.allocate, static_cast<double>(now_ns() - start) / kBatch);
    start = now_ns();
    for (const CUdeviceptr address : held) release(address);
    costs.release = std::min(costs.release, static_cast<double>(now_ns() - start) / kBatch);
  }
  costs.launch_mean = static_cast<double>(all) / (static_cast<double>(batches) * kBatch);
  return costs;
}

// Runs this program again as a measuring process, with a preload library or without, and reads its four numbers.
Costs measured_in(const std::string& self, const std::string& folder, const std::string& preload, int batches) {
  int ends[2];
  Costs costs;
  if (pipe(ends) != 0) return costs;
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 1);
    setenv("LD_LIBRARY_PATH", HEDDLE_FAKE_LIBRARIES, 1);
    setenv("HEDDLE_GUARD_DIR", folder.c_str(), 1);
    if (!preload.empty()) setenv("LD_PRELOAD", preload.c_str(), 1);
    execl(self.c_str(), self.c_str(), "--measure", std::to_string(batches).c_str(), nullptr);
    _exit(127);
  }
  close(ends[1]);
  FILE* answer = fdopen(ends[0], "r");
  if (fscanf(answer, "%lf %lf %lf %lf", &costs.launch, &costs.launch_mean, &costs.allocate, &costs.release) != 4) {
    std::fprintf(stderr, "a measuring process failed\n");
    std::exit(3);
  }
  std::fclose(answer);
  waitpid(child, nullptr, 0);
  return costs;
}

// Seconds until so many processes that start at once have each loaded the driver and allocated.
double start_many(const std::string& self, const std::string& folder, const std::string& preload, int count) {
  setenv("LD_LIBRARY_PATH", HEDDLE_FAKE_LIBRARIES, 1);
  setenv("HEDDLE_GUARD_DIR", folder.c_str(), 1);
  const int64_t start = now_ns();
  for (int i = 0; i < count; ++i) {
    if (fork() != 0) continue;
    if (!preload.empty()) setenv("LD_PRELOAD", preload.c_str(), 1);
    execl(self.c_str(), self.c_str(), "--once", nullptr);
    _exit(127);
  }
  int failed = 0;
  int status = 0;
  while (wait(&status) > 0) failed += status != 0 ? 1 : 0;
  if (failed != 0) std::fprintf(stderr, "%d of %d processes failed\n", failed, count);
  return static_cast<double>(now_ns() - start) / 1e9;
}

int start_once() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) return 3;
  CUdeviceptr address = 0;
  return bind<decltype(&cuMemAlloc)>(driver, "cuMemAlloc_v2")(&address, 3000000) == CUDA_SUCCESS ? 0 : 4;
}

bool prepare(const std::string& folder, int cores) {
  ClaimLimits limits;
  limits.devices = {{"GPU-11111111-1111-1111-1111-111111111111", int64_t{12} << 30, cores, false, 0}};
  const auto content = encode_limits(limits);
  return content && write_file_atomic(folder + "/limits", *content, 0444) &&
         create_usage(folder + "/usage", limits).has_value();
}

int run(const std::string& self, int batches) {
  char name[] = "/tmp/heddle-bench-XXXXXX";
  if (mkdtemp(name) == nullptr) return 3;
  const std::string folder = name;
  bool ready = prepare(folder, 0);
  const Costs bare = measured_in(self, folder, "", batches);
  const Costs guarded = measured_in(self, folder, HEDDLE_GUARD_LIBRARY, batches);
  const int processes = batches > 100 ? 1000 : 20;
  double ratio = 1e9;
  for (int i = 0; i < 3; ++i) {
    const double alone = start_many(self, folder, "", processes);
    ratio = std::min(ratio, start_many(self, folder, HEDDLE_GUARD_LIBRARY, processes) / alone);
  }
  ready = ready && prepare(folder, 90);
  const Costs limited = measured_in(self, folder, HEDDLE_GUARD_LIBRARY, batches);
  std::string peer;
  if (const char* library = std::getenv("PEER_GUARD")) {
    char text[80];
    std::snprintf(text, sizeof(text), "\"guard.peer_launch_added_ns\": %.1f, ",
                  measured_in(self, folder, library, batches).launch - bare.launch);
    peer = text;
  }
  if (!remove_tree(folder) || !ready) return 3;
  std::printf(
      "{%s\"guard.launch_added_ns\": %.1f, \"guard.launch_limited_added_ns\": %.1f, \"guard.alloc_added_ns\": %.1f, "
      "\"guard.free_added_ns\": %.1f, \"guard.start1000_ratio\": %.2f}\n",
      peer.c_str(), guarded.launch - bare.launch, limited.launch_mean - bare.launch_mean,
      guarded.allocate - bare.allocate, guarded.release - bare.release, ratio);
  return 0;
}

}  // namespace
}  // namespace heddle::guard

int main(int count, char** arguments) {
  const std::string first = count > 1 ? arguments[1] : "";
  if (first == "--measure") {
    const auto costs = heddle::guard::measure(count > 2 ? std::atoi(arguments[2]) : 1);
    std::printf("%f %f %f %f\n", costs.launch, costs.launch_mean, costs.allocate, costs.release);
    return 0;
  }
  if (first == "--once") return heddle::guard::start_once();
  return heddle::guard::run("/proc/self/exe", first == "--quick" ? 3 : 1000);
}
