#include "vendors/worker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

namespace heddle::vendors {
namespace {

constexpr size_t kMaxFrame = size_t{16} << 20;
constexpr char kAnswer = 'A';
constexpr char kFailure = 'F';

enum class Direction { kRead, kWrite };

// Waits for the descriptor until the deadline (0: for ever).
Result<void> wait_ready(int fd, Direction direction, int64_t deadline_nanos, const Clock* clock) {
  while (true) {
    int timeout_ms = -1;
    if (clock != nullptr) {
      const int64_t left = deadline_nanos - clock->monotonic_nanos();
      if (left <= 0) return fail(Code::kDeadlineExceeded, "no answer in time");
      timeout_ms = static_cast<int>(std::min<int64_t>(left / 1'000'000 + 1, 60'000));
    }
    pollfd entry{fd, static_cast<int16_t>(direction == Direction::kRead ? POLLIN : POLLOUT), 0};
    const int ready = ::poll(&entry, 1, timeout_ms);
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return fail_errno("poll", errno);
  }
}

Result<void> write_all(int fd, std::string_view bytes, int64_t deadline_nanos, const Clock* clock) {
  while (!bytes.empty()) {
    HEDDLE_CHECK_OK(wait_ready(fd, Direction::kWrite, deadline_nanos, clock));
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (sent < 0) return fail(Code::kUnavailable, std::string("the worker is gone: ") + std::strerror(errno));
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return {};
}

Result<std::string> read_exactly(int fd, size_t count, int64_t deadline_nanos, const Clock* clock) {
  std::string bytes(count, '\0');
  size_t have = 0;
  while (have < count) {
    HEDDLE_CHECK_OK(wait_ready(fd, Direction::kRead, deadline_nanos, clock));
    const ssize_t got = ::recv(fd, bytes.data() + have, count - have, MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return fail(Code::kUnavailable, "the worker is gone");
    have += static_cast<size_t>(got);
  }
  return bytes;
}

Result<void> write_frame(int fd, std::string_view body, int64_t deadline_nanos, const Clock* clock) {
  const auto size = static_cast<uint32_t>(body.size());
  std::string frame;
  frame.reserve(body.size() + 4);
  for (unsigned shift = 0; shift < 32; shift += 8) frame.push_back(static_cast<char>((size >> shift) & 0xffU));
  frame.append(body);
  return write_all(fd, frame, deadline_nanos, clock);
}

Result<std::string> read_frame(int fd, int64_t deadline_nanos, const Clock* clock) {
  HEDDLE_TRY(const std::string head, read_exactly(fd, 4, deadline_nanos, clock));
  uint32_t size = 0;
  for (unsigned i = 0; i < 4; ++i) size |= static_cast<uint32_t>(static_cast<unsigned char>(head[i])) << (8 * i);
  if (size > kMaxFrame) return fail(Code::kUnavailable, "the worker sent a frame that is too large");
  return read_exactly(fd, size, deadline_nanos, clock);
}

// The error travels as its code and its text.
std::string failure_frame(const Error& error) {
  return std::string(1, kFailure) + static_cast<char>('a' + static_cast<int>(error.code)) + error.text();
}

Result<std::string> parse_answer(std::string frame) {
  if (!frame.empty() && frame[0] == kAnswer) return frame.substr(1);
  if (frame.size() < 2 || frame[0] != kFailure) return fail(Code::kUnavailable, "the worker sent an unknown frame");
  const int code = std::clamp(frame[1] - 'a', 0, static_cast<int>(Code::kInternal));
  return fail(static_cast<Code>(code), frame.substr(2));
}

// The worker gets the environment without what would let it load other code than the agent chose.
std::vector<char*> worker_environment() {
  std::vector<char*> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (std::string_view(*entry).starts_with("LD_")) continue;
    result.push_back(*entry);
  }
  result.push_back(nullptr);
  return result;
}

Result<pid_t> spawn(const std::vector<std::string>& command, int socket) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  std::vector<char*> environment = worker_environment();

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, socket, kWorkerFd);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, arguments[0], &actions, &attributes, arguments.data(), environment.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return fail(Code::kUnavailable, fmt::format("cannot start {}: {}", command[0], std::strerror(error)));
  return pid;
}

// Ends the process when the agent is gone, also while the vendor's code hangs. (A parent-death signal would follow the
// thread that started the worker, not the agent.)
void exit_with_agent(int fd) {
  std::thread([fd] {
    while (true) {
      pollfd entry{fd, POLLRDHUP, 0};
      const int ready = ::poll(&entry, 1, -1);
      if (ready > 0 && (entry.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) ::_exit(0);
    }
  }).detach();
}

}  // namespace

int serve_worker(int fd, const std::function<Result<std::string>(std::string_view operation)>& handle) {
  exit_with_agent(fd);
  while (true) {
    const Result<std::string> request = read_frame(fd, 0, nullptr);
    if (!request) return 0;  // the agent closed its end
    const Result<std::string> result = handle(*request);
    const std::string frame = result ? std::string(1, kAnswer) + *result : failure_frame(result.error());
    if (!write_frame(fd, frame, 0, nullptr)) return 0;
  }
}

Worker::Worker(WorkerOptions options, const Clock& clock) : options_(std::move(options)), clock_(clock) {}

Worker::~Worker() {
  const std::lock_guard lock(mutex_);
  kill_process();
}

int64_t Worker::starts() const {
  const std::lock_guard lock(mutex_);
  return starts_;
}

Result<std::string> Worker::call(std::string_view operation, Duration deadline) {
  const std::lock_guard lock(mutex_);
  reap_stuck();
  HEDDLE_CHECK_OK(ensure_started());
  Result<std::string> frame = exchange(operation, clock_.monotonic_nanos() + deadline.nanos);
  if (frame) {
    failures_in_row_ = 0;
    return parse_answer(*std::move(frame));
  }
  const pid_t pid = pid_;
  const bool hung = frame.error().code == Code::kDeadlineExceeded;
  const std::string died = hung ? std::string() : exit_text(pid);
  kill_process();
  const int64_t doublings = std::min<int64_t>(failures_in_row_, 20);
  const int64_t backoff = std::min(options_.first_backoff.nanos << doublings, options_.longest_backoff.nanos);
  ++failures_in_row_;
  not_before_nanos_ = clock_.monotonic_nanos() + backoff;
  if (hung) {
    return fail(Code::kDeadlineExceeded, fmt::format("the vendor library did not answer '{}' within {} ms", operation,
                                                     deadline.nanos / 1'000'000));
  }
  return fail(Code::kUnavailable, fmt::format("the vendor library's process died in '{}'{}", operation, died));
}

Result<void> Worker::ensure_started() {
  if (pid_ > 0) return {};
  if (clock_.monotonic_nanos() < not_before_nanos_) {
    return fail(Code::kUnavailable, "the vendor library's process died and is not started again yet");
  }
  if (stuck_.size() >= options_.most_stuck) {
    return fail(Code::kUnavailable,
                fmt::format("{} killed processes of the vendor library are stuck in the kernel; no more are started",
                            stuck_.size()));
  }
  std::array<int, 2> pair{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) return fail_errno("socketpair", errno);
  UniqueFd ours(pair[0]);
  UniqueFd theirs(pair[1]);
  // dup2 onto the same number would keep close-on-exec: move the child's end away first.
  if (theirs.get() == kWorkerFd) theirs.reset(::fcntl(theirs.get(), F_DUPFD_CLOEXEC, kWorkerFd + 1));
  HEDDLE_TRY(const pid_t pid, spawn(options_.command, theirs.get()));
  pid_ = pid;
  socket_ = std::move(ours);
  ++starts_;
  return {};
}

Result<std::string> Worker::exchange(std::string_view operation, int64_t deadline_nanos) {
  HEDDLE_CHECK_OK(write_frame(socket_.get(), operation, deadline_nanos, &clock_));
  return read_frame(socket_.get(), deadline_nanos, &clock_);
}

// A process that closed its socket is dying: wait for it shortly, to say how it ended.
std::string Worker::exit_text(pid_t pid) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    int status = 0;
    const pid_t ended = ::waitpid(pid, &status, WNOHANG);
    if (ended == pid) {
      pid_ = -1;
      if (WIFSIGNALED(status)) return fmt::format(" (signal {})", WTERMSIG(status));
      return fmt::format(" (exit status {})", WEXITSTATUS(status));
    }
    if (ended < 0) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return {};
}

void Worker::kill_process() {
  socket_.reset();
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  stuck_.push_back(std::exchange(pid_, -1));
  reap_stuck();
}

void Worker::reap_stuck() {
  std::erase_if(stuck_, [](pid_t pid) {
    for (int attempt = 0; attempt < 10; ++attempt) {
      const pid_t ended = ::waitpid(pid, nullptr, WNOHANG);
      if (ended == pid || (ended < 0 && errno == ECHILD)) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  });
}

}  // namespace heddle::vendors
