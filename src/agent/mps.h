// The node's control daemon of NVIDIA's MPS, which an administrator runs: where it serves, and which processes are its
// servers, so that they are taken for nobody's work. Its folder is `pipe`, CUDA_MPS_PIPE_DIRECTORY as this process sees
// it; empty: there is none. Thread-safe (no state). Cost: some small files.
#pragma once

#include <string>
#include <vector>

#include "vendors/vendor.h"

namespace heddle::agent {

// The cards, each told whether the daemon serves it.
std::vector<vendors::Card> with_mps(std::vector<vendors::Card> cards, const std::string& pipe);

// Without the daemon's servers: they hold what the driver needs for all clients. proc: a /proc of the pids in statuses.
std::vector<vendors::CardStatus> without_mps_servers(std::vector<vendors::CardStatus> statuses, const std::string& pipe,
                                                     const std::string& proc);

}  // namespace heddle::agent
