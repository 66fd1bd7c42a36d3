// A graph's allocation nodes take memory when the driver likes: at the latest when the graph is first launched. So what
// the nodes of a graph need is known from its instantiation on, room for it is made before each call that may take it,
// and after the call what the driver holds for graphs is charged, no more.
#include "guard/preload/cuda/graphs.h"

#include "guard/preload/cuda/memory.h"
#include "guard/preload/cuda/pools.h"

namespace heddle::guard {
namespace {

constexpr int kDeepest = 16;

// What the nodes of a graph need.
struct Needs {
  uint64_t pages[HEDDLE_GUARD_MAX_DEVICES];
  uint32_t rules;  // with a compute limit, where kernels run in a context that is not the current one
};

// The rule of another context's device.
int rule_of_context(CUcontext context) {
  const CudaFunctions& driver = cuda();
  if (driver.cuCtxPushCurrent_v2 == nullptr || driver.cuCtxPopCurrent_v2 == nullptr) return kNoDevice;
  if (driver.cuCtxPushCurrent_v2(context) != CUDA_SUCCESS) return kNoDevice;
  const int rule = current_rule();
  CUcontext popped = nullptr;
  driver.cuCtxPopCurrent_v2(&popped);
  return rule;
}

void add_kernel(CUgraphNode node, Needs& needs) {
  CUDA_KERNEL_NODE_PARAMS kernel{};
  const auto query = cuda().cuGraphKernelNodeGetParams_v2;
  if (query == nullptr || query(node, &kernel) != CUDA_SUCCESS || kernel.ctx == nullptr) return;
  if (reinterpret_cast<uint64_t>(kernel.ctx) == current_context()) return;
  const int rule = rule_of_context(kernel.ctx);
  if (rule >= 0 && config().devices[rule].paced()) needs.rules |= uint32_t{1} << rule;
}

void add_allocation(CUgraphNode node, Needs& needs) {
  CUDA_MEM_ALLOC_NODE_PARAMS allocation{};
  const auto query = cuda().cuGraphMemAllocNodeGetParams;
  if (query == nullptr || query(node, &allocation) != CUDA_SUCCESS) return;
  if (allocation.poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE) return;
  const CUdevice device = allocation.poolProps.location.id;
  const int rule = rule_of(device);
  if (accounted(rule)) needs.pages[rule] += pages_of(round_up(allocation.bytesize, block_bytes(rule, device)));
}

void add_nodes(CUgraph graph, Needs& needs, int depth);

void add_node(CUgraphNode node, Needs& needs, int depth) {
  const CudaFunctions& driver = cuda();
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  if (driver.cuGraphNodeGetType(node, &type) != CUDA_SUCCESS) return;
  if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) add_allocation(node, needs);
  if (type == CU_GRAPH_NODE_TYPE_KERNEL && config().any_compute_limit && config().device_count > 1) {
    add_kernel(node, needs);
  }
  CUgraph child = nullptr;
  if (type == CU_GRAPH_NODE_TYPE_GRAPH && driver.cuGraphChildGraphNodeGetGraph != nullptr &&
      driver.cuGraphChildGraphNodeGetGraph(node, &child) == CUDA_SUCCESS) {
    add_nodes(child, needs, depth + 1);
  }
}

void add_nodes(CUgraph graph, Needs& needs, int depth) {
  const CudaFunctions& driver = cuda();
  size_t count = 0;
  if (depth > kDeepest || driver.cuGraphGetNodes == nullptr || driver.cuGraphNodeGetType == nullptr ||
      driver.cuGraphGetNodes(graph, nullptr, &count) != CUDA_SUCCESS || count == 0) {
    return;
  }
  const size_t bytes = count * sizeof(CUgraphNode);
  auto* nodes = static_cast<CUgraphNode*>(map_private(bytes, OnFork::kKeep));
  if (nodes == nullptr) return;
  if (driver.cuGraphGetNodes(graph, nodes, &count) == CUDA_SUCCESS) {
    for (size_t i = 0; i < count; ++i) add_node(nodes[i], needs, depth);
  }
  unmap(nodes, bytes);
}

bool worth_looking() {
  return __atomic_load_n(&cuda_process().graph_memory_seen, __ATOMIC_RELAXED) != 0 ||
         (config().any_compute_limit && config().device_count > 1);
}

bool graphs_seen() {
  return __atomic_load_n(&cuda_process().graphs_seen, __ATOMIC_RELAXED) != 0;
}

// An executable has a record for what it runs on, and one for each rule that it allocates from.
uint64_t key_of(CUgraphExec graph) {
  return reinterpret_cast<uint64_t>(graph);
}
uint64_t key_of(CUgraphExec graph, int rule) {
  return key_of(graph) ^ static_cast<uint64_t>(rule + 1) << 56;
}

// With the lock of graphs.
void note(CUgraphExec graph, const Needs& needs) {
  CudaProcess& own = cuda_process();
  if (needs.rules != 0 && own.graphs.prepare()) {
    own.graphs.put(Record{key_of(graph), needs.rules, 0, 0, kNoDevice, 0, 0, 0, 0});
  }
  for (int rule = 0; rule < HEDDLE_GUARD_MAX_DEVICES; ++rule) {
    if (needs.pages[rule] == 0 || !own.graphs.prepare()) continue;
    own.graphs.put(Record{key_of(graph, rule), 0, 0, needs.pages[rule], rule, 0, 0, 0, 0});
  }
  __atomic_store_n(&own.graphs_seen, 1, __ATOMIC_RELAXED);
}

void erase_key(Table& graphs, uint64_t key) {
  if (Record* record = graphs.find(key)) graphs.erase(record);
}

void forget_graph(CUgraphExec graph) {
  CudaProcess& own = cuda_process();
  const Lock lock(own.graph_lock);
  erase_key(own.graphs, key_of(graph));
  for (int rule = 0; rule < HEDDLE_GUARD_MAX_DEVICES; ++rule) erase_key(own.graphs, key_of(graph, rule));
}

// A driver that reserves at instantiation holds it until the executable is destroyed: then launches need no room.
void mark_held(CUgraphExec graph, const uint64_t (&before)[HEDDLE_GUARD_MAX_DEVICES]) {
  CudaProcess& own = cuda_process();
  const Lock lock(own.graph_lock);
  for (uint32_t rule = 0; rule < config().device_count; ++rule) {
    Record* record = own.graphs.find(key_of(graph, static_cast<int>(rule)));
    if (record != nullptr && graph_pages(static_cast<int>(rule)) >= before[rule] + record->pages) record->count = 1;
  }
}

bool make_room_for(const Needs& needs) {
  for (int rule = 0; rule < HEDDLE_GUARD_MAX_DEVICES; ++rule) {
    if (needs.pages[rule] != 0 && !make_graph_room(rule, needs.pages[rule])) return false;
  }
  return true;
}

template <typename Call>
CUresult instantiate(CUgraphExec* out, CUgraph graph, Call call) {
  if (!worth_looking()) return call();
  Needs needs{};
  add_nodes(graph, needs, 0);
  uint64_t before[HEDDLE_GUARD_MAX_DEVICES] = {};
  bool allocates = false;
  for (int rule = 0; rule < HEDDLE_GUARD_MAX_DEVICES; ++rule) {
    allocates = allocates || needs.pages[rule] != 0;
    before[rule] = graph_pages(rule);
  }
  if (!allocates && needs.rules == 0) return call();
  const bool room = make_room_for(needs);
  const CUresult result = room ? call() : CUDA_ERROR_OUT_OF_MEMORY;
  refresh_graph_memory();
  if (result != CUDA_SUCCESS) return result;
  {
    const Lock lock(cuda_process().graph_lock);
    note(*out, needs);
  }
  mark_held(*out, before);
  return result;
}

}  // namespace

