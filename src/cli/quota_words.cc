#include "cli/quota_words.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "dialects/container.h"
#include "dialects/quota_measure.h"

namespace heddle::cli {

std::vector<std::string> quota_words(const catalog::Requests& rules, const nlohmann::ordered_json& quota) {
  std::vector<std::string> out;
  const nlohmann::ordered_json::json_pointer hard("/spec/hard");
  if (!quota.is_object() || !quota.contains(hard) || !quota.at(hard).is_object()) return out;
  for (const auto& [key, value] : quota.at(hard).items()) {
    std::string_view resource = key;
    for (const std::string_view prefix : {"requests.", "limits."}) {
      if (resource.starts_with(prefix)) {
        resource.remove_prefix(prefix.size());
        break;
      }
    }
    if (!dialects::asks_for_device(rules, resource)) continue;
    out.push_back(dialects::measure_of(rules, key)
                      ? fmt::format("{}: kept by Heddle's webhook and engine, which count what claims hold", key)
                      : fmt::format("{}: no longer holds: pods that ask for {} hold claims instead, which this key "
                                    "does not count",
                                    key, resource));
  }
  return out;
}

}  // namespace heddle::cli
