#include "guard/preload/cuda/coverage.h"

#include <string.h>

#include "guard_coverage.h"

namespace heddle::guard {
namespace {

// One text with zeros between: a list of pointers would be relocated in every process that has the guard.
constexpr char kWords[] =
    "Alloc\0MemCreate\0MemMap\0Import\0Launch\0CtxCreate\0CtxRetain\0Instantiate\0PoolCreate\0ArrayCreate\0";
constexpr uint32_t kKnownSize = sizeof(kCudaKnown) / sizeof(kCudaKnown[0]);
static_assert((kKnownSize & (kKnownSize - 1)) == 0, "a power of two");

bool is_listed(const char* name, uint32_t hash) {
  for (uint32_t i = hash & (kKnownSize - 1); kCudaKnown[i].name != 0; i = (i + 1) & (kKnownSize - 1)) {
    if (kCudaKnown[i].hash == hash && same_text(kCudaNames + kCudaKnown[i].name, name)) return true;
  }
  return false;
}

bool is_outside(const char* name) {
  for (const char* family = kCudaOutside; *family != '\0'; family += strlen(family) + 1) {
    if (begins_with(name, family)) return true;
  }
  return false;
}

// "cuMemAlloc", not "cudbgApiInit" or "curl_easy_init".
bool is_cuda_name(const char* name) {
  return name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z';
}

struct Unknown {
  uint32_t count;
  char* out;
  const char* end;
};

void visit(const char* name, uint32_t hash, void* data) {
  if (!is_cuda_name(name) || is_listed(name, hash) || is_outside(name)) return;
  auto* unknown = static_cast<Unknown*>(data);
  ++unknown->count;
  const size_t length = strlen(name);
  if (unknown->out + length + 1 >= unknown->end) return;
  if (unknown->count > 1) *unknown->out++ = ' ';
  memcpy(unknown->out, name, length + 1);
  unknown->out += length;
}

}  // namespace

bool is_known_cuda(const char* name) {
  return !is_cuda_name(name) || is_listed(name, gnu_hash_of(name)) || is_outside(name);
}

bool speaks_of_resources(const char* name) {
  for (const char* word = kWords; *word != '\0'; word += strlen(word) + 1) {
    if (strstr(name, word) != nullptr) return true;
  }
  return false;
}

uint32_t count_unknown(const LoadedObject& driver, char* names, uint32_t room) {
  names[0] = '\0';
  Unknown unknown{0, names, names + room};
  each_function(driver, visit, &unknown);
  return unknown.count;
}

}  // namespace heddle::guard
