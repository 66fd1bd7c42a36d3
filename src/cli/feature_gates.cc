#include "cli/feature_gates.h"

#include <map>
#include <sstream>

namespace heddle::cli {

Result<allocator::Features> parse_feature_gates(const std::string& text) {
  allocator::Features features;
  // The two of device status switch the feature on only together.
  std::map<std::string, bool> status = {{"DRADeviceBindingConditions", true}, {"DRAResourceClaimDeviceStatus", true}};
  const std::map<std::string, bool*> gates = {
      {"DRAAdminAccess", &features.admin_access},
      {"DRAPrioritizedList", &features.prioritized_list},
      {"DRAPartitionableDevices", &features.partitionable_devices},
      {"DRADeviceTaints", &features.device_taints},
      {"DRADeviceBindingConditions", &status["DRADeviceBindingConditions"]},
      {"DRAResourceClaimDeviceStatus", &status["DRAResourceClaimDeviceStatus"]},
      {"DRAConsumableCapacity", &features.consumable_capacity},
      {"DRAFractionalCapacityRange", &features.fractional_capacity_range},
      {"DRAListTypeAttributes", &features.list_attributes},
      {"DRADerivedAttributes", &features.derived_attributes},
      {"DRADeviceCompatibilityGroups", &features.compatibility_groups},
      {"DRAOptionalNodeOperations", &features.optional_node_operations},
  };
  std::stringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    const auto gate = gates.find(name);
    if (gate == gates.end()) {
      std::string known;
      for (const auto& [other, flag] : gates) known += (known.empty() ? "" : ", ") + other;
      return fail(Code::kInvalidArgument, "unknown feature gate '" + name + "'; known are " + known, "--feature-gates");
    }
    if (value != "true" && value != "false") {
      return fail(Code::kInvalidArgument, "'" + word + "': write " + name + "=true or " + name + "=false",
                  "--feature-gates");
    }
    *gate->second = value == "true";
  }
  features.binding_conditions = status["DRADeviceBindingConditions"] && status["DRAResourceClaimDeviceStatus"];
  return features;
}

}  // namespace heddle::cli
