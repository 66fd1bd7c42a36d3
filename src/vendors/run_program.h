// A program of the driver's installation, run once to its end.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace heddle::vendors {

// Runs command[0], a path below `root`, with that folder as its root ("/" or empty: as this process). It gets a plain
// PATH as its environment and /dev/null as its input; what it writes is this process's. Blocks up to the deadline, in
// which it is killed. Thread rule: any thread. Errors: kUnavailable (it did not start, or ended with another status
// than 0), kDeadlineExceeded.
Result<void> run_program(const std::string& root, const std::vector<std::string>& command, Duration deadline);

}  // namespace heddle::vendors
