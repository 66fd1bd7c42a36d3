#include "standalone/runner.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <optional>

#include "base/clock.h"
#include "base/file.h"
#include "base/unique_fd.h"
#include "standalone/process.h"

namespace heddle::standalone {
namespace {

constexpr int kRetryMillis = 200;
constexpr int64_t kNanosAMilli = 1'000'000;
constexpr char kTold = 't';      // behind the byte that says that the command started
constexpr int kTakenAway = 255;  // of the supervisor, when the job could not be recorded; told apart by the pipe

constexpr std::array<int, 7> kSignals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD};

sigset_t signal_set() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kSignals) sigaddset(&set, signal);
  return set;
}

UniqueFd open_signals() {
  const sigset_t set = signal_set();
  return UniqueFd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

std::optional<signalfd_siginfo> next_signal(const UniqueFd& signals) {
  signalfd_siginfo info{};
  if (read(signals.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return std::nullopt;
  return info;
}

int exit_code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// To the job's standard error. One write; when that fails there is nobody to tell.
void complain(const std::string& text) {
  const std::string line = "heddle: " + text + "\n";
  const ssize_t put = write(STDERR_FILENO, line.data(), line.size());
  static_cast<void>(put);
}

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno("pipe", errno);
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// The command's process, between fork and exec. Does not return.
[[noreturn]] void become_command(const RunPlan& plan, pid_t supervisor) {
  sigset_t none;
  sigemptyset(&none);
  for (const int signal : kSignals) ::signal(signal, SIG_DFL);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != supervisor) _exit(kCannotExecute);  // it died before the line above
  for (const auto& [name, value] : plan.environment) {
    std::string merged = value;
    if (name == "LD_PRELOAD" || name == "LD_LIBRARY_PATH") {
      const char* own = getenv(name.c_str());
      if (own != nullptr && *own != '\0') merged += std::string(":") + own;
    }
    setenv(name.c_str(), merged.c_str(), 1);
  }
  if (!plan.output.empty()) {
    const int out = open(plan.output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (out >= 0) {
      dup2(out, STDOUT_FILENO);
      dup2(out, STDERR_FILENO);
    }
  }
  std::vector<char*> arguments;
  arguments.reserve(plan.command.size() + 1);
  for (const auto& word : plan.command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  const int error = errno;
  complain(fmt::format("cannot run {}: {}", plan.command[0], strerror(error)));
  _exit(error == ENOENT ? kCommandNotFound : kCannotExecute);
}

// The supervisor process.
class Supervisor {
 public:
  Supervisor(const RunPlan& plan, UniqueFd client_alive, pid_t client)
      : plan_(plan), client_alive_(std::move(client_alive)), client_(client), signals_(open_signals()) {}

  // False: the job was taken away, or the client died first.
  bool record() {
    while (true) {
      const auto done = plan_.record(getpid());
      if (done) return true;
      if (done.error().code != Code::kUnavailable) {
        complain(done.error().text());
        return false;
      }
      pollfd gone = {client_alive_.get(), POLLIN, 0};
      if (poll(&gone, 1, kRetryMillis) > 0) return false;
    }
  }

  int run() {
    const pid_t self = getpid();
    command_ = fork();
    if (command_ == 0) become_command(plan_, self);
    if (command_ < 0) return finish(kCannotExecute);
    while (!exit_code_) step(-1);
    end_everything(kUsualGrace);
    return finish(*exit_code_);
  }
  [[nodiscard]] bool told() const { return told_; }

 private:
  // Handles what happens within `millis`.
  void step(int millis) {
    std::array<pollfd, 2> watched = {{{signals_.get(), POLLIN, 0}, {client_alive_.get(), POLLIN, 0}}};
    // Once the client is gone its descriptor stays readable: it is not watched any more.
    poll(watched.data(), client_gone_ ? 1 : 2, millis);
    while (const auto info = next_signal(signals_)) handle(*info);
    if (!client_gone_ && watched[1].revents != 0) {
      client_gone_ = true;
      end_everything(kUsualGrace);
    }
    collect();
  }

  void handle(const signalfd_siginfo& info) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD || info.ssi_code == SI_KERNEL) return;  // the terminal's own signals reach the command too
    if (static_cast<pid_t>(info.ssi_pid) == client_) {
      if (!exit_code_) kill(command_, signal);
    } else if (signal == SIGTERM) {
      // The daemon's; one that evicts says how long it waits.
      const bool timed = info.ssi_code == SI_QUEUE && info.ssi_int > 0;
      told_ = told_ || !exit_code_;
      end_everything(timed ? Duration{int64_t{info.ssi_int} * kNanosAMilli} : kUsualGrace);
    }
  }

  void collect() {
    int status = 0;
    pid_t pid = 0;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
      if (pid == command_) exit_code_ = exit_code_of(status);
    }
  }

  void end_everything(Duration grace) {
    const SystemClock clock;
    const int64_t kill_at = clock.monotonic_nanos() + grace.nanos;
    kill_at_ = ending_ ? std::min(kill_at_, kill_at) : kill_at;
    if (ending_) return;
    ending_ = true;
    for (const int64_t pid : descendants(getpid())) kill(static_cast<pid_t>(pid), SIGTERM);
    for (auto left = descendants(getpid()); !left.empty(); left = descendants(getpid())) {
      if (clock.monotonic_nanos() >= kill_at_) {
        for (const int64_t pid : left) kill(static_cast<pid_t>(pid), SIGKILL);
      }
      step(50);
    }
    collect();
    if (!exit_code_) exit_code_ = 128 + SIGKILL;
    ending_ = false;
  }

  int finish(int code) {
    // Without this the daemon would only know that the job ended, not how.
    const std::string text = told_ ? fmt::format("{} {}\n", code, kToldToEnd) : fmt::format("{}\n", code);
    if (auto written = write_file_atomic(plan_.folder + "/exit", text, 0600); !written) {
      complain("the exit code could not be kept: " + written.error().text());
    }
    return code;
  }

  const RunPlan& plan_;
  UniqueFd client_alive_;
  pid_t client_;
  UniqueFd signals_;
  pid_t command_ = -1;
  std::optional<int> exit_code_;
  bool client_gone_ = false;
  bool ending_ = false;
  int64_t kill_at_ = 0;  // monotonic, while ending
  bool told_ = false;
};

[[noreturn]] void become_supervisor(const RunPlan& plan, Pipe alive, Pipe started, pid_t client) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  alive.write_end.reset();  // only the client holds it now: it closes when the client dies
  started.read_end.reset();
  Supervisor supervisor(plan, std::move(alive.read_end), client);
  if (!supervisor.record()) _exit(kTakenAway);
  const char yes = 'y';
  if (write(started.write_end.get(), &yes, 1) != 1) _exit(kTakenAway);
  const int code = supervisor.run();
  if (supervisor.told() && write(started.write_end.get(), &kTold, 1) != 1) _exit(code);  // the client has gone
  _exit(code);
}

