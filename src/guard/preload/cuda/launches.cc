// The launch families. Without a compute limit a launch costs one counter.
#include "guard/preload/cuda/graphs.h"
#include "guard/preload/cuda/memory.h"
#include "guard/preload/cuda/pools.h"
#include "guard/preload/cuda/stream_context.h"
#include "guard/preload/launch.h"

namespace heddle::guard {
namespace {

void count_launch() {
  if (heddle_guard_slot* slot = own_slot()) __atomic_fetch_add(&slot->launches, 1, __ATOMIC_RELAXED);
}

uint64_t mix(uint64_t hash, uint64_t value) {
  return (hash ^ value) * 0x9e3779b97f4a7c15u ^ (hash >> 29);
}

// Grids of the same order of magnitude share an estimate; blocks and shared memory are part of the shape.
uint64_t key_of(const void* function, uint64_t blocks, uint64_t threads, uint64_t shared_bytes) {
  const auto magnitude = static_cast<uint64_t>(64 - __builtin_clzll(blocks | 1));
  const uint64_t key = mix(mix(mix(reinterpret_cast<uint64_t>(function), magnitude), threads), shared_bytes);
  return key != 0 ? key : 1;
}

uint64_t times(unsigned int x, unsigned int y, unsigned int z) {
  return uint64_t{x} * y * z;
}

// Where work goes: into a stream, and to the devices of further rules.
struct Work {
  CUstream stream;
  bool per_thread;
  uint32_t further_rules;
};

constexpr uint32_t kMostGates = 1 + HEDDLE_GUARD_MAX_DEVICES;

// The gates of all devices that a launch runs on, one after the other: none is held while another is waited for.
class Gates {
 public:
  template <typename Key>
  void pass(const Work& work, Key key) {
    const Config& c = config();
    const int own = current_rule();
    for (int rule = 0; rule < static_cast<int>(c.device_count); ++rule) {
      if (rule != own && (work.further_rules >> rule & 1) == 0) continue;
      if (c.devices[rule].paced()) tickets_[count_++] = admit(rule, Launch{key(), work.stream, work.per_thread});
    }
  }
  void leave(bool launched) {
    for (uint32_t i = 0; i < count_; ++i) after_launch(tickets_[i], launched);
  }
  [[nodiscard]] bool any() const { return count_ != 0; }

 private:
  Ticket tickets_[kMostGates] = {};
  uint32_t count_ = 0;
};

// These are inlined into the exported functions: Entry looks at who called them.
template <typename Key, typename Call>
[[gnu::always_inline]] inline CUresult launch(const Work& work, Key key, Call call) {
  const Entry entry;
  if (entry.nested()) return call();
  count_launch();
  const auto rule_of_work = [&] {
    const StreamContext there(work.stream);
    return current_rule();
  };
  announce(rule_of_work);
  if (!config().any_compute_limit) return call();
  Gates gates;
  {
    const StreamContext there(work.stream);
    gates.pass(work, key);
  }
  const CUresult result = call();
  if (!gates.any()) return result;
  const StreamContext there(work.stream);
  gates.leave(result == CUDA_SUCCESS);
  return result;
}

template <typename Key, typename Call>
[[gnu::always_inline]] inline CUresult launch(CUstream stream, bool per_thread, Key key, Call call) {
  return launch(Work{stream, per_thread, 0}, key, call);
}

template <typename Real>
[[gnu::always_inline]] inline CUresult launch_kernel(Real real, bool per_thread, CUfunction f, unsigned int gx,
                                                     unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
                                                     unsigned int bz, unsigned int shared_bytes, CUstream stream,
                                                     void** params, void** extra) {
  if (real == nullptr) return kNoSuchFunction;
  return launch(
      stream, per_thread, [&] { return key_of(f, times(gx, gy, gz), times(bx, by, bz), shared_bytes); },
      [&] { return real(f, gx, gy, gz, bx, by, bz, shared_bytes, stream, params, extra); });
}

template <typename Real>
[[gnu::always_inline]] inline CUresult launch_extended(Real real, bool per_thread, const CUlaunchConfig* shape,
                                                       CUfunction f, void** params, void** extra) {
  if (real == nullptr) return kNoSuchFunction;
  if (shape == nullptr) return real(shape, f, params, extra);
  return launch(
      shape->hStream, per_thread,
      [&] {
        return key_of(f, times(shape->gridDimX, shape->gridDimY, shape->gridDimZ),
                      times(shape->blockDimX, shape->blockDimY, shape->blockDimZ), shape->sharedMemBytes);
      },
      [&] { return real(shape, f, params, extra); });
}

template <typename Real>
[[gnu::always_inline]] inline CUresult launch_cooperative(Real real, bool per_thread, CUfunction f, unsigned int gx,
                                                          unsigned int gy, unsigned int gz, unsigned int bx,
                                                          unsigned int by, unsigned int bz, unsigned int shared_bytes,
                                                          CUstream stream, void** params) {
  if (real == nullptr) return kNoSuchFunction;
  return launch(
      stream, per_thread, [&] { return key_of(f, times(gx, gy, gz), times(bx, by, bz), shared_bytes); },
      [&] { return real(f, gx, gy, gz, bx, by, bz, shared_bytes, stream, params); });
}

template <typename Real>
[[gnu::always_inline]] inline CUresult launch_graph(Real real, bool per_thread, CUgraphExec graph, CUstream stream) {
  if (real == nullptr) return kNoSuchFunction;
  bool room = true;
  {
    const Entry entry;
    room = entry.nested() || reserve_graph(graph);
  }
  if (!room) return CUDA_ERROR_OUT_OF_MEMORY;
  const auto key = [&] { return key_of(graph, 0, 0, 0x67726170); };
  const CUresult result =
      launch(Work{stream, per_thread, rules_of_graph(graph)}, key, [&] { return real(graph, stream); });
  const Entry entry;
  if (!entry.nested()) settle_graph(graph);
  return result;
}

}  // namespace
}  // namespace heddle::guard

