#include "vendors/run_program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/unique_fd.h"

namespace heddle::vendors {
namespace {

// In the child, between fork and exec: only what a copy of one thread of many may call. Tells errno and ends when the
// program cannot be started.
[[noreturn]] void become(const char* root, char* const* command, char* const* environment, int tell) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null >= 0) ::dup2(null, STDIN_FILENO);
  if (root == nullptr || (::chroot(root) == 0 && ::chdir("/") == 0)) ::execve(command[0], command, environment);
  const int error = errno;
  [[maybe_unused]] const ssize_t told = ::write(tell, &error, sizeof(error));
  ::_exit(127);
}

// True when the process ended in time.
bool ends_within(int pidfd, Duration deadline) {
  pollfd entry{pidfd, POLLIN, 0};
  const int milliseconds = static_cast<int>(deadline.nanos / 1'000'000);
  int ready = 0;
  do {
    ready = ::poll(&entry, 1, milliseconds);
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

}  // namespace

Result<void> run_program(const std::string& root, const std::vector<std::string>& command, Duration deadline) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  std::string path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  const std::array<char*, 2> environment = {path.data(), nullptr};
  const char* folder = root.empty() || root == "/" ? nullptr : root.c_str();

  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno("pipe", errno);
  const UniqueFd hear(ends[0]);
  UniqueFd tell(ends[1]);
  const pid_t pid = ::fork();
  if (pid == 0) become(folder, arguments.data(), environment.data(), tell.get());
  if (pid < 0) return fail(Code::kUnavailable, fmt::format("cannot start {}: {}", command[0], std::strerror(errno)));
  tell.reset();
  int error = 0;
  const bool failed = ::read(hear.get(), &error, sizeof(error)) == static_cast<ssize_t>(sizeof(error));

  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  const bool ended = failed || !pidfd.valid() || ends_within(pidfd.get(), deadline);
  if (!ended) {
    ::kill(pid, SIGKILL);
    // A process that is stuck in its driver does not end: it is not waited for.
    if (ends_within(pidfd.get(), Duration::seconds(1))) ::waitpid(pid, nullptr, 0);
    return fail(Code::kDeadlineExceeded,
                fmt::format("{} did not end within {} ms", command[0], deadline.nanos / 1'000'000));
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (failed) return fail(Code::kUnavailable, fmt::format("cannot start {}: {}", command[0], std::strerror(error)));
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return fail(Code::kUnavailable, WIFEXITED(status)
                                      ? fmt::format("{} ended with {}", command[0], WEXITSTATUS(status))
                                      : fmt::format("{} was ended by signal {}", command[0], WTERMSIG(status)));
}

}  // namespace heddle::vendors
