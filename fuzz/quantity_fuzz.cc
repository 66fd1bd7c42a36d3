// Any text as a quantity: what is accepted must survive being written and read again, and arithmetic must undo itself.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/quantity.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto quantity = heddle::Quantity::parse({reinterpret_cast<const char*>(data), size});
  if (!quantity) return 0;
  (void)quantity->value();
  (void)quantity->milli_value();
  (void)quantity->approximate();
  if (quantity->compare(*quantity) != 0) std::abort();
  if (auto sum = quantity->plus(quantity->negated()); sum && sum->sign() != 0) std::abort();
  std::string text = quantity->to_string();
  // A number with millions of zeros is written with all of them; reading it back is only tried on what is short.
  if (text.size() > 4096) return 0;
  auto again = heddle::Quantity::parse(text);
  if (!again || again->sign() != quantity->sign()) std::abort();
  return 0;
}
