// What the guard knows of ACL's and the runtime's entry points (coverage/acl.rules, rt.rules).
#pragma once

#include "guard/preload/elf.h"

namespace heddle::guard {

// True for a name that speaks of memory or work and that the rules do not have: what it does cannot be held.
bool is_unknown_acl(const char* name);
bool is_unknown_rt(const char* name);

// How many functions an object exports that `is_unknown` names, and the first of them, cut to the room.
uint32_t count_unknown(const LoadedObject& library, bool (*is_unknown)(const char*), char* names, uint32_t room);

}  // namespace heddle::guard
