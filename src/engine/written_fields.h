// The fields of Heddle's own objects as people write them. On a cluster the API server holds objects to their schema; a
// file has nobody who does, and a misspelt `limit` would pass for one that was left out. Of metadata and status, which
// others write, nothing is said. Pure; thread-safe.
#pragma once

#include <string_view>

#include "base/result.h"

namespace heddle::engine {

// The objects as JSON. A part that is no object, or no list, is left to who reads it.
// Errors: kInvalidArgument with the path of the first unknown field, such as spec.quotas[0].garanteed, and what was
// meant, or what there is.
Result<void> check_queue_fields(std::string_view json);
Result<void> check_reservation_fields(std::string_view json);
Result<void> check_topology_fields(std::string_view json);

}  // namespace heddle::engine
