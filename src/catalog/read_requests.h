// Reads one catalog/<vendor>/requests.yaml.
#pragma once

#include "base/result.h"
#include "catalog/embedded.h"
#include "catalog/requests.h"

namespace heddle::catalog {

class Catalog;

// Errors: kInvalidArgument, one line a trouble with file, line and field.
Result<RequestVendor> read_requests(const InputFile& file, const Catalog& hardware);

}  // namespace heddle::catalog
