// What a simulation adds up. For this folder.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/demand.h"
#include "simulation/simulation.h"

namespace heddle::simulation {

// Thousandths of devices.
int64_t milli_of(const std::vector<queueing::Portion>& portions);

class Tally {
 public:
  explicit Tally(const std::vector<engine::FleetPart>& fleet);

  // Times never go back.
  void advance(Time now);
  // The last workload has come.
  void all_have_come();
  void take(const std::string& queue, const std::vector<queueing::Portion>& portions) { change(queue, portions, 1); }
  void give_back(const std::string& queue, const std::vector<queueing::Portion>& portions) {
    change(queue, portions, -1);
  }
  void came(const std::string& queue) { ++queues_[queue].use.workloads; }
  void started(const std::string& queue, Duration waited, bool gang);
  void evicted(const std::string& queue, Duration ran, int64_t milli_devices);

  // Fills in what was added up.
  void report(SimulationResult& result) const;

 private:
  using Kind = std::pair<std::string, std::string>;  // vendor, model
  struct Amount {
    int64_t devices = 0;
    int64_t milli = 0;       // now
    double milli_nanos = 0;  // over time
    double while_arriving = 0;
  };
  struct Queue {
    QueueUse use;
    std::vector<int64_t> waits;
    int64_t milli = 0;
    double milli_nanos = 0;
  };
  void change(const std::string& queue, const std::vector<queueing::Portion>& portions, int sign);

  std::map<Kind, Amount> kinds_;
  std::map<std::string, Queue> queues_;
  std::vector<int64_t> waits_;
  std::vector<int64_t> gang_waits_;
  bool began_ = false;
  bool arriving_ = true;
  Time begin_;
  Time last_;
  Time last_arrival_;
  int64_t evictions_ = 0;
  double lost_milli_nanos_ = 0;
};

}  // namespace heddle::simulation
