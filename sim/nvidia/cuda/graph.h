// Graphs of kernels and memory, as far as they cost time and memory.
#pragma once

#include <memory>
#include <vector>

#include "cuda/launch.h"

namespace nvsim {

struct Graph;

struct Node {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  std::vector<Node*> before;  // what it depends on
  CUDA_KERNEL_NODE_PARAMS kernel = {};
  CUDA_MEM_ALLOC_NODE_PARAMS allocation = {};
  CUdeviceptr freed = 0;
  Graph* child = nullptr;  // a copy, owned
  Graph* graph = nullptr;
  std::size_t index = 0;  // in its graph
};

struct Graph {
  std::vector<std::unique_ptr<Node>> nodes;
};

inline Graph* graph_of(CUgraph handle) {
  return reinterpret_cast<Graph*>(handle);
}
inline Node* node_of(CUgraphNode handle) {
  return reinterpret_cast<Node*>(handle);
}

std::unique_ptr<Graph> copy_graph(const Graph& graph);
CUDA_KERNEL_NODE_PARAMS widen(const CUDA_KERNEL_NODE_PARAMS_v1& from);

}  // namespace nvsim
