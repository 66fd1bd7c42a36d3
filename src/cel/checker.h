// Types at compile time, by the rules of cel-go v0.29.2 checker/checker.go.
#pragma once

#include "base/result.h"
#include "cel/environment.h"
#include "cel/syntax.h"

namespace heddle::cel {

// Sets the type of each node and resolves names: a call on a namespace ("sets.contains(...)") becomes a global call.
// `types` owns the types that are made on the way and must outlive the tree. Returns the type of the whole expression.
// Errors: kInvalidArgument, "undeclared reference to 'x' ... at 1:7", "found no matching overload for ...".
Result<const Type*> check(SyntaxTree& tree, const Environment& environment, TypeTable& types,
                          std::string_view expression);

}  // namespace heddle::cel