struct Watched {
  int status = 0;  // of waitpid()
  bool interrupted = false;
};

// The client's side: passes signals on until the supervisor has ended.
Watched watch_supervisor(pid_t supervisor) {
  const UniqueFd signals = open_signals();
  Watched seen;
  while (true) {
    if (waitpid(supervisor, &seen.status, WNOHANG) == supervisor) return seen;
    pollfd watched = {signals.get(), POLLIN, 0};
    poll(&watched, 1, -1);
    while (const auto info = next_signal(signals)) {
      const int signal = static_cast<int>(info->ssi_signo);
      seen.interrupted =
          seen.interrupted || signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
      // What a terminal sends goes to the command too; a hang-up goes to the leader of its session alone.
      const bool reached = info->ssi_code == SI_KERNEL && !(signal == SIGHUP && getsid(0) == getpid());
      if (signal != SIGCHLD && !reached) kill(supervisor, signal);
    }
  }
}

// After the supervisor was killed: what it was the parent of is ours now.
void end_orphans() {
  const timespec pause = {0, 10'000'000};
  for (auto left = descendants(getpid()); !left.empty(); left = descendants(getpid())) {
    for (const int64_t pid : left) kill(static_cast<pid_t>(pid), SIGKILL);
    nanosleep(&pause, nullptr);
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
  }
}

}  // namespace

void block_signals() {
  const sigset_t set = signal_set();
  sigprocmask(SIG_BLOCK, &set, nullptr);
}

int wait_for_signal(int millis) {
  sigset_t set = signal_set();
  sigdelset(&set, SIGCHLD);
  const timespec limit = {millis / 1000, (millis % 1000) * 1'000'000L};
  const int signal = sigtimedwait(&set, nullptr, &limit);
  return signal > 0 ? signal : 0;
}

void ask_to_end(const ProcessId& supervisor, Duration grace) {
  const UniqueFd fd = open_process(supervisor);
  if (!fd.valid()) return;
  siginfo_t info{};
  info.si_signo = SIGTERM;
  info.si_code = SI_QUEUE;
  info.si_pid = getpid();
  info.si_uid = getuid();
  info.si_value.sival_int = static_cast<int>(std::min<int64_t>(grace.nanos / kNanosAMilli, INT32_MAX));
  syscall(SYS_pidfd_send_signal, fd.get(), SIGTERM, &info, 0);
}

Result<CommandEnd> run_command(const RunPlan& plan) {
  HEDDLE_TRY(Pipe alive, make_pipe());
  HEDDLE_TRY(Pipe started, make_pipe());
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t client = getpid();
  const pid_t supervisor = fork();
  if (supervisor < 0) return fail_errno("fork", errno);
  if (supervisor == 0) become_supervisor(plan, std::move(alive), std::move(started), client);
  alive.read_end.reset();
  started.write_end.reset();
  const Watched watched = watch_supervisor(supervisor);
  const bool killed = WIFSIGNALED(watched.status);
  if (killed) end_orphans();
  std::array<char, 2> said{};
  const ssize_t got = read(started.read_end.get(), said.data(), said.size());
  if (got < 1) return fail(Code::kConflict, "the job was ended before its command could start");
  return CommandEnd{exit_code_of(watched.status), killed || (got == 2 && said[1] == kTold), watched.interrupted};
}

}  // namespace heddle::standalone
