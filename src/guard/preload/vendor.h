// What the core asks of the table of a vendor. A guard library is the core and one such table: a folder beside this
// file that defines these and the interposers.
#pragma once

#include "guard/preload/elf.h"
#include "guard/preload/state.h"

namespace heddle::guard::vendor {

// Bytes of the table's own Process, which begins with the core's and whose initial state is zero; and one for a process
// to work with when the kernel has no memory left.
size_t process_bytes();
Process& spare_process();

// The 16 bytes by which rule_of_identity() finds a device of the limits. False: not the text of a device of the vendor.
bool parse_identity(const char* text, unsigned char (&identity)[16]);

// Lowers what the limits allow by what the environment of the container says in the words of others, and never raises
// it.
void lower_by_environment(Config& config);

// Where there are no limits of ours: the environment's as the limits, and the path of the usage file that the
// container's processes share. False: it has none.
inline constexpr size_t kPathBytes = 512;
bool limits_of_environment(Config& config, char (&usage)[kPathBytes]);

// Brings charges down to what the driver still holds. True: some became smaller.
bool reclaim();

// A library of the vendor whose functions the table interposes.
struct Library {
  const char* soname;  // its prefix
  bool (*loaded)();    // the real functions were found
};

// True when an object is a part of the vendor's driver: what it calls inside a call of ours is not the program's.
bool is_of_driver(const LoadedObject& object);

// Our function of this exported name and whose it is; null when it is not one of ours.
void* hook_of_name(const char* name, const Library** library);

// True when the limits forbid what this guard does not know and the name is such an entry point of `library`; null: not
// a name of the vendor's.
const Library* refused_name(const char* name);

}  // namespace heddle::guard::vendor
