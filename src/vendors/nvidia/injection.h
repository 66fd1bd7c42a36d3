// What a container needs to use NVIDIA cards: device nodes, the driver's files, environment. From the file system
// alone: no vendor library is called.
#pragma once

#include "vendors/injection.h"

namespace heddle::vendors::nvidia {

using vendors::InjectionOptions;

// For all containers that get any card: control nodes, driver files, environment. A "device node" that is a regular
// file belongs to a simulated driver and becomes a writable mount. Errors: kNotFound when there is no libcuda.so.1.
Result<Injection> common_injection(const InjectionOptions& options);

// The node of one card. Errors: kNotFound when it does not exist.
Result<Injection> card_injection(const InjectionOptions& options, const Card& card);

}  // namespace heddle::vendors::nvidia
