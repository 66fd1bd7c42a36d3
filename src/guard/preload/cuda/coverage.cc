#include "guard/preload/cuda/coverage.h"

#include "guard/preload/names.h"
#include "guard_coverage.h"

namespace heddle::guard {
namespace {

constexpr char kWords[] =
    "Alloc\0MemCreate\0MemMap\0Import\0Launch\0CtxCreate\0CtxRetain\0Instantiate\0PoolCreate\0ArrayCreate\0";

bool is_of_the_header(const char* name, uint32_t hash) {
  return is_listed(kCudaKnown, kCudaNames, name, hash) || begins_with_any(name, kCudaOutside);
}

// "cuMemAlloc", not "cudbgApiInit" or "curl_easy_init".
bool is_cuda_name(const char* name) {
  return name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z';
}

void visit(const char* name, uint32_t hash, void* data) {
  if (is_cuda_name(name) && !is_of_the_header(name, hash)) static_cast<NameList*>(data)->add(name);
}

}  // namespace

bool is_known_cuda(const char* name) {
  return !is_cuda_name(name) || is_of_the_header(name, gnu_hash_of(name));
}

bool speaks_of_resources(const char* name) {
  return contains_any(name, kWords);
}

uint32_t count_unknown(const LoadedObject& driver, char* names, uint32_t room) {
  names[0] = '\0';
  NameList unknown{0, names, names + room};
  each_function(driver, visit, &unknown);
  return unknown.count;
}

}  // namespace heddle::guard
