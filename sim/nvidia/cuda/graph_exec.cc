// Graphs that are instantiated: what they cost, and how they run.
#include <algorithm>
#include <map>
#include <mutex>

#include "cuda/graph.h"
#include "cuda/work.h"

namespace nvsim {
namespace {

// An instantiated graph: one piece of work, as long as its longest path, and the memory that its nodes allocate.
struct Executable {
  Device* device = nullptr;
  std::vector<Cost> costs;                       // by node
  std::vector<std::vector<std::size_t>> before;  // by node
  Cost whole;
  std::map<Device*, std::uint64_t> charged;  // by the device that a node allocates on
  std::map<Context*, Cost> elsewhere;        // kernels in contexts of other devices, as one piece of work each
};

CUresult kernel_cost(const CUDA_KERNEL_NODE_PARAMS& kernel, const Card& card, Cost& cost) {
  const unsigned grid[3] = {kernel.gridDimX, kernel.gridDimY, kernel.gridDimZ};
  const unsigned block[3] = {kernel.blockDimX, kernel.blockDimY, kernel.blockDimZ};
  // A node names a function or a context-independent kernel.
  const void* function = kernel.func != nullptr ? static_cast<const void*>(kernel.func) : kernel.kern;
  return launch_cost(kernel_of(function), grid, block, card, cost);
}

std::vector<std::vector<std::size_t>> dependencies(const Graph& graph) {
  std::vector<std::vector<std::size_t>> before(graph.nodes.size());
  for (const auto& node : graph.nodes) {
    for (const Node* other : node->before) {
      before[node->index].push_back(other->index);
    }
  }
  return before;
}

// The longest path, or what the card needs for the sum of all, whichever is more.
Cost total_cost(const std::vector<Cost>& costs, const std::vector<std::vector<std::size_t>>& before, const Card& card) {
  const auto sms = static_cast<std::int64_t>(const_cast<Card&>(card).sms(card.gpu_instance(), card.compute_instance()));
  std::vector<std::int64_t> end(costs.size(), 0);
  Cost whole;
  std::int64_t area = 0;
  // Dependencies can point forward; each pass settles at least one more node of every path.
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t index = 0; index < costs.size(); ++index) {
      std::int64_t start = 0;
      for (const std::size_t other : before[index]) {
        start = std::max(start, end[other]);
      }
      const std::int64_t finish = start + costs[index].duration_ns;
      moved = moved || finish > end[index];
      end[index] = std::max(end[index], finish);
    }
  }
  for (std::size_t index = 0; index < costs.size(); ++index) {
    whole.duration_ns = std::max(whole.duration_ns, end[index]);
    whole.sms = std::max(whole.sms, costs[index].sms);
    area += costs[index].duration_ns * costs[index].sms;
  }
  whole.duration_ns = std::max(whole.duration_ns, area / sms);
  return whole;
}

// The cost of each node; codes are those of launch_cost.
CUresult graph_costs(const Graph& graph, const Card& card, std::vector<Cost>& costs) {
  costs.assign(graph.nodes.size(), Cost{});
  for (const auto& node : graph.nodes) {
    Cost& cost = costs[node->index];
    CUresult code = CUDA_SUCCESS;
    if (node->type == CU_GRAPH_NODE_TYPE_KERNEL) {
      code = kernel_cost(node->kernel, card, cost);
    } else if (node->child != nullptr) {
      std::vector<Cost> inner;
      code = graph_costs(*node->child, card, inner);
      cost = code == CUDA_SUCCESS ? total_cost(inner, dependencies(*node->child), card) : cost;
    }
    if (code != CUDA_SUCCESS) {
      return code;
    }
  }
  return CUDA_SUCCESS;
}

void add_allocated(const Graph& graph, std::map<Device*, std::uint64_t>& bytes) {
  for (const auto& node : graph.nodes) {
    if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
      bytes[device_at(node->allocation.poolProps.location.id)] += round_up(node->allocation.bytesize, kGranularity);
    }
    if (node->child != nullptr) {
      add_allocated(*node->child, bytes);
    }
  }
}

void give_back(std::map<Device*, std::uint64_t>& bytes) {
  for (const auto& [device, charged] : bytes) {
    uncharge(*device, charged);
  }
  bytes.clear();
}

// Takes what all nodes allocate, or nothing.
CUresult take_allocated(const Graph& graph, std::map<Device*, std::uint64_t>& taken) {
  std::map<Device*, std::uint64_t> wanted;
  add_allocated(graph, wanted);
  for (const auto& [device, bytes] : wanted) {
    if (const CUresult code = charge(*device, bytes); code != CUDA_SUCCESS) {
      give_back(taken);
      return code;
    }
    taken[device] = bytes;
  }
  return CUDA_SUCCESS;
}

// The kernels that name a context of another device run there, all side by side with the graph.
CUresult costs_elsewhere(const Graph& graph, const Context& here, std::map<Context*, Cost>& costs) {
  for (const auto& node : graph.nodes) {
    auto* context = reinterpret_cast<Context*>(node->kernel.ctx);
    if (node->type != CU_GRAPH_NODE_TYPE_KERNEL || context == nullptr || context->device == here.device) {
      continue;
    }
    Cost one;
    if (const CUresult code = kernel_cost(node->kernel, *context->device->card, one); code != CUDA_SUCCESS) {
      return code;
    }
    Cost& all = costs[context];
    all.duration_ns += one.duration_ns;
    all.sms = std::max(all.sms, one.sms);
  }
  return CUDA_SUCCESS;
}

