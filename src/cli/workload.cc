#include "cli/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

namespace heddle::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kDeepest = 32;

bool named_template(std::string key) {
  std::transform(key.begin(), key.end(), key.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return key.ends_with("template");
}

bool is_pod_template(const Json& value) {
  if (!value.is_object() || !value.contains("spec") || !value["spec"].is_object()) return false;
  const Json& spec = value["spec"];
  return spec.contains("containers") && spec["containers"].is_array() && !spec["containers"].empty() &&
         std::all_of(spec["containers"].begin(), spec["containers"].end(),
                     [](const Json& container) { return container.is_object() && container.contains("name"); });
}

class Finder {
 public:
  std::vector<PodTemplate> run(const Json& workload) {
    for (const char* key : {"spec", "template"}) {
      if (!workload.contains(key)) continue;
      visit(workload[key], key, {"", key}, Json::json_pointer("/" + std::string(key)), 0);
    }
    return std::move(found_);
  }

 private:
  struct Where {
    std::string role;
    std::string path;
  };

  void visit(const Json& value, const std::string& key, const Where& where, const Json::json_pointer& at, int depth) {
    if (depth > kDeepest) return;
    if (named_template(key) && is_pod_template(value)) {
      found_.push_back({at.to_string(), where.path, where.role});
      return;
    }
    if (value.is_object()) {
      for (const auto& [name, child] : value.items()) {
        // spec.pytorchReplicaSpecs.Master.template: the key above the template is the role.
        const bool plain = named_template(name) || name == "spec";
        Where next{plain ? where.role : name, where.path + "." + name};
        if (!plain && !child.is_object()) next.role = where.role;
        if (name != "template" && named_template(name)) next.role = name.substr(0, name.size() - 8);
        visit(child, name, next, at / name, depth + 1);
      }
    } else if (value.is_array()) {
      for (size_t i = 0; i < value.size(); ++i) {
        std::string role = fmt::format("{}", i);
        for (const char* name : {"name", "groupName"}) {
          if (value[i].is_object() && value[i].contains(name) && value[i][name].is_string())
            role = value[i][name].get<std::string>();
        }
        visit(value[i], key, {role, fmt::format("{}[{}]", where.path, i)}, at / i, depth + 1);
      }
    }
  }

  std::vector<PodTemplate> found_;
};

}  // namespace

std::vector<PodTemplate> find_pod_templates(const Json& workload) {
  return Finder().run(workload);
}

}  // namespace heddle::cli
