// What becomes of a ResourceQuota whose keys pods no longer name once they are translated.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "catalog/requests.h"

namespace heddle::cli {

// One line for each key of spec.hard that names a device of ours; nothing for other objects.
std::vector<std::string> quota_words(const catalog::Requests& rules, const nlohmann::ordered_json& quota);

}  // namespace heddle::cli
