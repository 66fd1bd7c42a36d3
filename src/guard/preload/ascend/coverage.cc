#include "guard/preload/ascend/coverage.h"

#include <string.h>

#include "ascend_coverage.h"

namespace heddle::guard {
namespace {

// One text with zeros between: a list of pointers would be relocated in every process that has the guard.
constexpr char kWords[] = "Malloc\0Alloc\0MapMem\0PoolCreate\0Launch\0Execute\0";

template <uint32_t Size>
bool is_listed(const KnownName (&known)[Size], const char* names, const char* name) {
  static_assert((Size & (Size - 1)) == 0, "a power of two");
  const uint32_t hash = gnu_hash_of(name);
  for (uint32_t i = hash & (Size - 1); known[i].name != 0; i = (i + 1) & (Size - 1)) {
    if (known[i].hash == hash && same_text(names + known[i].name, name)) return true;
  }
  return false;
}

bool is_outside(const char* name) {
  for (const char* family = kAclOutside; *family != '\0'; family += strlen(family) + 1) {
    if (begins_with(name, family)) return true;
  }
  return false;
}

bool speaks_of_resources(const char* name) {
  for (const char* word = kWords; *word != '\0'; word += strlen(word) + 1) {
    if (strstr(name, word) != nullptr) return true;
  }
  return false;
}

struct Unknown {
  bool (*is_unknown)(const char*);
  uint32_t count;
  char* out;
  const char* end;
};

void visit(const char* name, uint32_t, void* data) {
  auto* unknown = static_cast<Unknown*>(data);
  if (!unknown->is_unknown(name)) return;
  ++unknown->count;
  const size_t length = strlen(name);
  if (unknown->out + length + 1 >= unknown->end) return;
  if (unknown->count > 1) *unknown->out++ = ' ';
  memcpy(unknown->out, name, length + 1);
  unknown->out += length;
}

}  // namespace

bool is_unknown_acl(const char* name) {
  const bool ours = begins_with(name, "aclrt") || begins_with(name, "aclmdl") || begins_with(name, "aclop");
  return ours && speaks_of_resources(name) && !is_listed(kAclKnown, kAclNames, name) && !is_outside(name);
}

// "rtMalloc" and the newer "rtsMalloc", not "rtld".
bool is_unknown_rt(const char* name) {
  const char* rest = name[0] == 'r' && name[1] == 't' ? name + 2 : "";
  if (*rest == 's') ++rest;
  const bool ours = *rest >= 'A' && *rest <= 'Z';
  // Memory of the host is nobody's share.
  return ours && speaks_of_resources(name) && strstr(name, "Host") == nullptr && !is_listed(kRtKnown, kRtNames, name);
}

uint32_t count_unknown(const LoadedObject& library, bool (*is_unknown)(const char*), char* names, uint32_t room) {
  names[0] = '\0';
  Unknown unknown{is_unknown, 0, names, names + room};
  each_function(library, visit, &unknown);
  return unknown.count;
}

}  // namespace heddle::guard
