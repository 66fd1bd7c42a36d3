// The state of the simulated machine as it lies in its files: <root>/dev/nvidiactl (Machine) and
// <root>/dev/nvidia<minor> (CardState). Every process maps the files shared; they are the hardware. Plain data only,
// offsets fixed, times in nanoseconds of CLOCK_MONOTONIC, sizes in bytes. A change of any structure here is a new
// kLayoutVersion.
//
// Crash rule: a process may die between any two stores. Each change commits by one aligned store (a tail, a head, a
// counter), and nothing is derived by adding up over time what could be recomputed, so there is nothing to repair.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nvsim {

inline constexpr std::uint32_t kLayoutVersion = 6;
inline constexpr std::uint64_t kMachineMagic = 0x314c54434d49534eULL;  // "NSIMCTL1"
inline constexpr std::uint64_t kCardMagic = 0x314452434d49534eULL;     // "NSIMCRD1"

inline constexpr int kMaxCards = 32;
inline constexpr int kMaxProcesses = 64;  // processes with a context on one card
inline constexpr int kMaxStreams = 32;    // hardware queues of a process; further streams share them
inline constexpr std::uint64_t kQueueDepth = 1024;
inline constexpr int kMaxEvents = 8192;
inline constexpr int kBuckets = 32;  // history of utilisation
inline constexpr std::int64_t kBucketNs = 100'000'000;
inline constexpr int kFaultEvents = 64;
inline constexpr int kMaxMigProfiles = 16;
inline constexpr int kMaxGpuInstances = 15;     // of one card; the number of an instance follows from its placement
inline constexpr int kMaxComputeInstances = 8;  // of one GPU instance

// Locks on byte ranges beyond any file: the card's mutex, and one byte per process slot for liveness and for its pid.
inline constexpr std::int64_t kMutexByte = 1LL << 40;
inline constexpr std::int64_t kAliveByte = 2LL << 40;
inline constexpr std::int64_t kPidByte = 3LL << 40;

struct Machine {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t card_count;
  char driver_version[80];
  char nvml_version[80];
  std::int32_t cuda_version;  // 1000 * major + 10 * minor
  std::int32_t init_fault;    // an nvmlReturn_t, 0: none
  // Between the cards of two minors: nvmlGpuTopologyLevel_t, and how many NVLinks join them.
  std::uint8_t topology[kMaxCards][kMaxCards];
  std::uint8_t links[kMaxCards][kMaxCards];
};

struct MigProfile {
  std::uint32_t profile;  // the enum of nvml.h
  std::uint32_t id;
  std::uint32_t slices;
  std::uint32_t instances;
  std::uint32_t multiprocessors;
  std::uint32_t copy_engines;
  std::uint32_t decoders;
  std::uint32_t jpegs;
  std::uint32_t ofas;
  std::uint32_t placement_size;
  std::uint32_t placement_mask;  // bit n: may start at memory slice n
  std::uint32_t reserved;
  std::uint64_t memory_mib;
  char name[32];
};

struct CardConfig {
  char name[96];
  char uuid[48];  // GPU-...
  char serial[32];
  char part_number[32];
  std::uint32_t minor;
  std::uint32_t domain, bus, device;
  std::uint32_t pci_device_id, pci_subsystem_id;
  std::int32_t numa_node;  // -1: the platform has none
  std::uint32_t sms;
  std::uint32_t cc_major, cc_minor;
  std::uint32_t architecture;  // nvmlDeviceArchitecture_t
  std::uint32_t brand;         // nvmlBrandType_t
  std::uint32_t sm_clock_mhz, memory_clock_mhz;
  std::uint32_t power_idle_mw, power_limit_mw;
  std::uint32_t temperature_idle, temperature_busy;
  std::uint32_t pcie_generation, pcie_width;
  std::uint32_t nvlinks, nvlink_version;
  std::uint32_t nvswitch;      // 1: the links go to switches, so that every pair of cards is joined
  std::uint32_t ecc;           // 1: the card has ECC memory
  std::uint32_t mig;           // 1: the card can be partitioned
  std::uint32_t mig_reset;     // 1: a change of the mode takes a reset (Ampere)
  std::uint32_t mig_external;  // 1: that reset is not the driver's to do, as for a card passed through to a machine
  std::uint32_t mig_profile_count;
  std::uint64_t cpu_affinity[16];
  std::uint64_t memory_bytes;           // physical
  std::uint64_t memory_reserved_bytes;  // kept by driver and firmware
  std::uint64_t context_bytes;          // what one context takes
  std::int64_t slice_ns, switch_ns;
  std::int64_t default_kernel_ns;
  std::uint32_t
      gated_events;  // 1: an event is reached when its context has the card; 0: when its stream is done before
  std::uint32_t managed_fixed;  // 1: managed pages do not move while several processors use them
  std::uint32_t fabric_state;   // NVML_GPU_FABRIC_STATE_*; 0: the card has no part in a fabric
  std::uint32_t fabric_status;  // an nvmlReturn_t: how the registration ended
  std::uint32_t fabric_clique;
  std::uint8_t fabric_cluster[16];  // its UUID; all zero: the fabric of one machine alone
  MigProfile mig_profiles[kMaxMigProfiles];
};

