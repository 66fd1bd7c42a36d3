// The guard's two files as the agent and the standalone program make and read them. What a tenant can write is never
// mapped and never believed: `usage` is read with pread, every number in it is checked, and nothing read from it
// decides anything outside the tenant it belongs to. Thread-safe (no state). All sizes are int64 bytes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace heddle::guard {

struct DeviceLimit {
  std::string uuid;                    // as the vendor prints it: "GPU-xxxxxxxx-xxxx-...", "MIG-..."
  int64_t memory_bytes = 0;            // > 0, below 16 TiB; for a whole card its size
  int cores_percent = 0;               // 0..100; 0 and 100: no limit of the compute share
  bool whole_card = false;             // memory is accounted, neither limited nor shown smaller
  int64_t context_overhead_bytes = 0;  // what the driver takes for a context; 0: not known, the guard measures it
  int64_t number = -1;                 // by which the vendor's runtime tells the device apart, else -1 (uuid alone)
  // Without a limit of the compute share: work waits while the agent says that tenants of better priority are at work.
  bool gives_way = false;
  // The most that may be addressed, managed memory beyond memory_bytes included; 0: memory_bytes. Above memory_bytes,
  // and not of a whole card.
  int64_t virtual_bytes = 0;
};

struct LimitFlags {
  bool deny_unlisted_devices = true;  // devices without an entry are refused memory
  bool fail_closed = true;            // usage missing, unwritable or damaged: memory is refused
  bool strict_share = false;          // never more than the share of the device's time: nothing is borrowed
  bool deny_unknown_symbols = false;  // entry points of a newer driver that speak of memory or work cannot be looked up
};

struct ClaimLimits {
  std::string claim_uid;             // at most 63 characters
  std::string request;               // at most 63 characters
  std::vector<DeviceLimit> devices;  // 1..16, each uuid once
  LimitFlags flags;
  int64_t context_overhead_bytes = 0;  // for the devices that state none
  int priority = 0;                    // 0..1000, 0 is the best: who is lent to first what others leave idle
  // Of the multiprocessors of each device, held by NVIDIA's MPS: 1..99, and then no device has a share of the time;
  // 0: no mask.
  int mask_percent = 0;
  std::string mask_pipe = {};  // the folder of the MPS control daemon as the tenant sees it; at most 127 characters
};

// The content of `limits`. Errors: kInvalidArgument with the field.
Result<std::string> encode_limits(const ClaimLimits& limits);

// The content of a limits file back, of this version or the one before. Errors: kInvalidArgument (damaged, not a limits
// file), kUnsupported (a version that this program does not know).
Result<ClaimLimits> decode_limits(std::string_view content);

// True when two limits files say the same, whatever the agent has told the tenant meanwhile.
bool same_limits(std::string_view a, std::string_view b);

// True when a limits file has a page for the agent's hints (version 2).
bool has_hints(std::string_view content);

// What the agent last told a tenant of one device.
struct DeviceHint {
  double rate = 0;     // of the device's time that it may use
  double charge = 1;   // how much of an interval counts
  bool fresh = false;  // else it does not count: too old, or nothing was ever said
};
DeviceHint hint_in(std::string_view limits_content, uint32_t device, int64_t now_ns);

// What the guard has written about the tenant's use of one device. Any of it may be invented.
struct Activity {
  int64_t want_ns = 0;      // CLOCK_MONOTONIC: when a launch last asked to be admitted
  int64_t charged_ns = 0;   // device time that its clock was charged with
  int64_t measured_ns = 0;  // length of the intervals that this was made from
};

// One read of a few words; files of version 1 tell nothing (zeros). Errors: as read_usage().
Result<Activity> read_activity(int usage_fd, uint32_t device);

// Tells the tenant of a limits file (open for writing, version 2) what it may use of a device now. Errors: kInternal.
Result<void> write_hint(int limits_fd, uint32_t device, double rate, double charge, int64_t now_ns);

