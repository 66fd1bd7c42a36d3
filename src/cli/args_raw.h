// The command line between the parser and its Args. For args.cc and args_finish.cc.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "cli/args.h"

namespace heddle::cli {

// What the parser fills before it is made into one of the Args. Values that need a check of ours stay text.
struct Raw {
  UpArgs up;
  RunArgs run;
  PsArgs ps;
  ExplainArgs explain;
  QueueArgs queue;
  CancelArgs cancel;
  DownArgs down;
  UninstallArgs uninstall;
  TranslateArgs translate;
  MigrateArgs migrate;
  AllocateArgs allocate;
  PlanArgs plan;
  CelArgs cel;
  CatalogArgs catalog;
  SimulateArgs simulate;
  std::string policy;  // empty: heddle
  std::string mix;     // empty: online
  std::string seed;
  std::string load;
  std::vector<std::string> catalog_words;
  GuardArgs guard;
  GuardProbeArgs guard_probe;
  VendorWorkerArgs worker;
  std::string memory;
  std::string memory_percent;
  std::string virtual_memory;
  std::string cores;
  std::string count;
  std::string priority;
  std::string timeout;
  std::string placement_policy;
  std::string deadline;
  std::string dashboard_port;
  std::string starvation;
  std::string eviction_grace;
  std::string cel_environment = "stored";
  std::string output = "table";
  bool no_wait = false;
  bool detach = false;
  bool requeue = false;
  bool no_requeue = false;
  bool without_defaults = false;
};

// "heddle: text", exit 1.
Message usage_error(const std::string& text);
Message usage_error(const Error& error, const std::string& flag);

// The values of a verb's flags, checked.
std::variant<Args, Message> finish_up(Raw& raw);
std::variant<Args, Message> finish_run(Raw& raw, std::vector<std::string> command);
std::variant<Args, Message> finish_simulate(Raw& raw);
std::variant<Args, Message> finish_uninstall(const Raw& raw);
std::variant<Args, Message> finish_catalog(Raw& raw);

}  // namespace heddle::cli
