#include "vendors/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "vendors/wire.h"

namespace heddle::vendors {
namespace {

using nlohmann::json;

struct Call {
  std::string verb;
  PartitionOrder order;
  std::vector<int64_t> taken;
};

Result<Call> parse_call(std::string_view operation) {
  const size_t space = operation.find(' ');
  Call call;
  call.verb = operation.substr(0, space);
  const bool known = call.verb == kPlace || call.verb == kMake || call.verb == kDrop;
  if (space == std::string_view::npos || !known) return fail(Code::kUnsupported, "unknown operation");
  try {
    const json in = parse_json(operation.substr(space + 1));
    in.at("parentUUID").get_to(call.order.parent_uuid);
    in.at("profile").get_to(call.order.profile);
    in.at("place").get_to(call.order.place);
    in.at("taken").get_to(call.taken);
    return call;
  } catch (const json::exception& error) {
    return fail(Code::kInvalidArgument, std::string("not a call for a partition: ") + error.what());
  }
}

}  // namespace

bool is_ordered(const Card& card, const PartitionOrder& order) {
  const PartitionPlace& place = card.partition;
  return card.is_partition() && place.parent_uuid == order.parent_uuid && place.profile == order.profile &&
         place.start == order.place;
}

const Card* find_partition(const std::vector<Card>& cards, const PartitionOrder& order) {
  const auto found = std::ranges::find_if(cards, [&](const Card& card) { return is_ordered(card, order); });
  return found == cards.end() ? nullptr : &*found;
}

std::string partition_call(std::string_view verb, const PartitionOrder& order, const std::vector<int64_t>& taken) {
  const json out = {
      {"parentUUID", order.parent_uuid}, {"profile", order.profile}, {"place", order.place}, {"taken", taken}};
  return fmt::format("{} {}", verb, dump_json(out));
}

Result<std::string> answer_partition_call(std::string_view operation, const PartitionVendor& vendor) {
  HEDDLE_TRY(const Call call, parse_call(operation));
  if (call.verb == kPlace) {
    HEDDLE_TRY(const int64_t place, vendor.place(call.order, call.taken));
    return std::to_string(place);
  }
  HEDDLE_TRY(const Inventory inventory, call.verb == kMake ? vendor.make(call.order) : vendor.drop(call.order));
  return inventory_json(inventory);
}

Result<int64_t> parse_place(std::string_view answer) {
  int64_t place = -1;
  const auto parsed = std::from_chars(answer.data(), answer.data() + answer.size(), place);
  if (parsed.ec != std::errc() || parsed.ptr != answer.data() + answer.size() || place < 0) {
    return fail(Code::kInvalidArgument, "not a place for a partition");
  }
  return place;
}

}  // namespace heddle::vendors