bool reserve_graph(CUgraphExec graph) {
  if (!graphs_seen()) return true;
  CudaProcess& own = cuda_process();
  Needs needs{};
  {
    const Lock lock(own.graph_lock);
    for (uint32_t rule = 0; rule < config().device_count; ++rule) {
      const Record* record = own.graphs.find(key_of(graph, static_cast<int>(rule)));
      if (record != nullptr && record->count == 0) needs.pages[rule] = record->pages;
    }
  }
  if (make_room_for(needs)) return true;
  refresh_graph_memory();
  return false;
}

void settle_graph(CUgraphExec graph) {
  refresh_graph_memory();
  if (!graphs_seen()) return;
  CudaProcess& own = cuda_process();
  const Lock lock(own.graph_lock);
  for (uint32_t rule = 0; rule < config().device_count; ++rule) {
    Record* record = own.graphs.find(key_of(graph, static_cast<int>(rule)));
    if (record != nullptr) record->count = 1;
  }
}

void graphs_were_trimmed() {
  CudaProcess& own = cuda_process();
  const Lock lock(own.graph_lock);
  for (uint64_t i = 0; i < own.graphs.capacity(); ++i) own.graphs.at(i).count = 0;
}

uint32_t rules_of_graph(CUgraphExec graph) {
  if (!graphs_seen()) return 0;
  CudaProcess& own = cuda_process();
  const Lock lock(own.graph_lock);
  const Record* record = own.graphs.find(key_of(graph));
  return record != nullptr ? static_cast<uint32_t>(record->bytes) : 0;
}

}  // namespace heddle::guard

