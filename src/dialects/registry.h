// Decoders for what schedulers and device plugins of HAMi and Volcano write into annotations of nodes and pods. For
// migration only: nothing here is ever a request. Strict: what does not have the form is an error that says where.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace heddle::dialects {

// One device as a plugin registered it on a node.
struct RegisteredDevice {
  std::string id;
  std::string type;  // product name, with the vendor's prefix
  int64_t index = 0;
  int64_t split = 0;       // how many tenants at most
  int64_t memory_mib = 0;  // after the plugin's scaling
  int64_t cores = 0;       // percent, after the plugin's scaling; 0 where the form has none
  int64_t numa = 0;
  std::string mode;  // hami-core, mig, mps; empty: not said
  bool healthy = true;
  std::vector<std::string> mig_profiles;
  friend bool operator==(const RegisteredDevice&, const RegisteredDevice&) = default;
};

// hami.io/node-*-register: a JSON array, or "id,split,memory,cores,type,numa,health[,index,mode]:" for each device.
Result<std::vector<RegisteredDevice>> decode_hami_register(std::string_view text);
// volcano.sh/node-vgpu-register: "id,split,memory,type,health,mode[,...]:" for each device.
Result<std::vector<RegisteredDevice>> decode_volcano_register(std::string_view text);

// One device of a container, as a scheduler granted it.
struct GrantedDevice {
  std::string id;
  std::string type;
  int64_t memory_mib = 0;
  int64_t cores = 0;
  friend bool operator==(const GrantedDevice&, const GrantedDevice&) = default;
};

// hami.io/*-devices-allocated and volcano.sh/vgpu-ids-new: "id,type,memory,cores:" for each device, ";" after each
// container, init containers first; a container without devices is empty. One entry a container.
Result<std::vector<std::vector<GrantedDevice>>> decode_granted(std::string_view text);

}  // namespace heddle::dialects
