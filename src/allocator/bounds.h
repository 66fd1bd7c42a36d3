// Reasons why no solution can exist, found by counting instead of trying.
#pragma once

#include <vector>

#include "allocator/allocator.h"
#include "allocator/occupancy.h"
#include "allocator/plan.h"

namespace heddle::allocator {

// True when the claims cannot all be served whatever is tried: too few devices for a request, too few different ones
// for all requests together, or more of a counter or a shared capacity asked for than is left. The plans must be
// listed, none failing, and nothing taken yet.
bool proves_no(const std::vector<PreparedClaim>& claims, Plans& plans, Occupancy& occupancy);

}  // namespace heddle::allocator
