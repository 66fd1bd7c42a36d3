#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <optional>

#include "base/clock.h"
#include "base/print.h"
#include "base/unique_fd.h"
#include "cli/layout.h"
#include "cli/verbs.h"
#include "standalone/client.h"
#include "standalone/runner.h"

namespace heddle::cli {
namespace {

constexpr int kLookMillis = 200;
constexpr int64_t kQuietSeconds = 10;

// What the user sees while a job waits: on a terminal lines that are rewritten, else a line at a change, with some
// seconds between two.
class Progress {
 public:
  explicit Progress(const Clock& clock) : clock_(clock), since_(clock.monotonic_nanos()) {}

  void show(const std::string& text) {
    const int64_t seconds = (clock_.monotonic_nanos() - since_) / 1'000'000'000;
    if (!terminal_) {
      // In a log, not each step of a long queue.
      if (text == last_ || (!last_.empty() && seconds < last_seconds_ + kQuietSeconds)) return;
      print_to(stderr, "heddle: {}\n", text);
    } else if (text != last_ || seconds != last_seconds_) {
      clear_lines();
      const std::string lines = wrap(fmt::format("heddle: {} ({} s)", printable(text), seconds), width(), kIndent);
      print_to(stderr, "{}", lines);
      std::fflush(stderr);
      shown_ = std::count(lines.begin(), lines.end(), '\n') + 1;
    }
    last_ = text;
    last_seconds_ = seconds;
  }

  // Takes the line away, so that the command begins on a clean one.
  void clear() {
    if (terminal_ && !last_.empty()) clear_lines();
    last_.clear();
  }

 private:
  static constexpr size_t kIndent = 8;  // of "heddle: "

  static int width() {
    winsize size{};
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 20) return 79;
    return size.ws_col - 1;
  }

  // Up to the first of the lines that are shown, and everything from there on away.
  void clear_lines() {
    print_to(stderr, "\r");
    if (shown_ > 1) print_to(stderr, "\033[{}A", shown_ - 1);
    print_to(stderr, "\033[J");
    shown_ = 0;
  }

