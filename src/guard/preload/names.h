// Looking names of entry points up in what the build wrote down about a vendor's header: tables with hashes, and lists
// of texts with zeros between (a list of pointers would be relocated in every process that has the guard).
#pragma once

#include <stdint.h>
#include <string.h>

#include "guard/preload/elf.h"

namespace heddle::guard {

// known: open addressing over the ELF hash; names: offsets into one text.
template <typename Name, uint32_t Size>
bool is_listed(const Name (&known)[Size], const char* names, const char* name, uint32_t hash) {
  static_assert((Size & (Size - 1)) == 0, "a power of two");
  for (uint32_t i = hash & (Size - 1); known[i].name != 0; i = (i + 1) & (Size - 1)) {
    if (known[i].hash == hash && same_text(names + known[i].name, name)) return true;
  }
  return false;
}

// texts: ends with an empty one.
inline bool begins_with_any(const char* name, const char* texts) {
  for (; *texts != '\0'; texts += strlen(texts) + 1) {
    if (begins_with(name, texts)) return true;
  }
  return false;
}

inline bool contains_any(const char* name, const char* texts) {
  for (; *texts != '\0'; texts += strlen(texts) + 1) {
    if (strstr(name, texts) != nullptr) return true;
  }
  return false;
}

// Counts names, and writes the first of them down with blanks between, cut to the room.
struct NameList {
  uint32_t count;
  char* out;
  const char* end;

  void add(const char* name) {
    ++count;
    const size_t length = strlen(name);
    if (out + length + 1 >= end) return;
    if (count > 1) *out++ = ' ';
    memcpy(out, name, length + 1);
    out += length;
  }
};

}  // namespace heddle::guard
