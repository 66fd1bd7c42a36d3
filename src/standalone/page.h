// The status page: one HTML document without scripts or other files, refreshed by the browser.
#pragma once

#include <string>

#include "standalone/daemon.h"

namespace heddle::standalone {

std::string status_page(const View& view);

}  // namespace heddle::standalone
