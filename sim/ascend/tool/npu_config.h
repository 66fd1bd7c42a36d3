// The description of a simulated NPU machine (cards.yaml) as the state that its files start with.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "state/npu.h"

namespace ascendsim {

struct LoadedNpus {
  std::unique_ptr<NpuMachine> machine;
  std::vector<nvsim::CardConfig> cards;
  std::string error;  // names the field and the fix; empty: all is well
};

// `identity` makes the die ids of this machine differ from those of others whose file names none.
LoadedNpus load_npus(const std::string& path, const std::string& identity);

// A ready-made model's YAML by name, null: no such model. Their names for messages.
const char* npu_model_text(const std::string& name);
std::string npu_model_names();

}  // namespace ascendsim
