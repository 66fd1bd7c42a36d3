#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "base/print.h"
#include "base/unique_fd.h"
#include "cli/guard_selftest.h"
#include "cli/guard_text.h"
#include "cli/verbs.h"
#include "standalone/client.h"
#include "standalone/job.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): not every unistd.h has it

namespace heddle::cli {
namespace {

constexpr const char* kInContainer = "/run/heddle";
constexpr int64_t kTraceStepMicros = 100000;
constexpr int64_t kMostForTest = int64_t{4} << 30;

// The jobs of a standalone Heddle that answers here; none on a node of a cluster, and for who may not ask.
std::vector<GuardJob> jobs_here(const std::string& state_dir) {
  const std::string socket = standalone::state_paths(state_dir).socket;
  if (standalone::presence_of(socket) != standalone::Presence::kThere) return {};
  const auto status = standalone::Client(socket).status_json();
  return status ? guard_jobs(*status) : std::vector<GuardJob>();
}

std::string folder_of(const std::string& state_dir, const std::string& claim) {
  return fmt::format("{}/claims/{}/{}", state_dir, claim, standalone::kClaimRequest);
}

// Why there is no folder of claims to look into, and what to do.
Error nothing_here(const Error& error, const std::string& state_dir) {
  if (error.code == Code::kNotFound) {
    return {Code::kNotFound,
            fmt::format("no Heddle keeps claims in {}: start one with `heddle up`, or name the folder of the one that "
                        "runs with --state-dir",
                        state_dir),
            {}};
  }
  if (error.code == Code::kPermissionDenied) {
    return {Code::kPermissionDenied,
            fmt::format("you may not look into the claims in {}: who started Heddle may, and root; your own Heddle is "
                        "named with --state-dir",
                        state_dir),
            {}};
  }
  return {error.code, error.message + "; --state-dir names another folder", {}};
}

struct Claims {
  std::vector<std::string> folders;
  std::vector<GuardJob> jobs;
};

// In a container its own claim, else all of this node's or this machine's. Who may not list them sees those of the jobs
// that Heddle tells of.
Result<Claims> claims(const GuardArgs& args, const Context& context) {
  if (args.state_dir.empty() && file_exists(std::string(kInContainer) + "/limits")) {
    return Claims{{kInContainer}, {}};
  }
  HEDDLE_TRY(const std::string state_dir, standalone::used_state_dir(args.state_dir, context.surroundings));
  Claims out{{}, jobs_here(state_dir)};
  auto found = guard_folders(state_dir);
  if (found) {
    out.folders = std::move(*found);
    return out;
  }
  const std::string socket = standalone::state_paths(state_dir).socket;
  const bool asked = access(socket.c_str(), R_OK | W_OK) == 0;
  if (!asked || found.error().code != Code::kPermissionDenied) {
    return tl::unexpected<Error>(nothing_here(found.error(), state_dir));
  }
  for (const GuardJob& job : out.jobs) {
    if (file_exists(folder_of(state_dir, job.claim) + "/limits")) {
      out.folders.push_back(folder_of(state_dir, job.claim));
    }
  }
  return out;
}

// The claim of the job with this number or name; empty: there is no such job here.
Result<std::string> claim_of_job(const GuardArgs& args, const Context& context) {
  HEDDLE_TRY(const std::string state_dir, standalone::used_state_dir(args.state_dir, context.surroundings));
  const std::string socket = standalone::state_paths(state_dir).socket;
  if (standalone::presence_of(socket) != standalone::Presence::kThere) return std::string();
  const auto job = standalone::Client(socket).job_json(args.claim);
  if (!job) return std::string();
  const auto known = guard_jobs(fmt::format(R"({{"jobs":[{}]}})", *job));
  if (known.empty()) return std::string();
  std::string folder = folder_of(state_dir, known.front().claim);
  if (file_exists(folder + "/limits")) return folder;
  return fail(Code::kNotFound,
              fmt::format("job {} has no share now: `heddle explain {}` says why", known.front().label, args.claim));
}

// The only claim, or the one that is named by its job, by its uid, by the beginning of that, or by its folder.
Result<std::string> one_folder(const GuardArgs& args, const Context& context) {
  if (!args.claim.empty() && file_exists(args.claim + "/limits")) return args.claim;
  if (!args.claim.empty()) {
    HEDDLE_TRY(std::string folder, claim_of_job(args, context));
    if (!folder.empty()) return folder;
  }
  HEDDLE_TRY(const Claims all, claims(args, context));
  std::vector<std::string> matching;
  for (const std::string& folder : all.folders) {
    if (args.claim.empty() || folder.find("/" + args.claim) != std::string::npos) matching.push_back(folder);
  }
  if (matching.size() == 1) return matching.front();
  if (args.claim.empty()) {
    return fail(Code::kNotFound,
                matching.empty()
                    ? "no claim is prepared here"
                    : fmt::format("{} claims are here; name one as `heddle guard status` lists them", matching.size()));
  }
  return fail(Code::kNotFound,
              fmt::format("{} match{} '{}'; name one as `heddle guard status` lists them",
                          matching.empty() ? "no job and no claim" : fmt::format("{} claims", matching.size()),
                          matching.empty() ? "es" : "", args.claim));
}

int status(const GuardArgs& args, const Context& context) {
  const auto all = claims(args, context);
  if (!all) return report_answer(all.error());
  const SystemClock clock;
  std::vector<GuardView> views;
  for (const std::string& folder : all->folders) {
    auto view = look_at_guard(folder, clock.monotonic_nanos());
    if (view) {
      views.push_back(*std::move(view));
    } else {
      print_to(stderr, "heddle: {}: {}\n", folder, view.error().text());
    }
  }
  name_jobs(views, all->jobs);
  print_out("{}", args.output == Output::kJson ? guard_json(views) : guard_table(views));
  return 0;
}

int trace(const GuardArgs& args, const Context& context) {
  const auto folder = one_folder(args, context);
  if (!folder) return report_answer(folder.error());
  const SystemClock clock;
  const int64_t start = clock.monotonic_nanos();
  auto before = look_at_guard(*folder, start);
  if (!before) return report(before.error());
  print_out("{}", guard_table({*before}));
  while (clock.monotonic_nanos() - start < args.seconds * 1'000'000'000) {
    if (std::fflush(stdout) != 0) return 0;  // the reader has gone
    usleep(kTraceStepMicros);
    const int64_t now = clock.monotonic_nanos();
    auto after = look_at_guard(*folder, now);
    if (!after) {
      print_out("the claim has ended\n");
      return 0;
    }
    for (const std::string& line : guard_changes(*before, *after)) {
      print_out("{:+8.3f} s  {}\n", static_cast<double>(now - start) / 1e9, line);
    }
    before = std::move(after);
  }
  return 0;
}

// Runs the probe with these variables before the environment's own, and gives what it prints.
Result<std::string> run_probe(const Context& context, int64_t limit, std::vector<std::string> variables) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno("pipe", errno);
  const UniqueFd in(ends[0]);
  UniqueFd out(ends[1]);
  std::vector<std::string> words = {context.program, "guard-probe", "--limit", std::to_string(limit)};
  std::vector<char*> arguments;
  std::vector<char*> environment;
  arguments.reserve(words.size() + 1);
  environment.reserve(variables.size());
  for (std::string& word : words) arguments.push_back(word.data());
  for (std::string& variable : variables) environment.push_back(variable.data());
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view name = std::string_view(*variable).substr(0, std::string_view(*variable).find('=') + 1);
    const bool ours = std::ranges::any_of(variables, [&](const std::string& own) { return own.starts_with(name); });
    if (!ours) environment.push_back(*variable);
  }
  arguments.push_back(nullptr);
  environment.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out.get(), STDOUT_FILENO);
  pid_t pid = -1;
  const int failed =
      ::posix_spawn(&pid, context.program.c_str(), &actions, nullptr, arguments.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return fail_errno("cannot start " + context.program, failed);
  out.reset();
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = ::read(in.get(), buffer.data(), buffer.size())) != 0;) {
    if (got > 0) text.append(buffer.data(), static_cast<size_t>(got));
    if (got < 0 && errno != EINTR) break;
  }
  int exit_status = 0;
  while (::waitpid(pid, &exit_status, 0) < 0 && errno == EINTR) {
  }
  if (exit_status != 0) text += fmt::format("error the program ended with status {:#x}\n", exit_status);
  return text;
}

