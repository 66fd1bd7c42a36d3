// Steps that give the card work and measure what they get of it.
#include <unistd.h>

#include <cmath>
#include <cstdio>

#include "run/session.h"

namespace nvsim::run {
namespace {

Outcome failed(Session& session, CUresult code) {
  return {"error=" + session.name_of(code), false};
}

CUresult launch_once(Session& session, const std::string& family, CUfunction function) {
  Cuda& cuda = session.cuda;
  if (family == "ex") {
    CUlaunchConfig config = {};
    config.gridDimX = 1024;
    config.blockDimX = 256;
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    return cuda.cuLaunchKernelEx(&config, function, nullptr, nullptr);
  }
  if (family == "coop") {
    return cuda.cuLaunchCooperativeKernel(function, 1024, 1, 1, 256, 1, 1, 0, nullptr, nullptr);
  }
  return cuda.cuLaunchKernel(function, 1024, 1, 1, 256, 1, 1, 0, nullptr, nullptr, nullptr);
}

// All launches as the nodes of one graph.
CUresult launch_graph(Session& session, CUfunction function, std::int64_t count) {
  Cuda& cuda = session.cuda;
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  CUresult code = cuda.cuGraphCreate(&graph, 0);
  CUgraphNode previous = nullptr;
  for (std::int64_t index = 0; index < count && code == CUDA_SUCCESS; ++index) {
    CUDA_KERNEL_NODE_PARAMS parameters = {};
    parameters.func = function;
    parameters.gridDimX = 1024;
    parameters.blockDimX = 256;
    parameters.gridDimY = parameters.gridDimZ = parameters.blockDimY = parameters.blockDimZ = 1;
    CUgraphNode node = nullptr;
    code = cuda.cuGraphAddKernelNode(&node, graph, previous == nullptr ? nullptr : &previous,
                                     previous == nullptr ? 0 : 1, &parameters);
    previous = node;
  }
  if (code == CUDA_SUCCESS) {
    code = cuda.cuGraphInstantiateWithFlags(&executable, graph, 0);
  }
  if (code == CUDA_SUCCESS) {
    code = cuda.cuGraphLaunch(executable, nullptr);
  }
  if (executable != nullptr) {
    cuda.cuCtxSynchronize();
    cuda.cuGraphExecDestroy(executable);
  }
  if (graph != nullptr) {
    cuda.cuGraphDestroy(graph);
  }
  return code;
}

Outcome launch(Session& session, const std::string& family, const std::string& value, bool wait) {
  std::int64_t duration = 0, count = 0;
  if (!parse_counted(value, duration, count)) {
    return {"error='write a duration and a count, like 2ms*500'", false};
  }
  CUfunction function = nullptr;
  CUresult code = session.use_device();
  if (code == CUDA_SUCCESS) {
    code = session.kernel(duration, function);
  }
  const std::int64_t start = clock_ns();
  if (code == CUDA_SUCCESS && family == "graph") {
    code = launch_graph(session, function, count);
  } else {
    for (std::int64_t index = 0; index < count && code == CUDA_SUCCESS; ++index) {
      code = launch_once(session, family, function);
    }
  }
  const std::int64_t launched = clock_ns() - start;
  if (code == CUDA_SUCCESS && wait) {
    code = session.cuda.cuCtxSynchronize();
  }
  if (code != CUDA_SUCCESS) {
    return failed(session, code);
  }
  return {"kernels=" + std::to_string(count) + " launch_us=" + std::to_string(launched / 1000) +
              " elapsed_us=" + std::to_string((clock_ns() - start) / 1000),
          true};
}

Outcome synchronize(Session& session, const std::string&) {
  CUresult code = session.use_device();
  code = code == CUDA_SUCCESS ? session.cuda.cuCtxSynchronize() : code;
  return code == CUDA_SUCCESS ? Outcome{"", true} : failed(session, code);
}

// Keeps the card busy with kernels of `kernel=` length, some launched ahead, while more(time so far), and tells which
// part of that time they made up: alone this is about 1.
Outcome keep_busy(Session& session, const std::function<bool(std::int64_t elapsed)>& more) {
  constexpr int kAhead = 4;
  CUfunction function = nullptr;
  CUresult code = session.use_device();
  code = code == CUDA_SUCCESS ? session.kernel(session.kernel_ns, function) : code;
  CUstream stream = nullptr;
  code = code == CUDA_SUCCESS ? session.cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) : code;
  CUevent events[kAhead] = {};
  for (CUevent& event : events) {
    code = code == CUDA_SUCCESS ? session.cuda.cuEventCreate(&event, CU_EVENT_DEFAULT) : code;
  }
  std::int64_t kernels = 0;
  const std::int64_t start = clock_ns();
  while (code == CUDA_SUCCESS && more(clock_ns() - start) && !stop_requested()) {
    CUevent event = events[kernels % kAhead];
    code = session.cuda.cuEventSynchronize(event);
    code = code == CUDA_SUCCESS
               ? session.cuda.cuLaunchKernel(function, 1024, 1, 1, 256, 1, 1, 0, stream, nullptr, nullptr)
               : code;
    code = code == CUDA_SUCCESS ? session.cuda.cuEventRecord(event, stream) : code;
    kernels += 1;
  }
  code = code == CUDA_SUCCESS ? session.cuda.cuStreamSynchronize(stream) : code;
  if (code != CUDA_SUCCESS) {
    return failed(session, code);
  }
  const std::int64_t elapsed = clock_ns() - start;
  for (CUevent event : events) {
    session.cuda.cuEventDestroy(event);
  }
  session.cuda.cuStreamDestroy(stream);
  session.last_share = static_cast<double>(kernels * session.kernel_ns) / static_cast<double>(elapsed);
  char text[128];
  std::snprintf(text, sizeof(text), "share=%.4f kernels=%lld elapsed_us=%lld", session.last_share,
                static_cast<long long>(kernels), static_cast<long long>(elapsed / 1000));
  return {text, true};
}

Outcome measure_share(Session& session, const std::string& value) {
  std::int64_t span = 0;
  if (!parse_duration(value, span)) {
    return {"error='write a duration, like 5s'", false};
  }
  return keep_busy(session, [span](std::int64_t elapsed) { return elapsed < span; });
}

Outcome work_until(Session& session, const std::string& path) {
  return keep_busy(session, [&path](std::int64_t) { return access(path.c_str(), F_OK) != 0; });
}

// "0.25-0.35": what the last measure-share must have given.
Outcome expect_share(Session& session, const std::string& value) {
  double low = 0, high = 0;
  if (std::sscanf(value.c_str(), "%lf-%lf", &low, &high) != 2) {
    return {"error='write a range, like 0.25-0.35'", false};
  }
  char text[64];
  std::snprintf(text, sizeof(text), "share=%.4f", session.last_share);
  return {text, session.last_share >= low && session.last_share <= high};
}

Outcome set_kernel(Session& session, const std::string& value) {
  return {"", parse_duration(value, session.kernel_ns) && session.kernel_ns > 0};
}

// Times a kernel on the card's own clock, between two events.
Outcome event_time(Session& session, const std::string& value) {
  std::int64_t duration = 0;
  if (!parse_duration(value, duration)) {
    return {"error='write a duration, like 2ms'", false};
  }
  CUfunction function = nullptr;
  CUevent start = nullptr, end = nullptr;
  float milliseconds = 0;
  CUresult code = session.use_device();
  code = code == CUDA_SUCCESS ? session.kernel(duration, function) : code;
  code = code == CUDA_SUCCESS ? session.cuda.cuEventCreate(&start, CU_EVENT_DEFAULT) : code;
  code = code == CUDA_SUCCESS ? session.cuda.cuEventCreate(&end, CU_EVENT_DEFAULT) : code;
  code = code == CUDA_SUCCESS ? session.cuda.cuEventRecord(start, nullptr) : code;
  code = code == CUDA_SUCCESS ? launch_once(session, "plain", function) : code;
  code = code == CUDA_SUCCESS ? session.cuda.cuEventRecord(end, nullptr) : code;
  code = code == CUDA_SUCCESS ? session.cuda.cuEventSynchronize(end) : code;
  code = code == CUDA_SUCCESS ? session.cuda.cuEventElapsedTime(&milliseconds, start, end) : code;
  if (code != CUDA_SUCCESS) {
    return failed(session, code);
  }
  return {"us=" + std::to_string(std::llround(static_cast<double>(milliseconds) * 1000)), true};
}

}  // namespace

void add_work_steps(std::map<std::string, Step>& steps) {
  for (const char* family : {"plain", "ex", "coop", "graph"}) {
    const std::string name = std::string("launch-") + family;
    const Step step = [family](Session& session, const std::string& value) {
      return launch(session, family, value, true);
    };
    steps[std::string(family) == "plain" ? "launch" : name] = step;
  }
  steps["launch-async"] = [](Session& session, const std::string& value) {
    return launch(session, "plain", value, false);
  };
  steps["sync"] = synchronize;
  steps["kernel"] = set_kernel;
  steps["measure-share"] = measure_share;
  steps["work-until"] = work_until;
  steps["expect-share"] = expect_share;
  steps["event-time"] = event_time;
}

}  // namespace nvsim::run
