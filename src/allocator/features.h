// The feature gates of Kubernetes that change what an allocation may do. Defaults: Kubernetes 1.37.
#pragma once

namespace heddle::allocator {

struct Features {
  bool admin_access = true;
  bool prioritized_list = true;
  bool partitionable_devices = true;
  bool device_taints = true;
  bool binding_conditions = true;  // DRADeviceBindingConditions with DRAResourceClaimDeviceStatus
  bool consumable_capacity = true;
  bool fractional_capacity_range = true;
  bool list_attributes = false;
  bool derived_attributes = false;
  bool compatibility_groups = false;
  bool optional_node_operations = false;
};

}  // namespace heddle::allocator
