// The text form of vendor values: what crosses the pipe of a worker, and the last known inventory on disk.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "vendors/vendor.h"

namespace heddle::vendors {

std::string inventory_json(const Inventory& inventory);
std::string status_json(const StatusReport& report);
std::string times_json(const TimesReport& report);

// Errors: kInvalidArgument for text that these functions did not write.
Result<Inventory> parse_inventory(std::string_view text);
Result<StatusReport> parse_status(std::string_view text);
Result<TimesReport> parse_times(std::string_view text);

}  // namespace heddle::vendors