CUresult instantiate(CUgraphExec* out, CUgraph handle) {
  return with_context([&](Context& context) {
    if (out == nullptr || handle == nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const Graph& graph = *graph_of(handle);
    auto made = std::make_unique<Executable>();
    made->device = context.device;
    made->before = dependencies(graph);
    const Card& card = *context.device->card;
    if (const CUresult code = graph_costs(graph, card, made->costs); code != CUDA_SUCCESS) {
      return code;
    }
    for (const auto& node : graph.nodes) {
      const auto* other = reinterpret_cast<const Context*>(node->kernel.ctx);
      if (node->type == CU_GRAPH_NODE_TYPE_KERNEL && other != nullptr && other->device != context.device) {
        made->costs[node->index] = Cost{};
      }
    }
    made->whole = total_cost(made->costs, made->before, card);
    if (const CUresult code = costs_elsewhere(graph, context, made->elsewhere); code != CUDA_SUCCESS) {
      return code;
    }
    if (const CUresult code = take_allocated(graph, made->charged); code != CUDA_SUCCESS) {
      return code;
    }
    const std::lock_guard guard(driver().mutex);
    for (const auto& [device, bytes] : made->charged) {
      device->graph_memory += bytes;
      device->graph_memory_high = std::max(device->graph_memory_high, device->graph_memory);
    }
    *out = reinterpret_cast<CUgraphExec>(made.release());
    return CUDA_SUCCESS;
  });
}

// Runs `body(Executable&)`.
template <typename Body>
CUresult with_executable(CUgraphExec handle, Body body) {
  return with_context([&](Context&) {
    return handle == nullptr ? CUDA_ERROR_INVALID_VALUE : body(*reinterpret_cast<Executable*>(handle));
  });
}

CUresult set_executable_kernel(CUgraphExec handle, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS& kernel) {
  return with_executable(handle, [&](Executable& executable) {
    if (node == nullptr || node_of(node)->index >= executable.costs.size()) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const Card& card = *executable.device->card;
    const CUresult code = kernel_cost(kernel, card, executable.costs[node_of(node)->index]);
    executable.whole = total_cost(executable.costs, executable.before, card);
    return code;
  });
}

CUresult update(CUgraphExec handle, CUgraph graph, CUgraphExecUpdateResult* result) {
  return with_executable(handle, [&](Executable& executable) {
    const bool same = graph != nullptr && dependencies(*graph_of(graph)) == executable.before;
    *result = same ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    if (!same) {
      return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    const Card& card = *executable.device->card;
    std::vector<Cost> costs;
    const CUresult code = graph_costs(*graph_of(graph), card, costs);
    if (code == CUDA_SUCCESS) {
      executable.costs = costs;
      executable.whole = total_cost(costs, executable.before, card);
    }
    return code;
  });
}

}  // namespace
}  // namespace nvsim

using nvsim::Executable;
using nvsim::with_executable;

CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long) {
  return nvsim::instantiate(out, graph);
}
CUresult cuGraphInstantiate(CUgraphExec* out, CUgraph graph, CUgraphNode*, char*, size_t) {
  return nvsim::instantiate(out, graph);
}
CUresult cuGraphInstantiate_v2(CUgraphExec* out, CUgraph graph, CUgraphNode*, char*, size_t) {
  return nvsim::instantiate(out, graph);
}
CUresult cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  const CUresult code = nvsim::instantiate(out, graph);
  if (parameters != nullptr) {
    parameters->result_out = code == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
    parameters->hErrNode_out = nullptr;
  }
  return code;
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* kernel) {
  return kernel == nullptr ? CUDA_ERROR_INVALID_VALUE : nvsim::set_executable_kernel(exec, node, *kernel);
}
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* kernel) {
  return kernel == nullptr ? CUDA_ERROR_INVALID_VALUE : nvsim::set_executable_kernel(exec, node, nvsim::widen(*kernel));
}
CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info) {
  if (info == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *info = {};
  return nvsim::update(exec, graph, &info->result);
}
CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode* error, CUgraphExecUpdateResult* result) {
  if (result == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (error != nullptr) {
    *error = nullptr;
  }
  return nvsim::update(exec, graph, result);
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream) {
  return with_executable(exec, [](Executable&) { return CUDA_SUCCESS; });
}
CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle) {
  return nvsim::with_context([&](nvsim::Context& context) {
    nvsim::Stream stream;
    if (const CUresult code = nvsim::stream_of(context, handle, stream); code != CUDA_SUCCESS) {
      return code;
    }
    const auto* executable = reinterpret_cast<Executable*>(exec);
    if (executable == nullptr || executable->device != stream.context->device) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    for (const auto& [other, cost] : executable->elsewhere) {
      nvsim::Stream there = {other, 1, 0, 0, 0};
      if (const CUresult code = nvsim::queue_kernel(there, cost.duration_ns, cost.sms); code != CUDA_SUCCESS) {
        return code;
      }
    }
    return executable->whole.duration_ns == 0
               ? CUDA_SUCCESS
               : nvsim::queue_kernel(stream, executable->whole.duration_ns, executable->whole.sms);
  });
}
CUresult cuGraphExecDestroy(CUgraphExec exec) {
  return with_executable(exec, [](Executable& executable) {
    {
      const std::lock_guard guard(nvsim::driver().mutex);
      for (const auto& [device, bytes] : executable.charged) {
        device->graph_memory -= bytes;
      }
    }
    nvsim::give_back(executable.charged);
    delete &executable;
    return CUDA_SUCCESS;
  });
}