using namespace heddle::guard;

extern "C" {

HEDDLE_EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                                      unsigned int by, unsigned int bz, unsigned int shared_bytes, CUstream stream,
                                      void** params, void** extra) {
  return launch_kernel(cuda().cuLaunchKernel, false, f, gx, gy, gz, bx, by, bz, shared_bytes, stream, params, extra);
}

HEDDLE_EXPORT CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
                                           unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared_bytes,
                                           CUstream stream, void** params, void** extra) {
  return launch_kernel(cuda().cuLaunchKernel_ptsz, true, f, gx, gy, gz, bx, by, bz, shared_bytes, stream, params,
                       extra);
}

HEDDLE_EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig* shape, CUfunction f, void** params, void** extra) {
  return launch_extended(cuda().cuLaunchKernelEx, false, shape, f, params, extra);
}

HEDDLE_EXPORT CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig* shape, CUfunction f, void** params, void** extra) {
  return launch_extended(cuda().cuLaunchKernelEx_ptsz, true, shape, f, params, extra);
}

HEDDLE_EXPORT CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
                                                 unsigned int bx, unsigned int by, unsigned int bz,
                                                 unsigned int shared_bytes, CUstream stream, void** params) {
  return launch_cooperative(cuda().cuLaunchCooperativeKernel, false, f, gx, gy, gz, bx, by, bz, shared_bytes, stream,
                            params);
}

HEDDLE_EXPORT CUresult cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
                                                      unsigned int bx, unsigned int by, unsigned int bz,
                                                      unsigned int shared_bytes, CUstream stream, void** params) {
  return launch_cooperative(cuda().cuLaunchCooperativeKernel_ptsz, true, f, gx, gy, gz, bx, by, bz, shared_bytes,
                            stream, params);
}

// One launch over several devices passes the gate of each.
HEDDLE_EXPORT CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS* list, unsigned int count,
                                                            unsigned int flags) {
  const auto real = cuda().cuLaunchCooperativeKernelMultiDevice;
  if (real == nullptr) return kNoSuchFunction;
  if (list == nullptr || count == 0) return real(list, count, flags);
  uint32_t further = 0;
  {
    const Entry entry;
    for (unsigned int i = 1; !entry.nested() && config().any_compute_limit && i < count; ++i) {
      const StreamContext there(list[i].hStream);
      const int rule = current_rule();
      if (rule >= 0) further |= uint32_t{1} << rule;
    }
  }
  return launch(
      Work{list[0].hStream, false, further},
      [&] {
        return key_of(list[0].function, times(list[0].gridDimX, list[0].gridDimY, list[0].gridDimZ),
                      times(list[0].blockDimX, list[0].blockDimY, list[0].blockDimZ), list[0].sharedMemBytes);
      },
      [&] { return real(list, count, flags); });
}

HEDDLE_EXPORT CUresult cuLaunch(CUfunction f) {
  const auto real = cuda().cuLaunch;
  if (real == nullptr) return kNoSuchFunction;
  return launch(nullptr, false, [&] { return key_of(f, 1, 0, 0); }, [&] { return real(f); });
}

HEDDLE_EXPORT CUresult cuLaunchGrid(CUfunction f, int width, int height) {
  const auto real = cuda().cuLaunchGrid;
  if (real == nullptr) return kNoSuchFunction;
  return launch(
      nullptr, false, [&] { return key_of(f, static_cast<uint64_t>(width) * static_cast<uint64_t>(height), 0, 0); },
      [&] { return real(f, width, height); });
}

HEDDLE_EXPORT CUresult cuLaunchGridAsync(CUfunction f, int width, int height, CUstream stream) {
  const auto real = cuda().cuLaunchGridAsync;
  if (real == nullptr) return kNoSuchFunction;
  return launch(
      stream, false, [&] { return key_of(f, static_cast<uint64_t>(width) * static_cast<uint64_t>(height), 0, 0); },
      [&] { return real(f, width, height, stream); });
}

HEDDLE_EXPORT CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream) {
  return launch_graph(cuda().cuGraphLaunch, false, graph, stream);
}

HEDDLE_EXPORT CUresult cuGraphLaunch_ptsz(CUgraphExec graph, CUstream stream) {
  return launch_graph(cuda().cuGraphLaunch_ptsz, true, graph, stream);
}

#define HEDDLE_STREAM_END(name)                      \
  HEDDLE_EXPORT CUresult name(CUstream stream) {     \
    const auto real = cuda().name;                   \
    if (real == nullptr) return kNoSuchFunction;     \
    const Entry entry;                               \
    if (!entry.nested()) before_stream_ends(stream); \
    return real(stream);                             \
  }
HEDDLE_STREAM_END(cuStreamDestroy)
HEDDLE_STREAM_END(cuStreamDestroy_v2)
#undef HEDDLE_STREAM_END
}
