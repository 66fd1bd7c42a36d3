#include "guard/preload/ascend/coverage.h"

#include <string.h>

#include "ascend_coverage.h"
#include "guard/preload/names.h"

namespace heddle::guard {
namespace {

constexpr char kWords[] = "Malloc\0Alloc\0MapMem\0PoolCreate\0Launch\0Execute\0";

struct Unknown {
  bool (*is_unknown)(const char*);
  NameList list;
};

void visit(const char* name, uint32_t, void* data) {
  auto* unknown = static_cast<Unknown*>(data);
  if (unknown->is_unknown(name)) unknown->list.add(name);
}

}  // namespace

bool is_unknown_acl(const char* name) {
  const bool ours = begins_with(name, "aclrt") || begins_with(name, "aclmdl") || begins_with(name, "aclop");
  return ours && contains_any(name, kWords) && !is_listed(kAclKnown, kAclNames, name, gnu_hash_of(name)) &&
         !begins_with_any(name, kAclOutside);
}

// "rtMalloc" and the newer "rtsMalloc", not "rtld".
bool is_unknown_rt(const char* name) {
  const char* rest = name[0] == 'r' && name[1] == 't' ? name + 2 : "";
  if (*rest == 's') ++rest;
  const bool ours = *rest >= 'A' && *rest <= 'Z';
  // Memory of the host is nobody's share.
  return ours && contains_any(name, kWords) && strstr(name, "Host") == nullptr &&
         !is_listed(kRtKnown, kRtNames, name, gnu_hash_of(name));
}

uint32_t count_unknown(const LoadedObject& library, bool (*is_unknown)(const char*), char* names, uint32_t room) {
  names[0] = '\0';
  Unknown unknown{is_unknown, {0, names, names + room}};
  each_function(library, visit, &unknown);
  return unknown.list.count;
}

}  // namespace heddle::guard
