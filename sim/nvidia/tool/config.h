// The description of a simulated machine (cards.yaml) as the state that the files start with.
#pragma once

#include <string>
#include <vector>

#include "state/layout.h"

namespace nvsim {

struct MachineConfig {
  Machine machine = {};
  std::vector<CardConfig> cards;
  std::vector<Mig> mig;  // of each card
};

// Either a machine or a message that names the field and the fix.
struct LoadedConfig {
  MachineConfig config;
  std::string error;
};

// Reads a cards.yaml. `identity` makes the UUIDs and serials of this machine differ from those of others whose file
// names none.
LoadedConfig load_config(const std::string& path, const std::string& identity);

// A ready-made model's YAML by name, null: no such model. Their names for messages.
const char* model_text(const std::string& name);
std::string model_names();

}  // namespace nvsim
