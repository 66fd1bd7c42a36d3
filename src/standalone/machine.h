// The machine that a standalone Heddle serves: its cards, real or simulated, and how a command reaches them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "model/device.h"
#include "vendors/vendor.h"

namespace heddle::standalone {

enum class Origin { kReal, kSimulated };

struct Machine {
  Origin origin = Origin::kReal;
  std::string what;  // "real", or what was asked to be simulated: "h100x2"
  std::string node;  // host name
  std::vector<vendors::Card> cards;
  std::vector<model::ResourceSlice> slices;
  // What a command needs to reach the driver, beyond its own environment.
  std::map<std::string, std::string> environment;
};

struct MachineOptions {
  std::string state_dir;
  std::string simulate;     // empty: real cards. "h100x2", or the path of a YAML file for the simulator
  std::string driver_root;  // where the driver's lib*/ and dev/ are; empty: "/"
  std::string nvml;         // an explicit libnvidia-ml; empty: searched
  std::string tools_dir;    // where the simulator's tool is; empty: beside this program
};

// Finds the cards. A simulated machine is made once a state folder and found again, so that commands that run on it
// outlive a restart.
// Errors: kNotFound when there are none (says what was tried and what to do), kInvalidArgument for a bad `simulate`,
// kUnavailable when a vendor library does not answer.
Result<Machine> find_machine(const MachineOptions& options, const Logger& log);

}  // namespace heddle::standalone
