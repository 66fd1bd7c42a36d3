// One hardware.yaml into a Vendor. The form is catalog/schema/hardware.schema.json.
#pragma once

#include "base/result.h"
#include "catalog/catalog.h"

namespace heddle::catalog {

// The vendor as far as this file has it. Errors: kInvalidArgument with one line a trouble. References to sources are
// not checked here: they may be in another file of the same vendor.
Result<Vendor> read_hardware(const InputFile& file);

}  // namespace heddle::catalog
