// Device nodes and driver files of Ascend NPUs. The runtime (CANN) is part of the image, the driver is not.
#pragma once

#include "vendors/injection.h"

namespace heddle::vendors::ascend {

// Control nodes, the driver's libraries, npu-smi. Errors: kNotFound when there is no davinci_manager.
Result<Injection> common_injection(const InjectionOptions& options);

// The node of an NPU, or of a vNPU (partition.gpu_instance is its id).
Result<Injection> card_injection(const InjectionOptions& options, const Card& card);

}  // namespace heddle::vendors::ascend
