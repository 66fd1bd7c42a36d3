// What `heddle plan` makes of objects, without a fleet. Inside this folder only.
#pragma once

#include <string>
#include <string_view>

#include "model/claim.h"
#include "model/pod.h"

namespace heddle::cli {

model::DeviceClass chart_class(std::string_view name, const std::string& selector);
// Both must hold.
model::NodeSelector both(const model::NodeSelector& a, const model::NodeSelector& b);
// Where the claim of an entry of pod.spec.resourceClaims is or would be.
std::string claim_key(const model::Pod& pod, const model::PodResourceClaim& entry);

}  // namespace heddle::cli
