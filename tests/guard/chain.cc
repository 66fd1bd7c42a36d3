// Two of these are preloaded behind the guard. Each defines chain_number, and the first finds the second's by
// RTLD_NEXT: what that means depends on who asks, so a guard that asks in the caller's place breaks it.
#include <dlfcn.h>

#define API extern "C" __attribute__((visibility("default")))

API int chain_number() {
  return CHAIN_NUMBER;
}

API int chain_next_number() {
  const auto next = reinterpret_cast<int (*)()>(dlsym(RTLD_NEXT, "chain_number"));
  return next != nullptr ? next() : -1;
}

API int chain_next_versioned() {
  // Versions are the C library's: the second object of that name has none, and the lookup must say so.
  return dlvsym(RTLD_NEXT, "chain_number", "GLIBC_2.2.5") == nullptr ? 1 : 0;
}
