// Any text as a version: what is accepted is written back as it came, and is equal to itself.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/semver.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  if (auto version = heddle::Semver::parse(text)) {
    if (version->to_string() != text || version->compare(*version) != 0) std::abort();
  }
  if (auto version = heddle::Semver::parse_normalized(text)) {
    if (!heddle::Semver::parse(version->to_string())) std::abort();
  }
  return 0;
}
