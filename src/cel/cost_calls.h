// What one call costs by one of its overloads. Internal to the cost estimate.
#pragma once

#include <optional>
#include <vector>

#include "cel/cost_range.h"
#include "cel/cost_sizes.h"
#include "cel/environment.h"
#include "cel/syntax.h"

namespace heddle::cel {

// The target or an argument of a call.
struct CallPart {
  const Node* node = nullptr;
  AccessPath path;
  std::optional<Span> size;
};

struct CallParts {
  std::optional<CallPart> target;
  std::vector<CallPart> arguments;
  std::vector<Span> costs;  // of the arguments
};

struct CallCost {
  Span cost;  // with the arguments, without the target
  std::optional<Span> result_size;
  bool concatenates = false;  // the result has the elements of both arguments
};

// overload: null for what has only one.
CallCost call_cost_estimate(const Node& node, const Overload* overload, const CallParts& parts);

}  // namespace heddle::cel
