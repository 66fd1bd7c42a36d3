// The simulated machine of `heddle up --simulate`: what is asked for, and the files that the simulators make of it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace heddle::standalone {

// Whether a simulation that exists already may be made anew, which ends what runs on it.
enum class Remake { kNever, kIfChanged };

// The cards of one vendor, as the file that its simulator reads.
struct SimulatedCards {
  std::string vendor;
  std::string yaml;
  std::string source = {};  // the file that says so; empty: a short form does
};

// The parts of `simulate`, with commas between: "h100x2", "ascend910B4x2", "cards.yaml", "ascend:npus.yaml". Short
// forms of a vendor add up; a file is all of its vendor's. In the order of the parts. Errors: kInvalidArgument, field
// "--simulate", with the form to write.
Result<std::vector<SimulatedCards>> simulated_cards(const std::string& simulate);

// The same text with the full path of each file, for a process that works in another folder. Errors: as above.
Result<std::string> with_full_paths(const std::string& simulate);

// One vendor's part of a simulated machine that is there.
struct Simulation {
  std::string vendor;
  std::string library;                             // that the vendor's worker loads
  std::string library_dir;                         // in which a command finds the vendor's libraries
  std::map<std::string, std::string> environment;  // by which they find the machine
};

// Makes the machine in state_dir/simulation by the simulators beside `program`, once a folder and start of the real
// machine. Errors: kNotFound where a simulator is not installed, kInvalidArgument with what it says of the description.
Result<std::vector<Simulation>> prepare_simulation(const std::string& state_dir, const std::string& program,
                                                   const std::string& simulate, Remake remake);

}  // namespace heddle::standalone
