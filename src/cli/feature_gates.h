// --feature-gates=Name=true,Other=false as Kubernetes' programs take it, for the gates that change allocation.
#pragma once

#include <string>

#include "allocator/features.h"
#include "base/result.h"

namespace heddle::cli {

// What is not named keeps the default of Kubernetes 1.37. Errors: kInvalidArgument for an unknown name or value.
Result<allocator::Features> parse_feature_gates(const std::string& text);

}  // namespace heddle::cli
