// The constraints of claims during a search: attributes that must be equal, or all different, over the chosen devices.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "allocator/device.h"
#include "allocator/prepare.h"
#include "base/result.h"

namespace heddle::allocator {

class Constraints {
 public:
  Constraints(const std::vector<PreparedClaim>& claims, const Features& features);

  // Forgets the chosen devices.
  void begin();

  // Whether the device may join the chosen ones; if so it has joined. Errors: those of derived attributes.
  Result<bool> add(size_t claim, const Alternative& alternative, const DeviceInfo& device);
  void remove(size_t claim, const Alternative& alternative);
  // Null: the device has no such attribute for this alternative.
  Result<const model::AttributeValue*> lookup(size_t claim, uint32_t constraint, const Alternative& alternative,
                                              const DeviceInfo& device);

 private:
  // An attribute as the set of its values; a scalar is a set of one.
  struct Set {
    int kind = 0;  // 0: no value at all
    std::vector<std::string> items;
  };
  struct State {
    const model::DeviceConstraint* constraint = nullptr;
    AttributeColumn* column = nullptr;
    std::vector<const model::AttributeValue*> values;  // of the chosen devices
    std::vector<Set> sets;  // with list attributes: what they have in common so far, or (distinct) each one's
  };
  static Set set_of(const model::AttributeValue& value);
  [[nodiscard]] bool admits(const State& state, const model::AttributeValue& value) const;
  void push(State& state, const model::AttributeValue& value) const;
  static Set common(const Set& a, const Set& b);

  const Features& features_;
  std::vector<std::vector<State>> states_;                                     // by claim and constraint
  std::vector<const model::AttributeValue*> found_;                            // of one call of add()
  std::map<std::pair<uint32_t, std::string>, model::AttributeValue> derived_;  // by device index and expression
};

// A text that is equal for equal values only.
std::string value_text(const model::AttributeValue& value);

}  // namespace heddle::allocator
