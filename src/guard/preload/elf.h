// The loaded objects of this process, read from the dynamic loader's own list: how the guard finds the C library's real
// dlsym without calling any dl function, and whether a driver is loaded. No allocation, no state; safe before main().
#pragma once

#include <cstdint>

namespace heddle::guard {

struct LoadedObject {
  uintptr_t base = 0;
  const char* path = nullptr;  // as the loader knows it; lives as long as the object
  const void* dynamic = nullptr;
  uintptr_t start = 0;  // of the segment that object_of() was asked for, and its end
  uintptr_t end = 0;
};

// The first loaded object whose soname or file name begins with one of the two prefixes. False: none is.
bool find_object(const char* soname_prefix, const char* other_prefix, LoadedObject* found);

// The object that `address` lies in. False: none.
bool object_of(const void* address, LoadedObject* found);

// The soname of an object or, without one, its file name; never null.
const char* name_of(const LoadedObject& object);

// A function that the object defines itself; the default version where there are several. Null: it defines none.
void* find_symbol(const LoadedObject& object, const char* name);

// The name of the function that the object exports at exactly this address; null: none. Cost: a pass over its symbols.
const char* name_at(const LoadedObject& object, const void* address);

// Calls visit(name, hash) for each function that the object exports; the hash is that of DT_GNU_HASH.
using SymbolVisitor = void (*)(const char* name, uint32_t hash, void* data);
void each_function(const LoadedObject& object, SymbolVisitor visit, void* data);

// The hash of a name as DT_GNU_HASH has it.
uint32_t gnu_hash_of(const char* name);

// True when name begins with prefix.
bool begins_with(const char* name, const char* prefix);
bool same_text(const char* a, const char* b);

}  // namespace heddle::guard
