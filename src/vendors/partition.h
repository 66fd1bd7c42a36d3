// Making hard partitions: what crosses the pipe between the agent and the worker of a vendor, and what every vendor
// that can does with it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "vendors/vendor.h"

namespace heddle::vendors {

inline constexpr std::string_view kPlace = "place";
inline constexpr std::string_view kMake = "make";
inline constexpr std::string_view kDrop = "drop";

// What a vendor can do. All errors besides those named: kNotFound (no such card), kUnsupported (it makes no
// partitions), kUnavailable (the library does not answer).
struct PartitionVendor {
  // Where the partition shall lie; nothing is made. A place that was chosen stays if it is still free. taken: places of
  // this card that are promised to others. Errors: kConflict (somebody else's partition lies there), kExhausted.
  std::function<Result<int64_t>(const PartitionOrder& order, const std::vector<int64_t>& taken)> place;
  // Makes it, or finds it: repeated, the same. Gives the cards as they are then. Errors: kExhausted (no room),
  // kConflict (another partition has the place), kInvalidArgument (no such profile).
  std::function<Result<Inventory>(const PartitionOrder& order)> make;
  // Takes it away; nothing happens where there is none of this profile at the place, or no such card. Errors: kConflict
  // (in use), kNotFound (there is no driver any more).
  std::function<Result<Inventory>(const PartitionOrder& order)> drop;
};

bool is_ordered(const Card& card, const PartitionOrder& order);
// The partition of the order among these cards; null: it is not there.
const Card* find_partition(const std::vector<Card>& cards, const PartitionOrder& order);

std::string partition_call(std::string_view verb, const PartitionOrder& order, const std::vector<int64_t>& taken = {});
// The worker's side. Errors: kUnsupported for anything else than a call of the three, and as the vendor.
Result<std::string> answer_partition_call(std::string_view operation, const PartitionVendor& vendor);
// The answer to kPlace. Errors: kInvalidArgument.
Result<int64_t> parse_place(std::string_view answer);

}  // namespace heddle::vendors
