// What becomes of quotas and of other schedulers' queues whose keys pods no longer name once they are translated.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "catalog/requests.h"

namespace heddle::cli {

// One line for each amount of devices of ours in a ResourceQuota, a Queue of Volcano or KAI, or a ClusterQueue or
// Cohort of Kueue; nothing for other objects.
std::vector<std::string> quota_words(const catalog::Requests& rules, const nlohmann::ordered_json& object);

}  // namespace heddle::cli
