// Any pod through the whole translation: no crash, and what is accepted is whole: the patch applies, a second pass
// changes nothing, and the canonical request is read back as it was written.
//
// Input: a pod as JSON when it begins with '{', else lines: "key=value" a limit of the current container, "^key=value"
// a request, "@key=value" an annotation, "+" the next container, "-" the next init container.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "catalog/requests.h"
#include "dialects/translate.h"

namespace {

using Json = nlohmann::json;
namespace dialects = heddle::dialects;

Json container(const char* prefix, size_t index) {
  Json out = Json::object();
  out["name"] = prefix + std::to_string(index);
  return out;
}

Json pod_of(std::string_view text) {
  if (text.starts_with("{")) return Json::parse(text, nullptr, false);
  Json pod = Json::object();
  pod["metadata"]["name"] = "p";
  Json& spec = pod["spec"];
  spec["containers"] = Json::array();
  spec["containers"].push_back(container("c", 0));
  spec["initContainers"] = Json::array();
  Json* current = &spec["containers"][0];
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line == "+" || line == "-") {
      Json& list = spec[line == "+" ? "containers" : "initContainers"];
      if (list.size() >= 8) continue;
      list.push_back(container(line == "+" ? "c" : "i", list.size()));
      current = &list.back();
      continue;
    }
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string key(line.substr(0, equals));
    const std::string value(line.substr(equals + 1));
    if (key.starts_with("@")) {
      pod["metadata"]["annotations"][key.substr(1)] = value;
    } else if (key.starts_with("^")) {
      (*current)["resources"]["requests"][key.substr(1)] = value;
    } else {
      (*current)["resources"]["limits"][key] = value;
    }
  }
  return pod;
}

const heddle::catalog::Requests& rules() {
  static const heddle::catalog::Requests kRules = heddle::catalog::Requests::built_in().value();
  return kRules;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 16384) return 0;
  const Json pod = pod_of({reinterpret_cast<const char*>(data), size});
  if (!pod.is_object()) return 0;
  const std::string text = pod.dump(-1, ' ', false, Json::error_handler_t::replace);
  const auto first = dialects::translate_pod(rules(), text, "0123456789");
  if (!first || !first->refusals.empty() || !first->changed) return 0;
  const Json once = Json::parse(text).patch(Json::parse(first->json_patch));
  if (!first->requests.empty()) {
    const auto back = dialects::parse_requests(dialects::requests_json(first->requests));
    // A hand-written pod may have container names that Kubernetes would refuse.
    if (!back && back.error().message.find("DNS label") == std::string::npos) std::abort();
    if (!back) return 0;
    if (dialects::requests_json(*back) != dialects::requests_json(first->requests)) std::abort();
  }
  const auto second = dialects::translate_pod(rules(), once.dump(), "ffffffffff");
  if (!second || (second->refusals.empty() && second->changed)) std::abort();
  return 0;
}
