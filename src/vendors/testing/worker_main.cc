// The worker process of the tests: vendor_worker_for_test NVML-LIBRARY
#include "vendors/nvidia/probe.h"
#include "vendors/worker.h"

int main(int argc, char** argv) {
  return heddle::vendors::nvidia::serve_probe(heddle::vendors::kWorkerFd,
                                              {argc > 1 ? argv[1] : "", "/nonexistent", "/sys"});
}
