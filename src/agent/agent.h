// The agent of a node: everything wired together. Runs until told to stop.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "agent/dra_server.h"
#include "agent/preparer.h"
#include "agent/supervise.h"
#include "base/clock.h"
#include "base/log.h"
#include "kube/client.h"
#include "vendors/sources.h"

namespace heddle::agent {

struct AgentOptions {
  std::string node_name;
  PreparerOptions preparer;
  DraServerOptions dra;
  SupervisorOptions supervisor;
  Duration supervise_interval = Duration::seconds(2);
  std::vector<vendors::VendorWorker> workers;
  std::string metrics_address;  // empty: no metrics
  uint16_t metrics_port = 8081;
  bool strict_shares = false;             // nothing of a card's time is lent
  std::set<std::string> make_partitions;  // vendors whose cards are cut into hard partitions when claims ask for them
  std::string proc = "/proc";
  bool in_pod = false;  // then the host's pid namespace is needed
};

// Blocks until wait_for_stop() returns. Errors: what made the start impossible; nothing after that is fatal.
Result<void> run_agent(const AgentOptions& options, kube::Client& client, const Clock& clock, const Logger& log,
                       const std::function<void()>& wait_for_stop);

}  // namespace heddle::agent
