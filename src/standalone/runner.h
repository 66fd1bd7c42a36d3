// Runs the command of a granted job: a small supervisor process that is the parent of everything the command starts.
//
//   `heddle run` --- supervisor --- the command --- whatever it starts
//
// The supervisor adopts what the command leaves behind, writes the exit code into the job's folder, and ends only when
// all of it has ended. When the client dies, it ends the job (SIGTERM, 5 s, SIGKILL). When it is killed itself, the
// kernel kills the command, and the client (or the daemon) the rest. All of them share the terminal and the process
// group of the client, so that Ctrl-C and Ctrl-Z reach the command as without Heddle.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "standalone/job.h"

namespace heddle::standalone {

struct RunPlan {
  std::vector<std::string> command;
  std::map<std::string, std::string> environment;  // LD_PRELOAD and LD_LIBRARY_PATH go before what is set already
  std::string folder;                              // "exit" is written here
  std::string output;                              // standard output and error go here when not empty
  // Called in the supervisor until it succeeds or fails for good: writes down that this process runs the job. The
  // command starts only afterwards. kUnavailable is tried again.
  std::function<Result<void>(int64_t supervisor_pid)> record;
};

// What a command's exit code means when the command itself did not run.
inline constexpr int kCannotExecute = 126;
inline constexpr int kCommandNotFound = 127;

// How it ended. The exit code is the command's, or 128 + n when signal n ended it.
struct CommandEnd {
  int exit_code = 0;
  bool told = false;         // the daemon told it to end, before it ended by itself; or its supervisor was killed
  bool interrupted = false;  // this process was told to end it: SIGINT, SIGTERM, SIGHUP or SIGQUIT
};
// Blocks until the job has ended. Signals sent to this process are passed on to the command.
// Errors: kConflict when the job was taken away before it started.
// The caller has one thread and has blocked the signals of blocked_signals().
Result<CommandEnd> run_command(const RunPlan& plan);

// What the supervisor wrote into "exit": the code, and behind it this word where it was told to end the command.
inline constexpr const char* kToldToEnd = "told";
// Asks a supervisor to end its job: SIGTERM to all of it, SIGKILL after the grace. Of several the shortest holds.
void ask_to_end(const ProcessId& supervisor, Duration grace);
inline constexpr Duration kUsualGrace = Duration::seconds(5);
// A supervisor that has not ended so long after the grace is not trusted to.
inline constexpr Duration kRunnerPatience = Duration::seconds(5);

// Blocks, in this process, the signals that `heddle run` handles itself.
void block_signals();
// Waits up to `millis` for one of them; 0 when none came. Only while no command runs.
int wait_for_signal(int millis);

}  // namespace heddle::standalone
