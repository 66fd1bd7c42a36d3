// A vendor library in a process of its own. The library may hang in an ioctl or crash; then the worker dies, not the
// agent.
//
// The protocol is one request at a time: a frame with the name of an operation, answered by a frame that holds either
// the result as text or an error. Each frame is a 32-bit little-endian length and that many bytes.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace heddle::vendors {

// The descriptor on which a worker finds its end of the pair.
inline constexpr int kWorkerFd = 3;

// Child: answers requests on `fd` until the other end is closed. Returns the exit status of the process.
int serve_worker(int fd, const std::function<Result<std::string>(std::string_view operation)>& handle);

struct WorkerOptions {
  std::vector<std::string> command;                // argv; command[0] is the path of the program
  Duration first_backoff = Duration::millis(200);  // doubled by each failure in a row
  Duration longest_backoff = Duration::seconds(30);
  size_t most_stuck =
      4;  // killed processes that do not end because their driver does not let them: no more are started
};

// Parent. Starts the process at the first call, and again after it died, not sooner than its back-off.
// Thread rule: any thread; calls run one after the other. call() blocks up to its deadline.
class Worker {
 public:
  Worker(WorkerOptions options, const Clock& clock);
  ~Worker();  // kills the process; does not wait for one that is stuck in the kernel
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Errors: kDeadlineExceeded (it hung and was killed), kUnavailable (it died, or the back-off is not over), and what
  // the handler answered.
  Result<std::string> call(std::string_view operation, Duration deadline);

  // How many times the process was started.
  [[nodiscard]] int64_t starts() const;

 private:
  Result<void> ensure_started();
  Result<std::string> exchange(std::string_view operation, int64_t deadline_nanos);
  void kill_process();
  void reap_stuck();
  std::string exit_text(pid_t pid);

  const WorkerOptions options_;
  const Clock& clock_;
  mutable std::mutex mutex_;
  UniqueFd socket_;
  pid_t pid_ = -1;
  std::vector<pid_t> stuck_;  // killed, but still in the kernel
  int64_t starts_ = 0;
  int64_t failures_in_row_ = 0;
  int64_t not_before_nanos_ = 0;
};

}  // namespace heddle::vendors
