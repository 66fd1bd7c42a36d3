// Stream-ordered allocation: pools are charged by what the driver has reserved for them.
#pragma once

namespace heddle::guard {

// Brings the charge of every pool (and of the memory of graphs) to what the driver says. True: some charge became
// smaller.
bool refresh_pools();

// The same, where a pool may have shrunk: after the program waited for the device. Cost without pools: one load.
void refresh_pools_if_any();

// After a graph was launched or uploaded: its allocation nodes hold memory now.
void refresh_graph_memory();

}  // namespace heddle::guard
