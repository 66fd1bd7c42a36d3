// Processes of this machine: identity that outlives pid reuse, and the whole of a job's processes.
// All functions read /proc; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "standalone/job.h"

namespace heddle::standalone {

// The variable by which a job's processes are found when their supervisor was killed; its value is the job's uid.
inline constexpr const char* kJobVariable = "HEDDLE_JOB_UID";

// Of the process that is `pid` now. Errors: kNotFound.
Result<ProcessId> identify(int64_t pid);
// The process still runs (a zombie does not).
[[nodiscard]] bool alive(const ProcessId& process);
// Its user, by the owner of /proc/PID. Errors: kNotFound.
Result<int64_t> user_of(int64_t pid);

// A pidfd of the process, invalid when it has ended. Becomes readable when it ends.
[[nodiscard]] UniqueFd open_process(const ProcessId& process);

// Children, their children and so on, of a process; without itself.
[[nodiscard]] std::vector<int64_t> descendants(int64_t pid);

// Parent, its parent and so on; without itself.
[[nodiscard]] std::vector<int64_t> ancestors(int64_t pid);

// Processes that belong to a job: kJobVariable in their environment, or `file` mapped. Zombies do not count.
[[nodiscard]] std::vector<int64_t> processes_of_job(const std::string& uid, const std::string& file);

}  // namespace heddle::standalone
