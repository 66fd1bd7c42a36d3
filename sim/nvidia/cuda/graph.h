// Graphs of kernels and memory, as far as they cost time and memory.
#pragma once

#include <map>
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

// An instantiated graph: one piece of work, as long as its longest path, and the memory that its nodes allocate.
struct Executable {
  Device* device = nullptr;
  std::vector<Cost> costs;                       // by node
  std::vector<std::vector<std::size_t>> before;  // by node
  Cost whole;
  std::map<Device*, std::uint64_t> charged;  // by the device that a node allocates on
  std::map<Context*, Cost> elsewhere;        // kernels in contexts of other devices, as one piece of work each
};

std::unique_ptr<Graph> copy_graph(const Graph& graph);
// The cost of all nodes of a graph as one; false codes are those of launch_cost.
CUresult graph_costs(const Graph& graph, const Card& card, std::vector<Cost>& costs);
// The longest path, or what the card needs for the sum of all, whichever is more.
Cost total_cost(const std::vector<Cost>& costs, const std::vector<std::vector<std::size_t>>& before, const Card& card);

}  // namespace nvsim
