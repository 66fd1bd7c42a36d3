#include "guard/preload/libc.h"

#include "guard/preload/elf.h"

namespace heddle::guard {
namespace {

void* libc_symbol(const char* name) {
  LoadedObject object;
  // Since glibc 2.34 the dl functions are in libc itself.
  if (find_object("libc.so.6", nullptr, &object)) {
    if (void* found = find_symbol(object, name)) return found;
  }
  return find_object("libdl.so.2", nullptr, &object) ? find_symbol(object, name) : nullptr;
}

template <typename F>
F cached(F& where, const char* name) {
  F found = __atomic_load_n(&where, __ATOMIC_RELAXED);
  if (found != nullptr) return found;
  found = reinterpret_cast<F>(libc_symbol(name));
  __atomic_store_n(&where, found, __ATOMIC_RELAXED);
  return found;
}

DlsymFunction dlsym_function = nullptr;
DlvsymFunction dlvsym_function = nullptr;
DlopenFunction dlopen_function = nullptr;

}  // namespace

DlsymFunction real_dlsym() {
  return cached(dlsym_function, "dlsym");
}
DlvsymFunction real_dlvsym() {
  return cached(dlvsym_function, "dlvsym");
}
DlopenFunction real_dlopen() {
  return cached(dlopen_function, "dlopen");
}

}  // namespace heddle::guard
