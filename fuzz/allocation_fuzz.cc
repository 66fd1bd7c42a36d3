// Any text as the input of `heddle allocate`: no crash, the same answer twice, and an answer that stands: its claims,
// put back as allocated ones, are objects that can be read, and a device that was taken whole is not given again.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>

#include "cli/allocation.h"
#include "codec/codec.h"

namespace {

using Json = nlohmann::json;

// Every gate on, so that all code is reached.
heddle::allocator::Features all_features() {
  heddle::allocator::Features features;
  features.list_attributes = true;
  features.derived_attributes = true;
  features.compatibility_groups = true;
  features.optional_node_operations = true;
  return features;
}

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const std::string& list_json) {
  constexpr size_t kMostResults = 32;
  const Json list = Json::parse(list_json, nullptr, false);
  require(list.is_object() && list["items"].is_array());
  std::set<std::tuple<std::string, std::string, std::string>> whole;
  for (const Json& item : list["items"]) {
    const auto claim = heddle::codec::parse_claim(item.dump(-1, ' ', false, Json::error_handler_t::replace));
    require(claim && claim->allocation && claim->allocation->results.size() <= kMostResults);
    for (const auto& result : claim->allocation->results) {
      if (result.admin_access || !result.share_id.empty()) continue;
      require(whole.insert({result.driver, result.pool, result.device}).second);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const heddle::cli::AllocationInput input{.objects = {reinterpret_cast<const char*>(data), size},
                                           .node = "n",
                                           .features = all_features(),
                                           .seed = 1,
                                           .steps = 2000};
  const auto output = heddle::cli::allocate_objects(input);
  const auto again = heddle::cli::allocate_objects(input);
  require(output.has_value() == again.has_value());
  if (!output) return 0;
  require(output->list_json == again->list_json && output->refusal == again->refusal);
  if (output->refusal.empty()) check(output->list_json);
  return 0;
}