// Makes `usage` for these limits: full size, sparse, mode 0666 (the tenant's processes run as any user; the folder
// decides who reaches it). An existing file of the right size and version stays as it is, so that a repeated Prepare
// does not forget what running processes have charged; anything else in its place is replaced. Errors:
// kInvalidArgument, kInternal.
Result<void> create_usage(const std::string& path, const ClaimLimits& limits);

// The same into an open file of which the caller is the only user so far; a memfd is sealed against growing and
// shrinking.
Result<void> create_usage(int fd, const ClaimLimits& limits);

struct SlotOwner {
  uint32_t pid = 0;            // as the process sees itself
  uint32_t pid_namespace = 0;  // inode of /proc/<pid>/ns/pid
  uint64_t start_time = 0;     // field 22 of /proc/<pid>/stat; 0: the process has not written it yet
};

struct ProcessUsage {
  SlotOwner owner;
  int64_t launches = 0;
  int64_t throttled_ns = 0;
  std::vector<int64_t> charged_bytes;       // by device, in the order of UsageReport::devices
  std::vector<int64_t> busy_ns;             // device time measured for this process, where the compute share is limited
  std::vector<int64_t> managed_bytes = {};  // managed memory beyond what is charged, by device
};

struct DeviceUsage {
  std::string uuid;
  int64_t charged_bytes = 0;
  int64_t context_overhead_bytes = 0;  // 0: not measured
  int64_t managed_bytes = 0;           // managed memory beyond what is charged
  int64_t managed_resident_bytes = 0;  // of it, what the vendor's account had on the device when processes last looked
};

struct UsageReport {
  std::vector<DeviceUsage> devices;
  std::vector<ProcessUsage> processes;
  int64_t launches = 0;         // of the processes that hold a slot now
  int64_t throttled_ns = 0;     // likewise
  int64_t unknown_symbols = 0;  // entry points of the driver that the tenant's guard does not know
};

// A snapshot (not one instant: processes go on). Errors: kNotFound, kInvalidArgument (wrong size, magic, numbers that
// cannot be), kUnsupported (version). Cost: one read of 2.7 MB.
Result<UsageReport> read_usage(const std::string& path);
Result<UsageReport> read_usage(int fd);

// Marks the slots of processes for which is_alive says no: the charges are taken off by the next process of the tenant
// that needs them. Needed only where the tenant's processes cannot see each other, that is in several pid namespaces;
// otherwise they do this themselves. An owner without a start time is one that has not written it yet: any process of
// this pid there is it. is_alive is asked after the file was read. Gives the number of slots marked.
Result<int> free_slots_of_dead(const std::string& path, const std::function<bool(const SlotOwner&)>& is_alive);

// Writes into the slots of processes in pid namespaces of their own which pid they have for the host, so that they find
// themselves in the vendor's account. find_pid: the host's pid of an owner, 0: not known; it is asked only for owners
// that have none yet. Gives the number of slots written.
Result<int> tell_host_pids(const std::string& path, const std::function<uint32_t(const SlotOwner&)>& find_pid);

// How the guard in a process names it in its slot: its pid as it sees itself, its pid namespace, its start time; by
// what this /proc says of `pid`. Nothing when it has ended.
std::optional<SlotOwner> slot_owner_of(const std::string& proc, int64_t pid);

// Every process that this /proc shows, as SlotOwner in its own namespace; for is_alive of a program in the host's pid
// namespace. Processes that end meanwhile are left out. Errors: kInternal.
class LiveProcesses {
 public:
  static Result<LiveProcesses> scan(const std::string& proc = "/proc");
  [[nodiscard]] bool contains(const SlotOwner& owner) const { return pid_of(owner) != 0; }
  // The pid that this /proc has for the process, for one without start time whenever it began; 0: it has none.
  [[nodiscard]] uint32_t pid_of(const SlotOwner& owner) const;

 private:
  struct Process {
    SlotOwner owner;
    uint32_t pid;
  };
  std::vector<Process> sorted_;
};

}  // namespace heddle::guard
