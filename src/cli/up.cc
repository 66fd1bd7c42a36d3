#include "standalone/up.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

#include "base/file.h"
#include "base/print.h"
#include "base/unique_fd.h"
#include "cli/layout.h"
#include "cli/verbs.h"
#include "cli/yaml_json.h"
#include "standalone/job_queues.h"
#include "standalone/simulated.h"
#include "standalone/state_dir.h"

namespace heddle::cli {
namespace {

constexpr size_t kMostQueues = size_t{1} << 20;  // bytes of the file

std::string summary(const standalone::Ready& ready, const standalone::UpOptions& options) {
  const bool simulated = ready.machine.origin == standalone::Origin::kSimulated;
  std::string text = fmt::format("Heddle is up on {}{}.\n", ready.machine.node,
                                 simulated ? ", on SIMULATED cards: nothing here is real hardware" : "");
  for (const auto& slice : ready.machine.slices) {
    for (const auto& device : slice.devices) {
      const auto* model = model::find_attribute(device, slice.driver, "model");
      const auto* name = model == nullptr ? nullptr : std::get_if<std::string>(model);
      text += fmt::format("  {}  {}  {}{}\n", device.name, name == nullptr ? "unknown model" : *name,
                          standalone::format_bytes(device.capacity.at("memory").value.value().value_or(0)),
                          simulated ? "  SIMULATED" : "");
    }
  }
  text += fmt::format("state: {}\n", ready.folder);
  if (!ready.page_url.empty()) text += fmt::format("page:  {}\n", ready.page_url);
  for (const auto& line :
       standalone::reserved_beyond(options.queues.value_or(std::vector<std::string>()), ready.machine.slices)) {
    text += fmt::format("warning: {}\n", printable(line));
  }
  return text + "next:  heddle run --memory 8Gi --cores 30 -- COMMAND     heddle ps     heddle down\n";
}

void put(int fd, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = write(fd, text.data() + done, text.size() - done);
    if (wrote < 0 && errno != EINTR) return;
    if (wrote > 0) done += static_cast<size_t>(wrote);
  }
}

Result<std::vector<std::string>> read_queues(const std::string& file) {
  if (file == "none") return std::vector<std::string>();
  const auto text = read_file(file, kMostQueues);
  if (!text) return fail(Code::kInvalidArgument, text.error().message, "--queues");
  auto documents = yaml_to_json(*text);
  if (!documents)
    return fail(Code::kInvalidArgument, fmt::format("{}: {}", file, documents.error().text()), "--queues");
  if (documents->empty()) {
    return fail(Code::kInvalidArgument,
                fmt::format("{} has no AcceleratorQueue; write --queues none to have no queues", file), "--queues");
  }
  if (const auto good = standalone::check_queues(*documents); !good)
    return fail(good.error().code, fmt::format("{}: {}", file, good.error().message), "--queues");
  return documents;
}

int exit_code(const Error& error) {
  switch (error.code) {
    case Code::kInvalidArgument:
      return kUsage;
    case Code::kAlreadyExists:
    case Code::kConflict:
    case Code::kNotFound:
      return kNo;
    default:
      return kError;
  }
}

// The daemon's side: never returns to the caller's terminal. The first byte of what it reports is the exit code.
[[noreturn]] void become_daemon(const standalone::UpOptions& options, UniqueFd report) {
  setsid();
  if (chdir("/") != 0) _exit(kError);
  const auto paths = standalone::state_paths(options.machine.state_dir);
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  const int out = open(paths.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (out < 0) {
    const auto why = fail_errno("cannot write " + paths.log, errno).value().message;
    put(report.get(), fmt::format("{}heddle: {}\n", kError, why));
    _exit(kError);
  }
  dup2(out, STDOUT_FILENO);
  dup2(out, STDERR_FILENO);
  const auto ready = [&report, &options](const standalone::Ready& done) {
    put(report.get(), "0" + summary(done, options));
    report.reset();
  };
  const auto served = standalone::serve(options, ready);
  if (!served) {
    print_to(stderr, "heddle: {}\n", served.error().text());
    if (report.valid())
      put(report.get(), fmt::format("{}heddle: {}\n", exit_code(served.error()), served.error().text()));
    _exit(exit_code(served.error()));
  }
  _exit(0);
}

int start_daemon(const standalone::UpOptions& options) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return report(fail_errno("pipe", errno).value());
  const UniqueFd in(ends[0]);
  UniqueFd out(ends[1]);
  const pid_t child = fork();
  if (child < 0) return report(fail_errno("fork", errno).value());
  if (child == 0) {
    // Twice, so that the daemon is nobody's child and can never get a terminal again.
    const pid_t daemon = fork();
    if (daemon == 0) become_daemon(options, std::move(out));
    _exit(daemon < 0 ? kError : 0);
  }
  out.reset();
  waitpid(child, nullptr, 0);
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = read(in.get(), buffer.data(), buffer.size())) != 0;) {
    if (got < 0 && errno != EINTR) break;
    if (got > 0) text.append(buffer.data(), static_cast<size_t>(got));
  }
  if (text.empty()) {
    print_to(stderr, "heddle: the daemon ended at once; its log is {}\n",
             standalone::state_paths(options.machine.state_dir).log);
    return kError;
  }
  const int code = text[0] - '0';
  print_to(code == 0 ? stdout : stderr, "{}", text.substr(1));
  return code;
}

}  // namespace

int up(const UpArgs& args, const Context& context) {
  auto options = args.options;
  auto folder = standalone::own_state_dir(options.machine.state_dir, context.surroundings);
  if (!folder) return report(folder.error());
  options.machine.state_dir = *folder;
  // Before the log is opened there.
  if (const auto taken = standalone::take_state_dir(*folder, options.group.empty() ? 0700 : 0711); !taken) {
    return report(taken.error());
  }
  options.machine.program = context.program;
  options.guard_library = find_guard_library(context.program);
  options.ascend_guard_library = find_guard_library(context.program, "libheddle_guard_ascend.so");
  // The daemon runs in another folder.
  auto simulate = standalone::with_full_paths(options.machine.simulate);
  if (!simulate) return report(simulate.error());
  options.machine.simulate = *std::move(simulate);
  if (!args.queues_file.empty()) {
    auto queues = read_queues(args.queues_file);
    if (!queues) return report(queues.error());
    options.queues = std::move(*queues);
  }
  if (!args.foreground) return start_daemon(options);
  const auto ready = [&options](const standalone::Ready& done) {
    print_out("{}", summary(done, options));
    std::fflush(stdout);
  };
  const auto served = standalone::serve(options, ready);
  if (served) return 0;
  print_to(stderr, "heddle: {}\n", served.error().text());
  return exit_code(served.error());
}

}  // namespace heddle::cli
