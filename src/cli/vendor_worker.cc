#include "cli/verbs.h"
#include "vendors/ascend/probe.h"
#include "vendors/nvidia/probe.h"
#include "vendors/worker.h"

namespace heddle::cli {

int vendor_worker(const VendorWorkerArgs& args) {
  if (args.vendor == "ascend") {
    vendors::ascend::ProbeOptions options;
    options.dcmi = args.dcmi;
    if (!args.driver_root.empty()) options.driver_root = args.driver_root;
    return vendors::ascend::serve_probe(vendors::kWorkerFd, options);
  }
  vendors::nvidia::ProbeOptions options;
  options.nvml = args.nvml;
  if (!args.driver_root.empty()) options.driver_root = args.driver_root;
  return vendors::nvidia::serve_probe(vendors::kWorkerFd, options);
}

}  // namespace heddle::cli
