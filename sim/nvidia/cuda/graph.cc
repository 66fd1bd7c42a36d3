#include "cuda/graph.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "cuda/work.h"

namespace nvsim {
namespace {

// Adds a node made by `fill(Node&)`, which may refuse.
template <typename Fill>
CUresult add_node(CUgraphNode* out, CUgraph handle, const CUgraphNode* before, std::size_t count, CUgraphNodeType type,
                  Fill fill) {
  if (const CUresult code = check_ready(); code != CUDA_SUCCESS) {
    return code;
  }
  if (out == nullptr || handle == nullptr || (count > 0 && before == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Graph& graph = *graph_of(handle);
  auto node = std::make_unique<Node>();
  node->type = type;
  node->graph = &graph;
  node->index = graph.nodes.size();
  for (std::size_t index = 0; index < count; ++index) {
    if (before[index] == nullptr || node_of(before[index])->graph != &graph) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    node->before.push_back(node_of(before[index]));
  }
  if (const CUresult code = fill(*node); code != CUDA_SUCCESS) {
    return code;
  }
  *out = reinterpret_cast<CUgraphNode>(node.get());
  graph.nodes.push_back(std::move(node));
  return CUDA_SUCCESS;
}

CUDA_KERNEL_NODE_PARAMS_v1 narrow(const CUDA_KERNEL_NODE_PARAMS& from) {
  return {from.func,      from.gridDimX,  from.gridDimY,       from.gridDimZ,     from.blockDimX,
          from.blockDimY, from.blockDimZ, from.sharedMemBytes, from.kernelParams, from.extra};
}

template <typename Body>
CUresult with_kernel_node(CUgraphNode handle, const void* argument, Body body) {
  if (const CUresult code = check_ready(); code != CUDA_SUCCESS) {
    return code;
  }
  if (handle == nullptr || argument == nullptr || node_of(handle)->type != CU_GRAPH_NODE_TYPE_KERNEL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  body(*node_of(handle));
  return CUDA_SUCCESS;
}

// Answers a list with the counting protocol of the graph queries.
CUresult answer_nodes(const std::vector<Node*>& found, CUgraphNode* out, std::size_t* count) {
  if (count == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (std::size_t index = 0; out != nullptr && index < *count; ++index) {
    out[index] = index < found.size() ? reinterpret_cast<CUgraphNode>(found[index]) : nullptr;
  }
  *count = out == nullptr ? found.size() : std::min(*count, found.size());
  return CUDA_SUCCESS;
}

CUresult list_nodes(CUgraph graph, CUgraphNode* out, std::size_t* count, bool (*wanted)(const Node&)) {
  if (const CUresult code = check_ready(); code != CUDA_SUCCESS || graph == nullptr) {
    return code != CUDA_SUCCESS ? code : CUDA_ERROR_INVALID_VALUE;
  }
  std::vector<Node*> found;
  for (const auto& node : graph_of(graph)->nodes) {
    if (wanted(*node)) {
      found.push_back(node.get());
    }
  }
  return answer_nodes(found, out, count);
}

void destroy_graph(Graph* graph) {
  for (const auto& node : graph->nodes) {
    if (node->child != nullptr) {
      destroy_graph(node->child);
    }
    if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && node->allocation.dptr != 0) {
      const std::lock_guard guard(driver().mutex);
      if (driver().ranges.erase(node->allocation.dptr) > 0) {
        unmap_addresses(node->allocation.dptr, round_up(node->allocation.bytesize, kGranularity));
      }
    }
  }
  delete graph;
}

}  // namespace

CUDA_KERNEL_NODE_PARAMS widen(const CUDA_KERNEL_NODE_PARAMS_v1& from) {
  CUDA_KERNEL_NODE_PARAMS to = {};
  to.func = from.func;
  to.gridDimX = from.gridDimX;
  to.gridDimY = from.gridDimY;
  to.gridDimZ = from.gridDimZ;
  to.blockDimX = from.blockDimX;
  to.blockDimY = from.blockDimY;
  to.blockDimZ = from.blockDimZ;
  to.sharedMemBytes = from.sharedMemBytes;
  to.kernelParams = from.kernelParams;
  to.extra = from.extra;
  return to;
}

std::unique_ptr<Graph> copy_graph(const Graph& graph) {
  auto copy = std::make_unique<Graph>();
  for (const auto& node : graph.nodes) {
    auto made = std::make_unique<Node>(*node);
    made->graph = copy.get();
    made->allocation.dptr = 0;  // the addresses stay with the original
    made->child = node->child == nullptr ? nullptr : copy_graph(*node->child).release();
    copy->nodes.push_back(std::move(made));
  }
  for (const auto& node : copy->nodes) {
    for (Node*& other : node->before) {
      other = copy->nodes[other->index].get();
    }
  }
  return copy;
}

}  // namespace nvsim

using nvsim::add_node;
using nvsim::Graph;
using nvsim::graph_of;
using nvsim::Node;
using nvsim::node_of;

CUresult cuGraphCreate(CUgraph* out, unsigned int flags) {
  if (const CUresult code = nvsim::check_ready(); code != CUDA_SUCCESS) {
    return code;
  }
  if (out == nullptr || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *out = reinterpret_cast<CUgraph>(new Graph());
  return CUDA_SUCCESS;
}
CUresult cuGraphDestroy(CUgraph graph) {
  if (const CUresult code = nvsim::check_ready(); code != CUDA_SUCCESS || graph == nullptr) {
    return code != CUDA_SUCCESS ? code : CUDA_ERROR_INVALID_VALUE;
  }
  nvsim::destroy_graph(graph_of(graph));
  return CUDA_SUCCESS;
}
CUresult cuGraphClone(CUgraph* out, CUgraph graph) {
  if (const CUresult code = nvsim::check_ready(); code != CUDA_SUCCESS) {
    return code;
  }
  if (out == nullptr || graph == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *out = reinterpret_cast<CUgraph>(nvsim::copy_graph(*graph_of(graph)).release());
  return CUDA_SUCCESS;
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode* out, CUgraph graph, const CUgraphNode* before, size_t count,
                                 const CUDA_KERNEL_NODE_PARAMS* kernel) {
  return add_node(out, graph, before, count, CU_GRAPH_NODE_TYPE_KERNEL, [&](Node& node) {
    if (kernel == nullptr || (kernel->func == nullptr && kernel->kern == nullptr)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    node.kernel = *kernel;
    return CUDA_SUCCESS;
  });
}
CUresult cuGraphAddKernelNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* before, size_t count,
                              const CUDA_KERNEL_NODE_PARAMS_v1* kernel) {
  const CUDA_KERNEL_NODE_PARAMS wide = kernel == nullptr ? CUDA_KERNEL_NODE_PARAMS{} : nvsim::widen(*kernel);
  return cuGraphAddKernelNode_v2(out, graph, before, count, &wide);
}
CUresult cuGraphAddEmptyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* before, size_t count) {
  return add_node(out, graph, before, count, CU_GRAPH_NODE_TYPE_EMPTY, [](Node&) { return CUDA_SUCCESS; });
}
// Copies and fills take their place in the order, but no time, and change no content.
CUresult cuGraphAddMemcpyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* before, size_t count,
                              const CUDA_MEMCPY3D* copy, CUcontext) {
  return add_node(out, graph, before, count, CU_GRAPH_NODE_TYPE_MEMCPY,
                  [&](Node&) { return copy == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS; });
}
CUresult cuGraphAddMemsetNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* before, size_t count,
                              const CUDA_MEMSET_NODE_PARAMS* fill, CUcontext) {
  return add_node(out, graph, before, count, CU_GRAPH_NODE_TYPE_MEMSET,
                  [&](Node&) { return fill == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS; });
}
CUresult cuGraphAddChildGraphNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* before, size_t count,
                                  CUgraph child) {
  return add_node(out, graph, before, count, CU_GRAPH_NODE_TYPE_GRAPH, [&](Node& node) {
    if (child == nullptr || child == graph) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    node.child = nvsim::copy_graph(*graph_of(child)).release();
    return CUDA_SUCCESS;
  });
}

// The address is known at once; the memory is taken when the graph is instantiated, as the driver reserves it then.
CUresult cuGraphAddMemAllocNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* before, size_t count,
                                CUDA_MEM_ALLOC_NODE_PARAMS* wish) {
  return add_node(out, graph, before, count, CU_GRAPH_NODE_TYPE_MEM_ALLOC, [&](Node& node) {
    if (wish == nullptr || wish->bytesize == 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    nvsim::Range range;
    range.size = wish->bytesize;
    range.span = nvsim::round_up(wish->bytesize, nvsim::kGranularity);
    range.base = nvsim::map_addresses(range.span, false);
    range.kind = nvsim::Kind::kIpc;  // not freeable by cuMemFree, and charged elsewhere
    range.device = nvsim::device_at(wish->poolProps.location.id);
    if (range.base == 0 || range.device == nullptr) {
      return range.base == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    }
    nvsim::add_range(range);
    wish->dptr = range.base;
    node.allocation = *wish;
    return CUDA_SUCCESS;
  });
}
CUresult cuGraphMemAllocNodeGetParams(CUgraphNode handle, CUDA_MEM_ALLOC_NODE_PARAMS* out) {
  if (handle == nullptr || out == nullptr || node_of(handle)->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *out = node_of(handle)->allocation;
  return CUDA_SUCCESS;
}
CUresult cuGraphAddMemFreeNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* before, size_t count,
                               CUdeviceptr address) {
  return add_node(out, graph, before, count, CU_GRAPH_NODE_TYPE_MEM_FREE, [&](Node& node) {
    node.freed = address;
    return address == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  });
}
CUresult cuGraphAddNode_v2(CUgraphNode* out, CUgraph graph, const CUgraphNode* before, const CUgraphEdgeData*,
                           size_t count, CUgraphNodeParams* wish) {
  if (wish == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  switch (wish->type) {
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return cuGraphAddEmptyNode(out, graph, before, count);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return cuGraphAddMemFreeNode(out, graph, before, count, wish->free.dptr);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
      CUDA_MEM_ALLOC_NODE_PARAMS allocation = {};
      allocation.poolProps = wish->alloc.poolProps;
      allocation.bytesize = wish->alloc.bytesize;
      const CUresult code = cuGraphAddMemAllocNode(out, graph, before, count, &allocation);
      wish->alloc.dptr = allocation.dptr;
      return code;
    }
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}
CUresult cuGraphAddNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* before, size_t count,
                        CUgraphNodeParams* wish) {
  return cuGraphAddNode_v2(out, graph, before, nullptr, count, wish);
}
CUresult cuDeviceGetGraphMemAttribute(CUdevice ordinal, CUgraphMem_attribute attribute, void* value) {
  if (const CUresult code = nvsim::check_ready(); code != CUDA_SUCCESS) {
    return code;
  }
  const nvsim::Device* device = nvsim::device_at(ordinal);
  if (device == nullptr || value == nullptr) {
    return device == nullptr ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
  }
  const std::lock_guard guard(nvsim::driver().mutex);
  const bool current =
      attribute == CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT || attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT;
  const cuuint64_t bytes = current ? device->graph_memory : device->graph_memory_high;
  std::memcpy(value, &bytes, sizeof(bytes));
  return CUDA_SUCCESS;
}
CUresult cuDeviceGraphMemTrim(CUdevice device) {
  return nvsim::device_at(device) == nullptr ? CUDA_ERROR_INVALID_DEVICE : nvsim::check_ready();
}

CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, size_t count) {
  if (const CUresult code = nvsim::check_ready(); code != CUDA_SUCCESS) {
    return code;
  }
  for (size_t index = 0; index < count; ++index) {
    if (from == nullptr || to == nullptr || node_of(from[index])->graph != graph_of(graph) ||
        node_of(to[index])->graph != graph_of(graph) || from[index] == to[index]) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    node_of(to[index])->before.push_back(node_of(from[index]));
  }
  return CUDA_SUCCESS;
}
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  return nvsim::list_nodes(graph, nodes, count, [](const Node&) { return true; });
}
CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  return nvsim::list_nodes(graph, nodes, count, [](const Node& node) { return node.before.empty(); });
}
CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  if (node == nullptr || type == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *type = node_of(node)->type;
  return nvsim::check_ready();
}
CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* nodes, size_t* count) {
  return node == nullptr ? CUDA_ERROR_INVALID_VALUE : nvsim::answer_nodes(node_of(node)->before, nodes, count);
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS* out) {
  return nvsim::with_kernel_node(handle, out, [&](Node& node) { *out = node.kernel; });
}
CUresult cuGraphKernelNodeGetParams(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS_v1* out) {
  return nvsim::with_kernel_node(handle, out, [&](Node& node) { *out = nvsim::narrow(node.kernel); });
}
CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode handle, const CUDA_KERNEL_NODE_PARAMS* kernel) {
  return nvsim::with_kernel_node(handle, kernel, [&](Node& node) { node.kernel = *kernel; });
}
CUresult cuGraphKernelNodeSetParams(CUgraphNode handle, const CUDA_KERNEL_NODE_PARAMS_v1* kernel) {
  return nvsim::with_kernel_node(handle, kernel, [&](Node& node) { node.kernel = nvsim::widen(*kernel); });
}
