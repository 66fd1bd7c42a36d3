// What `heddle ps` and `heddle explain` print, from the JSON of the API.
#pragma once

#include <string>

#include "base/result.h"

namespace heddle::cli {

enum class Ended { kHide, kShow };

// Cards with bars, live jobs, and what waits and why. width: columns of the terminal; 0: not a terminal, nothing is
// cut.
Result<std::string> status_table(const std::string& status_json, Ended ended, int width);
// One job in full.
Result<std::string> job_text(const std::string& job_json);

}  // namespace heddle::cli
