// docs/dialects.md: what every key means, what is refused and what to write instead, from the catalogue's data.
#pragma once

#include <string>

#include "catalog/requests.h"

namespace heddle::dialects {

std::string dialects_markdown(const catalog::Requests& rules);

}  // namespace heddle::dialects
