// One accelerator vendor as the agent and the standalone form see it: plain data, no vendor header, no vendor handle.
//
// A vendor library can hang or crash, so discovery, health and process accounting run in a worker process per vendor
// (vendors/worker.h); these are the values that cross the pipe.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace heddle::vendors {

// A hard partition that exists on a card: it is offered, granted and supervised like a card of its own.
struct PartitionPlace {
  std::string parent_uuid;  // empty: not a partition
  std::string profile;      // "1g.10gb"
  int64_t start = 0;        // first memory slice
  // What the vendor's accounts and capabilities know it by.
  int64_t gpu_instance = -1;
  int64_t compute_instance = -1;
};

struct Card {
  std::string vendor;        // "nvidia"
  std::string kind;          // "gpu"
  std::string uuid;          // as the vendor names it: "GPU-..."
  std::string model;         // product name as the driver reports it
  std::string architecture;  // "Hopper"
  int64_t index = 0;
  int64_t minor = 0;         // of the device node
  int64_t memory_bytes = 0;  // total, as the driver reports it
  std::string pci_bus_id;    // "0000:3b:00.0"
  std::string pcie_root;     // "pci0000:3a", empty if unknown
  int64_t numa_node = -1;    // -1: unknown
  std::string driver_version;
  std::string runtime_version;  // CUDA driver version, "12.9"
  std::string link_domain;
  std::string super_node;    // which of the vendor's super nodes the card is part of; empty: none
  bool partitioned = false;  // MIG is on: the whole card is not offered
  PartitionPlace partition = {};
  bool healthy = true;
  std::string health_message;
  bool mps = false;   // the node's control daemon of NVIDIA's MPS serves it
  bool cuts = false;  // its driver makes partitions of it when it is told to
  // Which of the node's modules it is a die of, where a module is more than one; empty: it is no such die.
  std::string module = {};

  [[nodiscard]] bool is_partition() const { return !partition.parent_uuid.empty(); }
};

// A hard partition that is to be made of a card. Its place is chosen before it is made, so that who was killed before
// the driver's answer knows the partition again.
struct PartitionOrder {
  std::string parent_uuid;
  std::string profile;  // "1g.10gb"; of a vNPU its template
  int64_t place = -1;   // PartitionPlace::start, of a vNPU its id; -1: not chosen yet
  friend bool operator==(const PartitionOrder&, const PartitionOrder&) = default;
};

struct CardProcess {
  int64_t pid = 0;            // in the agent's pid namespace
  int64_t memory_bytes = -1;  // -1: not known
};

struct CardStatus {
  std::string uuid;
  bool healthy = true;
  std::string health_message;
  int64_t memory_used_bytes = 0;
  int64_t utilization_percent = -1;  // -1: not supported
  int64_t temperature_celsius = -1;
  int64_t power_milliwatts = -1;
  std::vector<CardProcess> processes;
};

// How far a vendor's library could be used. The texts go into logs, metrics and the reasons that users read.
enum class LibraryState {
  kOk,
  kMissing,     // no library file: a machine without this vendor's driver, not a fault
  kInitFailed,  // the file is there, the driver behind it does not answer
  kIncomplete,  // the file lacks functions without which no card can be described
};

// Everything that was discovered, in the order of the driver.
struct Inventory {
  LibraryState state = LibraryState::kMissing;
  std::string detail;        // why the state is not kOk
  std::string library_path;  // empty when missing
  std::vector<Card> cards;
  std::vector<std::string> skipped = {};  // what the driver counts and cannot describe: which, and why
};

// Something that the driver reported once; it will not report it again, so the receiver has to remember it.
struct HealthEvent {
  std::string uuid;
  std::string message;       // "XID 79"
  bool needs_reset = false;  // only a reset of the card ends what it tells of
};

struct StatusReport {
  LibraryState state = LibraryState::kMissing;
  std::string detail;
  std::vector<CardStatus> cards;
  std::vector<HealthEvent> events;
};

// How long each process had each card since this was last asked; a card that is missing here cannot say.
struct ProcessTime {
  int64_t pid = 0;  // in the agent's pid namespace
  int64_t busy_ns = 0;
};
struct CardTimes {
  std::string uuid;
  std::vector<ProcessTime> processes;  // that had it at all
};
using TimesReport = std::vector<CardTimes>;

// What a container must get to use a card: paths on the host and in the container.
struct Injection {
  struct DeviceNode {
    std::string host_path;
    std::string container_path;
  };
  struct Mount {
    std::string host_path;
    std::string container_path;
    bool read_only = true;
  };
  std::vector<DeviceNode> nodes;
  std::vector<Mount> mounts;
  std::vector<std::pair<std::string, std::string>> environment;
};

}  // namespace heddle::vendors
