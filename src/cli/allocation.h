// `heddle allocate` without its input and output: Kubernetes objects in, claims with their allocation out.
#pragma once

#include <cstdint>
#include <string>

#include "allocator/features.h"
#include "allocator/prepare.h"
#include "base/result.h"

namespace heddle::cli {

struct AllocationInput {
  std::string objects;  // a v1 List in JSON or YAML, or several documents
  std::string node;
  allocator::Features features;
  uint64_t seed = 0;            // of share ids
  uint64_t steps = 20'000'000;  // candidate devices tried before the search is given up
  std::string source = {};      // what the objects were read from, for errors
  // What the API server fills in: ExactCount where no mode is written, one where no count is.
  allocator::Defaults defaults = allocator::Defaults::kApply;
};

struct AllocationOutput {
  std::string list_json;  // a v1 List of the claims that had no allocation; empty when it is a "no"
  std::string refusal;    // why it is a "no"
};

// Errors: kInvalidArgument, naming object and field; kExhausted when the search was given up before an answer.
Result<AllocationOutput> allocate_objects(const AllocationInput& input);

}  // namespace heddle::cli