// The folder of the test's own limits, for one card. Removed with the object.
class TestFolder {
 public:
  static Result<TestFolder> make(const std::string& uuid, int64_t limit) {
    std::string name = "/tmp/heddle-selftest-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) return fail_errno("cannot make a folder in /tmp", errno);
    TestFolder folder(name);
    const guard::ClaimLimits limits{"selftest", "gpu", {{uuid, limit, 0, false, 0}}, {}, 0, 0};
    HEDDLE_TRY(const std::string content, guard::encode_limits(limits));
    HEDDLE_CHECK_OK(write_file_atomic(name + "/limits", content, 0444));
    HEDDLE_CHECK_OK(guard::create_usage(name + "/usage", limits));
    return folder;
  }
  TestFolder(TestFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  TestFolder& operator=(TestFolder&&) = delete;
  ~TestFolder() {
    if (!path_.empty()) (void)remove_tree(path_);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  explicit TestFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

std::string before_the_users(const char* name, const std::string& value) {
  const char* users = std::getenv(name);
  return fmt::format("{}={}{}", name, value, users == nullptr || *users == '\0' ? "" : fmt::format(":{}", users));
}

Result<std::vector<Check>> test_here(const GuardArgs& args, const Context& context) {
  std::vector<std::string> variables;
  if (!args.libraries.empty()) variables.push_back(before_the_users("LD_LIBRARY_PATH", args.libraries));
  // In a container the guard is there already, with the limits of the claim; elsewhere both are made for the test.
  if (file_exists(std::string(kInContainer) + "/limits")) {
    HEDDLE_TRY(const GuardView view, look_at_guard(kInContainer, 0));
    const int64_t limit = view.limits.devices.front().memory_bytes;
    if (view.limits.devices.front().whole_card) {
      return fail(Code::kUnsupported, "this claim has a whole card: there is no limit to test");
    }
    HEDDLE_TRY(const guard::UsageReport before, guard::read_usage(std::string(kInContainer) + "/usage"));
    HEDDLE_TRY(const std::string text, run_probe(context, limit, variables));
    HEDDLE_CHECK_OK(run_probe(context, 0, variables));
    HEDDLE_TRY(const guard::UsageReport usage, guard::read_usage(std::string(kInContainer) + "/usage"));
    const int64_t left = usage.devices.front().charged_bytes - before.devices.front().charged_bytes;
    return judge_probe(parse_answers(text), limit, std::max<int64_t>(left, 0), usage.unknown_symbols);
  }
  HEDDLE_TRY(const std::string plain, run_probe(context, 0, variables));
  const ProbeAnswers card = parse_answers(plain);
  if (const auto error = card.find("error"); error != card.end()) {
    return fail(Code::kUnavailable,
                error->second +
                    "; inside a job it finds those of the job's card, simulated ones too (heddle run "
                    "--memory 8Gi -- heddle guard selftest); --libraries names the folder of a driver's");
  }
  const int64_t total = std::strtoll(card.at("total").c_str(), nullptr, 10);
  const int64_t limit = std::min(total / 4, kMostForTest) >> 20 << 20;
  HEDDLE_TRY(const TestFolder folder, TestFolder::make(card.at("uuid"), limit));
  variables.push_back(before_the_users("LD_PRELOAD", find_guard_library(context.program)));
  variables.push_back("HEDDLE_GUARD_DIR=" + folder.path());
  HEDDLE_TRY(const std::string text, run_probe(context, limit, variables));
  // Who was killed or has ended is taken off by the next process.
  HEDDLE_CHECK_OK(run_probe(context, 0, variables));
  HEDDLE_TRY(const guard::UsageReport usage, guard::read_usage(folder.path() + "/usage"));
  return judge_probe(parse_answers(text), limit, usage.devices.front().charged_bytes, usage.unknown_symbols);
}

int selftest(const GuardArgs& args, const Context& context) {
  const auto checks = test_here(args, context);
  if (!checks) return report(checks.error());
  print_out("{}", verdict_text(*checks));
  return all_good(*checks) ? 0 : kNo;
}

}  // namespace

int guard(const GuardArgs& args, const Context& context) {
  if (args.action == "trace") return trace(args, context);
  if (args.action == "selftest") return selftest(args, context);
  if (args.action == "status") return status(args, context);
  return report(
      Error{Code::kInvalidArgument, fmt::format("'{}': write status, trace or selftest", args.action), "guard"});
}

}  // namespace heddle::cli