using namespace heddle::guard;

extern "C" {

#define HEDDLE_INSTANTIATE(name, parameters, arguments)             \
  HEDDLE_EXPORT CUresult name parameters {                          \
    const auto real = cuda().name;                                  \
    if (real == nullptr) return kNoSuchFunction;                    \
    const Entry entry;                                              \
    if (entry.nested() || out == nullptr) return real arguments;    \
    return instantiate(out, graph, [&] { return real arguments; }); \
  }
HEDDLE_INSTANTIATE(cuGraphInstantiate,
                   (CUgraphExec * out, CUgraph graph, CUgraphNode* error, char* log, size_t log_bytes),
                   (out, graph, error, log, log_bytes))
HEDDLE_INSTANTIATE(cuGraphInstantiate_v2,
                   (CUgraphExec * out, CUgraph graph, CUgraphNode* error, char* log, size_t log_bytes),
                   (out, graph, error, log, log_bytes))
HEDDLE_INSTANTIATE(cuGraphInstantiateWithFlags, (CUgraphExec * out, CUgraph graph, unsigned long long flags),
                   (out, graph, flags))
HEDDLE_INSTANTIATE(cuGraphInstantiateWithParams,
                   (CUgraphExec * out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* wanted), (out, graph, wanted))
HEDDLE_INSTANTIATE(cuGraphInstantiateWithParams_ptsz,
                   (CUgraphExec * out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* wanted), (out, graph, wanted))
#undef HEDDLE_INSTANTIATE

HEDDLE_EXPORT CUresult cuGraphExecDestroy(CUgraphExec graph) {
  const auto real = cuda().cuGraphExecDestroy;
  if (real == nullptr) return kNoSuchFunction;
  const Entry entry;
  if (entry.nested() || !graphs_seen()) return real(graph);
  forget_graph(graph);
  const CUresult result = real(graph);
  refresh_graph_memory();
  return result;
}

#define HEDDLE_GRAPH_UPLOAD(name)                                   \
  HEDDLE_EXPORT CUresult name(CUgraphExec graph, CUstream stream) { \
    const auto real = cuda().name;                                  \
    if (real == nullptr) return kNoSuchFunction;                    \
    const Entry entry;                                              \
    if (entry.nested()) return real(graph, stream);                 \
    if (!reserve_graph(graph)) return CUDA_ERROR_OUT_OF_MEMORY;     \
    const CUresult result = real(graph, stream);                    \
    settle_graph(graph);                                            \
    return result;                                                  \
  }
HEDDLE_GRAPH_UPLOAD(cuGraphUpload)
HEDDLE_GRAPH_UPLOAD(cuGraphUpload_ptsz)
#undef HEDDLE_GRAPH_UPLOAD
}
