// How a vendor's table of real functions is filled from the driver that the program loaded, once, without the program's
// allocator.
#pragma once

#include <dlfcn.h>
#include <sys/mman.h>

#include "guard/preload/elf.h"
#include "guard/preload/libc.h"

namespace heddle::guard {

// Keeps the driver loaded for as long as our table points into it.
inline void keep_loaded(const LoadedObject& object) {
  const auto open = real_dlopen();
  if (open != nullptr) open(object.path, RTLD_NOLOAD | RTLD_LAZY);
}

// A table in memory of its own, so that it can be published by one store and two threads may do this at a time.
template <typename T>
T* new_table() {
  void* memory = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<T*>(memory);
}

template <typename T>
const T* publish(const T*& where, T* table) {
  const T* expected = nullptr;
  if (__atomic_compare_exchange_n(&where, &expected, table, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return table;
  munmap(table, sizeof(T));
  return expected;
}

template <typename F>
void resolve(const LoadedObject& driver, const char* name, F& function) {
  function = reinterpret_cast<F>(find_symbol(driver, name));
}

}  // namespace heddle::guard
