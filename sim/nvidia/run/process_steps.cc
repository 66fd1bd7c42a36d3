// Steps about the process itself: waiting, forking, losing descriptors, and the context.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>

#include "run/session.h"

namespace nvsim::run {
namespace {

Outcome failed(Session& session, CUresult code) {
  return {"error=" + session.name_of(code) +
              (session.loading_error.empty() ? "" : " reason='" + session.loading_error + "'"),
          false};
}

Outcome init(Session& session, const std::string&) {
  const CUresult code = session.use_device();
  int count = 0;
  if (code == CUDA_SUCCESS) {
    session.cuda.cuDeviceGetCount(&count);
  }
  return code == CUDA_SUCCESS ? Outcome{"pid=" + std::to_string(getpid()) + " devices=" + std::to_string(count), true}
                              : failed(session, code);
}

// The init must fail with this CUresult.
Outcome expect_init(Session& session, const std::string& value) {
  const CUresult code = session.use_device();
  return {"result=" + std::to_string(static_cast<int>(code)) + " name=" + session.name_of(code),
          std::to_string(static_cast<int>(code)) == value};
}

// Any next call on the card must fail with this CUresult.
Outcome expect_error(Session& session, const std::string& value) {
  std::size_t free_now = 0, total = 0;
  CUresult code = session.use_device();
  code = code == CUDA_SUCCESS ? session.cuda.cuMemGetInfo(&free_now, &total) : code;
  return {"result=" + std::to_string(static_cast<int>(code)) + " name=" + session.name_of(code),
          std::to_string(static_cast<int>(code)) == value};
}

Outcome devices(Session& session, const std::string& value) {
  const CUresult code = session.use_device();
  int count = 0;
  if (code != CUDA_SUCCESS) {
    return failed(session, code);
  }
  session.cuda.cuDeviceGetCount(&count);
  std::string names;
  for (int index = 0; index < count; ++index) {
    char name[96] = "";
    session.cuda.cuDeviceGetName(name, sizeof(name), index);
    names += (index > 0 ? "," : "") + std::string(name);
  }
  return {"count=" + std::to_string(count) + " names='" + names + "'", value.empty() || value == std::to_string(count)};
}

Outcome use_device(Session& session, const std::string& value) {
  const auto result = std::from_chars(value.data(), value.data() + value.size(), session.device);
  return {"device=" + value, result.ec == std::errc() && result.ptr == value.data() + value.size()};
}

Outcome hold(Session&, const std::string& value) {
  std::int64_t duration = 0;
  if (value.empty()) {
    while (!stop_requested()) {
      sleep_for(1'000'000'000);
    }
    return {"stopped=1", true};
  }
  if (!parse_duration(value, duration)) {
    return {"error='write a duration, like 10s'", false};
  }
  sleep_for(duration);
  return {"", true};
}

// The child makes one call and must be told NOT_INITIALIZED; the parent must be unharmed.
Outcome fork_child(Session& session, const std::string&) {
  if (const CUresult code = session.use_device(); code != CUDA_SUCCESS) {
    return failed(session, code);
  }
  const pid_t child = fork();
  if (child == 0) {
    std::size_t free_now = 0, total = 0;
    const CUresult first = session.cuda.cuMemGetInfo(&free_now, &total);
    const CUresult second = session.cuda.cuInit(0);
    _exit(first == CUDA_ERROR_NOT_INITIALIZED && second == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return {"child=" + std::to_string(child), WIFEXITED(status) && WEXITSTATUS(status) == 0};
}

// A child that outlives this process without touching the card.
Outcome fork_idle(Session&, const std::string& value) {
  std::int64_t duration = 0;
  if (!parse_duration(value, duration)) {
    return {"error='write a duration, like 10s'", false};
  }
  const pid_t child = fork();
  if (child == 0) {
    sleep_for(duration);
    _exit(0);
  }
  return {"child=" + std::to_string(child), child > 0};
}

Outcome close_from(Session&, const std::string& value) {
  unsigned int first = 3;
  std::from_chars(value.data(), value.data() + value.size(), first);
  closefrom(static_cast<int>(first));
  return {"first=" + std::to_string(first), true};
}

Outcome touch(Session&, const std::string& path) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor >= 0) {
    close(descriptor);
  }
  return {"path=" + path, descriptor >= 0};
}

Outcome wait_file(Session&, const std::string& path) {
  while (access(path.c_str(), F_OK) != 0 && !stop_requested()) {
    sleep_for(5'000'000);
  }
  return {"path=" + path, access(path.c_str(), F_OK) == 0};
}

Outcome reset(Session& session, const std::string&) {
  const CUresult code = session.cuda.cuDevicePrimaryCtxReset == nullptr
                            ? CUDA_ERROR_NOT_INITIALIZED
                            : session.cuda.cuDevicePrimaryCtxReset(session.device);
  session.allocations.clear();
  return code == CUDA_SUCCESS ? Outcome{"", true} : failed(session, code);
}

// A second context beside the primary one, which stays.
Outcome context(Session& session, const std::string&) {
  CUresult code = session.use_device();
  CUcontext made = nullptr;
  code = code == CUDA_SUCCESS ? session.cuda.cuCtxCreate(&made, 0, session.device) : code;
  return code == CUDA_SUCCESS ? Outcome{"", true} : failed(session, code);
}

}  // namespace

void add_process_steps(std::map<std::string, Step>& steps) {
  steps["init"] = init;
  steps["expect-init"] = expect_init;
  steps["expect-error"] = expect_error;
  steps["devices"] = devices;
  steps["device"] = use_device;
  steps["hold"] = steps["sleep"] = hold;
  steps["fork"] = fork_child;
  steps["fork-idle"] = fork_idle;
  steps["closefrom"] = close_from;
  steps["touch"] = touch;
  steps["wait-file"] = wait_file;
  steps["reset"] = reset;
  steps["context"] = context;
}

}  // namespace nvsim::run
