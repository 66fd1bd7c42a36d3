#include "cli/quota_words.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/json_at.h"
#include "dialects/container.h"
#include "dialects/quota_measure.h"

namespace heddle::cli {
namespace {

using Json = nlohmann::ordered_json;

const Json* at(const Json& object, const char* pointer) {
  const Json::json_pointer path(pointer);
  return object.contains(path) ? &object.at(path) : nullptr;
}

void resource_quota(const catalog::Requests& rules, const Json& quota, std::vector<std::string>& out) {
  const Json* hard = at(quota, "/spec/hard");
  if (hard == nullptr || !hard->is_object()) return;
  for (const auto& [key, value] : hard->items()) {
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
}

void volcano_queue(const catalog::Requests& rules, const Json& queue, std::vector<std::string>& out) {
  for (const char* name : {"capability", "deserved", "guarantee/resource"}) {
    const Json* amounts = at(queue, fmt::format("/spec/{}", name).c_str());
    if (amounts == nullptr || !amounts->is_object()) continue;
    for (const auto& [key, value] : amounts->items()) {
      if (dialects::asks_for_device(rules, key))
        out.push_back(
            fmt::format("{}[{}]: no longer holds: Volcano counts what pods name, and translated pods hold "
                        "claims; write an AcceleratorQueue",
                        name, key));
    }
  }
}

void kai_queue(const Json& queue, std::vector<std::string>& out) {
  const Json* gpu = at(queue, "/spec/resources/gpu");
  if (gpu == nullptr || !gpu->is_object()) return;
  for (const char* name : {"quota", "limit"}) {
    if (gpu->contains(name) && (*gpu)[name] != -1)
      out.push_back(
          fmt::format("resources.gpu.{}: no longer holds: KAI counts the pods that it places; write an "
                      "AcceleratorQueue",
                      name));
  }
}

void kueue_queue(const catalog::Requests& rules, const Json& queue, std::vector<std::string>& out) {
  const Json* groups = at(queue, "/spec/resourceGroups");
  if (groups == nullptr || !groups->is_array()) return;
  for (const Json& group : *groups) {
    const Json* covered = group.is_object() ? at(group, "/coveredResources") : nullptr;
    if (covered == nullptr || !covered->is_array()) continue;
    for (const Json& key : *covered) {
      if (key.is_string() && dialects::asks_for_device(rules, key.get_ref<const std::string&>()))
        out.push_back(
            fmt::format("{}: Kueue counts it of workloads that name it; those that `heddle translate` wrote "
                        "anew hold claims, which it counts by its deviceClassMappings only",
                        key.get<std::string>()));
    }
  }
}

}  // namespace

std::vector<std::string> quota_words(const catalog::Requests& rules, const Json& object) {
  std::vector<std::string> out;
  if (!object.is_object()) return out;
  const std::string kind = text_at(object, "/kind");
  const std::string group = text_at(object, "/apiVersion");
  if (kind == "ResourceQuota") resource_quota(rules, object, out);
  if (kind == "Queue" && group.starts_with("scheduling.volcano.sh/")) volcano_queue(rules, object, out);
  if (kind == "Queue" && group.starts_with("scheduling.run.ai/")) kai_queue(object, out);
  if (group.starts_with("kueue.x-k8s.io/") && (kind == "ClusterQueue" || kind == "Cohort"))
    kueue_queue(rules, object, out);
  return out;
}

}  // namespace heddle::cli