struct FaultEvent {
  std::uint64_t sequence;  // from 1; 0: empty
  std::uint64_t type;      // nvmlEventType*
  std::uint64_t data;      // the XID
};

struct Faults {
  std::uint32_t lost;
  std::uint32_t hang;
  std::uint64_t ecc_corrected_volatile, ecc_corrected_aggregate;
  std::uint64_t ecc_uncorrected_volatile, ecc_uncorrected_aggregate;
  std::uint64_t next_event;  // sequence of the newest event
  FaultEvent events[kFaultEvents];
};

// Busy time in one window of kBucketNs; `number` says which window the entry holds.
struct Bucket {
  std::int64_t number;
  std::int64_t busy_ns;
};

enum class ItemKind : std::uint32_t { kKernel = 1, kEvent = 2, kWait = 3 };

// One entry of a hardware queue.
struct Item {
  ItemKind kind;
  std::uint32_t sms;          // kKernel: SMs it can fill
  std::int64_t remaining_ns;  // kKernel: what is left of its time at full rate
  std::uint32_t target;       // kEvent: the event; kWait: the queue waited for
  std::uint32_t reserved;
  std::uint64_t number;  // kEvent: the number of the record; kWait: until that queue's head has reached this
};

// A ring: entries [head, tail) are queued, entry n lies at n % kQueueDepth.
struct Queue {
  std::uint64_t head, tail;
  std::int64_t done_ns;  // when the newest finished entry finished
};

struct Event {
  std::uint64_t done;  // number of the newest record that has been reached
  std::int64_t time_ns;
};

// What a card is cut into. An instance exists while its bit is set: that one store makes or ends it.
struct ComputeInstance {
  std::uint32_t slices;
  std::uint32_t start;  // compute slice within the GPU instance
};

struct GpuInstance {
  std::uint32_t profile;  // index in CardConfig::mig_profiles
  std::uint32_t start, size;
  std::uint32_t compute_mask;
  ComputeInstance computes[kMaxComputeInstances];
};

struct Mig {
  std::uint32_t current, pending;  // the mode
  std::uint32_t instance_mask;
  std::uint32_t reserved;
  GpuInstance instances[kMaxGpuInstances];
};

// One process on one card. The owner alone writes the identity and the memory, but what is resident of its managed
// memory; that, and the queues, whoever holds the card's mutex moves.
struct ProcessSlot {
  std::uint32_t contexts;
  std::int32_t gpu_instance;  // -1: the card as a whole
  std::int32_t compute_instance;
  std::uint32_t mps_percent;  // of the SMs that it may fill as a client of MPS; 0: it is none
  std::uint64_t serial;       // unique per registration
  std::int64_t own_pid;       // in the process's own pid namespace
  std::uint64_t pid_namespace;
  std::uint64_t memory_bytes;      // without managed memory
  std::uint64_t managed_bytes;     // of managed memory, wherever it is
  std::uint64_t managed_resident;  // of it, on the card: others may push it out to the host
  std::int64_t busy_ns;            // time on the card with work, since registration
  std::int64_t kernels;            // finished since registration
  Bucket buckets[kBuckets];
  Queue queues[kMaxStreams];
  Event events[kMaxEvents];
  Item items[kMaxStreams][kQueueDepth];
};

struct Schedule {
  std::int64_t now_ns;    // the state is right up to here
  std::int32_t current;   // slot that has the card, -1: none
  std::int32_t resident;  // slot whose context was on the card last
  std::uint64_t resident_serial;
  std::int64_t switch_until_ns;
  std::int64_t slice_end_ns;
  std::int64_t busy_ns;    // since creation
  std::int64_t switch_ns;  // lost to switches since creation
  Bucket buckets[kBuckets];
};

struct CardState {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t compute_mode;
  std::uint32_t persistence;
  std::uint32_t reserved;
  CardConfig config;
  Faults faults;
  Schedule schedule;                         // of the processes that have the card as a whole
  Schedule mig_schedules[kMaxGpuInstances];  // of those on a GPU instance: they run beside each other
  Mig mig;
  std::uint64_t next_serial;
  std::uint64_t used_mask;  // bit n: slots[n] is a registered process; the one store that makes or ends it
  ProcessSlot slots[kMaxProcesses];
};

}  // namespace nvsim
