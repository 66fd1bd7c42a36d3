// The mask of the multiprocessors, where the limits have one: NVIDIA's MPS holds it, for the whole process.
#pragma once

#include "guard/preload/cuda/hooks.h"

namespace heddle::guard {

// Before the driver looks at its variables: makes them say what the limits say, whatever the program has made of them.
void set_mask();

// Before a context is made on a device, after cuInit(). Anything but success: the mask would not hold, so no work may
// begin.
CUresult check_mask(CUdevice device);

}  // namespace heddle::guard
