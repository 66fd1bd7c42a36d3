// The standalone daemon as its command line sees it: the JSON API over the unix socket.
//
// Not thread-safe; each call blocks, at most a few seconds, or until the daemon has decided.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "standalone/job.h"
#include "standalone/shut_down.h"

namespace heddle::standalone {

struct JobStatus {
  int64_t id = 0;
  std::string name;
  JobState state = JobState::kWaiting;
  int64_t position = 0;
  std::vector<engine::Reason> reasons;
  std::optional<int64_t> exit_code;
  std::string outcome;
  std::string queue;        // empty: there are no queues
  std::string evicted_why;  // empty: nobody takes its place
  std::string ending;       // why it is told to end, while it runs still; empty: it is not
};

struct Rejected {
  std::vector<engine::Reason> reasons;
};

struct LaunchReply {
  std::map<std::string, std::string> environment;
  std::string folder;
};

struct StillBusy {
  int64_t running = 0;
  int64_t waiting = 0;
};

class Client {
 public:
  explicit Client(std::string socket) : socket_(std::move(socket)) {}

  // Errors of all: kUnavailable when nobody answers (the daemon was killed, and may come back), kNotFound when there is
  // no socket (it is not running) or no such job, and what the daemon said.
  Result<std::variant<JobStatus, Rejected>> submit(const JobRequest& request, int64_t client_pid);
  Result<JobStatus> job(int64_t id);
  Result<LaunchReply> launch(int64_t id);
  Result<void> start(int64_t id, int64_t runner_pid);
  // why: how the job is said to have ended; empty: cancelled by this user.
  Result<void> cancel(const std::string& id_or_name, const std::string& why = "");
  // Nothing: it is stopping.
  Result<std::optional<StillBusy>> shut_down(ShutDown how);
  // The JSON documents themselves.
  Result<std::string> status_json();
  Result<std::string> job_json(const std::string& id_or_name);

 private:
  struct Reply {
    int64_t status = 0;
    std::string body;
  };
  Result<Reply> exchange(const std::string& method, const std::string& path, const std::string& body);
  Result<std::string> call(const std::string& method, const std::string& path, const std::string& body = {});

  std::string socket_;
};

}  // namespace heddle::standalone
