#include "standalone/up.h"

#include <fmt/format.h>
#include <grp.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <memory>
#include <thread>

#include "agent/guard_install.h"
#include "agent/lending.h"
#include "agent/names.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "kube/http_server.h"
#include "standalone/api.h"
#include "standalone/card_watch.h"
#include "standalone/daemon.h"
#include "standalone/guard_share.h"
#include "standalone/job_queues.h"
#include "standalone/ledger.h"
#include "standalone/state_dir.h"

namespace heddle::standalone {
namespace {

constexpr std::string_view kMachineSetting = "machine";
constexpr std::string_view kQueuesSetting = "queues";
constexpr int kWake = SIGUSR1;  // between threads

Ledger::WriteHook crash_hook(int64_t at) {
  if (at <= 0) return {};
  return [at, point = int64_t{0}](std::string_view) mutable {
    if (++point == at) kill(getpid(), SIGKILL);
  };
}

Result<void> make_folders(const StatePaths& paths, const std::string& group) {
  // With a group, its members must reach the socket and their jobs' folders by name; they still cannot list anything.
  const mode_t mode = group.empty() ? 0700 : 0711;
  HEDDLE_CHECK_OK(take_state_dir(paths.folder, mode));
  for (const char* name : {"/jobs", "/claims"}) HEDDLE_CHECK_OK(make_directories(paths.folder + name, 0711));
  return {};
}

Result<void> open_to_group(const std::string& socket, const std::string& group) {
  if (group.empty()) {
    if (chmod(socket.c_str(), 0600) != 0) return fail_errno(fmt::format("cannot set the mode of {}", socket), errno);
    return {};
  }
  const auto* entry = getgrnam(group.c_str());
  if (entry == nullptr) return fail(Code::kInvalidArgument, fmt::format("there is no group '{}'", group), "--group");
  if (chown(socket.c_str(), static_cast<uid_t>(-1), entry->gr_gid) != 0 || chmod(socket.c_str(), 0660) != 0) {
    return fail_errno(fmt::format("cannot give {} to group {}", socket, group), errno);
  }
  return {};
}

// A ledger with live jobs of other cards would be misread.
Result<Remake> check_machine(Ledger& ledger, const std::string& name) {
  HEDDLE_TRY(const auto before, ledger.setting(kMachineSetting));
  HEDDLE_TRY(const auto live, ledger.live());
  if (before && *before != name && !live.empty()) {
    const std::string flags = *before == "real" ? "without --simulate" : fmt::format("with --simulate {}", *before);
    return fail(
        Code::kConflict,
        fmt::format("jobs of the machine '{}' are not finished ({} of them): start {}; there `heddle down --kill` "
                    "ends them",
                    *before, live.size(), flags));
  }
  if (before != name) HEDDLE_CHECK_OK(ledger.set_setting(kMachineSetting, name));
  return live.empty() ? Remake::kIfChanged : Remake::kNever;
}

// The queues that hold from now on, written down once they are known to be good.
Result<std::string> keep_queues(Ledger& ledger, const UpOptions& options) {
  HEDDLE_TRY(const auto before, ledger.setting(kQueuesSetting));
  if (!options.queues) return before.value_or(std::string());
  HEDDLE_TRY(std::string text, check_queues(*options.queues));
  if (text != before.value_or(std::string())) HEDDLE_CHECK_OK(ledger.set_setting(kQueuesSetting, text));
  return text;
}

// Copies under the names of their content: they stay as they are while commands run under them, whatever is installed
// meanwhile.
Result<GuardFiles> install_guards(const UpOptions& options, const std::vector<vendors::Card>& cards) {
  const auto install = [&](const std::string& library) -> Result<std::string> {
    HEDDLE_TRY(const auto guard, agent::install_guard(options.machine.state_dir, library, ""));
    return fmt::format("{}/{}", guard.library_dir, agent::kGuardLibraryName);
  };
  const bool npus = std::ranges::find(cards, "ascend", &vendors::Card::vendor) != cards.end();
  GuardFiles files;
  HEDDLE_TRY(files.library, install(options.guard_library));
  if (npus || file_exists(options.ascend_guard_library)) {
    HEDDLE_TRY(files.ascend_library, install(options.ascend_guard_library));
  }
  return files;
}

using Server = std::unique_ptr<kube::HttpServer>;

Result<Server> start_api(Daemon& daemon, const StatePaths& paths, const std::string& group, const Logger& log) {
  // What a killed daemon left; the lock says that nobody serves it.
  HEDDLE_CHECK_OK(remove_file(paths.socket));
  kube::HttpServerOptions options;
  options.unix_socket = paths.socket;
  const auto handler = [&daemon](const kube::HttpRequest& request) { return serve_api(daemon, request); };
  const mode_t before = umask(0177);
  auto server = kube::HttpServer::start(options, handler, log);
  umask(before);
  if (!server) return server;
  HEDDLE_CHECK_OK(open_to_group(paths.socket, group));
  return server;
}

Result<Server> start_page(Daemon& daemon, const UpOptions& options, const Logger& log) {
  if (options.page == Page::kOff) return Server();
  kube::HttpServerOptions server_options;
  server_options.threads = 2;
  server_options.port = options.page == Page::kPort ? options.page_port : kDefaultPagePort;
  const auto handler = [&daemon](const kube::HttpRequest& request) { return serve_page(daemon, request); };
  auto server = kube::HttpServer::start(server_options, handler, log);
  if (server || options.page == Page::kPort) return server;
  log.warning("the port of the status page is taken; using another", {{"port", server_options.port}});
  server_options.port = 0;
  return kube::HttpServer::start(server_options, handler, log);
}

std::unique_ptr<agent::Lending> start_lending(const std::shared_ptr<vendors::CardSources>& source, Daemon& daemon,
                                              const Clock& clock, agent::LendingMode mode) {
  agent::LendingPorts ports;
  ports.claims = [&daemon] { return daemon.lent_claims(); };
  ports.times = [source] { return source->times(); };
  ports.owner_of = [&daemon](int64_t pid) { return daemon.job_of(pid); };
  ports.overuse = [&daemon](const std::vector<agent::Overuse>& found) { daemon.note_overuse(found); };
  return std::make_unique<agent::Lending>(std::move(ports), clock, mode);
}

// Ends the daemon's run() when SIGTERM or SIGINT comes. The signals are blocked in all threads.
class SignalThread {
 public:
  SignalThread(const sigset_t& set, Daemon& daemon)
      : thread_([this, set, &daemon] {
          int signal = 0;
          while (sigwait(&set, &signal) != 0 || (signal == kWake && !ended_)) {
          }
          daemon.stop();
        }) {}
  ~SignalThread() {
    // Wakes the thread when the daemon ended by itself.
    ended_ = true;
    pthread_kill(thread_.native_handle(), kWake);
    thread_.join();
  }
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;

