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

#include "base/result.h"

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

// Blocks until the job has ended. Signals sent to this process are passed on to the command. Returns its exit code, or
// 128 + n when signal n ended it. Errors: kConflict when the job was taken away before it started.
// The caller has one thread and has blocked the signals of blocked_signals().
Result<int> run_command(const RunPlan& plan);

// Blocks, in this process, the signals that `heddle run` handles itself.
void block_signals();
// Waits up to `millis` for one of them; 0 when none came. Only while no command runs.
int wait_for_signal(int millis);

}  // namespace heddle::standalone
