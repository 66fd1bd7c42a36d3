// Executable graphs: what their nodes allocate, and on which devices they run.
#pragma once

#include "guard/preload/cuda/driver.h"
#include "guard/preload/cuda/process.h"

namespace heddle::guard {

// Makes room for what a graph's allocations take before it runs or is uploaded; false: there is none. Cost where no
// graph of the process allocates: one load.
bool reserve_graph(CUgraphExec graph);
// After it: charges what the driver holds for graphs now.
void settle_graph(CUgraphExec graph);

// After the driver gave back what graphs had reserved: a launch may have to take it again.
void graphs_were_trimmed();

// One bit for each rule with a compute limit on whose device some kernel of the graph runs, besides that of the stream
// it is launched into; 0: none that is known.
uint32_t rules_of_graph(CUgraphExec graph);

}  // namespace heddle::guard
