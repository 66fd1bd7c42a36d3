// Discovery, health and accounting of Ascend NPUs through DCMI. Runs in the worker process only: any call may hang.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "vendors/vendor.h"

namespace heddle::vendors::ascend {

struct ProbeOptions {
  std::string dcmi;               // explicit library; empty: searched under driver_root
  std::string driver_root = "/";  // the root folder of the driver installation
  std::string sysfs = "/sys";     // for PCI roots and NUMA nodes
};

// Thread rule: one thread. Loads the library at the first use and again after a failure.
class Probe {
 public:
  explicit Probe(ProbeOptions options);
  ~Probe();

  // A card is one NPU (chip): index is the driver's logic id, minor the physical id that names the device node, uuid
  // the id of the V die. A vNPU that exists is a partition behind its NPU: index and minor are the NPU's, profile is
  // the template, start and gpu_instance are the vNPU's id, which names its device node. DCMI tells no use of a vNPU.
  Inventory discover();
  StatusReport status();

  // vNPUs (vendors/partition.h): a place is the vNPU's id. The driver hands out the lowest ones of an NPU by itself, so
  // these are the highest: what lies there after a crash or a start of the machine is what was ordered.
  Result<int64_t> place(const PartitionOrder& order, const std::vector<int64_t>& taken);
  Result<Inventory> make(const PartitionOrder& order);
  Result<Inventory> drop(const PartitionOrder& order);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The worker process: serves "cards", "status" and calls for partitions on the descriptor until the agent is gone, and
// no "times": DCMI does not say how long a process had an NPU.
int serve_probe(int fd, ProbeOptions options);

}  // namespace heddle::vendors::ascend
