// Any text as an annotation of HAMi's or Volcano's device plugins and schedulers: no crash, and amounts in their range.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "dialects/registry.h"

namespace {

void check(const heddle::Result<std::vector<heddle::dialects::RegisteredDevice>>& devices) {
  if (!devices) return;
  for (const auto& device : *devices) {
    if (device.id.empty() || device.memory_mib < 0 || device.memory_mib > 2147483647 || device.split < 0) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check(heddle::dialects::decode_hami_register(text));
  check(heddle::dialects::decode_volcano_register(text));
  if (const auto granted = heddle::dialects::decode_granted(text); granted) {
    for (const auto& container : *granted) {
      for (const auto& device : container) {
        if (device.id.empty() || device.memory_mib < 0 || device.cores < 0) std::abort();
      }
    }
  }
  return 0;
}
