// The vendor's real functions, and what holds for this process of NPUs.
#pragma once

#include <acl/error_codes/rt_error_codes.h>

#include "guard/preload/ascend/hooks.h"
#include "guard/preload/state.h"

#define HEDDLE_EXPORT __attribute__((visibility("default")))

namespace heddle::guard {

// Null members: the library has no such function.
struct AclFunctions {
#define HEDDLE_MEMBER(name) decltype(&::name) name;
  HEDDLE_ACL_HOOKS(HEDDLE_MEMBER)
  HEDDLE_ACL_CALLS(HEDDLE_MEMBER)
};
struct RtFunctions {
  HEDDLE_RT_HOOKS(HEDDLE_MEMBER)
  HEDDLE_RT_CALLS(HEDDLE_MEMBER)
#undef HEDDLE_MEMBER
};

// The functions of the libraries that are loaded; all null while there are none. Cost after the first call: one load.
const AclFunctions& acl();
const RtFunctions& rt();

struct AscendProcess : Process {
  pthread_mutex_t device_lock;
  uint32_t uses[HEDDLE_GUARD_MAX_DEVICES];  // calls of aclrtSetDevice that were not reset
  uint64_t context_pages[HEDDLE_GUARD_MAX_DEVICES];
  uint32_t unknown_names[2];  // of ACL, of the runtime
};

inline AscendProcess& ascend_process() {
  return static_cast<AscendProcess&>(process());
}

// The rule of a device as the program numbers it, and of the calling thread's device.
int rule_of(int32_t device);
int current_rule();

// The answers of the runtime.
inline constexpr int kOutOfMemory = ACL_ERROR_RT_MEMORY_ALLOCATION;
inline constexpr int kNoSuchFunction = ACL_ERROR_RT_FEATURE_NOT_SUPPORT;

// Gives back everything that is charged for allocations on a rule's device.
void drop_device(int rule);

}  // namespace heddle::guard