  const Clock& clock_;
  int64_t since_;
  bool terminal_ = isatty(STDERR_FILENO) == 1;
  std::string last_;
  int64_t last_seconds_ = -1;
  std::ptrdiff_t shown_ = 0;  // lines
};

std::string reasons_text(const std::vector<engine::Reason>& reasons) {
  std::string text;
  for (const auto& reason : reasons) text += (text.empty() ? "" : "; ") + reason.message;
  return text.empty() ? "no reason is known yet" : text;
}

void silence(int fd) {
  const UniqueFd nothing(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (nothing.valid()) dup2(nothing.get(), fd);
}

// Where a detached job tells its number; nowhere for an attached one. Up to then its standard error goes the same way.
struct Announcement {
  UniqueFd to;
  void say(const std::string& text) {
    if (!to.valid()) return;
    const ssize_t put = write(to.get(), text.data(), text.size());
    static_cast<void>(put);
    to.reset();
    silence(STDERR_FILENO);
  }
};

class Run {
 public:
  Run(const RunArgs& args, const std::string& socket) : args_(args), client_(socket), progress_(clock_) {}

  int go(Announcement announcement) {
    auto submitted = submit();
    if (!submitted) return report_answer(submitted.error());
    if (const auto* rejected = std::get_if<standalone::Rejected>(&*submitted); rejected != nullptr) {
      print_to(stderr, "heddle: cannot run with {}: {}\n", standalone::describe(args_.request),
               reasons_text(rejected->reasons));
      return kNo;
    }
    auto job = std::get<standalone::JobStatus>(*submitted);
    announcement.say(fmt::format("{}\n", job.id));
    while (true) {
      if (const auto stopped = wait(job); stopped >= 0) return stopped;
      progress_.clear();
      if (const auto code = start(job)) return *code;
    }
  }

 private:
  Result<std::variant<standalone::JobStatus, standalone::Rejected>> submit() {
    return client_.submit(args_.request, getpid());
  }

  // -1 once the job has its share, else the exit code.
  int wait(standalone::JobStatus& job) {
    const int64_t give_up =
        args_.timeout_seconds ? clock_.monotonic_nanos() + *args_.timeout_seconds * 1'000'000'000 : 0;
    while (job.state == standalone::JobState::kWaiting) {
      progress_.show(fmt::format("job {} waits, place {}{}: {}", job.id, job.position,
                                 job.queue.empty() ? "" : " in queue " + job.queue, reasons_text(job.reasons)));
      if (const int signal = standalone::wait_for_signal(kLookMillis); signal != 0) return stop(job, 128 + signal, "");
      if (give_up != 0 && clock_.monotonic_nanos() >= give_up) {
        return stop(
            job, kNo,
            fmt::format("there was no room within {} s: {}", *args_.timeout_seconds, reasons_text(job.reasons)));
      }
      auto now = client_.job(job.id);
      if (now) {
        job = std::move(*now);
      } else if (now.error().code == Code::kUnavailable) {
        progress_.show(
            fmt::format("job {} keeps its place; Heddle does not answer, waiting for it to come back", job.id));
      } else {
        progress_.clear();
        return report_answer(now.error());
      }
    }
    if (job.state == standalone::JobState::kEnded) {
      progress_.clear();
      print_to(stderr, "heddle: job {} was ended before it could start: {}\n", job.id, job.outcome);
      return kNo;
    }
    return -1;
  }

  int stop(const standalone::JobStatus& job, int code, const std::string& why) {
    progress_.clear();
    if (!why.empty()) print_to(stderr, "heddle: {}\n", why);
    const auto cancelled = client_.cancel(fmt::format("{}", job.id), code == kNo ? "not in time: no room came" : "");
    // When nobody answers, the job leaves the queue with this process.
    if (!cancelled && cancelled.error().code != Code::kUnavailable) return report_answer(cancelled.error());
    return code;
  }

  // The exit code; nothing: it was evicted, and waits again.
  std::optional<int> start(standalone::JobStatus& job) {
    const int64_t id = job.id;
    auto launch = client_.launch(id);
    // A granted share is kept over a restart of the daemon, by its ledger.
    while (!launch && launch.error().code == Code::kUnavailable) {
      progress_.show(fmt::format("job {} has its share; Heddle does not answer, waiting for it to come back", id));
      if (const int signal = standalone::wait_for_signal(kLookMillis); signal != 0) return 128 + signal;
      launch = client_.launch(id);
    }
    progress_.clear();
    if (!launch) return report_answer(launch.error());
    standalone::RunPlan plan;
    plan.command = args_.request.command;
    plan.environment = launch->environment;
    plan.folder = launch->folder;
    if (args_.request.lifetime == standalone::Lifetime::kDetached) plan.output = launch->folder + "/output";
    plan.record = [this, id](int64_t supervisor) { return client_.start(id, supervisor); };
    const auto end = standalone::run_command(plan);
    if (!end) {
      print_to(stderr, "heddle: {}\n", end.error().text());
      return end.error().code == Code::kConflict ? kNo : kError;
    }
    if (!end->told || end->interrupted) return end->exit_code;
    return after_told(job, end->exit_code);
  }

  // The daemon ended it, for whatever reason: whether it is to run again is known once the daemon has seen its end.
  std::optional<int> after_told(standalone::JobStatus& job, int code) {
    const bool requeue = args_.request.on_eviction == standalone::OnEviction::kRequeue;
    while (true) {
      auto now = client_.job(job.id);
      if (!now && (!requeue || now.error().code != Code::kUnavailable)) {
        print_to(stderr, "heddle: job {} was told to end; Heddle does not run any more\n", job.id);
        return code;
      }
      if (now && now->state != standalone::JobState::kRunning) {
        job = std::move(*now);
        break;
      }
      if (now && !requeue) {
        say_why(*now);
        return code;
      }
      if (!now) progress_.show(fmt::format("job {} was told to end; Heddle does not answer, waiting for it", job.id));
      if (standalone::wait_for_signal(kLookMillis) != 0) return code;
    }
    progress_.clear();
    if (job.state == standalone::JobState::kEnded) {
      say_why(job);
      return code;
    }
    print_to(stderr, "heddle: job {} gave way to another one, and waits to run again from its beginning\n", job.id);
    return std::nullopt;
  }

  // Of a command that did not end by itself.
  static void say_why(const standalone::JobStatus& job) {
    if (!job.evicted_why.empty()) {
      print_to(stderr, "heddle: job {} was evicted: {}\n", job.id, job.evicted_why);
    } else if (const std::string& why = job.ending.empty() ? job.outcome : job.ending; !why.empty()) {
      print_to(stderr, "heddle: job {} did not end by itself: {}\n", job.id, why);
    }
  }

  const RunArgs& args_;
  standalone::Client client_;
  SystemClock clock_;
  Progress progress_;
};

// The job's own process: without a terminal, its messages in nobody's way once the number is known.
[[noreturn]] void become_detached(const RunArgs& args, const std::string& socket, UniqueFd announce) {
  setsid();
  ::signal(SIGHUP, SIG_IGN);
  silence(STDIN_FILENO);
  silence(STDOUT_FILENO);
  dup2(announce.get(), STDERR_FILENO);
  const int code = Run(args, socket).go(Announcement{std::move(announce)});
  _exit(code);
}

int run_detached(const RunArgs& args, const std::string& socket) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return report(fail_errno("pipe", errno).value());
  const UniqueFd in(ends[0]);
  UniqueFd out(ends[1]);
  const pid_t child = fork();
  if (child < 0) return report(fail_errno("fork", errno).value());
  if (child == 0) become_detached(args, socket, std::move(out));
  out.reset();
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = read(in.get(), buffer.data(), buffer.size())) != 0;) {
    if (got < 0 && errno != EINTR) break;
    if (got > 0) text.append(buffer.data(), static_cast<size_t>(got));
  }
  const bool queued = !text.empty() && std::all_of(text.begin(), text.end(),
                                                   [](unsigned char c) { return std::isdigit(c) != 0 || c == '\n'; });
  print_to(queued ? stdout : stderr, "{}", text);
  if (queued) return 0;
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : kError;
}

}  // namespace

int run(const RunArgs& args, const Context& context) {
  const auto socket = find_socket(args.state_dir, context);
  if (!socket) return report(socket.error());
  auto with_folder = args;
  std::array<char, 4096> folder{};
  if (getcwd(folder.data(), folder.size()) != nullptr) with_folder.request.directory = folder.data();
  standalone::block_signals();
  if (args.request.lifetime == standalone::Lifetime::kDetached) return run_detached(with_folder, *socket);
  return Run(with_folder, *socket).go({});
}

}  // namespace heddle::cli
