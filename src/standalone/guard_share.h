// The guard of one job, in the form without a container: its folder of limits and usage, and the environment that leads
// to it. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "standalone/job.h"

namespace heddle::standalone {

struct GuardFiles {
  std::string library;              // path of libheddle_guard.so of this version
  std::string ascend_library = {};  // of libheddle_guard_ascend.so; empty: there is none
};

// Whose the share is and how it ranks.
struct Tenant {
  std::string claim_uid;
  Owner owner;
  int64_t priority = 0;       // of the job: higher is lent to first; beyond 500 and -500 all are alike
  std::string mps_pipe = {};  // its compute is held by the MPS of this folder; empty: the guard paces it
};

// What a job holds of one card.
struct CardShare {
  std::string uuid;
  int64_t memory_bytes = 0;
  int64_t cores = 0;
  bool whole = false;
  int64_t virtual_bytes = 0;  // what may be addressed; 0: what is held
  std::string vendor = {};
  int64_t index = 0;  // in the driver's order
  int64_t minor = 0;  // of the device node
};

// Makes the folder. The owner of the job can read the limits and write the usage, nobody else can. (A daemon that runs
// as the same user cannot keep that user from its own files: for that, run it as root.) Fine again: what running
// processes have charged is kept.
Result<void> prepare_guard(const std::string& folder, const Tenant& tenant, const std::vector<CardShare>& shares);

// LD_PRELOAD, HEDDLE_GUARD_DIR and the cards that the vendor's libraries may show. All shares are of one vendor.
std::map<std::string, std::string> guard_environment(const GuardFiles& files, const std::string& folder,
                                                     const std::vector<CardShare>& shares);

// Bytes by uuid as the guard counts them; empty when nothing has been written yet or the file cannot be believed.
std::map<std::string, int64_t> guard_usage(const std::string& folder);
// The file that every guarded process of the job has mapped.
std::string guard_usage_file(const std::string& folder);
std::string guard_limits_file(const std::string& folder);

}  // namespace heddle::standalone
