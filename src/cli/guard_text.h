// What `heddle guard` says of the guard's files: one look at a claim, and what changed between two looks. What tenants
// wrote is shown, not believed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "guard/files.h"

namespace heddle::cli {

// One set of limits with its usage.
struct GuardView {
  std::string folder;
  guard::ClaimLimits limits;
  std::vector<guard::DeviceHint> hints;  // one a device
  Result<guard::UsageReport> usage;
  std::string job = {};  // "7 (train)", of a machine without Kubernetes; empty: not known
};

// A job of `heddle run` that has its share.
struct GuardJob {
  std::string claim;  // its uid
  std::string label;  // "7", "7 (train)"
};
// Of a standalone Heddle's status. Those of an earlier Heddle, which does not tell the claim, are left out.
std::vector<GuardJob> guard_jobs(const std::string& status_json);
void name_jobs(std::vector<GuardView>& views, const std::vector<GuardJob>& jobs);

// The folders of all claims below the state folder of an agent or of a standalone Heddle, in order.
// Errors: kNotFound, kPermissionDenied.
Result<std::vector<std::string>> guard_folders(const std::string& state_dir);

// Errors: as read_file() and decode_limits() for the limits; those of the usage are part of the view.
Result<GuardView> look_at_guard(const std::string& folder, int64_t now_ns);

std::string guard_table(const std::vector<GuardView>& views);
std::string guard_json(const std::vector<GuardView>& views);

// A line for everything that changed: charges, processes, launches and how long they were held back, what may be used.
std::vector<std::string> guard_changes(const GuardView& before, const GuardView& after);

}  // namespace heddle::cli
