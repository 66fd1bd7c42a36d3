// What an expression may cost at worst, by what is known of devices before there is one: the API server refuses
// selectors that may cost too much. Same numbers as upstream, since which expressions are refused is part of the
// contract.
//
// Source: cel-go v0.29.2 checker/cost.go, ext/lists.go, ext/sets.go; k8s.io/apiserver v0.37.2 pkg/cel/library/cost.go;
// k8s.io/dynamic-resource-allocation v0.37.2 cel/compile.go (sizes of what is reached through `device`).
#pragma once

#include <cstdint>

#include "cel/syntax.h"

namespace heddle::cel {

// From the cheapest to the dearest evaluation; UINT64_MAX: without bound.
struct CostEstimate {
  uint64_t min = 0;
  uint64_t max = 0;
  friend bool operator==(const CostEstimate&, const CostEstimate&) = default;
};

// Of a tree that check() has passed and the planner has not changed.
CostEstimate estimate_cost(const SyntaxTree& tree);

}  // namespace heddle::cel
