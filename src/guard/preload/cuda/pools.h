// Stream-ordered allocation: pools are charged by what the driver has reserved for them.
#pragma once

#include <cstdint>

namespace heddle::guard {

// Brings the charge of every pool (and of the memory of graphs) to what the driver says. True: some charge became
// smaller.
bool refresh_pools();

// The same, where a pool may have shrunk: after the program waited for the device. Cost without pools: one load.
void refresh_pools_if_any();

// After a graph was launched or uploaded: its allocation nodes hold memory now.
void refresh_graph_memory();

// What is charged for graphs on a rule's device, in pages, and room for more of it: charged until
// refresh_graph_memory() brings the charge to what the driver holds. False: there is no room.
uint64_t graph_pages(int rule);
bool make_graph_room(int rule, uint64_t pages);

}  // namespace heddle::guard
