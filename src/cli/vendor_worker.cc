#include "cli/verbs.h"
#include "vendors/nvidia/probe.h"
#include "vendors/worker.h"

namespace heddle::cli {

int vendor_worker(const VendorWorkerArgs& args) {
  vendors::nvidia::ProbeOptions options;
  options.nvml = args.nvml;
  if (!args.driver_root.empty()) options.driver_root = args.driver_root;
  return vendors::nvidia::serve_probe(vendors::kWorkerFd, options);
}

}  // namespace heddle::cli
