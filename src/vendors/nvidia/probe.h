// Discovery, health and accounting of NVIDIA cards through NVML. Runs in the worker process only: any call may hang.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "vendors/vendor.h"

namespace heddle::vendors::nvidia {

struct ProbeOptions {
  std::string nvml;               // explicit library; empty: searched under driver_root
  std::string driver_root = "/";  // the root folder of the driver installation
  std::string sysfs = "/sys";     // for PCI roots and NUMA nodes
};

// Thread rule: one thread. Loads the library at the first use and again after a failure.
//
// The MIG devices of a card in MIG mode are reported beside it, as cards with a place on it; the card's own list of
// processes then leaves out those on an instance.
class Probe {
 public:
  explicit Probe(ProbeOptions options);
  ~Probe();

  Inventory discover();
  // Also hands out the events (XID, double-bit ECC) since the last call; each event is given once.
  StatusReport status();
  // Device time since the last call, as far as the driver's samples go: whole percents of the time between two calls.
  // The first call after a start or a rest of a card says nothing about it.
  TimesReport times();

  // MIG instances of a card whose MIG mode is on (vendors/partition.h): a place is the first memory slice.
  Result<int64_t> place(const PartitionOrder& order, const std::vector<int64_t>& taken);
  Result<Inventory> make(const PartitionOrder& order);
  Result<Inventory> drop(const PartitionOrder& order);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The worker process: serves "cards", "status", "times" and calls for partitions on the descriptor until the agent is
// gone.
int serve_probe(int fd, ProbeOptions options);

}  // namespace heddle::vendors::nvidia