 private:
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

sigset_t block_stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, kWake);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  return set;
}

}  // namespace

Result<void> serve(const UpOptions& options, const std::function<void(const Ready&)>& ready) {
  const auto paths = state_paths(options.machine.state_dir);
  umask(0022);
  if (!options.group.empty() && geteuid() != 0) {
    return fail(Code::kInvalidArgument, "only a Heddle that root starts can run the commands of other users",
                "--group");
  }
  HEDDLE_CHECK_OK(make_folders(paths, options.group));
  HEDDLE_CHECK_OK(check_room(paths.folder));
  HEDDLE_TRY(const UniqueFd lock, lock_state_dir(paths));
  const sigset_t stop_signals = block_stop_signals();
  ::signal(SIGPIPE, SIG_IGN);
  const SystemClock clock;
  const Logger log("heddle", LogLevel::kInfo, clock);
  HEDDLE_TRY(auto ledger, Ledger::open(paths.ledger, crash_hook(options.crash_at_write)));
  HEDDLE_TRY(const Remake remake, check_machine(*ledger, machine_name(options.machine)));
  HEDDLE_TRY(auto machine, find_machine(options.machine, remake, clock));
  DaemonOptions daemon_options;
  HEDDLE_TRY(daemon_options.queues, keep_queues(*ledger, options));
  daemon_options.state_dir = options.machine.state_dir;
  daemon_options.queue = options.queue;
  daemon_options.eviction_grace = options.eviction_grace;
  daemon_options.policy = options.enforce ? agent::Policy::kEnforce : agent::Policy::kReport;
  HEDDLE_TRY(daemon_options.guard, install_guards(options, machine.cards));
  Ready report{paths.folder, "", machine};
  HEDDLE_TRY(const auto daemon,
             Daemon::create(std::move(daemon_options), std::move(ledger), std::move(machine), clock, log));
  HEDDLE_TRY(const Server page, start_page(*daemon, options, log));
  if (page) report.page_url = fmt::format("http://127.0.0.1:{}/", page->port());
  HEDDLE_TRY(const Server api, start_api(*daemon, paths, options.group, log));
  bool ended_by_request = false;
  {
    const SignalThread signals(stop_signals, *daemon);
    const CardWatch watch(report.machine.source, *daemon);
    const auto lending = start_lending(report.machine.source, *daemon, clock,
                                       options.strict_shares ? agent::LendingMode::kWatch : agent::LendingMode::kLend);
    log.info("serving", {{"socket", paths.socket}, {"page", report.page_url}, {"cards", report.machine.cards.size()}});
    ready(report);
    ended_by_request = daemon->run() == RunEnd::kShutDown;
  }
  if (page) page->stop();
  api->stop();
  // Only an asked-for end takes the socket away: clients that see it gone stop waiting, others wait for the restart.
  if (ended_by_request) return remove_file(paths.socket);
  return {};
}

}  // namespace heddle::standalone
