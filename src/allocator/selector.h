// Selectors of device classes and requests: a conjunction of the forms that Heddle's own classes and translations use.
//
//   device.driver == "accelerator.heddle.dev" && device.attributes["accelerator.heddle.dev"].model in ["H100", "H200"]
//
// Anything else is refused by name. A device that lacks the attribute does not match.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "model/device.h"

namespace heddle::allocator {

class Selector {
 public:
  // Errors: kInvalidArgument for text that is not understood, kUnsupported for CEL beyond the forms above.
  static Result<Selector> compile(std::string_view expression);

  [[nodiscard]] bool matches(const std::string& driver, const model::Device& device) const;

  // A condition "attribute or driver is one of these".
  using Literal = std::variant<int64_t, bool, std::string>;
  struct Condition {
    std::string attribute;  // fully qualified; empty: the driver's name
    std::vector<Literal> any_of;
  };

 private:
  std::vector<Condition> conditions_;
};

}  // namespace heddle::allocator
