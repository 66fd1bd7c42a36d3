// The CEL selectors that translations write, as values: a closed set of forms, so that what comes back from a pod's
// annotation can be told from anything else to the letter.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::dialects {

// On one text attribute of our driver's domain. A device that does not publish the attribute has `otherwise`.
struct Selector {
  enum class Op {
    kEquals,         // attribute == values[0]
    kIn,             // attribute in values
    kNotIn,          // !(attribute in values)
    kStartsWithAny,  // any of values is its beginning
    kContainsAny,    // any of values is a part of it, in lower case
    kPairIn,         // "model|profile" in values, the model in small letters; attribute is "model"
    kContainsNone,   // none of values is
  };
  Op op = Op::kEquals;
  std::string attribute;  // "model"
  std::vector<std::string> values;
  std::string otherwise;  // in place of an absent attribute; not of kContains* and kPairIn, where absent is no match
  std::string prefix;     // written before the attribute before it is compared; kContains* only
  friend bool operator==(const Selector&, const Selector&) = default;
};

std::string selector_text(const Selector& selector);
// The inverse; nothing for any text that selector_text does not write.
std::optional<Selector> parse_selector(std::string_view text);

}  // namespace heddle::dialects
