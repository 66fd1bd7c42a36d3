// Prepare and Unprepare on the node's disk, without Kubernetes: the record, the guard's folder, the CDI file, in that
// order.
//
// Killed at any instruction, a repeated call goes on: each step looks at what is there. The record comes first, so that
// whatever a claim left behind is found at the next start; a partition that is made for a claim comes behind it, and
// goes before it. Nothing here blocks on a network.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "agent/guard_folder.h"
#include "agent/guard_install.h"
#include "agent/node_lock.h"
#include "agent/partition_maker.h"
#include "agent/record.h"
#include "base/log.h"
#include "vendors/injection.h"

namespace heddle::agent {

struct PreparerOptions {
  std::string state_dir;
  std::string cdi_root = "/var/run/cdi";
  std::string guard_library;         // for NVIDIA cards
  std::string ascend_guard_library;  // for Ascend NPUs; empty: their shares cannot be prepared
  std::string guard_hook;            // may be empty
  UsageKind usage = UsageKind::kTmpfs;
  int64_t context_bytes = 0;  // what the driver takes for one context; 0: the guard measures it
  vendors::InjectionOptions injection;
  std::string mps_pipe;  // CUDA_MPS_PIPE_DIRECTORY of the node's MPS control daemon, as the node has it; empty: none
  std::string mps_shm;   // its folder of shared memory for containers; empty: they are in the node's IPC namespace
  std::string boot_id_file = "/proc/sys/kernel/random/boot_id";
  std::shared_ptr<PartitionMaker> partitions;      // none: claims for partitions that have to be made are not prepared
  Duration lock_patience = Duration::seconds(10);  // with another agent of this node
  // Called with the name of each step before it is done; the tests of crashes end the process there.
  std::function<void(std::string_view step)> before_step = [](std::string_view) {};
};

// Thread rule: any thread; calls for one claim wait for each other, calls for different claims run beside each other.
class Preparer {
 public:
  // Installs the guard, reads the records of before, and removes what a killed call left without a record. Of a claim
  // whose record is damaged the limits tell what it holds: it counts, and its files stay until it is unprepared.
  static Result<std::unique_ptr<Preparer>> open(PreparerOptions options, const Logger& log);

  // `grant` without guard_version and boot_id. Repeated: the same result, and what is missing on disk is made again.
  // Errors: kExhausted (the card's shares would exceed it), kConflict (prepared with other devices: Unprepare comes
  // first), kNotFound (device node or driver files missing), kUnavailable (another agent holds the state folder), and
  // those of PartitionMaker.
  Result<ClaimRecord> prepare(ClaimRecord grant);

  // Also for claims that were never prepared. Errors: those of PartitionMaker; then the claim still counts.
  Result<void> unprepare(const std::string& claim_uid);

  // Makes again what is missing on disk for every record, as after a reboot. Failures are logged.
  void repair_all();

  [[nodiscard]] std::vector<ClaimRecord> records() const;

  // Where the account of a prepared claim is; for read_usage().
  [[nodiscard]] std::string usage_file(const ClaimRecord& record) const;
  // Its limits, with the page that this program may write.
  [[nodiscard]] std::string limits_file(const ClaimRecord& record) const;

 private:
  class ClaimTurn;
  Preparer(PreparerOptions options, const Logger& log) : options_(std::move(options)), log_(log) {}

  Result<void> start();
  Result<void> reload();
  Result<void> reload_if_changed();
  void note_generation();
  Result<ClaimRecord> reserve(ClaimRecord grant);
  Result<ClaimRecord> place_and_reserve(ClaimRecord grant);
  Result<ClaimRecord> make_partitions(ClaimRecord record);
  Result<void> drop_partitions(const std::string& claim_uid);
  void give_back(const ClaimRecord& record);
  Result<void> materialise(const ClaimRecord& record);
  Result<void> write_record(const ClaimRecord& record);
  [[nodiscard]] const std::string& guard_library_of(const std::string& vendor) const;
  Result<GuardVersion> guard_of(const ClaimRecord& record, const FolderPlan& plan) const;
  Result<void> add_mask(const FolderPlan& plan, vendors::Injection& injection) const;
  Result<void> write_cdi(const ClaimRecord& record, const FolderPlan& plan, const GuardFolder& folder);
  Result<void> remove_files(const std::string& claim_uid);
  [[nodiscard]] std::optional<ClaimRecord> salvage(const std::string& uid) const;
  void remove_strays();
  void forget(const std::string& claim_uid);
  void collect_guards();
  [[nodiscard]] std::string claims_dir() const { return options_.state_dir + "/claims"; }
  [[nodiscard]] std::string claim_dir(const std::string& uid) const { return claims_dir() + "/" + uid; }

  const PreparerOptions options_;
  const Logger& log_;
  std::unique_ptr<NodeLock> node_lock_;
  std::map<std::string, GuardVersion> guards_;  // by vendor
  std::string boot_id_;
  mutable std::mutex mutex_;
  std::mutex placing_;  // from the choice of a partition's place until the record with it counts
  std::condition_variable turn_;
  std::set<std::string> busy_;  // claims with a call under way
  std::vector<ClaimRecord> records_;
  std::string generation_;  // of the claims folder as this process knows it
  bool warned_plain_ = false;
};

}  // namespace heddle::agent
