// The machine that a standalone Heddle serves: its cards, real or simulated, and how a command reaches them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/result.h"
#include "model/device.h"
#include "standalone/simulated.h"
#include "vendors/sources.h"
#include "vendors/vendor.h"

namespace heddle::standalone {

enum class Origin { kReal, kSimulated };

struct MachineOptions {
  std::string state_dir;
  std::string simulate;     // empty: real cards; else see simulated_cards()
  std::string driver_root;  // where the driver's lib*/ and dev/ are; empty: "/"
  std::string nvml;         // an explicit libnvidia-ml; empty: searched
  std::string program;      // this program's own path: its vendor-worker verb, and the simulator beside it
  std::string mps_pipe;     // folder of an MPS control daemon that serves the cards; empty: none
  std::string dcmi = {};    // an explicit libdcmi; empty: searched
};

struct Machine {
  Origin origin = Origin::kReal;
  std::string what;  // see machine_name()
  std::string node;  // host name
  std::vector<vendors::Card> cards;
  std::vector<model::ResourceSlice> slices;
  std::map<std::string, std::string> environment;  // what a command needs to reach the driver
  std::shared_ptr<vendors::CardSources> source;    // to ask again
  std::string mps_pipe = {};                       // see MachineOptions
};

// "real", or what is simulated.
std::string machine_name(const MachineOptions& options);

// Finds the cards. A simulated machine is made once a state folder and start of the machine, and found again, so that
// commands that run on it outlive a restart of Heddle. Blocks up to some seconds.
// Errors: kNotFound when no vendor has cards (says what was tried and what to do), kInvalidArgument for a bad
// `simulate`, kUnavailable when there are none and a vendor's library does not answer.
Result<Machine> find_machine(const MachineOptions& options, Remake remake, const Clock& clock);

// The slices of these cards on this machine, as the agent of a cluster publishes them; mps_pipe as in MachineOptions.
std::vector<model::ResourceSlice> machine_slices(const std::string& node, const std::vector<vendors::Card>& cards,
                                                 const std::string& mps_pipe = {});

}  // namespace heddle::standalone
