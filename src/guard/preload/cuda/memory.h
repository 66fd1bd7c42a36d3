// What the memory hooks share.
#pragma once

#include "guard/preload/cuda/driver.h"
#include "guard/preload/cuda/process.h"

#define HEDDLE_EXPORT __attribute__((visibility("default")))

namespace heddle::guard {

// The step in which the driver takes memory of a device: a power of two, asked once for each rule.
uint64_t block_bytes(int rule, CUdevice device);

inline uint64_t round_up(uint64_t bytes, uint64_t step) {
  return bytes > ~uint64_t{0} - step ? ~uint64_t{0} : (bytes + step - 1) & ~(step - 1);
}

// kBeyond: managed memory that only the virtual limit has room for.
// kPooled: from a pool, which is charged as a whole (stream: the pool; count: 1 when it was destroyed).
enum class Kind : uint32_t { kLinear = 1, kArray = 2, kContext = 3, kFreedInOrder = 4, kBeyond = 5, kPooled = 6 };

// True when allocations on this device may go beyond its limit into managed memory: the limits say so, and the device
// moves pages by itself while several processors use them.
bool goes_beyond(int rule, CUdevice device);

// Remembers what was charged for an object that the context owns. False: no memory for the record.
bool remember(const Record& record);
// Takes the record of a key and kind out. False: there is none.
bool forget(uint64_t key, Kind kind, Record* record);

// Takes linear memory that is about to be freed out of the books, before the driver is called: from then on the driver
// may give its address, and blocks with it, to another thread. `record->pages` is what the free will give back. A block
// that another allocation comes into meanwhile is charged again for that one, so what is charged is never less than
// what the device has taken, in whatever order the driver gives back address and memory. False: the address is not
// known.
bool take_out(uint64_t address, Record* record);
// Puts it back: the driver has refused to free it.
void put_back(const Record& record);

// The current context as a number; 0: none.
uint64_t current_context();

// Gives back everything that a context owned which the driver has destroyed.
void drop_context(uint64_t context);

// Plain memory that was freed in the order of a stream: it leaves when the stream gets there, so it stays charged until
// the program has waited for that stream or for its context.
void free_in_order(const Record& record, CUstream stream);
enum class Waited { kStream, kContext, kEvent };
void waited_for(Waited what, uint64_t handle);

}  // namespace heddle::guard
