// The command line of heddle-agent.
#pragma once

#include <string>

#include "agent/agent.h"

namespace heddle::agent {

struct Flags {
  bool vendor_worker = false;     // the hidden verb: this process only calls the vendor's library
  std::string vendor = "nvidia";  // of the worker
  std::string nvml;
  std::string dcmi;
  std::string kubeconfig;
  std::string log_level = "info";
  AgentOptions agent;
};

struct ParsedFlags {
  bool run = false;  // else the program ends with exit_status: help was shown, or the usage was wrong
  int exit_status = 0;
  Flags flags;
};

ParsedFlags parse_flags(int argc, char** argv);

}  // namespace heddle::agent
